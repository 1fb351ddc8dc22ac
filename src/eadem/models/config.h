#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "eadem/base/dtype.h"
#include "eadem/io/gguf.h"
#include "eadem/io/json.h"

namespace eadem::models {

/// The shape of a decoder-only transformer of the Llama family: Llama, SmolLM2, Qwen2.
struct LlamaConfig {
  std::string architecture;  ///< "llama" or "qwen2"
  std::int64_t vocabulary = 0, hidden = 0, layers = 0, heads = 0, kv_heads = 0, head_size = 0, intermediate = 0;
  std::int64_t context = 0;  ///< positions at most
  double rms_epsilon = 1e-5;
  /// Radians a position turns pair i of a head: theta^(-2i/D), divided by the model's factors if it has them.
  std::vector<double> rope_frequencies;

  friend bool operator==(const LlamaConfig&, const LlamaConfig&) = default;
};

/// Reads a GGUF file's metadata (and its tensor rope_freqs.weight). FileError naming file and key for what is missing
/// or impossible; UnsupportedError for another architecture.
LlamaConfig config_from_gguf(const io::GgufFile&);

/// Reads a Hugging Face config.json. FileError and UnsupportedError as above.
LlamaConfig config_from_json(const io::JsonView&);

}  // namespace eadem::models
