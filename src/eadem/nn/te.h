#pragma once

#include <string>
#include <vector>

#include "eadem/nn/dropout.h"
#include "eadem/nn/linear.h"
#include "eadem/nn/te_recipe.h"

// Modules with the names, parameters and defaults of Transformer Engine's Flax modules. As there, `dtype` is that in
// which every parameter is stored, none excepted, and a module computes in its input's dtype. With a recipe `fp8` its
// dense products are of 8 bits (te_float8.h), norms, activations and attention are not, and `fp8_state` is what the
// recipe keeps.

namespace eadem::nn::te {

enum class Norm : std::uint8_t { layernorm, rmsnorm };

struct DenseGeneralOptions {
  bool use_bias = false;
  DType dtype = DType::f32;
  Initializer kernel_init = variance_scaling(1, Fan::in, Distribution::truncated_normal), bias_init = zeros_init();
  Shape axes = {-1};
  std::optional<Float8Recipe> fp8 = {};
};

/// x kernel (+ bias) over `axes`; kernel [prod in, features..].
struct DenseGeneral {
  Array kernel;
  std::optional<Array> bias;
  Shape axes;
  std::optional<Float8Product> fp8_state;

  DenseGeneral(const Shape& in, const Shape& features, Rngs& rngs, const DenseGeneralOptions& options = {});
  Array operator()(const Array& x) const;
  static void fields(auto& m, auto f) {
    f("kernel", m.kernel), f("bias", m.bias), f("axes", m.axes), f("fp8_state", m.fp8_state);
  }
  static constexpr bool is_state(std::string_view field) { return field == "fp8_state"; }
};

struct NormOptions {
  Norm type = Norm::layernorm;
  double epsilon = 1e-6;
  bool zero_centered_gamma = false;  ///< layernorm only: the factor is 1 + scale, and scale starts at zero
  DType dtype = DType::f32;
};

/// LayerNorm or RMSNorm along the last axis.
struct LayerNorm {
  Array scale;
  std::optional<Array> ln_bias;  ///< layernorm only
  NormOptions options;

  /// Throws ValueError for a zero-centered rmsnorm.
  LayerNorm(std::int64_t features, Rngs& rngs, const NormOptions& o = {});
  Array operator()(const Array& x) const;
  static void fields(auto& m, auto f) {
    f("scale", m.scale), f("ln_bias", m.ln_bias), f("type", m.options.type), f("epsilon", m.options.epsilon);
    f("zero_centered_gamma", m.options.zero_centered_gamma);
  }
};

struct LayerNormDenseGeneralOptions {
  bool enable_layernorm = true;
  NormOptions norm = {};  ///< its dtype is not used: `dense.dtype` is that of all parameters
  DenseGeneralOptions dense = {};
};

/// A norm and a DenseGeneral over the last axis, their parameters those of one module: scale, ln_bias, kernel, bias.
struct LayerNormDenseGeneral {
  std::optional<LayerNorm> norm;
  DenseGeneral dense;

  LayerNormDenseGeneral(std::int64_t in, const Shape& features, Rngs& rngs,
                        const LayerNormDenseGeneralOptions& options = {});
  Array operator()(const Array& x) const;
  /// The result and the norm's output.
  std::pair<Array, Array> with_norm(const Array& x) const;
  static void fields(auto& m, auto f) {
    if (m.norm) std::remove_reference_t<decltype(*m.norm)>::fields(*m.norm, f);
    std::remove_reference_t<decltype(m.dense)>::fields(m.dense, f);
  }
  static constexpr bool is_state(std::string_view field) { return DenseGeneral::is_state(field); }
};

/// "relu", "gelu" (tanh form, as jax.nn.gelu), "silu" (also "swish"), "linear", "sigmoid", "tanh".
enum class Activation : std::uint8_t { relu, gelu, silu, linear, sigmoid, tanh };

struct LayerNormMLPOptions {
  std::int64_t intermediate = 2048;
  bool enable_layernorm = true;
  NormOptions norm = {};
  std::vector<Activation> activations = {Activation::relu};  ///< each its own product; their results are multiplied
  bool use_bias = false;
  double dropout = 0.1;  ///< of the intermediate values, in training
  DType dtype = DType::f32;
  Initializer kernel_init = variance_scaling(1, Fan::in, Distribution::truncated_normal), bias_init = zeros_init();
  std::optional<Float8Recipe> fp8 = {};
};

/// A norm and two dense layers with activations between: wi_kernel [in, activations, intermediate], wo_kernel
/// [intermediate, in].
struct LayerNormMLP {
  std::optional<LayerNorm> norm;
  Array wi_kernel;
  std::optional<Array> wi_bias;
  Array wo_kernel;
  std::optional<Array> wo_bias;
  std::vector<Activation> activations;
  double dropout;
  std::optional<Float8Product> wi_fp8_state, wo_fp8_state;

  LayerNormMLP(std::int64_t in, Rngs& rngs, const LayerNormMLPOptions& options = {});
  Array operator()(const Array& x) const { return (*this)(x, nullptr); }
  /// In training the dropout draws from `rngs`.
  Array operator()(const Array& x, Rngs* rngs) const;
  static void fields(auto& m, auto f) {
    if (m.norm) std::remove_reference_t<decltype(*m.norm)>::fields(*m.norm, f);
    f("wi_kernel", m.wi_kernel), f("wi_bias", m.wi_bias), f("wo_kernel", m.wo_kernel), f("wo_bias", m.wo_bias);
    f("activations", m.activations), f("dropout", m.dropout);
    f("wi_fp8_state", m.wi_fp8_state), f("wo_fp8_state", m.wo_fp8_state);
  }
  static constexpr bool is_state(std::string_view field) { return field.ends_with("fp8_state"); }
};

struct MultiHeadAttentionOptions {
  std::int64_t gqa_groups = 0;  ///< key and value heads; 0: as many as heads
  bool input_layernorm = true;
  NormOptions norm = {};
  bool causal = true;
  bool use_bias = false;
  bool scale_attn_logits = false;  ///< divides scores by sqrt(head_dim)
  bool scaled_query_init = true;   ///< divides the query kernel by it when it is drawn
  bool cross = false;              ///< keys and values come from another input: query and kv are separate
  DType dtype = DType::f32;
  Initializer kernel_init = variance_scaling(1, Fan::in, Distribution::normal), bias_init = zeros_init();
  std::optional<Float8Recipe> fp8 = {};  ///< of the projections
};

/// Attention with fused parameters: self-attention without groups has qkv [in, 3, heads * head_dim]; otherwise query
/// and kv [in, 2, groups * head_dim]. Then out [heads * head_dim, in].
struct MultiHeadAttention {
  std::optional<LayerNormDenseGeneral> qkv, query;
  std::optional<DenseGeneral> kv;
  DenseGeneral out;
  std::int64_t heads, groups, head_dim;
  bool causal, scale, cross;

  MultiHeadAttention(std::int64_t in, std::int64_t head_size, std::int64_t head_count, Rngs& rngs,
                     const MultiHeadAttentionOptions& options = {});
  /// Self-attention; mask: bool, True = visible; bias: added to the scores; both broadcast to [batch, heads, Lq, Lk].
  Array operator()(const Array& x, const std::optional<Array>& mask = {}, const std::optional<Array>& bias = {}) const;
  /// Cross-attention.
  Array attend(const Array& x, const Array& context, const std::optional<Array>& mask = {},
               const std::optional<Array>& bias = {}) const;
  static void fields(auto& m, auto f) {
    f("qkv", m.qkv), f("query", m.query), f("kv", m.kv), f("out", m.out), f("heads", m.heads);
    f("groups", m.groups), f("head_dim", m.head_dim), f("causal", m.causal), f("scale", m.scale), f("cross", m.cross);
  }
};

/// T5's biases of attention by bucketed distance: [1, heads, Lq, Lk]. Source: Raffel et al., 2020.
struct RelativePositionBiases {
  Array rel_embedding;  ///< [heads, buckets]
  std::int64_t buckets, max_distance;

  RelativePositionBiases(std::int64_t heads, Rngs& rngs, DType dtype = DType::f32, std::int64_t bucket_count = 32,
                         std::int64_t most_distant = 128);
  Array operator()(std::int64_t queries, std::int64_t keys, bool bidirectional = true) const;
  static void fields(auto& m, auto f) {
    f("rel_embedding", m.rel_embedding), f("buckets", m.buckets), f("max_distance", m.max_distance);
  }
};

struct TransformerLayerOptions {
  std::int64_t mlp_hidden = 2048, heads = 8, gqa_groups = 0;
  NormOptions norm = {};
  std::vector<Activation> mlp_activations = {Activation::relu};
  bool use_bias = false, causal = true, decoder = false, relative_embedding = true;
  double hidden_dropout = 0.1, intermediate_dropout = 0.1;  ///< in training
  bool scale_attn_logits = false, scaled_query_init = true;
  DType dtype = DType::f32;
  std::optional<Float8Recipe> fp8 = {};
};

/// An encoder layer, or a decoder layer with cross-attention; residual connections from before the norms.
struct TransformerLayer {
  std::optional<RelativePositionBiases> relpos_bias;
  MultiHeadAttention attention;
  std::optional<MultiHeadAttention> encoder_decoder_attention;
  LayerNormMLP mlp;
  double hidden_dropout;

  TransformerLayer(std::int64_t hidden, Rngs& rngs, const TransformerLayerOptions& options = {});
  /// `encoded`: the encoder's output, for a decoder. In training, `rngs` feeds the dropouts.
  Array operator()(const Array& x, const std::optional<Array>& encoded = {}, Rngs* rngs = nullptr) const;
  static void fields(auto& m, auto f) {
    f("relpos_bias", m.relpos_bias), f("attention", m.attention);
    f("encoder_decoder_attention", m.encoder_decoder_attention), f("mlp", m.mlp);
    f("hidden_dropout", m.hidden_dropout);
  }
};

}  // namespace eadem::nn::te
