#pragma once

#include "eadem/nn/linear.h"

namespace eadem::nn {

struct NormOptions {
  double epsilon = 1e-6;
  bool use_scale = true, use_bias = true;  ///< RMSNorm has no bias
  std::optional<DType> dtype = {};
  DType param_dtype = DType::f32;
  Initializer scale_init = ones_init(), bias_init = zeros_init();
};

/// (x - mean) / sqrt(variance + epsilon) scale + bias along the last axis; in f64 inside, rounded once.
struct LayerNorm {
  std::optional<Array> scale, bias;
  std::int64_t features;
  double epsilon;
  std::optional<DType> dtype;

  LayerNorm(std::int64_t count, Rngs& rngs, const NormOptions& options = {});
  Array operator()(const Array& x) const;
  static void fields(auto& m, auto f) {
    f("scale", m.scale), f("bias", m.bias), f("features", m.features), f("epsilon", m.epsilon), f("dtype", m.dtype);
  }
};

/// x / sqrt(mean(x^2) + epsilon) scale along the last axis; in f64 inside, rounded once.
struct RMSNorm {
  std::optional<Array> scale;
  std::int64_t features;
  double epsilon;
  std::optional<DType> dtype;

  RMSNorm(std::int64_t count, Rngs& rngs, const NormOptions& options = {});
  Array operator()(const Array& x) const;
  static void fields(auto& m, auto f) {
    f("scale", m.scale), f("features", m.features), f("epsilon", m.epsilon), f("dtype", m.dtype);
  }
};

}  // namespace eadem::nn
