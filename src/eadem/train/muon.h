#pragma once

#include "eadem/train/optimizers.h"

namespace eadem::train {

/// A matrix nearly U V^T for x = U S V^T: x / (|x| + epsilon), then `steps` times a X + (b A + c A A) X with A = X X^T,
/// all in f32, on the transpose where x has more rows than columns. Singular values end between about 0.7 and 1.2; the
/// result is f32. Throws ShapeError unless x has two axes. Source: Jordan et al., Muon, 2024 (a = 3.4445, b = -4.7750,
/// c = 2.0315).
Array newton_schulz(const Array& x, std::int64_t steps = 5, double epsilon = 1e-7);

/// m = b m + (1 - b) g; u = b m + (1 - b) g, or m without Nesterov's look-ahead;
/// p - rate (sqrt(max(1, columns / rows)) newton_schulz(u) + decay p), for kernels [in, out]. Only weights of two axes
/// are updated so; of these, `chosen` may leave some out (embeddings and the last layer, as the source advises).
/// Everything else is updated by AdamW. Source: Jordan et al., Muon, 2024.
struct Muon {
  Schedule rate;
  double b = 0.95;
  bool nesterov = true;
  double decay = 0;
  std::int64_t steps = 5;
  AdamW others = {constant_schedule(3e-4), 0.9, 0.999, 1e-8, 0, {}};
  /// Of a weight with two axes, by its path in the model: whether Muon updates it.
  std::function<bool(const std::string& path)> chosen = [](const std::string&) { return true; };
  std::optional<DType> moment_dtype = {};

  /// moments: m, and AdamW's v, which is [0] where Muon updates.
  template <class M>
  OptimizerState<M> init(const M& model) const {
    OptimizerState<M> state = detail::init(model, 2, moment_dtype);
    for_each_leaf(state.moments[1], [&](const std::string& path, Array& v) {
      if (is_floating(v.dtype()) && v.rank() == 2 && chosen(path)) v = zeros({0}, v.dtype());
    });
    return state;
  }
  template <class M>
  std::pair<M, OptimizerState<M>> update(const M& model, const M& gradient, const OptimizerState<M>& state) const {
    return detail::update(model, gradient, state, rule(), rate);
  }
  detail::Rule rule() const;
};

}  // namespace eadem::train
