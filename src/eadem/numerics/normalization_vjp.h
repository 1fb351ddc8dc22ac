#pragma once

#include <cmath>
#include <cstdint>
#include <span>

#include "eadem/numerics/cotangent.h"
#include "eadem/numerics/normalization.h"

// The reverse derivatives of layer_norm, rms_norm and group_norm (numerics.md section 3): f64 inside in row sums, one
// rounding at the end. With mu (0 for rms_norm) and r the forward's, xhat = (x - mu) r and g = dy gamma:
//   centered:  dx = RN(r fma(-xhat, mean(g xhat), g - mean g))
//   rms_norm:  dx = RN(r fma(-xhat, mean(g xhat), g))
//   dgamma = the exact sum over rows of RN32(dy xhat) (f64: RN64), rounded once
// with mean = rowsum / d. dx is never -0; dbeta is the exact sum of dy.

namespace eadem::numerics {

/// mu and r of rms_norm.
template <class Element>
Moments root_mean_square(std::int64_t d, double epsilon, Element x) {
  const double squares = row_sum(d, [&](double acc, std::int64_t i) { return std::fma(x(i), x(i), acc); });
  return {0, 1 / std::sqrt(squares / static_cast<double>(d) + epsilon)};
}

template <bool centered, FloatingElement T>
Moments moments_of(std::span<const T> x, double epsilon) {
  const auto d = static_cast<std::int64_t>(x.size());
  const auto element = [&](std::int64_t i) { return to_double(x[static_cast<std::size_t>(i)]); };
  if constexpr (centered)
    return centered_moments(d, epsilon, element);
  else
    return root_mean_square(d, epsilon, element);
}

/// dx of one row or group; element i is scaled by gamma[i / spatial] (spatial = 1 but for group_norm).
template <bool centered, FloatingElement T>
void normalization_vjp(std::span<const T> x, std::span<const double> gamma, std::span<const T> dy, double epsilon,
                       std::span<T> dx, std::size_t spatial = 1) {
  const auto d = static_cast<std::int64_t>(x.size());
  const Moments row = moments_of<centered>(x, epsilon);
  const auto normalized = [&](std::size_t i) { return (to_double(x[i]) - row.mean) * row.reciprocal_deviation; };
  const auto g = [&](std::size_t i) { return to_double(dy[i]) * gamma[i / spatial]; };
  const double products = row_sum(d, [&](double acc, std::int64_t i) {
    return std::fma(g(static_cast<std::size_t>(i)), normalized(static_cast<std::size_t>(i)), acc);
  });
  const double b = products / static_cast<double>(d);
  double a = 0;
  if constexpr (centered)
    a = row_sum(d, [&](double acc, std::int64_t i) { return acc + g(static_cast<std::size_t>(i)); }) /
        static_cast<double>(d);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double shifted = centered ? g(i) - a : g(i);
    dx[i] = round_cotangent<T>(row.reciprocal_deviation * std::fma(-normalized(i), b, shifted));
  }
}

/// What an element gives to dgamma: RN32(dy xhat), given its row's or group's moments.
template <FloatingElement T>
Wide<T> gamma_term(T x, T dy, const Moments& row) {
  return round_to<Wide<T>>(to_double(dy) * ((to_double(x) - row.mean) * row.reciprocal_deviation));
}

}  // namespace eadem::numerics
