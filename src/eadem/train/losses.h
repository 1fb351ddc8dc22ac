#pragma once

#include <optional>

#include "eadem/array/array.h"

namespace eadem::train {

/// (prediction - target)^2, elementwise.
Array squared_error(const Array& prediction, const Array& target);
/// mean of squared_error.
Array mean_squared_error(const Array& prediction, const Array& target);
/// d^2 / 2 for |d| <= delta, else delta (|d| - delta / 2), elementwise, d = prediction - target. Throws ValueError
/// unless delta > 0. Source: Huber, 1964.
Array huber(const Array& prediction, const Array& target, double delta = 1);
/// The divergence sum p (log p - log q) along the last axis, of probabilities p and log-probabilities log q; a p of
/// zero adds nothing.
Array kl_divergence(const Array& log_prediction, const Array& target);

struct CrossEntropyOptions {
  double smoothing = 0;                      ///< the target is 1 - smoothing on the label plus smoothing / n on all
  std::optional<std::int64_t> ignored = {};  ///< labels of this value have loss 0
};
/// logsumexp(x) - x[label] along the last axis of logits [.., n] for integer labels [..], as the primitive
/// cross_entropy of ops.h, with smoothing and ignored labels: f32 (f64 for f64), computed in f64 and rounded once.
/// Labels outside [0, n) that are not ignored give NaN. Throws ShapeError, TypeError, ValueError.
Array cross_entropy(const Array& logits, const Array& labels, const CrossEntropyOptions& options = {});

}  // namespace eadem::train
