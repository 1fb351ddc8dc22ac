#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "eadem/numerics/exact_sum.h"
#include "eadem/numerics/rounding.h"
#include "eadem/numerics/row_sum.h"

// Reductions other than the exact sum: numerics.md section 1 (max, min, argmax, top_k) and "other folds" of section 3.
// A reduction takes the elements in row-major order over the reduced axes.

namespace eadem::numerics {

/// Whether a comes before b in the order of max: NaN > everything else, and -0 < +0. Equal NaNs tie.
template <class T>
bool ordered_greater(T a, T b) {
  if constexpr (FloatingElement<T>) {
    const double x = to_double(a), y = to_double(b);
    if (x != x || y != y) return x != x && y == y;
    return x > y || (x == 0 && y == 0 && !std::signbit(x) && std::signbit(y));
  } else {
    return a > b;
  }
}

/// Whether a comes before b in the order of min: NaN before everything else, and -0 before +0.
template <class T>
bool ordered_less(T a, T b) {
  if constexpr (FloatingElement<T>) {
    const double x = to_double(a), y = to_double(b);
    if (x != x || y != y) return x != x && y == y;
    return x < y || (x == 0 && y == 0 && std::signbit(x) && !std::signbit(y));
  } else {
    return a < b;
  }
}

/// The element with every NaN made the canonical one.
template <class T>
T with_canonical_nan(T x) {
  if constexpr (FloatingElement<T>) {
    if (to_double(x) != to_double(x)) return canonical_nan<T>();
  }
  return x;
}

/// The index of the maximum: the first NaN, else the lowest index among equals. x must not be empty.
template <class T>
std::int64_t argmax(std::span<const T> x) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < x.size(); ++i) {
    if (ordered_greater(x[i], x[best])) best = i;
  }
  return static_cast<std::int64_t>(best);
}

/// The index of the minimum: the first NaN, else the lowest index among equals. x must not be empty.
template <class T>
std::int64_t argmin(std::span<const T> x) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < x.size(); ++i) {
    if (ordered_less(x[i], x[best])) best = i;
  }
  return static_cast<std::int64_t>(best);
}

/// max x = with_canonical_nan(x[argmax x]); x must not be empty.
template <class T>
T max(std::span<const T> x) {
  return with_canonical_nan(x[static_cast<std::size_t>(argmax(x))]);
}

/// min x = with_canonical_nan(x[argmin x]); x must not be empty.
template <class T>
T min(std::span<const T> x) {
  return with_canonical_nan(x[static_cast<std::size_t>(argmin(x))]);
}

/// Whether x counts as true: anything but zero, NaN included.
template <class T>
bool is_true(T x) {
  if constexpr (FloatingElement<T>)
    return to_double(x) != 0;
  else
    return x != T{0};
}

template <class T>
bool any(std::span<const T> x) {
  return std::any_of(x.begin(), x.end(), is_true<T>);
}
template <class T>
bool all(std::span<const T> x) {
  return std::all_of(x.begin(), x.end(), is_true<T>);
}

/// The k largest elements in descending order, NaN first, equal ones by ascending index: their values (NaN canonical)
/// and indices. 0 <= k <= x.size().
template <class T>
void top_k(std::span<const T> x, std::span<T> values, std::span<std::int64_t> indices) {
  std::vector<std::int64_t> order(x.size());
  std::iota(order.begin(), order.end(), std::int64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return ordered_greater(x[static_cast<std::size_t>(a)], x[static_cast<std::size_t>(b)]);
  });
  for (std::size_t i = 0; i < values.size(); ++i) {
    indices[i] = order[i];
    values[i] = with_canonical_nan(x[static_cast<std::size_t>(order[i])]);
  }
}

/// A non-zero real as significand in [1, 2) and exponent, sign apart: products neither overflow nor underflow.
struct Factor {
  double significand = 1;
  std::int64_t exponent = 0;

  /// |x| = significand * 2^exponent for finite x != 0.
  static Factor of(double x) {
    int exponent = 0;
    const double half = std::frexp(std::fabs(x), &exponent);
    return {2 * half, exponent - 1};
  }
  friend Factor operator*(Factor a, Factor b) {
    const double product = a.significand * b.significand;
    if (product >= 2) return {product / 2, a.exponent + b.exponent + 1};
    return {product, a.exponent + b.exponent};
  }
};

/// significand * 2^exponent with the given sign, rounded once to T; the significand is in [1, 2).
template <FloatingElement T>
T round_factor(Factor x, bool negative) {
  if (x.exponent > 1100) return round_to<T>(negative ? -HUGE_VAL : HUGE_VAL);
  if (x.exponent < -1100) return round_to<T>(negative ? -0.0 : 0.0);
  ExactAccumulator value;  // ldexp would round twice where the result is subnormal
  value.add_scaled(negative ? -x.significand : x.significand, static_cast<int>(x.exponent));
  return value.sum<T>();
}

/// The product: row-sum order on significands (f64), exponents added as integers, one rounding. 1 of nothing; NaN with
/// NaN or with infinity and zero together; the sign is that of the negative factors' number.
template <FloatingElement T>
T prod(std::span<const T> x) {
  bool negative = false, zero = false, infinite = false;
  for (const T each : x) {
    const double value = to_double(each);
    if (value != value) return canonical_nan<T>();
    negative ^= std::signbit(value);
    zero |= value == 0;
    infinite |= std::isinf(value);
  }
  if (zero && infinite) return canonical_nan<T>();
  if (zero || infinite) return round_to<T>(std::copysign(zero ? 0.0 : HUGE_VAL, negative ? -1.0 : 1.0));
  const Factor product = row_fold(
      static_cast<std::int64_t>(x.size()), Factor{},
      [&](Factor acc, std::int64_t i) { return acc * Factor::of(to_double(x[static_cast<std::size_t>(i)])); },
      [](Factor a, Factor b) { return a * b; });
  return round_factor<T>(product, negative);
}

/// The product of integers or bool, modulo 2^64.
template <class T>
WideInteger<T> integer_prod(std::span<const T> x) {
  std::uint64_t product = 1;
  for (const T each : x) product *= static_cast<std::uint64_t>(static_cast<WideInteger<T>>(each));
  return static_cast<WideInteger<T>>(product);
}

/// Running sums: an ascending f64 chain from +0, each prefix rounded; `reverse` runs from the end.
template <FloatingElement T>
void cumsum(std::span<const T> x, std::span<T> y, bool reverse = false) {
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t at = reverse ? x.size() - 1 - i : i;
    sum += to_double(x[at]);
    y[at] = round_to<T>(sum);
  }
}

/// Running sums of integers or bool, modulo 2^64.
template <class T>
void integer_cumsum(std::span<const T> x, std::span<WideInteger<T>> y, bool reverse = false) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t at = reverse ? x.size() - 1 - i : i;
    sum += static_cast<std::uint64_t>(static_cast<WideInteger<T>>(x[at]));
    y[at] = static_cast<WideInteger<T>>(sum);
  }
}

/// The variance rowsum((x - mean)^2) / (n - ddof), mean = rowsum(x) / n, all in f64, rounded once; NaN if n <= ddof.
/// Integers and bool give Result = float.
template <FloatingElement Result, class T>
Result variance(std::span<const T> x, double ddof = 0) {
  const auto n = static_cast<std::int64_t>(x.size());
  if (!(static_cast<double>(n) > ddof)) return canonical_nan<Result>();
  const auto value = [&](std::int64_t i) {
    const T each = x[static_cast<std::size_t>(i)];
    if constexpr (FloatingElement<T>)
      return to_double(each);
    else
      return static_cast<double>(each);
  };
  const double mean = row_sum(n, [&](double acc, std::int64_t i) { return acc + value(i); }) / static_cast<double>(n);
  const double squares = row_sum(n, [&](double acc, std::int64_t i) {
    const double c = value(i) - mean;
    return std::fma(c, c, acc);
  });
  return round_to<Result>(squares / (static_cast<double>(n) - ddof));
}

}  // namespace eadem::numerics
