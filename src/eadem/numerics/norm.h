#pragma once

#include <algorithm>
#include <cmath>
#include <span>

#include "eadem/numerics/exact_sum.h"

// The 2-norm (numerics.md sections 3 and 6): the exact sum of squares rounded to f64, its root in f64, one rounding.

namespace eadem::numerics {

/// Sums of squares of f64 outside of these borders, or that would be, are taken of elements times a power of two.
inline constexpr double kLeastSquares = 0x1p-900, kMostSquares = 0x1p1000;

/// Whether a sum of squares in f64 says all of the exact one.
constexpr bool squares_in_range(double squares) {
  return squares >= kLeastSquares && squares < kMostSquares;
}

/// The norm of f64 elements from their largest magnitude and their squares' exact sum after division by 2^exponent:
/// scaled(exponent, accumulator) adds those squares.
template <class Scaled>
double scaled_norm(double largest, Scaled scaled) {
  if (largest == 0 || !(largest < HUGE_VAL)) return largest == 0 ? 0 : largest;
  const int exponent = std::ilogb(largest);
  ExactAccumulator sum;
  scaled(exponent, sum);
  return std::ldexp(std::sqrt(sum.sum<double>()), exponent);
}

/// RN_T(sqrt(RN64(sum of squares))), neither overflowing nor underflowing inside; +0 of nothing, NaN if one is NaN.
template <FloatingElement T>
T norm(std::span<const T> x) {
  const double squares = exact_sum_of_squares<double>(x);
  if (!std::is_same_v<T, double> || squares != squares || squares_in_range(squares))
    return round_to<T>(std::sqrt(squares));
  double largest = 0;
  for (const T each : x) largest = std::max(largest, std::fabs(to_double(each)));
  return round_to<T>(scaled_norm(largest, [&](int exponent, ExactAccumulator& sum) {
    for (const T each : x) sum.add_square(std::ldexp(to_double(each), -exponent));
  }));
}

}  // namespace eadem::numerics
