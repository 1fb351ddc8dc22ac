#include "eadem/models/llama.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <span>

#include "eadem/ops/ops.h"

namespace eadem::models {
namespace {

void require_shape(std::string_view name, const Shape& got, const Shape& expected) {
  if (got != expected) fail<ShapeError>("[llama] {} must be {}, got {}", name, expected, got);
}

void require_projections(const std::string& name, std::span<const Llama::Projection> projections, std::int64_t in,
                         std::initializer_list<std::int64_t> outputs) {
  std::vector<std::int64_t> got;
  for (const Llama::Projection& p : projections) {
    const std::int64_t out = std::accumulate(p.outputs.begin(), p.outputs.end(), std::int64_t{0});
    require_shape(name + " weight", p.weight.shape(), {out, in});
    if (p.bias) require_shape(name + " bias", p.bias->shape(), {out});
    got.insert(got.end(), p.outputs.begin(), p.outputs.end());
  }
  if (!std::ranges::equal(got, outputs))
    fail<ShapeError>("[llama] {} must have [{}] outputs, got [{}]", name, fmt::join(outputs, ","), fmt::join(got, ","));
}

Array project(const Array& x, const Llama::Projection& p) {
  return nn::linear(x, p.weight, p.bias);
}

// The results of all projections of x, [B, L, outputs] each: windows on what the products wrote.
std::vector<Array> project_all(const Array& x, std::span<const Llama::Projection> projections) {
  std::vector<Array> results;
  for (const Llama::Projection& p : projections) {
    const Array y = project(x, p);
    std::int64_t from = 0;
    for (const std::int64_t count : p.outputs) {
      results.push_back(slice_axis(y, -1, {from, from + count}));
      from += count;
    }
  }
  return results;
}

}  // namespace

Llama::Llama(LlamaConfig config, DType dtype, Weights weights)
    : config_(std::move(config)), dtype_(dtype), weights_(std::move(weights)) {
  const LlamaConfig& c = config_;
  if (dtype != DType::bf16 && dtype != DType::f32 && dtype != DType::f64)
    fail<TypeError>("[llama] the compute dtype must be bf16, f32 or f64, got {}", dtype);
  if (static_cast<std::int64_t>(weights_.layers.size()) != c.layers)
    fail<ShapeError>("[llama] {} layers were needed, got {}", c.layers, weights_.layers.size());
  require_shape("the embedding", weights_.embedding.shape(), {c.vocabulary, c.hidden});
  require_shape("the last norm", weights_.norm.shape(), {c.hidden});
  if (weights_.output) require_shape("the output", weights_.output->shape(), {c.vocabulary, c.hidden});
  for (std::size_t i = 0; i < weights_.layers.size(); ++i) {
    const Layer& layer = weights_.layers[i];
    const std::string name = fmt::format("layer {} ", i);
    require_shape(name + "attention norm", layer.attention_norm.shape(), {c.hidden});
    require_shape(name + "mlp norm", layer.mlp_norm.shape(), {c.hidden});
    const std::int64_t width = c.heads * c.head_size, kv_width = c.kv_heads * c.head_size;
    require_projections(name + "query, key, value", layer.query_key_value, c.hidden, {width, kv_width, kv_width});
    require_projections(name + "output", {&layer.output, 1}, width, {c.hidden});
    require_projections(name + "gate, up", layer.gate_up, c.hidden, {c.intermediate, c.intermediate});
    require_projections(name + "down", {&layer.down, 1}, c.intermediate, {c.hidden});
  }
  rope_frequencies_ = Array::from(c.rope_frequencies, {c.head_size / 2});
}

std::int64_t Llama::weight_bytes() const {
  std::int64_t total = weights_.output ? weights_.output->bytes() : weights_.embedding.bytes();
  for (const Layer& layer : weights_.layers) {
    for (const auto* joined : {&layer.query_key_value, &layer.gate_up})
      for (const Projection& p : *joined) total += p.weight.bytes();
    total += layer.output.weight.bytes() + layer.down.weight.bytes();
  }
  return total;
}

nn::KvCache Llama::make_cache(std::int64_t batch) const {
  return nn::KvCache(batch, config_.layers, dtype_, config_.kv_heads, config_.head_size);
}

Array Llama::attend(const Layer& layer, std::int64_t index, const Array& x, const Array& positions, const Array& start,
                    const Array& count, nn::KvCache& cache) const {
  const std::int64_t batch = x.shape()[0], length = x.shape()[1];
  const auto heads = [&](const Array& y, std::int64_t n) {  // [B, n, L, D]
    return swap_axes(reshape(y, {batch, length, n, config_.head_size}), 1, 2);
  };
  const auto rotated = [&](const Array& y) { return rope(y, positions, rope_frequencies_); };
  const std::vector<Array> projected = project_all(x, layer.query_key_value);
  const Array query = rotated(heads(projected[0], config_.heads));
  cache.append(index, rotated(heads(projected[1], config_.kv_heads)), heads(projected[2], config_.kv_heads), start,
               count);
  const Array y = paged_attention(query, cache.key_pool(index), cache.value_pool(index), cache.pages(), cache.lengths(),
                                  {.causal = Causal::lower_right, .position = start});
  return project(reshape(swap_axes(y, 1, 2), {batch, length, config_.heads * config_.head_size}), layer.output);
}

Array Llama::hidden(const Array& tokens, const Placement& placement, nn::KvCache& cache) const {
  const std::int64_t batch = cache.batch();
  if (tokens.dtype() != DType::i64 || tokens.rank() != 2 || tokens.shape()[0] != batch)
    fail<TypeError>("[llama] tokens must be i64[{},L], got {}", batch, tokens.type());
  const std::int64_t length = tokens.shape()[1];
  if (static_cast<std::int64_t>(placement.position.size()) != batch ||
      placement.count.size() != placement.position.size())
    fail<ShapeError>("[llama] {} positions and counts were needed, got {} and {}", batch, placement.position.size(),
                     placement.count.size());
  std::vector<std::int64_t> lengths, positions;
  for (std::size_t b = 0; b < placement.position.size(); ++b) {
    const std::int64_t end = placement.position[b] + placement.count[b];
    if (placement.count[b] < 0 || placement.count[b] > length || end > config_.context)
      fail<ValueError>("[llama] sequence {}: {} tokens from position {} do not fit {} columns and a context of {}", b,
                       placement.count[b], placement.position[b], length, config_.context);
    lengths.push_back(std::max<std::int64_t>(end, 0));
    // Padding stands wherever a rotation is defined; nothing that it computes is read.
    for (std::int64_t i = 0; i < length; ++i) positions.push_back(std::max<std::int64_t>(placement.position[b] + i, 0));
  }
  for (const std::int64_t token : contiguous(tokens).data<std::int64_t>())
    if (token < 0 || token >= config_.vocabulary)
      fail<ValueError>("[llama] token {} is outside the vocabulary of {}", token, config_.vocabulary);
  cache.set_lengths(lengths);
  const Array start = Array::from(placement.position, {batch}), count = Array::from(placement.count, {batch});
  const Array rope_positions = Array::from(positions, {batch, 1, length});

  Array x = nn::embed(weights_.embedding, tokens, dtype_);
  for (std::size_t i = 0; i < weights_.layers.size(); ++i) {
    const Layer& layer = weights_.layers[i];
    x = add(x, attend(layer, static_cast<std::int64_t>(i), rms_norm(x, layer.attention_norm, config_.rms_epsilon),
                      rope_positions, start, count, cache));
    const std::vector<Array> y = project_all(rms_norm(x, layer.mlp_norm, config_.rms_epsilon), layer.gate_up);
    x = add(x, project(multiply(silu(y[0]), y[1]), layer.down));
  }
  return rms_norm(x, weights_.norm, config_.rms_epsilon);
}

Array Llama::logits(const Array& hidden) const {
  return nn::linear(hidden, weights_.output ? *weights_.output : weights_.embedding, std::nullopt,
                    dtype_ == DType::f64 ? DType::f64 : DType::f32);
}

}  // namespace eadem::models
