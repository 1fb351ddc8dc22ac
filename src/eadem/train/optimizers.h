#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "eadem/array/state.h"
#include "eadem/array/tree.h"
#include "eadem/ops/ops.h"
#include "eadem/train/schedules.h"

// Optimizers (numerics.md section 6): each element is updated in f64, and each stored state is rounded once. Under
// parameters of 16 bits the master weights and the moments are f32. A step below half a unit in the last place of a
// parameter is not lost: the rest that its rounding left is kept in the state. What array/state.h marks is the model's
// own: it is neither updated nor clipped.

namespace eadem::train {

/// The state of an optimizer on a model: a tree. Integer arrays of the model are not trained, nor is its own state, in
/// whose places here are arrays [0].
template <class M>
struct OptimizerState {
  Array step;              ///< i64 []: updates done
  M master;                ///< the parameters in f32 or f64
  M rest;                  ///< what the master's rounding left, in its dtype
  std::vector<M> moments;  ///< in f32 or f64, or as asked
  static void fields(auto& m, auto f) {
    f("step", m.step), f("master", m.master), f("rest", m.rest), f("moments", m.moments);
  }
};

namespace detail {

/// One array's update: the parameter in f64 that it becomes, from its exact value, gradient and moments, all in f64.
/// The moments are replaced.
using Rule = std::function<Array(const Array& parameter, const Array& gradient, std::vector<Array>& moments,
                                 const Array& step, const Array& rate)>;
struct Leaf {
  Array parameter, master, rest;
  std::vector<Array> moments;
};
void update_leaf(Leaf& leaf, const Array& gradient, const Rule& rule, const Array& step, const Array& rate);
DType state_dtype(DType parameter);
/// f64 [].
Array scalar(double value);
/// decay m + (1 - decay) g, as numerics.md writes it.
Array blended(double decay, const Array& m, const Array& g);

template <class M>
OptimizerState<M> init(const M& model, std::size_t moments, std::optional<DType> moment_dtype) {
  Arrays kept = leaves(model);
  const std::vector<bool> state = state_marks(model);
  for (std::size_t i = 0; i < kept.size(); ++i) {
    if (state[i]) kept[i] = zeros({0}, kept[i].dtype());
    if (is_floating(kept[i].dtype())) kept[i] = convert(kept[i], state_dtype(kept[i].dtype()));
  }
  const M master = with_leaves(model, kept);
  const M zero = map_leaves([](const Array& x) { return zeros_like(x); }, master);
  const M moment = map_leaves(
      [&](const Array& x) { return is_floating(x.dtype()) ? convert(x, moment_dtype.value_or(x.dtype())) : x; }, zero);
  return {full({}, 0, DType::i64), master, zero, std::vector<M>(moments, moment)};
}

template <class M>
std::pair<M, OptimizerState<M>> update(const M& model, const M& gradient, const OptimizerState<M>& state,
                                       const Rule& rule, const Schedule& schedule) {
  Arrays parameters = leaves(model), master = leaves(state.master), rest = leaves(state.rest);
  const Arrays gradients = leaves(gradient);
  std::vector<Arrays> moments;
  for (const M& each : state.moments) moments.push_back(leaves(each));
  if (gradients.size() != parameters.size() || master.size() != parameters.size())
    fail<ValueError>("[update] model, gradient and state have {}, {} and {} arrays", parameters.size(),
                     gradients.size(), master.size());
  const Array rate = schedule(state.step);
  const std::vector<bool> passed = state_marks(model);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (passed[i] || !is_floating(parameters[i].dtype())) continue;
    Leaf leaf{parameters[i], master[i], rest[i], {}};
    for (const Arrays& each : moments) leaf.moments.push_back(each[i]);
    update_leaf(leaf, gradients[i], rule, state.step, rate);
    parameters[i] = leaf.parameter, master[i] = leaf.master, rest[i] = leaf.rest;
    for (std::size_t j = 0; j < moments.size(); ++j) moments[j][i] = leaf.moments[j];
  }
  OptimizerState<M> next{
      state.step + full({}, 1, DType::i64), with_leaves(model, master), with_leaves(model, rest), {}};
  for (const Arrays& each : moments) next.moments.push_back(with_leaves(model, each));
  return {with_leaves(model, parameters), std::move(next)};
}

}  // namespace detail

/// m = momentum m + g; p - rate m, or with Nesterov's look-ahead p - rate (momentum m + g).
struct Sgd {
  Schedule rate;
  double momentum = 0;
  bool nesterov = false;
  std::optional<DType> moment_dtype = {};

  template <class M>
  OptimizerState<M> init(const M& model) const {
    return detail::init(model, momentum != 0 ? 1 : 0, moment_dtype);
  }
  template <class M>
  std::pair<M, OptimizerState<M>> update(const M& model, const M& gradient, const OptimizerState<M>& state) const {
    return detail::update(model, gradient, state, rule(), rate);
  }
  detail::Rule rule() const;
};

/// m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g^2; p - rate (m^ / (sqrt v^ + epsilon) + decay p), m^ and v^ corrected
/// for their start at zero. With decay 0: Adam. Sources: Kingma & Ba, 2015; Loshchilov & Hutter, 2019.
struct AdamW {
  Schedule rate;
  double b1 = 0.9, b2 = 0.999, epsilon = 1e-8, decay = 1e-2;
  std::optional<DType> moment_dtype = {};

  template <class M>
  OptimizerState<M> init(const M& model) const {
    return detail::init(model, 2, moment_dtype);
  }
  template <class M>
  std::pair<M, OptimizerState<M>> update(const M& model, const M& gradient, const OptimizerState<M>& state) const {
    return detail::update(model, gradient, state, rule(), rate);
  }
  detail::Rule rule() const;
};
inline AdamW adam(Schedule rate, double b1 = 0.9, double b2 = 0.999, double epsilon = 1e-8) {
  return {std::move(rate), b1, b2, epsilon, 0, {}};
}

/// p - rate (sign(b1 m + (1 - b1) g) + decay p); m = b2 m + (1 - b2) g. Source: Chen et al., 2023.
struct Lion {
  Schedule rate;
  double b1 = 0.9, b2 = 0.99, decay = 1e-3;
  std::optional<DType> moment_dtype = {};

  template <class M>
  OptimizerState<M> init(const M& model) const {
    return detail::init(model, 1, moment_dtype);
  }
  template <class M>
  std::pair<M, OptimizerState<M>> update(const M& model, const M& gradient, const OptimizerState<M>& state) const {
    return detail::update(model, gradient, state, rule(), rate);
  }
  detail::Rule rule() const;
};

/// The norm over all floating arrays that are no state, f64 []: the exact sum of squares rounded once, then its root;
/// it does not overflow inside.
Array global_norm(const Arrays& arrays);
template <class M>
Array global_norm(const M& tree) {
  const Arrays all = leaves(tree);
  const std::vector<bool> state = state_marks(tree);
  Arrays counted;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (!state[i]) counted.push_back(all[i]);
  return global_norm(counted);
}
/// The tree times min(1, most / norm), each element rounded once; state as it is.
template <class M>
M clip_by_global_norm(const M& tree, double most) {
  if (!(most > 0)) fail<ValueError>("[clip_by_global_norm] the norm must be above zero, got {}", most);
  const Array factor = minimum(most / global_norm(tree), ones({}, DType::f64));
  Arrays all = leaves(tree);
  const std::vector<bool> state = state_marks(tree);
  for (std::size_t i = 0; i < all.size(); ++i)
    if (!state[i] && is_floating(all[i].dtype()))
      all[i] = convert(convert(all[i], DType::f64) * factor, all[i].dtype());
  return with_leaves(tree, all);
}

}  // namespace eadem::train
