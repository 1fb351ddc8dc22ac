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

/// LayerNorm over each of `groups` groups of channels of an example [N, .., features], channels last.
struct GroupNorm {
  std::optional<Array> scale, bias;
  std::int64_t features, groups;
  double epsilon;
  std::optional<DType> dtype;

  /// Throws ValueError unless the groups divide the features.
  GroupNorm(std::int64_t count, std::int64_t group_count, Rngs& rngs, const NormOptions& options = {});
  Array operator()(const Array& x) const;
  static void fields(auto& m, auto f) {
    f("scale", m.scale), f("bias", m.bias), f("features", m.features), f("groups", m.groups);
    f("epsilon", m.epsilon), f("dtype", m.dtype);
  }
};

struct BatchNormOptions {
  bool use_running_average = false;
  std::int64_t axis = -1;  ///< of the channels
  double momentum = 0.99, epsilon = 1e-5;
  bool use_scale = true, use_bias = true;
  std::optional<DType> dtype = {};
  DType param_dtype = DType::f32;
  Initializer scale_init = ones_init(), bias_init = zeros_init();
};

/// LayerNorm of each channel over all other axes. Training takes the batch's moments and moves `mean` and `var`, f32,
/// towards them: mean = momentum mean + (1 - momentum) batch mean, in f64, rounded once. They are state, not
/// parameters: under grad, give the model back beside the loss, and hand that to the optimizer, which leaves them
/// alone.
struct BatchNorm {
  Array mean, var;
  std::optional<Array> scale, bias;
  std::int64_t features, axis;
  double momentum, epsilon;
  bool use_running_average;
  std::optional<DType> dtype;

  BatchNorm(std::int64_t count, Rngs& rngs, const BatchNormOptions& options = {});
  /// With the running moments if `running` (default: use_running_average) says so; else trains.
  Array operator()(const Array& x, std::optional<bool> running = {});
  /// Throws ValueError unless use_running_average is set: a constant module cannot move its moments.
  Array operator()(const Array& x) const;
  static void fields(auto& m, auto f) {
    f("mean", m.mean), f("var", m.var), f("scale", m.scale), f("bias", m.bias), f("features", m.features);
    f("axis", m.axis), f("momentum", m.momentum), f("epsilon", m.epsilon);
    f("use_running_average", m.use_running_average), f("dtype", m.dtype);
  }
  static constexpr bool is_state(std::string_view field) { return field == "mean" || field == "var"; }

 private:
  struct Prepared {
    Array x, gamma, beta;
  };
  Prepared prepare(const Array& x) const;
  Array evaluate(const Array& x) const;
};

}  // namespace eadem::nn
