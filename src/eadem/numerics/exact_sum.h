#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "eadem/numerics/rounding.h"

// The exact sum of numerics.md section 3: the real sum, rounded once. Here it is a long integer, so that order, lanes,
// threads and splits cannot matter.

namespace eadem::numerics {

/// A fixed-point integer wide enough for any sum of 2^62 doubles, of squares of doubles, or of 64-bit integers.
class ExactAccumulator {
 public:
  /// Adds x; infinities and NaN are remembered as IEEE addition would.
  void add(double x);
  /// Adds the exact square of x.
  void add_square(double x);
  void add(std::int64_t x) {
    add_at(x < 0 ? -static_cast<std::uint64_t>(x) : static_cast<std::uint64_t>(x), -kLowest, x < 0);
  }
  void add(std::uint64_t x) { add_at(x, -kLowest, false); }
  /// Adds x * 2^exponent exactly; 1 <= |x| < 2 and |exponent| <= 1100, where it fits.
  void add_scaled(double x, int exponent);
  /// Adds what another accumulator holds.
  void add(const ExactAccumulator& other);

  /// The sum rounded once to T: +0 if it is zero, signed if it underflows; NaN for NaN or inf - inf.
  template <FloatingElement T>
  T sum() const {
    return quotient<T>(1);
  }
  /// The sum divided by count (at least 1) as exact reals, rounded once to T.
  template <FloatingElement T>
  T quotient(std::int64_t count) const;

 private:
  // Limb i counts units of 2^(kLowest + 32 i). Squares reach from 2^-2148 to 2^2048, and 2^63 of them to 2^2111.
  static constexpr int kLowest = -2176, kLimbs = 136;
  void add_at(std::uint64_t magnitude, int position, bool negative);
  void carry();

  std::array<std::int64_t, kLimbs> limbs_{};  // signed, and below 2^62 in magnitude between carries
  std::int64_t pending_ = 0;                  // additions since the last carry
  bool nan_ = false, positive_infinity_ = false, negative_infinity_ = false;
};

/// The exact sum of floating elements, rounded once to their dtype.
template <FloatingElement T>
T exact_sum(std::span<const T> x) {
  ExactAccumulator sum;
  for (const T each : x) sum.add(to_double(each));
  return sum.sum<T>();
}

/// The exact quotient of the sum and the number of elements, rounded once; NaN of nothing.
/// Integers and bool give Result = float.
template <class Result, class T>
Result exact_mean(std::span<const T> x) {
  if (x.empty()) return canonical_nan<Result>();
  ExactAccumulator sum;
  for (const T each : x) {
    if constexpr (FloatingElement<T>)
      sum.add(to_double(each));
    else if constexpr (std::is_signed_v<T>)
      sum.add(static_cast<std::int64_t>(each));
    else
      sum.add(static_cast<std::uint64_t>(each));
  }
  return sum.quotient<Result>(static_cast<std::int64_t>(x.size()));
}

/// The exact sum of squares, rounded once to Result (norms take double and its square root).
template <FloatingElement Result, FloatingElement T>
Result exact_sum_of_squares(std::span<const T> x) {
  ExactAccumulator sum;
  for (const T each : x) sum.add_square(to_double(each));
  return sum.sum<Result>();
}

/// What sums, products and running sums of integers (and bool) are held in: 64 bits of the same signedness.
template <class T>
using WideInteger = std::conditional_t<std::is_same_v<T, bool> || std::is_signed_v<T>, std::int64_t, std::uint64_t>;

/// The sum of integers or bool, modulo 2^64.
template <class T>
WideInteger<T> integer_sum(std::span<const T> x) {
  std::uint64_t sum = 0;
  for (const T each : x) sum += static_cast<std::uint64_t>(static_cast<WideInteger<T>>(each));
  return static_cast<WideInteger<T>>(sum);
}

}  // namespace eadem::numerics
