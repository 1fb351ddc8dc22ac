#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

#include "eadem/ops/ops.h"

namespace eadem {

/// A C++ number as a compiled function sees it: an operand of the program, f64 [] or what C++ promotes an integer to
/// (i32, u32, i64 or u64 []), so that another value needs no other program. It behaves as the number that it is: beside
/// an array it takes the dtype that eager operators give it (`dtype_beside`); arithmetic among numbers is C++'s, where
/// integers wrap and floating ones are doubles. An integer that the array's dtype does not hold throws ValueError, as
/// the number itself does: an argument of a compiled function does so when that is called. But what is computed in a
/// program, a part of an argument, and what a loop or branch is handed become the nearest one that the dtype holds.
/// What the program's shape depends on must be known when it is recorded: see `static_arg`.
class Number {
 public:
  explicit Number(Array value) : value_(std::move(value)) {}
  template <class T>
  requires std::is_arithmetic_v<T> Number(T value)
      : value_(scalar_of(value)) {}  // implicit: beside a Number, a number is one
  /// f64, i32, u32, i64 or u64 [].
  const Array& array() const { return value_; }
  /// The number in this dtype: rounded once; an integer among integers exact, and otherwise as said above.
  Array as(DType dtype) const {
    const DType own = value_.dtype();
    if (is_floating(own) || is_floating(dtype) || dtype == DType::boolean) return eadem::convert(value_, dtype);
    if (!value_.traced())
      return own == DType::u64 ? Array::integer_scalar(value_.item<std::uint64_t>(), dtype)
                               : Array::integer_scalar(eadem::convert(value_, DType::i64).item<std::int64_t>(), dtype);
    if (placed_ && std::find(placed_->begin(), placed_->end(), dtype) == placed_->end()) placed_->push_back(dtype);
    if (size_of(dtype) < 8) return eadem::convert(eadem::convert(value_, DType::f64), dtype);  // saturates
    if (dtype == DType::u64 && own != DType::u64 && own != DType::u32)
      return eadem::convert(maximum(value_, zeros_like(value_)), dtype);
    if (dtype == DType::i64 && own == DType::u64)
      return eadem::convert(minimum(value_, Array::integer_scalar(std::numeric_limits<std::int64_t>::max(), own)),
                            dtype);
    return eadem::convert(value_, dtype);
  }
  /// From now on notes the integer dtypes that this traced number and its copies are asked for.
  std::shared_ptr<const std::vector<DType>> note_placed() {
    placed_ = std::make_shared<std::vector<DType>>();
    return placed_;
  }
  static void fields(auto& m, auto f) {
    f("value", m.value_);
    // Whoever may change the value makes another number of it.
    if constexpr (!std::is_const_v<std::remove_reference_t<decltype(m)>>) m.placed_.reset();
  }

  /// Beside an array, as operators take it.
  friend Array as_operand(const Number& x, const Array& other) {
    return x.as(dtype_beside(other.dtype(), is_floating(x.value_.dtype())));
  }
  friend Number operator+(const Number& a, const Number& b) { return both(add, a, b); }
  friend Number operator-(const Number& a, const Number& b) { return both(subtract, a, b); }
  friend Number operator*(const Number& a, const Number& b) { return both(multiply, a, b); }
  friend Number operator/(const Number& a, const Number& b) { return both(divide, a, b); }
  friend Number operator-(const Number& a) { return Number(negate(a.value_)); }
  /// As of an array: in this dtype, rounded once.
  friend Array convert(const Number& x, DType dtype) { return eadem::convert(x.value_, dtype); }

 private:
  template <class T>
  static Array scalar_of(T value) {
    if constexpr (std::is_floating_point_v<T>) {
      return Array::scalar(static_cast<double>(value), DType::f64);
    } else {
      using Promoted = decltype(+value);
      using I = std::conditional_t<sizeof(Promoted) == 4, std::int32_t, std::int64_t>;
      using Element = std::conditional_t<std::is_signed_v<Promoted>, I, std::make_unsigned_t<I>>;
      const Element element = value;
      return Array::from(std::span<const Element>(&element, 1), {});
    }
  }
  // C++'s usual arithmetic conversions: to the later of int, unsigned, 64 bits, unsigned 64 bits, double.
  static Number both(Array (*op)(const Array&, const Array&), const Number& a, const Number& b) {
    const auto rank = [](DType t) {
      return t == DType::i32 ? 0 : t == DType::u32 ? 1 : t == DType::i64 ? 2 : t == DType::u64 ? 3 : 4;
    };
    const DType x = a.value_.dtype(), y = b.value_.dtype(), common = rank(x) < rank(y) ? y : x;
    return Number(op(eadem::convert(a.value_, common), eadem::convert(b.value_, common)));
  }

  Array value_;
  std::shared_ptr<std::vector<DType>> placed_;  // of all copies; null unless noted
};

template <>
inline constexpr bool kIsNumber<Number> = true;

/// An argument that a compiled function is recorded for: each value has a program of its own.
template <class T>
struct StaticArgument {
  T value;
};
/// Marks an argument of a compiled function as such, as JAX's static_argnums do: a number or a flag that decides shapes
/// or what is computed. f gets the value itself.
template <class T>
StaticArgument<T> static_arg(T value) {
  return {std::move(value)};
}

namespace detail {
template <class T>
inline constexpr bool kIsStaticArgument = false;
template <class T>
inline constexpr bool kIsStaticArgument<StaticArgument<T>> = true;
}  // namespace detail

}  // namespace eadem
