#pragma once

#include "eadem/train/optimizers.h"

namespace eadem::train {

/// min(most, 1 / sqrt(step + 1)): Adafactor's relative step.
Schedule relative_step_schedule(double most = 1e-2);

/// Adam without the first moment, its second one kept as the means of rows and columns. With t = step + 1,
/// b = 1 - t^-exponent and s = g^2 + epsilon: R = b R + (1 - b) mean over columns of s; C likewise over rows;
/// u = g / sqrt(R C / mean R), or g / sqrt v with v = b v + (1 - b) s where fewer than two axes have `least_factored`
/// elements; u is divided by max(1, rms(u) / clipping), multiplied by the rate and by max(rms(p), least_scale),
/// averaged with `momentum` if there is one, and p - u - decay p is the result. Of more than two axes the two longest
/// are factored. Sources: Shazeer & Stern, 2018; where it leaves a choice, the defaults of optax.adafactor 0.2.
struct Adafactor {
  Schedule rate = relative_step_schedule();
  double exponent = 0.8, epsilon = 1e-30, clipping = 1, least_scale = 1e-3;
  bool scale_by_parameter = true;  ///< false: the rate is absolute
  std::int64_t least_factored = 128;
  double momentum = 0, decay = 0;  ///< decay is not multiplied by the rate
  std::optional<DType> moment_dtype = {};

  /// moments: R (or v), C (or nothing, [0]), and the average of u if there is momentum.
  template <class M>
  OptimizerState<M> init(const M& model) const {
    OptimizerState<M> state = detail::init(model, momentum != 0 ? 3 : 2, moment_dtype);
    for (const std::size_t i : {0, 1})
      state.moments[i] = map_leaves([&](const Array& x) { return statistic(x, i == 0); }, state.moments[i]);
    return state;
  }
  template <class M>
  std::pair<M, OptimizerState<M>> update(const M& model, const M& gradient, const OptimizerState<M>& state) const {
    return detail::update(model, gradient, state, rule(), rate);
  }
  detail::Rule rule() const;

 private:
  Array statistic(const Array& like, bool first) const;
};

}  // namespace eadem::train
