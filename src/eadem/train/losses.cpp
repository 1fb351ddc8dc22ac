#include "eadem/train/losses.h"

#include "eadem/ops/ops.h"

namespace eadem::train {

Array squared_error(const Array& prediction, const Array& target) {
  const Array d = prediction - target;
  return d * d;
}

Array mean_squared_error(const Array& prediction, const Array& target) {
  return mean(squared_error(prediction, target));
}

Array huber(const Array& prediction, const Array& target, double delta) {
  if (!(delta > 0)) fail<ValueError>("[huber] delta must be above zero, got {}", delta);
  const Array d = prediction - target, size = abs(d);
  return where(size <= delta, d * d * 0.5, (size - delta / 2) * delta);
}

Array kl_divergence(const Array& log_prediction, const Array& target) {
  const Array none = zeros_like(target), present = target > none;
  const Array safe = where(present, target, ones_like(target));
  return sum(where(present, target * (log(safe) - log_prediction), none), {-1});
}

Array cross_entropy(const Array& logits, const Array& labels, const CrossEntropyOptions& options) {
  if (!(options.smoothing >= 0 && options.smoothing <= 1))
    fail<ValueError>("[cross_entropy] smoothing must be in [0, 1], got {}", options.smoothing);
  const DType result = logits.dtype() == DType::f64 ? DType::f64 : DType::f32;
  Array loss;
  if (options.smoothing == 0) {
    loss = eadem::cross_entropy(logits, labels, result);
  } else {
    const Array x = convert(logits, DType::f64), on_label = eadem::cross_entropy(x, labels);
    const Array on_all = logsumexp(x, -1) - mean(x, {-1});
    loss = convert(on_label * (1 - options.smoothing) + on_all * options.smoothing, result);
  }
  if (!options.ignored) return loss;
  const Array label = convert(labels, DType::i64);
  return where(label == *options.ignored, zeros_like(loss), loss);
}

}  // namespace eadem::train
