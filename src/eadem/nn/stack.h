#pragma once

#include <optional>
#include <utility>

#include "eadem/nn/rngs.h"
#include "eadem/nn/tabulate.h"
#include "eadem/ops/ops.h"
#include "eadem/transforms/transforms.h"

namespace eadem {

/// Layers of one kind as one module: every array has the layers as its axis 0. A range of layers, for the loop; `scan`
/// runs them as one program, whose length does not grow with the depth, and gives the loop's bits.
template <class M>
struct Stack {
  M layers;

  std::int64_t size() const {
    std::int64_t count = 0;
    for_each_leaf(layers, [&](const std::string&, const Array& leaf) { count = leaf.shape()[0]; });
    return count;
  }
  /// A layer; throws ShapeError for an index out of range.
  M operator[](std::int64_t i) const {
    if (i < 0 || i >= size()) fail<ShapeError>("[stack] has {} layers, got index {}", size(), i);
    return map_leaves([i](const Array& leaf) { return squeeze(slice_axis(leaf, 0, {i, i + 1}), 0); }, layers);
  }

  class Iterator {
   public:
    Iterator(const Stack& stack, std::int64_t i) : stack_(&stack), i_(i) {}
    const M& operator*() {
      if (!layer_) layer_.emplace((*stack_)[i_]);
      return *layer_;
    }
    Iterator& operator++() {
      ++i_;
      layer_.reset();
      return *this;
    }
    bool operator!=(const Iterator& other) const { return i_ != other.i_; }

   private:
    const Stack* stack_;
    std::int64_t i_;
    std::optional<M> layer_;
  };
  Iterator begin() const { return {*this, 0}; }
  Iterator end() const { return {*this, size()}; }

  static void fields(auto& m, auto f) { f("layers", m.layers); }
};

/// make(rngs) for each of the keys u32[n, 2], stacked: parameter by parameter those of n calls `make(Rngs(keys[i]))`.
template <class Make>
auto vmap_init(const Array& keys, Make make) {
  using M = std::remove_cvref_t<decltype(make(std::declval<Rngs&>()))>;
  return Stack<M>{vmap([make](const Array& key) {
    Rngs rngs(key);
    return make(rngs);
  })(keys)};
}

/// make(rngs) `count` times with the streams of rngs.split(count), stacked.
template <class Make>
auto vmap_init(std::int64_t count, Rngs& rngs, Make make) {
  using M = std::remove_cvref_t<decltype(make(rngs))>;
  return Stack<M>{vmap([make](const Rngs& one) {
    Rngs streams = one;
    return make(streams);
  })(rngs.split(count))};
}

/// for (const M& layer : layers) x = layer(x), to the bit, as one scan.
template <class M, class Carry>
Carry scan(const Stack<M>& layers, const Carry& x) {
  const auto step = [&layers](const Carry& carry, const M& layer) {
    if (detail::Tabulation* tabulation = detail::Tabulation::current()) [[unlikely]]
      tabulation->copied(layers.layers, layer);
    return std::pair(Carry(layer(carry)), std::tuple<>());
  };
  return noted(layers, scan(step, x, layers.layers).first, x);
}

}  // namespace eadem
