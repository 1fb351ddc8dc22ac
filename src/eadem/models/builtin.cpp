#include <cmath>

#include "eadem/base/float_environment.h"
#include "eadem/models/load.h"
#include "eadem/numerics/random.h"
#include "eadem/numerics/rope.h"
#include "eadem/ops/ops.h"

namespace eadem::models {
namespace {

// Draws the model's matrices one after the other, each from its own key, so that none depends on another's shape.
class Drawer {
 public:
  explicit Drawer(DType dtype) : dtype_(dtype) {}

  // Normal with the deviation 1 / sqrt(columns), rounded to bf16 and then held in the compute dtype (exactly).
  Array matrix(std::int64_t rows, std::int64_t columns) {
    const numerics::Key key = numerics::fold_in(numerics::random_key(kSeed), next_++);
    const double deviation = 1 / std::sqrt(static_cast<double>(columns));
    std::vector<bfloat16> values(static_cast<std::size_t>(rows * columns));
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = to_bfloat16(static_cast<double>(numerics::normal<float>(key, i)) * deviation);
    return in_dtype(Array::from(values, {rows, columns}));
  }
  Array ones(std::int64_t count) const {
    const DType dtype = dtype_ == DType::f64 ? DType::f64 : DType::f32;
    return contiguous(broadcast_to(Array::scalar(1, dtype), {count}));
  }

 private:
  static constexpr std::uint64_t kSeed = 2026;
  Array in_dtype(const Array& x) const { return x.dtype() == dtype_ ? x : convert(x, dtype_); }

  DType dtype_;
  std::uint32_t next_ = 0;
};

}  // namespace

Llama builtin_tiny(DType dtype) {
  const FloatEnvironment environment;
  LlamaConfig c{.architecture = "llama",
                .vocabulary = 320,
                .hidden = 64,
                .layers = 3,
                .heads = 4,
                .kv_heads = 2,
                .head_size = 16,
                .intermediate = 160,
                .context = 2048,
                .rms_epsilon = 1e-5,
                .rope_frequencies = numerics::rope_frequencies(10000, 16)};
  Drawer draw(dtype);
  const auto projection = [&](std::vector<std::int64_t> rows, std::int64_t columns) {
    std::vector<Array> parts;
    for (const std::int64_t count : rows) parts.push_back(draw.matrix(count, columns));
    return Llama::Projection{nn::Weight::dense(concatenate(parts, 0)), std::nullopt, std::move(rows)};
  };
  const std::int64_t width = c.heads * c.head_size, kv_width = c.kv_heads * c.head_size;
  Llama::Weights weights{nn::Weight::dense(draw.matrix(c.vocabulary, c.hidden)), {}, draw.ones(c.hidden), std::nullopt};
  for (std::int64_t i = 0; i < c.layers; ++i) {
    // Braced lists are evaluated in order: the draws are, too.
    weights.layers.push_back({.attention_norm = draw.ones(c.hidden),
                              .mlp_norm = draw.ones(c.hidden),
                              .query_key_value = {projection({width, kv_width, kv_width}, c.hidden)},
                              .output = projection({c.hidden}, width),
                              .gate_up = {projection({c.intermediate, c.intermediate}, c.hidden)},
                              .down = projection({c.hidden}, c.intermediate)});
  }
  return Llama(std::move(c), dtype, std::move(weights));
}

}  // namespace eadem::models
