#include "eadem/train/losses.h"

#include <limits>

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
  return where(less_equal(size, full_like(size, delta)), d * d * 0.5, (size - delta / 2) * delta);
}

Array kl_divergence(const Array& log_prediction, const Array& target) {
  const Array none = zeros_like(target), present = greater(target, none);
  const Array safe = where(present, target, ones_like(target));
  return sum(where(present, target * (log(safe) - log_prediction), none), {-1});
}

Array cross_entropy(const Array& logits, const Array& labels, const CrossEntropyOptions& options) {
  if (!is_floating(logits.dtype()) || is_floating(labels.dtype()) || labels.dtype() == DType::boolean)
    fail<TypeError>("[cross_entropy] takes floating logits and integer labels, got {} and {}", logits.type(),
                    labels.type());
  Shape rows = logits.shape();
  if (rows.empty()) fail<ShapeError>("[cross_entropy] logits need an axis of classes, got {}", logits.type());
  const std::int64_t classes = rows.back();
  rows.pop_back();
  if (!(labels.shape() == rows))
    fail<ShapeError>("[cross_entropy] logits {} need labels of shape {}, got {}", logits.type(), rows, labels.type());
  if (!(options.smoothing >= 0 && options.smoothing <= 1))
    fail<ValueError>("[cross_entropy] smoothing must be in [0, 1], got {}", options.smoothing);
  const Array x = convert(logits, DType::f64), label = convert(labels, DType::i64);
  const Array none = zeros({}, DType::f64);
  const Array here = equal(iota(DType::i64, x.shape(), -1), expand_dims(label, -1));
  const Array chosen = sum(where(here, x, none), {-1}), total = logsumexp(x, -1);
  Array loss = total - chosen;
  if (options.smoothing > 0) loss = loss * (1 - options.smoothing) + (total - mean(x, {-1})) * options.smoothing;
  const Array sound = logical_and(greater_equal(label, full({}, 0, DType::i64)),
                                  less(label, full({}, static_cast<double>(classes), DType::i64)));
  loss = where(sound, loss, full({}, std::numeric_limits<double>::quiet_NaN(), DType::f64));
  if (options.ignored)
    loss = where(equal(label, full({}, static_cast<double>(*options.ignored), DType::i64)), none, loss);
  return convert(loss, logits.dtype() == DType::f64 ? DType::f64 : DType::f32);
}

}  // namespace eadem::train
