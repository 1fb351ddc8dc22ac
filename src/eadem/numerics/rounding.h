#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "eadem/base/dtype.h"

// RN_t of numerics.md section 1: every rounding from a wide value to an element type, and back.

namespace eadem::numerics {

/// The one NaN that computation returns: positive, quiet, payload zero.
template <FloatingElement T>
constexpr T canonical_nan() {
  if constexpr (std::same_as<T, double>)
    return std::bit_cast<double>(std::uint64_t{0x7ff8000000000000});
  else if constexpr (std::same_as<T, float>)
    return std::bit_cast<float>(std::uint32_t{0x7fc00000});
  else if constexpr (std::same_as<T, bfloat16>)
    return bfloat16{0x7fc0};
  else
    return float16{0x7e00};
}

/// Rounds the double to T once, to nearest even, keeping subnormals; NaN becomes canonical.
template <FloatingElement T>
constexpr T round_to(double x) {
  if constexpr (std::same_as<T, bfloat16>)
    return to_bfloat16(x);
  else if constexpr (std::same_as<T, float16>)
    return to_float16(x);
  else
    return x != x ? canonical_nan<T>() : static_cast<T>(x);
}
template <FloatingElement T>
constexpr T round_to(float x) {
  if constexpr (std::same_as<T, bfloat16>)
    return to_bfloat16(x);
  else
    return round_to<T>(static_cast<double>(x));
}

/// The exact value of an element as double.
template <FloatingElement T>
constexpr double to_double(T x) {
  if constexpr (Float16<T>)
    return to_float(x);
  else
    return x;
}

/// The type in which T is computed: double for double, float for all others ("f32 (f64)" in numerics.md).
template <FloatingElement T>
using Wide = std::conditional_t<std::same_as<T, double>, double, float>;

/// The exact value of an element in its computing type.
template <FloatingElement T>
constexpr Wide<T> widen(T x) {
  if constexpr (Float16<T>)
    return to_float(x);
  else
    return x;
}

/// Equality of bits: NaN equals the same NaN, -0 differs from +0.
template <class T>
bool same_bits(const T& a, const T& b) {
  static_assert(std::is_trivially_copyable_v<T>);
  return __builtin_memcmp(&a, &b, sizeof(T)) == 0;
}

}  // namespace eadem::numerics
