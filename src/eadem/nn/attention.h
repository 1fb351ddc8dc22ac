#pragma once

#include "eadem/nn/linear.h"
#include "eadem/nn/normalization.h"

namespace eadem::nn {

struct MultiHeadAttentionOptions {
  std::int64_t qkv_features = 0;    ///< of all heads together; 0: the input's
  std::int64_t out_features = 0;    ///< 0: the input's
  std::int64_t in_kv_features = 0;  ///< of the keys' and values' input; 0: the input's
  std::int64_t kv_heads = 0;        ///< fewer key heads than heads: grouped queries; 0: as many
  bool use_bias = true;
  bool normalize_qk = false;  ///< LayerNorm over each head's queries and keys. Source: Dehghani et al., ViT-22B, 2023
  std::optional<DType> dtype = {};
  DType param_dtype = DType::f32;
  Initializer kernel_init = lecun_normal(), bias_init = zeros_init();
  double dropout_rate = 0;        ///< of the attention weights, in training
  bool broadcast_dropout = true;  ///< one draw for all batches and heads
};

struct AttendOptions {
  bool causal = false;               ///< lower right: the last query sees every key
  std::optional<Array> mask = {};    ///< bool, True = visible; broadcasts to [batch.., heads, queries, keys]
  std::optional<Array> bias = {};    ///< added to the scores; broadcasts to the same
  std::optional<double> scale = {};  ///< of the scores; default 1 / sqrt D
  /// Training: with a key, weights are set to zero with probability dropout_rate and the others divided by 1 - that (a
  /// MultiHeadAttention fills in its own rate). The weights are then computed, each product and the softmax rounded.
  std::optional<Array> dropout_key = {};
  double dropout_rate = 0;
  bool broadcast_dropout = true;
};

/// Multi-head attention, as flax.nnx.MultiHeadAttention: inputs [batch.., length, features]. A query that sees no key
/// gives +0 before the output's projection (Flax: the mean of the values).
struct MultiHeadAttention {
  LinearGeneral query, key, value;
  std::optional<LayerNorm> query_norm, key_norm;
  LinearGeneral out;
  std::optional<DType> dtype;
  double dropout_rate;
  bool broadcast_dropout;
  /// Of decode: [batch.., max length, kv heads, D], and how many tokens are in it, i32 [].
  std::optional<Array> cached_key, cached_value, cache_index;

  MultiHeadAttention(std::int64_t features, std::int64_t heads, Rngs& rngs,
                     const MultiHeadAttentionOptions& options = {});
  /// Self-attention.
  Array operator()(const Array& x, const AttendOptions& options = {}) const { return (*this)(x, x, x, options); }
  /// The same in training: weights are dropped by the stream "dropout"'s next key, which a rate of 0 does not draw.
  Array operator()(const Array& x, Rngs& rngs, AttendOptions options = {}) const {
    if (dropout_rate > 0) options.dropout_key = rngs.dropout();
    return (*this)(x, x, x, options);
  }
  /// Queries from one input, keys and values from another.
  Array operator()(const Array& x, const Array& context, const AttendOptions& options = {}) const {
    return (*this)(x, context, context, options);
  }
  Array operator()(const Array& queries, const Array& keys, const Array& values, const AttendOptions& options) const;
  /// An empty cache for inputs of this shape [batch.., max length, features]; to be called before decode.
  void init_cache(const Shape& input_shape, DType cache_dtype = DType::f32);
  /// Self-attention of one token x [batch.., 1, features] after those decoded before, which it joins in the cache: to
  /// the bit what the causal call gives at its place, if the cache's dtype holds the keys and values. Throws ValueError
  /// without a cache, or where it is full (inside a transform the last place is overwritten instead, as Flax does).
  Array decode(const Array& x);
  static void fields(auto& m, auto f) {
    f("query", m.query), f("key", m.key), f("value", m.value), f("query_ln", m.query_norm);
    f("key_ln", m.key_norm), f("out", m.out), f("dtype", m.dtype), f("cached_key", m.cached_key);
    f("cached_value", m.cached_value), f("cache_index", m.cache_index), f("dropout_rate", m.dropout_rate);
    f("broadcast_dropout", m.broadcast_dropout);
  }
  static constexpr bool is_state(std::string_view field) { return field.starts_with("cache"); }
};

/// softmax(q k^T / sqrt D) v for q [batch.., Lq, heads, D] and k, v [batch.., Lk, kv heads, D]: [batch.., Lq, heads,
/// D].
Array dot_product_attention(const Array& q, const Array& k, const Array& v, const AttendOptions& options = {});

}  // namespace eadem::nn
