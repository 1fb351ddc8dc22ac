#pragma once

#include <cstdint>
#include <type_traits>

#include "eadem/base/dtype.h"

namespace eadem::kernels {

/// The absolute value of a float as an integer, which orders like it, infinity and NaN above all.
template <class T>
using Magnitude =
    std::conditional_t<sizeof(T) == 8, std::int64_t, std::conditional_t<sizeof(T) == 4, std::int32_t, std::int16_t>>;

/// A sum held as the unevaluated pair hi + lo (TwoSum), and what bounds its error: the largest |x|, the smallest
/// non-zero |x| (+inf if there is none, 0 if unknown), and the most additions from an element to the pair.
struct PairSum {
  double hi = 0, lo = 0;
  double largest = 0, smallest = __builtin_inf();  // largest is NaN once a NaN was met
  std::int64_t depth = 0, chain = 0;               // depth: between pieces; chain: inside one
};

/// How many additions of a path `row_quick` makes in f32: far below half a place of a bf16 result, and three times
/// cheaper than widening every element to f64. What that leaves undecided is added again, all in f64.
template <class T>
inline constexpr int kQuickLevels = std::is_same_v<T, bfloat16> ? 3 : 0;

/// The loops of the exact sum for elements T. Rows are contiguous; columns are `width` neighbouring elements in each of
/// `rows` rows that lie `stride` elements apart.
template <class T>
struct FloatSumBodies {
  /// The f64 sum of n <= 4096 elements, the longest chain of additions being at most kRowDepth; raises `largest`.
  double (*row)(const T* x, std::int64_t n, Magnitude<T>& largest);
  /// As row, the first kQuickLevels<T> additions of each path in f32.
  double (*row_quick)(const T* x, std::int64_t n, Magnitude<T>& largest);
  /// sums[c] += column c, one addition for every started eight rows; raises largest[c].
  void (*columns)(const T* x, std::int64_t stride, std::int64_t rows, std::int64_t width, double* sums,
                  Magnitude<T>* largest);
  /// Adds n <= 4096 elements to `sum`; the second also tracks `smallest`.
  void (*pair_row)(const T* x, std::int64_t n, PairSum& sum);
  void (*pair_row_window)(const T* x, std::int64_t n, PairSum& sum);
  /// Adds each column to (hi[c], lo[c]); raises largest[c].
  void (*pair_columns)(const T* x, std::int64_t stride, std::int64_t rows, std::int64_t width, double* hi, double* lo,
                       Magnitude<T>* largest);
};
inline constexpr int kRowDepth = 4096 / 8 + 16;

/// The loops of sums of integers, modulo 2^64.
template <class T>
struct IntegerSumBodies {
  std::uint64_t (*row)(const T* x, std::int64_t n);
  void (*columns)(const T* x, std::int64_t stride, std::int64_t rows, std::int64_t width, std::uint64_t* sums);
};

/// The bodies of the active target; null for the scalar one, which runs numerics/.
template <class T>
const FloatSumBodies<T>* float_sum_bodies();
template <class T>
const IntegerSumBodies<T>* integer_sum_bodies();

}  // namespace eadem::kernels
