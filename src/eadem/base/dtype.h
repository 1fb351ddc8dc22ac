#pragma once

#include <fmt/core.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>

#include "eadem/base/float16.h"

namespace eadem {

/// Element types (numerics.md section 1). The order is that of the table in dtype.cpp.
enum class DType : std::uint8_t { f64, f32, bf16, f16, i8, i16, i32, i64, u8, u16, u32, u64, boolean };
inline constexpr int kDTypeCount = 13;

/// Bytes of one element.
std::size_t size_of(DType);
/// "f32", "bf16", "bool", ...
std::string_view name_of(DType);
/// The dtype of that name, or nothing.
std::optional<DType> dtype_named(std::string_view);

constexpr bool is_floating(DType t) {
  return t <= DType::f16;
}
constexpr bool is_16_bit_float(DType t) {
  return t == DType::bf16 || t == DType::f16;
}
constexpr bool is_signed_integer(DType t) {
  return t >= DType::i8 && t <= DType::i64;
}
constexpr bool is_unsigned_integer(DType t) {
  return t >= DType::u8 && t <= DType::u64;
}
constexpr bool is_integer(DType t) {
  return t >= DType::i8 && t <= DType::u64;
}

/// The least upper bound of two dtypes in JAX's promotion lattice (without weak types).
DType promote(DType, DType);

template <class T>
concept Float16 = std::same_as<T, bfloat16> || std::same_as<T, float16>;
template <class T>
concept FloatingElement = Float16<T> || std::same_as<T, float> || std::same_as<T, double>;
template <class T>
concept IntegerElement = std::integral<T> && !std::same_as<T, bool>;

namespace detail {
template <class T>
consteval DType dtype_of() {
  if constexpr (std::same_as<T, double>)
    return DType::f64;
  else if constexpr (std::same_as<T, float>)
    return DType::f32;
  else if constexpr (std::same_as<T, bfloat16>)
    return DType::bf16;
  else if constexpr (std::same_as<T, float16>)
    return DType::f16;
  else if constexpr (std::same_as<T, std::int8_t>)
    return DType::i8;
  else if constexpr (std::same_as<T, std::int16_t>)
    return DType::i16;
  else if constexpr (std::same_as<T, std::int32_t>)
    return DType::i32;
  else if constexpr (std::same_as<T, std::int64_t>)
    return DType::i64;
  else if constexpr (std::same_as<T, std::uint8_t>)
    return DType::u8;
  else if constexpr (std::same_as<T, std::uint16_t>)
    return DType::u16;
  else if constexpr (std::same_as<T, std::uint32_t>)
    return DType::u32;
  else if constexpr (std::same_as<T, std::uint64_t>)
    return DType::u64;
  else {
    static_assert(std::same_as<T, bool>, "not an element type");
    return DType::boolean;
  }
}
}  // namespace detail

template <class T>
inline constexpr DType kDTypeOf = detail::dtype_of<T>();

/// Calls f(std::type_identity<T>{}) with the C++ type of the dtype.
template <class F>
decltype(auto) visit(DType t, F&& f) {
  switch (t) {
    case DType::f64: return f(std::type_identity<double>{});
    case DType::f32: return f(std::type_identity<float>{});
    case DType::bf16: return f(std::type_identity<bfloat16>{});
    case DType::f16: return f(std::type_identity<float16>{});
    case DType::i8: return f(std::type_identity<std::int8_t>{});
    case DType::i16: return f(std::type_identity<std::int16_t>{});
    case DType::i32: return f(std::type_identity<std::int32_t>{});
    case DType::i64: return f(std::type_identity<std::int64_t>{});
    case DType::u8: return f(std::type_identity<std::uint8_t>{});
    case DType::u16: return f(std::type_identity<std::uint16_t>{});
    case DType::u32: return f(std::type_identity<std::uint32_t>{});
    case DType::u64: return f(std::type_identity<std::uint64_t>{});
    case DType::boolean: break;
  }
  return f(std::type_identity<bool>{});
}

/// As visit, over the four floating types only; `t` must be floating.
template <class F>
decltype(auto) visit_floating(DType t, F&& f) {
  switch (t) {
    case DType::f64: return f(std::type_identity<double>{});
    case DType::bf16: return f(std::type_identity<bfloat16>{});
    case DType::f16: return f(std::type_identity<float16>{});
    default: return f(std::type_identity<float>{});
  }
}

}  // namespace eadem

template <>
struct fmt::formatter<eadem::DType> {
  constexpr auto parse(fmt::format_parse_context& context) { return context.begin(); }
  fmt::appender format(eadem::DType t, fmt::format_context& context) const;
};
