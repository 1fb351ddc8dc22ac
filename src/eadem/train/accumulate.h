#pragma once

#include "eadem/array/tree.h"
#include "eadem/nn/te_float8.h"
#include "eadem/ops/ops.h"

namespace eadem::train {

namespace detail {
/// Sums lists of arrays that come one after the other, by the tree of numerics.md section 3 over their index, holding
/// at most log2 of their number; 16-bit values are added in f32. Integers stay those of the first list.
class TreeSum {
 public:
  void add(Arrays values);
  /// The sum over what was added, divided by its number.
  Arrays mean() const;

 private:
  struct Node {
    Arrays values;
    std::int64_t count;
  };
  static Arrays sum(const Arrays& a, const Arrays& b);
  std::vector<Node> nodes_;
  std::int64_t count_ = 0;
};
/// Part `index` of `count` equal parts of axis 0; throws ShapeError.
Array part_of(const Array& batch, std::int64_t index, std::int64_t count);
}  // namespace detail

/// For f(model, batch...) giving a loss and a gradient, as value_and_grad makes it: the function of the same arguments
/// that runs f on `count` micro-batches, parts of the batches' leaves along axis 0, and gives the means of its losses
/// and gradients (in f32 where they have 16 bits). The mean is the sum in a tree over the index of the micro-batch,
/// each addition rounded to f32 (f64), divided by `count`. Its bits depend on the gradients of the micro-batches and
/// their order, and on nothing else. Where `count` is a power of two, a micro-batch makes 256 2^i rows of a product,
/// and nothing underflows, the gradient of an f32 matrix that is used once is to the bit that of the whole batch by a
/// mean loss, since the tree goes on above that of the product; sums of gains, biases and embeddings are rounded once
/// for each micro-batch, so theirs is not. An fp8_state is joined (nn::te::joined_float8_states). Throws ShapeError
/// where axis 0 has no `count` equal parts.
template <class F>
auto accumulate(F f, std::int64_t count) {
  if (count < 1) fail<ValueError>("[accumulate] needs at least one micro-batch, got {}", count);
  return [f, count](const auto& model, const auto&... batch) {
    using Model = std::remove_cvref_t<decltype(model)>;
    detail::TreeSum total;
    std::optional<Arrays> states;
    for (std::int64_t i = 0; i < count; ++i) {
      const auto part = [&](const auto& tree) {
        return map_leaves([&](const Array& x) { return detail::part_of(x, i, count); }, tree);
      };
      const auto [loss, gradient] = f(model, part(batch)...);
      const Arrays own = nn::te::float8_states(gradient);
      states = states ? nn::te::joined_float8_states(*states, own) : own;
      Arrays values = leaves(gradient);
      values.push_back(loss);
      total.add(std::move(values));
    }
    Arrays values = total.mean();
    const Array loss = values.back();
    values.pop_back();
    Model mean = with_leaves(model, values);
    auto state = states->begin();
    for_each_leaf(mean, [&](const std::string& path, Array& leaf) {
      if (nn::te::is_float8_state(path)) leaf = *state++;
    });
    return std::pair<Array, Model>(loss, std::move(mean));
  };
}

}  // namespace eadem::train
