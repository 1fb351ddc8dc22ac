#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>

#include "eadem/numerics/elementary.h"
#include "eadem/numerics/exact_sum.h"
#include "eadem/numerics/reduction.h"
#include "eadem/numerics/row_sum.h"

// softmax, logsumexp and log_softmax (numerics.md section 3).

namespace eadem::numerics {

/// e = RN32(exp(f64(x) - m)), S their exact sum in f32, y = RN(e RN64(1/S)), the product in f64 (for f64 data, f64 for
/// f32). A row with NaN or +inf, or of -inf only, gives NaN.
template <FloatingElement T>
void softmax(std::span<const T> x, std::span<T> y) {
  if (x.empty()) return;
  const double m = to_double(max(x));
  const auto e = std::make_unique<Wide<T>[]>(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) e[i] = round_to<Wide<T>>(numerics::exp(to_double(x[i]) - m));
  const double r = 1 / to_double(exact_sum(std::span<const Wide<T>>(e.get(), x.size())));
  for (std::size_t i = 0; i < x.size(); ++i) y[i] = round_to<T>(static_cast<double>(e[i]) * r);
}

/// log of the row sum of exp(x - m), all in f64; m is the row's finite maximum.
template <FloatingElement T>
double log_of_shifted_sum(std::span<const T> x, double m) {
  return numerics::log(row_sum(static_cast<std::int64_t>(x.size()), [&](double acc, std::int64_t i) {
    return acc + numerics::exp(to_double(x[static_cast<std::size_t>(i)]) - m);
  }));
}

/// RN(m + log S); m if that is infinite, -inf of nothing.
template <FloatingElement T>
T logsumexp(std::span<const T> x) {
  const double m = x.empty() ? -std::numeric_limits<double>::infinity() : to_double(max(x));
  if (!std::isfinite(m)) return round_to<T>(m);
  return round_to<T>(m + log_of_shifted_sum(x, m));
}

/// RN((x - m) - log S); NaN where softmax is.
template <FloatingElement T>
void log_softmax(std::span<const T> x, std::span<T> y) {
  if (x.empty()) return;
  const double m = to_double(max(x));
  const double log_sum = std::isfinite(m) ? log_of_shifted_sum(x, m) : std::numeric_limits<double>::quiet_NaN();
  for (std::size_t i = 0; i < x.size(); ++i) y[i] = round_to<T>((to_double(x[i]) - m) - log_sum);
}

}  // namespace eadem::numerics
