#pragma once

#include <cmath>
#include <cstdint>
#include <utility>

#include "filter.h"

// The stratified arguments of pow and atan2, whose pairs are too many to try all, and their filter.

namespace eadem::prove {

/// SplitMix64 of i: the i-th of a fixed sequence of random words.
inline std::uint64_t random_word(std::uint64_t i) {
  std::uint64_t z = (i + 1) * 0x9e3779b97f4a7c15ULL;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

inline float random_float(std::uint64_t word, int low_exponent, int high_exponent) {
  const int e =
      low_exponent + static_cast<int>((word >> 32) % static_cast<std::uint64_t>(high_exponent - low_exponent));
  return std::ldexp(1.0f + static_cast<float>(word & 0x7fffff) * 0x1p-23f, e);
}

/// Five strata, by i mod 5: results over the whole range, small integers to small powers (exact results and ties),
/// roots and quarter powers of squares, bases near 1, and any bits at all.
inline std::pair<float, float> pow_arguments(std::uint64_t i) {
  const std::uint64_t a = random_word(2 * i), b = random_word(2 * i + 1);
  switch (i % 5) {
    case 0: {
      const float x = random_float(a, -149, 128);
      const double target = (static_cast<double>(b >> 11) * 0x1p-53 - 0.5) * 304;  // log2 of the result
      return {x, static_cast<float>(target / std::log2(x))};
    }
    case 1: {
      const float x = std::ldexp(static_cast<float>(a % 8192 + 1), static_cast<int>((a >> 20) % 41) - 20);
      return {(a >> 40) & 1 ? -x : x, static_cast<float>(static_cast<int>(b % 41) - 20)};
    }
    case 2: {
      const float m = static_cast<float>(a % 64 + 1);
      return {std::ldexp(m * m * m * m, 4 * (static_cast<int>((a >> 20) % 31) - 15)),
              static_cast<float>(static_cast<int>(b % 161) - 80) / 4};
    }
    case 3: {
      const float x =
          1 + std::ldexp(static_cast<float>(static_cast<int>(a % 8193) - 4096), -24 + static_cast<int>((a >> 20) % 8));
      return {x, std::ldexp(random_float(b, 0, 1), static_cast<int>((b >> 32) % 26)) * ((b >> 60) & 1 ? -1.0f : 1.0f)};
    }
    default:
      return {std::bit_cast<float>(static_cast<std::uint32_t>(a)), std::bit_cast<float>(static_cast<std::uint32_t>(b))};
  }
}

/// Three strata: any bits, exponents near each other, and quotients that are ties of subnormals.
inline std::pair<float, float> atan2_arguments(std::uint64_t i) {
  const std::uint64_t a = random_word(2 * i), b = random_word(2 * i + 1);
  const auto any = [](std::uint64_t w) { return std::bit_cast<float>(static_cast<std::uint32_t>(w)); };
  switch (i % 3) {
    case 0: return {any(a), any(b)};
    case 1:
      return {random_float(a, -12, 12) * ((a >> 60) & 1 ? -1.0f : 1.0f),
              random_float(b, -12, 12) * ((b >> 60) & 1 ? -1.0f : 1.0f)};
    default:
      return {std::ldexp(static_cast<float>(2 * (a % 5000) + 1), -149), std::ldexp(1.0f, static_cast<int>(b % 3))};
  }
}

/// Whether `result` is pow(x, y) or atan2(x, y) rounded once; pairs with a zero, infinity or NaN are held to the C
/// library.
template <FloatingElement T>
Verdict check2(Function2 f, T first, T second, T result) {
  const double x = numerics::to_double(first), y = numerics::to_double(second);
  const double v = f == Function2::pow ? std::pow(x, y) : std::atan2(x, y);
  const bool plain = std::isfinite(x) && std::isfinite(y) && x != 0 && y != 0 && v == v;
  if (!plain) return {numerics::same_bits(result, numerics::round_to<T>(v)), false};
  const double d = v == 0 || std::isinf(v) ? 0 : std::fabs(v) * 0x1p-48;
  const T low = numerics::round_to<T>(v - d);
  if (d == 0 || numerics::same_bits(low, numerics::round_to<T>(v + d)))
    return {numerics::same_bits(result, low), false};
  return {numerics::same_bits(result, round_real<T>(oracle2(f, x, y))), true};
}

}  // namespace eadem::prove
