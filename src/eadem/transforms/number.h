#pragma once

#include "eadem/ops/ops.h"

namespace eadem {

/// A C++ number as a compiled function sees it: an operand of the program, f64 [], so that another value needs no other
/// program. It behaves as the double that it is: beside an array it takes the array's dtype, rounded once; arithmetic
/// among numbers is f64's. What the program's shape depends on must be known when it is recorded: see `static_arg`.
class Number {
 public:
  explicit Number(Array value) : value_(std::move(value)) {}
  /// f64 [].
  const Array& array() const { return value_; }
  /// The number in this dtype, a floating one, rounded once. Throws TypeError for another.
  Array as(DType dtype) const {
    if (!is_floating(dtype)) fail<TypeError>("[number] a number that is an operand cannot become {}", dtype);
    return convert(value_, dtype);
  }
  static void fields(auto& m, auto f) { f("value", m.value_); }

  friend Array operator+(const Array& a, const Number& b) { return add(a, b.as(a.dtype())); }
  friend Array operator-(const Array& a, const Number& b) { return subtract(a, b.as(a.dtype())); }
  friend Array operator*(const Array& a, const Number& b) { return multiply(a, b.as(a.dtype())); }
  friend Array operator/(const Array& a, const Number& b) { return divide(a, b.as(a.dtype())); }
  friend Array operator+(const Number& a, const Array& b) { return add(a.as(b.dtype()), b); }
  friend Array operator-(const Number& a, const Array& b) { return subtract(a.as(b.dtype()), b); }
  friend Array operator*(const Number& a, const Array& b) { return multiply(a.as(b.dtype()), b); }
  friend Array operator/(const Number& a, const Array& b) { return divide(a.as(b.dtype()), b); }
  friend Number operator+(const Number& a, const Number& b) { return Number(a.value_ + b.value_); }
  friend Number operator-(const Number& a, const Number& b) { return Number(a.value_ - b.value_); }
  friend Number operator*(const Number& a, const Number& b) { return Number(a.value_ * b.value_); }
  friend Number operator/(const Number& a, const Number& b) { return Number(a.value_ / b.value_); }
  friend Number operator+(const Number& a, double b) { return Number(a.value_ + b); }
  friend Number operator-(const Number& a, double b) { return Number(a.value_ - b); }
  friend Number operator*(const Number& a, double b) { return Number(a.value_ * b); }
  friend Number operator/(const Number& a, double b) { return Number(a.value_ / b); }
  friend Number operator+(double a, const Number& b) { return Number(a + b.value_); }
  friend Number operator-(double a, const Number& b) { return Number(a - b.value_); }
  friend Number operator*(double a, const Number& b) { return Number(a * b.value_); }
  friend Number operator/(double a, const Number& b) { return Number(a / b.value_); }
  friend Number operator-(const Number& a) { return Number(negate(a.value_)); }

 private:
  Array value_;
};

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
