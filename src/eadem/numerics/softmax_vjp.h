#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>

#include "eadem/numerics/cotangent.h"
#include "eadem/numerics/softmax.h"

// cross_entropy, and the reverse derivatives of softmax and its relatives (numerics.md section 3): f64 inside in row
// sums, one rounding at the end, never -0. With m the row's maximum, e = exp(x - m) in f64, S their row sum:
// p = e RN64(1/S).

namespace eadem::numerics {

/// The probabilities of a row whose maximum m is finite.
template <FloatingElement T>
std::unique_ptr<double[]> probabilities(std::span<const T> x, double m) {
  auto p = std::make_unique<double[]>(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) p[i] = numerics::exp(to_double(x[i]) - m);
  const double r = 1 / row_sum(static_cast<std::int64_t>(x.size()),
                               [&](double acc, std::int64_t i) { return acc + p[static_cast<std::size_t>(i)]; });
  for (std::size_t i = 0; i < x.size(); ++i) p[i] *= r;
  return p;
}

/// dx = RN(y (dy - rowsum(y dy))), y the result of softmax.
template <FloatingElement T>
void softmax_vjp(std::span<const T> y, std::span<const T> dy, std::span<T> dx) {
  const double s = row_sum(static_cast<std::int64_t>(y.size()), [&](double acc, std::int64_t i) {
    return std::fma(to_double(y[static_cast<std::size_t>(i)]), to_double(dy[static_cast<std::size_t>(i)]), acc);
  });
  for (std::size_t i = 0; i < y.size(); ++i) dx[i] = round_cotangent<T>(to_double(y[i]) * (to_double(dy[i]) - s));
}

/// dx = RN(fma(-p, rowsum(dy), dy)); NaN where log_softmax is.
template <FloatingElement T>
void log_softmax_vjp(std::span<const T> x, std::span<const T> dy, std::span<T> dx) {
  if (x.empty()) return;
  const double m = to_double(max(x));
  if (!std::isfinite(m)) return std::fill(dx.begin(), dx.end(), canonical_nan<T>());
  const auto p = probabilities(x, m);
  const double s = row_sum(static_cast<std::int64_t>(x.size()), [&](double acc, std::int64_t i) {
    return acc + to_double(dy[static_cast<std::size_t>(i)]);
  });
  for (std::size_t i = 0; i < x.size(); ++i) dx[i] = round_cotangent<T>(std::fma(-p[i], s, to_double(dy[i])));
}

/// dx = RN(dy p); +0 where dy is a zero and where m = -inf, NaN where m is +inf or NaN.
template <FloatingElement T>
void logsumexp_vjp(std::span<const T> x, double dy, std::span<T> dx) {
  if (x.empty()) return;
  const double m = to_double(max(x));
  if (dy == 0 || m == -std::numeric_limits<double>::infinity()) return std::fill(dx.begin(), dx.end(), T{});
  if (!std::isfinite(m)) return std::fill(dx.begin(), dx.end(), canonical_nan<T>());
  const auto p = probabilities(x, m);
  for (std::size_t i = 0; i < x.size(); ++i) dx[i] = round_cotangent<T>(dy * p[i]);
}

/// The loss (m - x_t) + log S, not yet rounded; NaN where log_softmax is, and without a label: t outside [0, n).
template <FloatingElement T>
double cross_entropy(std::span<const T> x, std::int64_t t) {
  if (t < 0 || t >= static_cast<std::int64_t>(x.size())) return std::numeric_limits<double>::quiet_NaN();
  const double m = to_double(max(x));
  if (!std::isfinite(m)) return std::numeric_limits<double>::quiet_NaN();
  return (m - to_double(x[static_cast<std::size_t>(t)])) + log_of_shifted_sum(x, m);
}

/// dx = RN(dy (p - [i = t])); +0 where dy is a zero (a loss that is masked out), else NaN where the loss is.
template <FloatingElement T>
void cross_entropy_vjp(std::span<const T> x, std::int64_t t, double dy, std::span<T> dx) {
  if (x.empty()) return;
  if (dy == 0) return std::fill(dx.begin(), dx.end(), T{});
  const double m = to_double(max(x));
  if (t < 0 || t >= static_cast<std::int64_t>(x.size()) || !std::isfinite(m))
    return std::fill(dx.begin(), dx.end(), canonical_nan<T>());
  const auto p = probabilities(x, m);
  p[static_cast<std::size_t>(t)] -= 1;
  for (std::size_t i = 0; i < x.size(); ++i) dx[i] = round_cotangent<T>(dy * p[i]);
}

}  // namespace eadem::numerics
