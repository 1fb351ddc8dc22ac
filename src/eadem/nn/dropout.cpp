#include "eadem/nn/dropout.h"

#include "eadem/ops/ops.h"

namespace eadem::nn {

Dropout::Dropout(double probability, Shape broadcast_axes) : rate(probability), broadcast(std::move(broadcast_axes)) {
  if (!(rate >= 0 && rate <= 1)) fail<ValueError>("[Dropout] the rate must be in [0, 1], got {}", rate);
}

Array Dropout::operator()(const Array& x, const Array& key) const {
  if (rate == 0) return x;
  if (rate == 1) return zeros_like(x);
  Shape shape = x.shape();
  for (const std::int64_t axis : broadcast) shape[normalize_axis("Dropout", axis, x.rank())] = 1;
  const double keep = 1 - rate;
  const Array kept = uniform(key, shape) < keep;  // jax.random.bernoulli
  return where(broadcast_to(kept, x.shape()), x / keep, zeros_like(x));
}

}  // namespace eadem::nn
