#pragma once

// The model of poet.h as a GGUF file of the architecture llama, which `eadem generate` reads.

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "eadem/io/gguf.h"
#include "eadem/text/tokenizer_bytes.h"
#include "eadem/text/utf8.h"
#include "examples/poet.h"

namespace poet {

/// The rows of a dense matrix f32 [rows, columns] as Q8_0: of each 32 values, the largest magnitude over 127 rounded to
/// f16, and the values over that, rounded to whole numbers.
inline std::vector<std::byte> as_q8_0(const Array& matrix) {
  constexpr std::size_t kBlock = 32;
  const auto values = matrix.data<float>();
  std::vector<std::byte> bytes;
  for (std::size_t at = 0; at < values.size(); at += kBlock) {
    double largest = 0;
    for (std::size_t i = 0; i < kBlock; ++i) largest = std::max(largest, std::abs(double{values[at + i]}));
    const float16 scale = to_float16(largest / 127);
    const double unit = double{to_float(scale)};
    const auto* first = reinterpret_cast<const std::byte*>(&scale);
    bytes.insert(bytes.end(), first, first + sizeof(scale));
    for (std::size_t i = 0; i < kBlock; ++i) {
      const double code = unit == 0 ? 0 : std::clamp(std::nearbyint(double{values[at + i]} / unit), -127.0, 127.0);
      bytes.push_back(static_cast<std::byte>(static_cast<std::int8_t>(code)));
    }
  }
  return bytes;
}

/// Queries' and keys' rows in the order of llama files: the two values that rope turns together side by side.
inline Array pair_by_pair(const Array& matrix, std::int64_t heads) {
  const std::int64_t rows = matrix.shape()[0], columns = matrix.shape()[1], half = rows / heads / 2;
  return reshape(swap_axes(reshape(matrix, {heads, 2, half, columns}), 1, 2), {rows, columns});
}

/// `matrices`: q8_0, or f32, which keeps every bit.
inline void write_gguf(const std::filesystem::path& path, const Config& c, const Model& model,
                       io::GgmlType matrices = io::GgmlType::q8_0) {
  io::GgufWriter file;
  const auto count = [&](const char* key, std::int64_t value) { file.set(key, static_cast<std::uint32_t>(value)); };
  file.set("general.architecture", std::string("llama"));
  file.set("general.name", std::string("Eadem's poet, trained on Shakespeare's poems by examples/train_poet.cpp"));
  file.set("general.license", std::string("apache-2.0"));
  count("llama.context_length", c.context);
  count("llama.embedding_length", c.hidden);
  count("llama.block_count", c.layers);
  count("llama.feed_forward_length", c.intermediate);
  count("llama.attention.head_count", c.heads);
  count("llama.attention.head_count_kv", c.kv_heads);
  file.set("llama.attention.layer_norm_rms_epsilon", static_cast<float>(kEpsilon));
  file.set("llama.rope.freq_base", static_cast<float>(kTheta));

  // Token i is the byte i; nothing is merged.
  std::vector<std::string> tokens;
  for (int byte = 0; byte < kBytes; ++byte)
    text::append_utf8(tokens.emplace_back(), text::byte_level_character(static_cast<unsigned char>(byte)));
  file.set("tokenizer.ggml.model", std::string("gpt2"));
  file.set("tokenizer.ggml.pre", std::string("gpt-2"));
  file.set("tokenizer.ggml.tokens", io::GgufArray{std::move(tokens)});
  file.set("tokenizer.ggml.token_type", io::GgufArray{std::vector<std::int32_t>(kBytes, 1)});
  file.set("tokenizer.ggml.merges", io::GgufArray{std::vector<std::string>{}});

  std::vector<std::vector<std::byte>> bytes;
  bytes.reserve(3 + 9 * model.blocks.size());  // borrowed from by the file
  const auto add = [&](const std::string& name, io::GgmlType type, const Array& array) {
    const Array dense = contiguous(convert(array, DType::f32));
    const auto values = std::as_bytes(dense.data<float>());
    bytes.push_back(type == io::GgmlType::q8_0 ? as_q8_0(dense) : std::vector(values.begin(), values.end()));
    file.add(name + ".weight", type, array.shape(), bytes.back());
  };
  const auto matrix = [&](const std::string& name, const Array& m) { add(name, matrices, m); };
  const auto gain = [&](const std::string& name, const nn::RMSNorm& norm) {
    add(name, io::GgmlType::f32, *norm.scale);
  };
  matrix("token_embd", model.embedding.embedding);
  for (std::size_t i = 0; i < model.blocks.size(); ++i) {
    const Block& b = model.blocks[i];
    const std::string name = "blk." + std::to_string(i) + ".";
    gain(name + "attn_norm", b.attention_norm);
    matrix(name + "attn_q", pair_by_pair(transpose(b.attention.query.kernel), c.heads));
    matrix(name + "attn_k", pair_by_pair(transpose(b.attention.key.kernel), c.kv_heads));
    matrix(name + "attn_v", transpose(b.attention.value.kernel));
    matrix(name + "attn_output", transpose(b.attention.out.kernel));
    gain(name + "ffn_norm", b.mlp_norm);
    matrix(name + "ffn_gate", transpose(b.mlp.gate.kernel));
    matrix(name + "ffn_up", transpose(b.mlp.up.kernel));
    matrix(name + "ffn_down", transpose(b.mlp.down.kernel));
  }
  gain("output_norm", model.norm);
  file.write(path);
}

}  // namespace poet
