#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "eadem/numerics/arithmetic.h"
#include "eadem/numerics/cotangent.h"

// Running maxima and minima (numerics.md section 1: NaN propagates, -0 < +0), and how derivatives pass through them:
// those of the elements so far that equal the extreme share equally, -0 and +0 being equal (section 6).

namespace eadem::numerics {

/// y_i = the maximum (minimum) of x_0 .. x_i; from the other end if `reverse`.
template <bool minimum, class T>
void cumulative_extreme(std::span<const T> x, bool reverse, std::span<T> y) {
  const std::size_t n = x.size();
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t at = reverse ? n - 1 - i : i, before = reverse ? at + 1 : at - 1;
    const T other = i == 0 ? x[at] : y[before];
    if constexpr (minimum)
      y[at] = numerics::minimum(other, x[at]);
    else
      y[at] = numerics::maximum(other, x[at]);
  }
}

/// The tangents of cumulative_extreme from those of x, or, `transposed`, the cotangents of x from its: ascending
/// (descending) f64 chains over the elements of one extreme, each result rounded once and never -0.
template <FloatingElement T>
void extreme_share(std::span<const T> x, std::span<const T> t, bool least, bool reverse, bool transposed,
                   std::span<T> result) {
  const std::size_t n = x.size();
  const auto place = [&](std::size_t i) { return reverse ? n - 1 - i : i; };
  std::vector<std::int64_t> winners(n);  // so far, of the extreme at i; negative where i itself is none
  double extreme = 0, sum = 0;
  std::int64_t count = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const double value = to_double(x[place(i)]);
    const bool nan = value != value, after_nan = extreme != extreme;
    const bool starts = i == 0 || (!after_nan && (nan || (least ? value < extreme : value > extreme)));
    const bool wins = starts || value == extreme || (nan && after_nan);
    if (starts) extreme = value, count = 0, sum = 0;
    count += wins;
    winners[i] = wins ? count : -count;
    if (transposed) continue;
    if (wins) sum += to_double(t[place(i)]);
    result[place(i)] = round_cotangent<T>(sum / static_cast<double>(count));
  }
  if (!transposed) return;
  sum = 0;
  for (std::size_t i = n; i-- > 0;) {
    const std::int64_t each = winners[i];
    sum += to_double(t[place(i)]) / static_cast<double>(each < 0 ? -each : each);
    result[place(i)] = each > 0 ? round_cotangent<T>(sum) : T{};
    if (each == 1) sum = 0;  // the extreme began here
  }
}

}  // namespace eadem::numerics
