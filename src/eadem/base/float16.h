#pragma once

#include <bit>
#include <cstdint>
#include <limits>

namespace eadem {

/// bfloat16: sign, 8 exponent bits, 7 significand bits. Storage only; arithmetic goes through float or double.
struct bfloat16 {
  std::uint16_t bits = 0;
};

/// IEEE 754 binary16: sign, 5 exponent bits, 10 significand bits.
struct float16 {
  std::uint16_t bits = 0;
};

namespace detail {

// Rounds the finite or infinite double x to nearest even with `significand` stored bits, smallest normal exponent
// `min_exponent` and largest `max_exponent`, in one step (never through float: double rounding errs once in 130,000).
template <int significand, int min_exponent, int max_exponent>
constexpr std::uint16_t round_to_16_bits(double x) {
  const auto raw = std::bit_cast<std::uint64_t>(x);
  const auto sign = static_cast<std::uint16_t>((raw >> 48) & 0x8000);
  const std::uint64_t magnitude = raw & 0x7fffffffffffffffULL;
  constexpr std::uint16_t infinity = ((max_exponent - min_exponent + 2) << significand);
  if (magnitude > 0x7ff0000000000000ULL) return infinity | (1 << (significand - 1));  // the canonical NaN
  const int exponent = static_cast<int>(magnitude >> 52) - 1023;
  if (exponent > max_exponent) return sign | infinity;
  if (exponent < min_exponent - significand - 1) return sign;
  const std::uint64_t full = (magnitude & 0xfffffffffffffULL) | 0x10000000000000ULL;
  const int shift = 52 - significand + (exponent < min_exponent ? min_exponent - exponent : 0);
  const std::uint64_t half = std::uint64_t{1} << (shift - 1);
  std::uint64_t kept = full >> shift;
  const std::uint64_t rest = full & ((half << 1) - 1);
  if (rest > half || (rest == half && (kept & 1))) ++kept;
  // A normal number's kept bits include the hidden one, which the exponent field absorbs; carries do the same.
  const std::uint64_t base =
      exponent < min_exponent ? 0 : static_cast<std::uint64_t>(exponent - min_exponent) << significand;
  return sign | static_cast<std::uint16_t>(base + kept);
}

}  // namespace detail

constexpr float to_float(bfloat16 x) {
  return std::bit_cast<float>(std::uint32_t{x.bits} << 16);
}

constexpr float to_float(float16 x) {
  const std::uint32_t sign = std::uint32_t{x.bits & 0x8000u} << 16;
  const std::uint32_t exponent = (x.bits >> 10) & 31, fraction = x.bits & 1023;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | (fraction << 13));
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
  const float value = static_cast<float>(fraction) * 0x1p-24f;
  return sign ? -value : value;
}

/// RN(x): one rounding to nearest even; NaN becomes the canonical NaN 0x7fc0.
constexpr bfloat16 to_bfloat16(float x) {
  const auto raw = std::bit_cast<std::uint32_t>(x);
  if ((raw & 0x7fffffffu) > 0x7f800000u) return {0x7fc0};
  return {static_cast<std::uint16_t>((raw + 0x7fff + ((raw >> 16) & 1)) >> 16)};
}
constexpr bfloat16 to_bfloat16(double x) {
  return {detail::round_to_16_bits<7, -126, 127>(x)};
}

/// RN(x): one rounding to nearest even; NaN becomes the canonical NaN 0x7e00. float is exact in double, so one path.
constexpr float16 to_float16(double x) {
  return {detail::round_to_16_bits<10, -14, 15>(x)};
}

}  // namespace eadem
