#include "tests/support/tiny_llama.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <cmath>
#include <fstream>
#include <map>
#include <random>
#include <vector>

#include "eadem/io/gguf.h"
#include "eadem/io/json.h"
#include "eadem/io/safetensors.h"

namespace eadem::testing {
namespace {

constexpr std::int64_t kVocabulary = 48, kHidden = 32, kLayers = 2, kHeads = 4, kKvHeads = 2, kHead = 8, kMlp = 64;

// A matrix or vector whose values are exact in bf16, so that F32, BF16 and both file formats hold the same.
struct Tensor {
  Shape shape;
  std::vector<bfloat16> values;
};

class Maker {
 public:
  Tensor draw(const Shape& shape, double scale, double centre = 0) {
    Tensor tensor{shape, {}};
    for (std::int64_t i = 0; i < shape.elements(); ++i)
      tensor.values.push_back(to_bfloat16(centre + scale * (static_cast<double>(random_() % 2001) / 1000.0 - 1)));
    return tensor;
  }

 private:
  std::mt19937_64 random_{7};
};

// The row order of llama GGUF files: pairs of half-split rope side by side.
Tensor interleaved(const Tensor& x) {
  Tensor result{x.shape, {}};
  const std::int64_t columns = x.shape.rank() == 2 ? x.shape[1] : 1;
  for (std::int64_t row = 0; row < x.shape[0]; ++row) {
    const std::int64_t head = row / kHead, i = row % kHead;
    const std::int64_t from = head * kHead + i / 2 + (i % 2) * (kHead / 2);
    for (std::int64_t c = 0; c < columns; ++c)
      result.values.push_back(x.values[static_cast<std::size_t>(from * columns + c)]);
  }
  return result;
}

std::vector<float> as_f32(const Tensor& x) {
  std::vector<float> values;
  for (const bfloat16 v : x.values) values.push_back(to_float(v));
  return values;
}

}  // namespace

TinyFiles write_tiny_llama(const std::filesystem::path& where, const TinyOptions& options) {
  Maker maker;
  const bool qwen = options.architecture == "qwen2";
  std::map<std::string, Tensor> hf;
  std::map<std::string, Tensor> gguf;
  const auto add = [&](const std::string& hf_name, const std::string& gguf_name, const Tensor& x,
                       bool permute = false) {
    hf[hf_name] = x;
    gguf[gguf_name] = permute && !qwen ? interleaved(x) : x;
  };
  add("model.embed_tokens.weight", "token_embd.weight", maker.draw({kVocabulary, kHidden}, 1));
  add("model.norm.weight", "output_norm.weight", maker.draw({kHidden}, 0.25, 1));
  if (!options.tied) add("lm_head.weight", "output.weight", maker.draw({kVocabulary, kHidden}, 0.5));
  for (std::int64_t i = 0; i < kLayers; ++i) {
    const std::string h = fmt::format("model.layers.{}.", i), g = fmt::format("blk.{}.", i);
    add(h + "input_layernorm.weight", g + "attn_norm.weight", maker.draw({kHidden}, 0.25, 1));
    add(h + "post_attention_layernorm.weight", g + "ffn_norm.weight", maker.draw({kHidden}, 0.25, 1));
    const auto projection = [&](const std::string& hn, const std::string& gn, std::int64_t out, std::int64_t in,
                                bool permute, bool bias) {
      add(h + hn + ".weight", g + gn + ".weight", maker.draw({out, in}, 0.3), permute);
      if (bias) add(h + hn + ".bias", g + gn + ".bias", maker.draw({out}, 0.3), permute);
    };
    projection("self_attn.q_proj", "attn_q", kHeads * kHead, kHidden, true, qwen);
    projection("self_attn.k_proj", "attn_k", kKvHeads * kHead, kHidden, true, qwen);
    projection("self_attn.v_proj", "attn_v", kKvHeads * kHead, kHidden, false, qwen);
    projection("self_attn.o_proj", "attn_output", kHidden, kHeads * kHead, false, false);
    projection("mlp.gate_proj", "ffn_gate", kMlp, kHidden, false, false);
    projection("mlp.up_proj", "ffn_up", kMlp, kHidden, false, false);
    projection("mlp.down_proj", "ffn_down", kHidden, kMlp, false, false);
  }

  TinyFiles files{where / "model.gguf", where / "folder"};
  std::filesystem::create_directories(files.folder);
  io::SafetensorsWriter safetensors;
  for (const auto& [name, x] : hf) safetensors.add(name, DType::bf16, x.shape, std::as_bytes(std::span(x.values)));
  safetensors.write(files.folder / "model.safetensors");
  io::Json config{{"model_type", options.architecture},
                  {"vocab_size", kVocabulary},
                  {"hidden_size", kHidden},
                  {"num_hidden_layers", kLayers},
                  {"num_attention_heads", kHeads},
                  {"num_key_value_heads", kKvHeads},
                  {"intermediate_size", kMlp},
                  {"max_position_embeddings", 512},
                  {"rms_norm_eps", 1e-6},
                  {"rope_theta", 1000000.0},
                  {"tie_word_embeddings", options.tied}};
  std::vector<float> factors;
  if (options.llama3_rope) {
    config["rope_scaling"] = {{"rope_type", "llama3"},
                              {"factor", 8.0},
                              {"low_freq_factor", 1.0},
                              {"high_freq_factor", 4.0},
                              {"original_max_position_embeddings", 8192}};
    factors = {1.0F, 1.0F, 1.0F, 1.0F};  // set below from what the wavelengths ask
    for (int i = 0; i < 4; ++i) {
      const double wavelength = 6.283185307179586 * std::pow(1e6, i / 4.0);
      double factor = 1;
      if (wavelength > 8192)
        factor = 8;
      else if (wavelength >= 2048) {
        const double smooth = (8192 / wavelength - 1) / 3;
        factor = 1 / ((1 - smooth) / 8 + smooth);
      }
      factors[static_cast<std::size_t>(i)] = static_cast<float>(factor);
    }
  }
  std::ofstream(files.folder / "config.json") << config.dump(1);

  io::GgufWriter writer;
  const auto key = [&](const char* name) { return options.architecture + "." + name; };
  writer.set("general.architecture", options.architecture);
  writer.set(key("embedding_length"), std::uint32_t{kHidden});
  writer.set(key("block_count"), std::uint32_t{kLayers});
  writer.set(key("attention.head_count"), std::uint32_t{kHeads});
  writer.set(key("attention.head_count_kv"), std::uint32_t{kKvHeads});
  writer.set(key("feed_forward_length"), std::uint32_t{kMlp});
  writer.set(key("context_length"), std::uint32_t{512});
  writer.set(key("attention.layer_norm_rms_epsilon"), 1e-6F);
  writer.set(key("rope.freq_base"), 1000000.0F);
  std::map<std::string, std::vector<float>> wide;
  for (const auto& [name, x] : gguf) wide[name] = as_f32(x);
  for (const auto& [name, x] : gguf) writer.add(name, io::GgmlType::f32, x.shape, std::as_bytes(std::span(wide[name])));
  if (options.llama3_rope)
    writer.add("rope_freqs.weight", io::GgmlType::f32, {kHead / 2}, std::as_bytes(std::span(factors)));
  writer.write(files.gguf);
  return files;
}

}  // namespace eadem::testing
