#pragma once

#include "eadem/array/array.h"

// Transformer Engine's recipes of 8-bit products, and what they keep of the tensors of a product from step to step.

namespace eadem::nn::te {

enum class Float8Scaling : std::uint8_t {
  delayed,  ///< one scale a tensor, from the largest magnitudes of earlier steps (DelayedScaling)
  current,  ///< one scale a tensor, from its own largest magnitude (Float8CurrentScaling)
  block,    ///< a power of two for every 32 elements along the contracted axis (MXFP8BlockScaling)
};

struct Float8Recipe {
  Float8Scaling scaling = Float8Scaling::delayed;
  bool hybrid = true;           ///< cotangents in E5M2; else E4M3 too. block always takes E4M3, as there
  int margin = 0;               ///< delayed: scales are 2^margin smaller than would fit
  std::int64_t history = 1024;  ///< delayed: steps whose magnitudes are kept
  bool most_recent = false;     ///< delayed: the last step's magnitude alone decides, not the largest kept
  static void fields(auto& m, auto f) {
    f("scaling", m.scaling), f("hybrid", m.hybrid), f("margin", m.margin), f("history", m.history);
    f("most_recent", m.most_recent);
  }
};

/// What delayed scaling keeps of one tensor.
struct Float8Scale {
  Array scale;         ///< f32 []: of the next step
  Array amax_history;  ///< f32 [history]: the largest magnitudes, the last step's first
  static void fields(auto& m, auto f) { f("scale", m.scale), f("amax_history", m.amax_history); }
};
/// Of a product: its operand, its kernel, its result's cotangent.
struct Float8State {
  Float8Scale x, kernel, grad;
  static void fields(auto& m, auto f) { f("x", m.x), f("kernel", m.kernel), f("grad", m.grad); }
};

/// A fresh state, of scales 1. Throws ValueError for delayed scaling without a history.
Float8State fresh_float8_state(const Float8Recipe& recipe);

/// x w in 8 bits, forward and backward: x [m, k], w [k, n] of x's dtype; in that dtype.
///
/// The gradient with respect to `state` is not a derivative but the state of the next step, as Transformer Engine
/// passes it (OVERWRITE_WITH_GRADIENT): after an optimizer's update, with_float8_state puts it in its place.
Array float8_product(const Array& x, const Array& w, const Float8State& state, const Float8Recipe& recipe);

/// A dense layer's product by a recipe, and its state: a part of a module's `fp8_state`.
struct Float8Product {
  Float8State state;
  Float8Recipe recipe;

  explicit Float8Product(const Float8Recipe& how) : state(fresh_float8_state(how)), recipe(how) {}
  Array operator()(const Array& x, const Array& w) const { return float8_product(x, w, state, recipe); }
  static void fields(auto& m, auto f) {
    std::remove_reference_t<decltype(m.state)>::fields(m.state, f);
    std::remove_reference_t<decltype(m.recipe)>::fields(m.recipe, f);
  }
};

}  // namespace eadem::nn::te
