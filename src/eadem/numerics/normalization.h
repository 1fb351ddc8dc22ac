#pragma once

#include <cmath>
#include <cstdint>
#include <span>

#include "eadem/numerics/rounding.h"
#include "eadem/numerics/row_sum.h"

// layer_norm, rms_norm and group_norm (numerics.md section 3): f64 inside, one rounding at the end.

namespace eadem::numerics {

/// What normalisation needs to know of a row: the mean that is subtracted and 1/sqrt(variance + epsilon).
struct Moments {
  double mean = 0, reciprocal_deviation = 0;
};

/// The mean and the (biased) variance, what batch_norm gives of a channel.
struct MeanAndVariance {
  double mean = 0, variance = 0;
};

/// mu = S/d; v = rowsum(fma c c)/d with c = x - mu. x(i) is the i-th of d elements as double.
template <class Element>
MeanAndVariance mean_and_variance(std::int64_t d, Element x) {
  const double mean = row_sum(d, [&](double acc, std::int64_t i) { return acc + x(i); }) / static_cast<double>(d);
  const double squares = row_sum(d, [&](double acc, std::int64_t i) {
    const double c = x(i) - mean;
    return std::fma(c, c, acc);
  });
  return {mean, squares / static_cast<double>(d)};
}

/// Those and r = 1/sqrt(v + epsilon).
template <class Element>
Moments centered_moments(std::int64_t d, double epsilon, Element x) {
  const MeanAndVariance moments = mean_and_variance(d, x);
  return {moments.mean, 1 / std::sqrt(moments.variance + epsilon)};
}

/// y = RN(fma((x - mu) r, gamma, beta)). An empty gamma counts as ones, an empty beta as +0; both are exact doubles.
template <FloatingElement T>
void layer_norm(std::span<const T> x, std::span<const double> gamma, std::span<const double> beta, double epsilon,
                std::span<T> y) {
  const auto d = static_cast<std::int64_t>(x.size());
  const Moments row =
      centered_moments(d, epsilon, [&](std::int64_t i) { return to_double(x[static_cast<std::size_t>(i)]); });
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double normalized = (to_double(x[i]) - row.mean) * row.reciprocal_deviation;
    y[i] = round_to<T>(std::fma(normalized, gamma.empty() ? 1.0 : gamma[i], beta.empty() ? 0.0 : beta[i]));
  }
}

/// y = RN((x r) gamma), r = 1/sqrt(rowsum(fma x x)/d + epsilon). An empty gamma counts as ones.
template <FloatingElement T>
void rms_norm(std::span<const T> x, std::span<const double> gamma, double epsilon, std::span<T> y) {
  const auto d = static_cast<std::int64_t>(x.size());
  const double squares = row_sum(d, [&](double acc, std::int64_t i) {
    const double value = to_double(x[static_cast<std::size_t>(i)]);
    return std::fma(value, value, acc);
  });
  const double r = 1 / std::sqrt(squares / static_cast<double>(d) + epsilon);
  for (std::size_t i = 0; i < x.size(); ++i) {
    y[i] = round_to<T>(to_double(x[i]) * r * (gamma.empty() ? 1.0 : gamma[i]));
  }
}

/// One group of group_norm, x in the order (c, h, w) with `spatial` = h w elements a channel: layer_norm's formula with
/// gamma and beta per channel of the group.
template <FloatingElement T>
void group_norm(std::span<const T> x, std::int64_t spatial, std::span<const double> gamma, std::span<const double> beta,
                double epsilon, std::span<T> y) {
  const auto d = static_cast<std::int64_t>(x.size());
  const Moments group =
      centered_moments(d, epsilon, [&](std::int64_t i) { return to_double(x[static_cast<std::size_t>(i)]); });
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t channel = i / static_cast<std::size_t>(spatial);
    const double normalized = (to_double(x[i]) - group.mean) * group.reciprocal_deviation;
    y[i] = round_to<T>(std::fma(normalized, gamma.empty() ? 1.0 : gamma[channel], beta.empty() ? 0.0 : beta[channel]));
  }
}

}  // namespace eadem::numerics
