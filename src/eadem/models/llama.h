#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "eadem/array/array.h"
#include "eadem/models/config.h"
#include "eadem/nn/kv_cache.h"
#include "eadem/nn/weight.h"

namespace eadem::models {

/// Where the rows of a step's token matrix stand: row b holds count[b] tokens of sequence b from position[b] on. A
/// negative position is left padding (tokens before position 0), a count below the width right padding.
struct Placement {
  std::vector<std::int64_t> position, count;
};

/// A decoder-only transformer of the Llama family (Llama, SmolLM2, Qwen2): RMSNorm, rotary grouped-query attention,
/// SwiGLU. Immutable; a row's bits depend on its own tokens only, however they are batched, padded or chunked.
class Llama {
 public:
  /// One product, y = x weight^T + bias: a projection, or several that read one x, their rows one below the other.
  /// Joining them changes no bit (numerics.md section 9) and spares packing x, and forks.
  struct Projection {
    nn::Weight weight;
    std::optional<Array> bias;
    std::vector<std::int64_t> outputs;  ///< rows of each
  };
  struct Layer {
    Array attention_norm, mlp_norm;
    std::vector<Projection> query_key_value;  ///< in one product where their formats allow it, or in several
    Projection output;
    std::vector<Projection> gate_up;
    Projection down;
  };
  struct Weights {
    nn::Weight embedding;
    std::vector<Layer> layers;
    Array norm;
    std::optional<nn::Weight> output;  ///< absent: the embedding, transposed
  };

  /// `dtype` (bf16, f32 or f64) is that of activations, residual and cache. ShapeError when weights and config differ.
  Llama(LlamaConfig config, DType dtype, Weights weights);

  const LlamaConfig& config() const { return config_; }
  DType dtype() const { return dtype_; }
  /// Bytes of weights that one decoding step reads: all matrices, the embedding only where it is the output too.
  std::int64_t weight_bytes() const;

  /// An empty cache for `batch` sequences.
  nn::KvCache make_cache(std::int64_t batch) const;

  /// Runs tokens i64 [B, L] and writes their keys and values to the cache; hidden states [B, L, hidden] after the last
  /// norm. Throws ValueError for a token outside the vocabulary or a position outside the context.
  Array hidden(const Array& tokens, const Placement& placement, nn::KvCache& cache) const;

  /// Logits [..., vocabulary] of hidden states: f32 (f64 under f64).
  Array logits(const Array& hidden) const;

 private:
  Array attend(const Layer& layer, std::int64_t index, const Array& x, const Array& positions, const Array& start,
               const Array& count, nn::KvCache& cache) const;

  LlamaConfig config_;
  DType dtype_;
  Weights weights_;
  Array rope_frequencies_;
};

}  // namespace eadem::models
