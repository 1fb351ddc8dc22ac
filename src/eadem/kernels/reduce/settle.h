#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <optional>

#include "eadem/kernels/reduce/sum_bodies.h"
#include "eadem/numerics/rounding.h"

// The accept tests of numerics.md section 3: when an approximate sum, with its error bound, decides the rounding.

namespace eadem::kernels {

inline constexpr double kUnit = 0x1p-53;

// base + t rounded to odd in f64, which rounds correctly to any narrower format afterwards; |t| <= ulp(base) / 2.
inline double round_to_odd(double base, double t) {
  auto bits = std::bit_cast<std::uint64_t>(base);
  if (t == 0 || (bits & 1)) return base;
  if (base == 0) return std::copysign(0x1p-1074, t);
  return std::bit_cast<double>((t > 0) == (base > 0) ? bits + 1 : bits - 1);
}

/// RN_T of every real in [base + low, base + high], if they agree.
template <FloatingElement T>
std::optional<T> settle_interval(double base, double low, double high) {
  T a, b;
  if constexpr (std::is_same_v<T, double>) {
    a = base + low;
    b = base + high;
  } else {
    // Bring base to the nearest double, so that what remains is below half of its last place.
    const double sum = base + low, part = sum - base;
    const double rest = (base - (sum - part)) + (low - part);
    a = numerics::round_to<T>(round_to_odd(sum, rest));
    const double sum2 = base + high, part2 = sum2 - base;
    const double rest2 = (base - (sum2 - part2)) + (high - part2);
    b = numerics::round_to<T>(round_to_odd(sum2, rest2));
  }
  if (!numerics::same_bits(a, b)) return std::nullopt;
  return a;
}

/// RN_T(sum / n), sum an exact double; nullopt when the remainder could underflow.
template <FloatingElement T>
std::optional<T> settle_exact(double sum, std::int64_t n) {
  if (n == 1) return numerics::round_to<T>(sum);
  if (sum == 0) return numerics::round_to<T>(0.0);
  if (std::fabs(sum) < 0x1p-900 || n > (std::int64_t{1} << 53)) return std::nullopt;
  const auto divisor = static_cast<double>(n);
  const double quotient = sum / divisor;
  if constexpr (std::is_same_v<T, double>) return quotient;
  return numerics::round_to<T>(round_to_odd(quotient, std::fma(-quotient, divisor, sum)));
}

/// Step 3: RN_T(real / n) for a real within `error` of sum.
template <FloatingElement T>
std::optional<T> settle_bound(double sum, double error, std::int64_t n) {
  double low = sum - error, high = sum + error;
  if (n != 1) {
    // Each quotient is off by half an ulp at most.
    const auto divisor = static_cast<double>(n);
    low = low / divisor;
    low -= std::fabs(low) * 0x1p-52;
    high = high / divisor;
    high += std::fabs(high) * 0x1p-52;
  }
  const T a = numerics::round_to<T>(low), b = numerics::round_to<T>(high);
  if (!numerics::same_bits(a, b)) return std::nullopt;
  return a;
}

// The greatest power of two that divides every T of magnitude `smallest` or more: the last place of `smallest`.
template <FloatingElement T>
double last_place(double smallest) {
  constexpr int digits = std::is_same_v<T, double>     ? 53
                         : std::is_same_v<T, float>    ? 24
                         : std::is_same_v<T, bfloat16> ? 8
                                                       : 11;
  constexpr int lowest = std::is_same_v<T, double>     ? -1074
                         : std::is_same_v<T, float>    ? -149
                         : std::is_same_v<T, bfloat16> ? -133
                                                       : -24;
  if (smallest == __builtin_inf()) return smallest;  // only zeros
  const int exponent = smallest == 0 ? lowest : std::ilogb(smallest) - (digits - 1);
  return std::ldexp(1.0, exponent < lowest ? lowest : exponent);
}

/// Steps 2 and 4: RN_T(S / n) from the pair, whose terms are `addends` elements T of S; nullopt if it does not decide.
template <FloatingElement T>
std::optional<T> settle_pair(const PairSum& pair, std::int64_t addends, std::int64_t n) {
  const double bound = static_cast<double>(addends) * pair.largest * (1 + 0x1p-20);
  if (!(bound < 0x1p1000)) return std::nullopt;  // also NaN; infinities and near-overflow are the accumulator's
  if (bound == 0) return settle_exact<T>(0, n);
  // Window: every partial sum is a multiple of g below 2^53 g, so all were exact.
  if (bound < 0x1p53 * last_place<T>(pair.smallest)) return settle_exact<T>(pair.hi + pair.lo, n);
  if (bound < 0x1p-700) return std::nullopt;  // the bound itself would underflow
  // Along a path of h additions the errors are below h u A in sum; their own sum errs by h u of that at most.
  const double steps = static_cast<double>(pair.depth + pair.chain + 8) * kUnit;
  const double error = steps * steps * bound * (1 + 0x1p-20);
  if (n == 1)
    return settle_interval<T>(pair.hi, pair.lo - error - std::fabs(pair.lo) * kUnit,
                              pair.lo + error + std::fabs(pair.lo) * kUnit);
  if (std::fabs(pair.hi) < 0x1p-700 || n > (std::int64_t{1} << 53)) return std::nullopt;
  const auto divisor = static_cast<double>(n);
  const double quotient = pair.hi / divisor;
  const double correction = (std::fma(-quotient, divisor, pair.hi) + pair.lo) / divisor;
  const double slack = (error / divisor + std::fabs(correction) * 0x1p-50) * (1 + 0x1p-20);
  return settle_interval<T>(quotient, correction - slack, correction + slack);
}

}  // namespace eadem::kernels
