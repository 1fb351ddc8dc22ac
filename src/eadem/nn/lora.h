#pragma once

#include "eadem/nn/linear.h"

namespace eadem::nn {

struct LoRAOptions {
  double scale = 1;  ///< of the product; Flax has none
  std::optional<DType> dtype = {};
  DType param_dtype = DType::f32;
  Initializer a_initializer = he_uniform(), b_initializer = zeros_init();
};

/// A low-rank product (x A) B scale, A [in, rank], B [rank, out], to be added to a base layer's result. Source: Hu et
/// al., LoRA, 2021.
struct LoRA {
  Array lora_a, lora_b;
  double scale;
  std::optional<DType> dtype;

  LoRA(std::int64_t in, std::int64_t rank, std::int64_t out, Rngs& rngs, const LoRAOptions& options = {});
  Array operator()(const Array& x) const;
  /// base + (x A) B scale in f32 (f64), rounded once to base's dtype: with B = 0 the bits of base as they were before
  /// that rounding. `base`: the wrapped layer's result for x, not rounded if it can be had in f32.
  Array over(const Array& base, const Array& x) const;
  static void fields(auto& m, auto f) {
    f("lora_a", m.lora_a), f("lora_b", m.lora_b), f("scale", m.scale), f("dtype", m.dtype);
  }
};

/// A Linear with a LoRA beside it, added in f32 (f64) and rounded once: with B = 0 it gives Linear's bits.
struct LoRALinear {
  Array kernel;
  std::optional<Array> bias;
  LoRA lora;
  std::optional<DType> dtype;

  LoRALinear(std::int64_t in, std::int64_t out, std::int64_t rank, Rngs& rngs, const LinearOptions& options = {},
             const LoRAOptions& lora_options = {});
  Array operator()(const Array& x) const;
  /// The two as one Linear: kernel + A B scale in f64, rounded once to the kernel's dtype. This module keeps its own
  /// kernel, so undoing the merge is to go on with it.
  Linear merged() const;
  static void fields(auto& m, auto f) {
    f("kernel", m.kernel), f("bias", m.bias), f("lora", m.lora), f("dtype", m.dtype);
  }
};

}  // namespace eadem::nn
