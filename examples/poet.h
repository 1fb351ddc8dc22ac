#pragma once

// The model of train_poet.cpp: a Llama that reads bytes, written with modules.

#include "eadem/nn/linear.h"
#include "eadem/nn/normalization.h"
#include "eadem/ops/ops.h"

namespace poet {

using namespace eadem;

struct Config {
  std::int64_t hidden, layers, heads, kv_heads, intermediate;
  std::int64_t context;  ///< bytes of a training sequence, and positions of the file's model
};
inline constexpr std::int64_t kBytes = 256;
inline constexpr double kTheta = 10000, kEpsilon = 1e-5;

inline nn::LinearOptions without_bias(double variance = 1) {
  return {.use_bias = false,
          .kernel_init = nn::variance_scaling(variance, nn::Fan::in, nn::Distribution::truncated_normal)};
}

/// Causal attention of rotated queries and keys, of which there are fewer heads.
struct Attention {
  nn::Linear query, key, value, out;
  std::int64_t heads, kv_heads;

  Attention(const Config& s, Rngs& rngs)
      : query(s.hidden, s.hidden, rngs, without_bias()),
        key(s.hidden, s.hidden / s.heads * s.kv_heads, rngs, without_bias()),
        value(s.hidden, s.hidden / s.heads * s.kv_heads, rngs, without_bias()),
        out(s.hidden, s.hidden, rngs, without_bias(0.5 / static_cast<double>(s.layers))),
        heads(s.heads),
        kv_heads(s.kv_heads) {}

  Array operator()(const Array& x) const {
    const std::int64_t batch = x.shape()[0], length = x.shape()[1], head = x.shape()[2] / heads;
    const Array frequencies = constant(rope_frequencies(kTheta, head)), positions = arange(length);
    const auto split = [&](const Array& y, std::int64_t n) {  // [batch, n, length, head]
      return swap_axes(reshape(y, {batch, length, n, head}), 1, 2);
    };
    const auto rotated = [&](const Array& y) { return rope(y, positions, frequencies); };
    const Array y = attention(rotated(split(query(x), heads)), rotated(split(key(x), kv_heads)),
                              split(value(x), kv_heads), {.causal = Causal::lower_right});
    return out(reshape(swap_axes(y, 1, 2), {batch, length, heads * head}));
  }
  static void fields(auto& m, auto f) {
    f("query", m.query), f("key", m.key), f("value", m.value), f("out", m.out);
    f("heads", m.heads), f("kv_heads", m.kv_heads);
  }
};

/// silu(gate x) times up x, and down.
struct GatedMlp {
  nn::Linear gate, up, down;

  GatedMlp(const Config& s, Rngs& rngs)
      : gate(s.hidden, s.intermediate, rngs, without_bias()),
        up(s.hidden, s.intermediate, rngs, without_bias()),
        down(s.intermediate, s.hidden, rngs, without_bias(0.5 / static_cast<double>(s.layers))) {}
  Array operator()(const Array& x) const { return down(silu(gate(x)) * up(x)); }
  static void fields(auto& m, auto f) { f("gate", m.gate), f("up", m.up), f("down", m.down); }
};

struct Block {
  nn::RMSNorm attention_norm, mlp_norm;
  Attention attention;
  GatedMlp mlp;

  Block(const Config& s, Rngs& rngs)
      : attention_norm(s.hidden, rngs, {.epsilon = kEpsilon}),
        mlp_norm(s.hidden, rngs, {.epsilon = kEpsilon}),
        attention(s, rngs),
        mlp(s, rngs) {}
  Array operator()(const Array& x) const {
    const Array y = x + attention(attention_norm(x));
    return y + mlp(mlp_norm(y));
  }
  static void fields(auto& m, auto f) {
    f("attention_norm", m.attention_norm), f("mlp_norm", m.mlp_norm), f("attention", m.attention), f("mlp", m.mlp);
  }
};

/// From bytes [batch, length] to the logits of the next one, [batch, length, 256].
struct Model {
  nn::Embed embedding;
  std::vector<Block> blocks;
  nn::RMSNorm norm;

  Model(const Config& s, Rngs& rngs)
      : embedding(kBytes, s.hidden, rngs), blocks(blocks_of(s, rngs)), norm(s.hidden, rngs, {.epsilon = kEpsilon}) {}
  Array operator()(const Array& bytes) const {
    Array x = embedding(bytes);
    for (const Block& block : blocks) x = block(x);
    return embedding.attend(norm(x));
  }
  static void fields(auto& m, auto f) { f("embedding", m.embedding), f("blocks", m.blocks), f("norm", m.norm); }

 private:
  static std::vector<Block> blocks_of(const Config& s, Rngs& rngs) {
    std::vector<Block> blocks;
    for (std::int64_t i = 0; i < s.layers; ++i) blocks.emplace_back(s, rngs);
    return blocks;
  }
};

}  // namespace poet
