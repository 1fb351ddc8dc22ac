#include "eadem/nn/te.h"

#include <cmath>

#include "eadem/nn/attention.h"
#include "eadem/nn/tabulate.h"
#include "eadem/numerics/elementary.h"
#include "eadem/ops/ops.h"

namespace eadem::nn::te {
namespace {

// A parameter as a composite takes it: in x's dtype, or f32 where that keeps its value.
Array beside(const Array& parameter, DType x) {
  return convert(parameter, parameter.dtype() == x || x == DType::f64 ? x : DType::f32);
}

Array activate(Activation activation, const Array& x) {
  switch (activation) {
    case Activation::relu: return relu(x);
    case Activation::gelu: return gelu_tanh(x);
    case Activation::silu: return silu(x);
    case Activation::sigmoid: return sigmoid(x);
    case Activation::tanh: return tanh(x);
    case Activation::linear: break;
  }
  return x;
}

NormOptions stored_as(NormOptions options, DType dtype) {
  options.dtype = dtype;
  return options;
}

std::optional<LayerNorm> maybe_norm(bool enabled, std::int64_t in, Rngs& rngs, const NormOptions& o, DType dtype) {
  if (!enabled) return std::nullopt;
  return LayerNorm(in, rngs, stored_as(o, dtype));
}

// Kernels of one input side by side: [in, count, out], each drawn as a matrix from its own key.
Initializer side_by_side(const Initializer& each, double first_divisor) {
  return [=](const Array& key, const Shape& shape, DType dtype) {
    const Array keys = split_key(key, shape[1]);
    Arrays kernels;
    for (std::int64_t i = 0; i < shape[1]; ++i) {
      const Array kernel = each(squeeze(slice_axis(keys, 0, {i, i + 1}), 0), {shape[0], shape[2]}, dtype);
      kernels.push_back(i == 0 && first_divisor != 1 ? kernel / first_divisor : kernel);
    }
    return stack(kernels, 1);
  };
}

DenseGeneralOptions dense_options(const MultiHeadAttentionOptions& o, Initializer kernel_init) {
  return {.use_bias = o.use_bias,
          .dtype = o.dtype,
          .kernel_init = std::move(kernel_init),
          .bias_init = o.bias_init,
          .fp8 = o.fp8};
}

std::optional<Float8Product> maybe_float8(const std::optional<Float8Recipe>& recipe) {
  return recipe ? std::optional<Float8Product>(*recipe) : std::nullopt;
}

// x w (+ bias) over x's last axis; w [k, n] of any dtype, bias [n].
Array dense_product(const Array& x, const Array& w, const std::optional<Array>& bias,
                    const std::optional<Float8Product>& fp8) {
  const Array own = convert(w, x.dtype());
  if (!fp8) return linear(x, transpose(own), bias);
  Shape shape = x.shape();
  shape.back() = own.shape()[1];
  const Array y = reshape((*fp8)(reshape(x, {x.elements() / own.shape()[0], own.shape()[0]}), own), shape);
  return bias ? y + convert(*bias, x.dtype()) : y;
}

double query_divisor(std::int64_t head_dim, const MultiHeadAttentionOptions& o) {
  return o.scaled_query_init ? std::sqrt(static_cast<double>(head_dim)) : 1;
}

bool fused(std::int64_t heads, const MultiHeadAttentionOptions& o) {
  return !o.cross && (o.gqa_groups == 0 || o.gqa_groups == heads);
}

std::optional<LayerNormDenseGeneral> make_qkv(std::int64_t in, std::int64_t head_dim, std::int64_t heads, Rngs& rngs,
                                              const MultiHeadAttentionOptions& o) {
  if (!fused(heads, o)) return std::nullopt;
  const Initializer init = side_by_side(o.kernel_init, query_divisor(head_dim, o));
  return LayerNormDenseGeneral(in, {3, heads * head_dim}, rngs, {o.input_layernorm, o.norm, dense_options(o, init)});
}

std::optional<LayerNormDenseGeneral> make_query(std::int64_t in, std::int64_t head_dim, std::int64_t heads, Rngs& rngs,
                                                const MultiHeadAttentionOptions& o) {
  if (fused(heads, o)) return std::nullopt;
  const double divisor = query_divisor(head_dim, o);
  const Initializer init = [=, each = o.kernel_init](const Array& key, const Shape& shape, DType dtype) {
    return each(key, shape, dtype) / divisor;
  };
  return LayerNormDenseGeneral(in, {heads * head_dim}, rngs, {o.input_layernorm, o.norm, dense_options(o, init)});
}

std::optional<DenseGeneral> make_kv(std::int64_t in, std::int64_t head_dim, std::int64_t heads, Rngs& rngs,
                                    const MultiHeadAttentionOptions& o) {
  if (fused(heads, o)) return std::nullopt;
  const std::int64_t groups = o.gqa_groups ? o.gqa_groups : heads;
  return DenseGeneral({in}, {2, groups * head_dim}, rngs, dense_options(o, side_by_side(o.kernel_init, 1)));
}

// Part i of the axis before the last, its last axis as heads.
Array part(const Array& joined, std::int64_t i, std::int64_t heads) {
  const Array one = squeeze(slice_axis(joined, -2, {i, i + 1}), -2);
  Shape shape = one.shape();
  const std::int64_t all = shape.back();
  shape.back() = heads;
  shape.push_back(all / heads);
  return reshape(one, shape);
}

Array dropped(const Array& x, double rate, Rngs* rngs) {
  return rngs && rate > 0 ? Dropout(rate)(x, *rngs) : x;
}

MultiHeadAttentionOptions attention_options(const TransformerLayerOptions& o, bool cross) {
  MultiHeadAttentionOptions result;
  result.gqa_groups = o.gqa_groups;
  result.norm = o.norm;
  result.causal = o.causal && !cross;
  result.use_bias = o.use_bias;
  result.scale_attn_logits = o.scale_attn_logits;
  result.scaled_query_init = o.scaled_query_init;
  result.cross = cross;
  result.dtype = o.dtype;
  result.fp8 = o.fp8;
  return result;
}

std::int64_t head_size(std::int64_t hidden, std::int64_t heads) {
  if (heads < 1 || hidden < 1 || hidden % heads != 0)
    fail<ValueError>("[TransformerLayer] hidden size {} must be a multiple of the {} heads", hidden, heads);
  return hidden / heads;
}

}  // namespace

DenseGeneral::DenseGeneral(const Shape& in, const Shape& features, Rngs& rngs, const DenseGeneralOptions& o)
    : axes(o.axes) {
  if (in.rank() != axes.rank() || in.elements() < 1 || features.elements() < 1 || features.empty())
    fail<ValueError>("[DenseGeneral] needs positive features and an axis for each input, got {} to {} over axes {}", in,
                     features, axes);
  Shape shape{in.elements()};
  for (const std::int64_t extent : features) shape.push_back(extent);
  kernel = o.kernel_init(rngs.params(), shape, o.dtype);
  if (o.use_bias) bias = o.bias_init(rngs.params(), features, o.dtype);
  fp8_state = maybe_float8(o.fp8);
}

Array DenseGeneral::operator()(const Array& x) const {
  Shape features = kernel.shape(), order, result, contracted;
  features.erase(0);
  for (const std::int64_t axis : axes) contracted.push_back(normalize_axis("DenseGeneral", axis, x.rank()));
  std::int64_t k = 1;
  for (int axis = 0; axis < x.rank(); ++axis) {
    bool taken = false;
    for (const std::int64_t each : contracted) taken |= each == axis;
    if (taken) {
      k *= x.shape()[axis];
      continue;
    }
    order.push_back(axis);
    result.push_back(x.shape()[axis]);
  }
  for (const std::int64_t each : contracted) order.push_back(each);
  if (order.rank() != x.rank() || k != kernel.shape()[0])
    fail<ShapeError>("[DenseGeneral] axes {} of x {} must hold the kernel's {} inputs", axes, x.type(),
                     kernel.shape()[0]);
  Shape rows = result;
  rows.push_back(k);
  const Array matrix = reshape(kernel, {k, features.elements()});
  std::optional<Array> flat;
  if (bias) flat = reshape(*bias, {features.elements()});
  for (const std::int64_t extent : features) result.push_back(extent);
  return noted(*this, reshape(dense_product(reshape(transpose(x, order), rows), matrix, flat, fp8_state), result), x);
}

LayerNorm::LayerNorm(std::int64_t features, Rngs& rngs, const NormOptions& o) : options(o) {
  if (features < 1) fail<ValueError>("[LayerNorm] features must be at least 1, got {}", features);
  if (o.zero_centered_gamma && o.type == Norm::rmsnorm)
    fail<ValueError>("[LayerNorm] a zero-centered gamma is for layernorm only");
  const Initializer init = o.zero_centered_gamma ? zeros_init() : ones_init();
  scale = init(rngs.params(), {features}, o.dtype);
  if (o.type == Norm::layernorm) ln_bias = zeros_init()(rngs.params(), {features}, o.dtype);
}

Array LayerNorm::operator()(const Array& x) const {
  Array gamma = beside(scale, x.dtype());
  if (options.zero_centered_gamma) gamma = gamma + 1.0;
  const Array y = ln_bias ? layer_norm(x, gamma, beside(*ln_bias, x.dtype()), options.epsilon)
                          : rms_norm(x, gamma, options.epsilon);
  return noted(*this, y, x);
}

LayerNormDenseGeneral::LayerNormDenseGeneral(std::int64_t in, const Shape& features, Rngs& rngs,
                                             const LayerNormDenseGeneralOptions& o)
    : norm(maybe_norm(o.enable_layernorm, in, rngs, o.norm, o.dense.dtype)), dense({in}, features, rngs, o.dense) {}

std::pair<Array, Array> LayerNormDenseGeneral::with_norm(const Array& x) const {
  const Array normed = norm ? (*norm)(x) : x;
  return {noted(*this, dense(normed), x), normed};
}
Array LayerNormDenseGeneral::operator()(const Array& x) const {
  return with_norm(x).first;
}

LayerNormMLP::LayerNormMLP(std::int64_t in, Rngs& rngs, const LayerNormMLPOptions& o)
    : norm(maybe_norm(o.enable_layernorm, in, rngs, o.norm, o.dtype)), activations(o.activations), dropout(o.dropout) {
  const auto count = static_cast<std::int64_t>(activations.size());
  if (in < 1 || o.intermediate < 1 || count == 0)
    fail<ValueError>("[LayerNormMLP] needs positive features and an activation, got {} and {}, {} activations", in,
                     o.intermediate, count);
  wi_kernel = side_by_side(o.kernel_init, 1)(rngs.params(), {in, count, o.intermediate}, o.dtype);
  if (o.use_bias) wi_bias = o.bias_init(rngs.params(), {count, o.intermediate}, o.dtype);
  wo_kernel = o.kernel_init(rngs.params(), {o.intermediate, in}, o.dtype);
  if (o.use_bias) wo_bias = o.bias_init(rngs.params(), {in}, o.dtype);
  wi_fp8_state = maybe_float8(o.fp8), wo_fp8_state = maybe_float8(o.fp8);
}

Array LayerNormMLP::operator()(const Array& x, Rngs* rngs) const {
  const std::int64_t in = wi_kernel.shape()[0], count = wi_kernel.shape()[1], wide = wi_kernel.shape()[2];
  std::optional<Array> flat;
  if (wi_bias) flat = reshape(*wi_bias, {count * wide});
  const Array h = dense_product(norm ? (*norm)(x) : x, reshape(wi_kernel, {in, count * wide}), flat, wi_fp8_state);
  Array z;
  for (std::int64_t i = 0; i < count; ++i) {
    const Array each =
        activate(activations[static_cast<std::size_t>(i)], slice_axis(h, -1, {i * wide, (i + 1) * wide}));
    z = i == 0 ? each : z * each;
  }
  const Array y = dense_product(dropped(z, dropout, rngs), wo_kernel, wo_bias, wo_fp8_state);
  return noted(*this, y, x);
}

MultiHeadAttention::MultiHeadAttention(std::int64_t in, std::int64_t head_size, std::int64_t head_count, Rngs& rngs,
                                       const MultiHeadAttentionOptions& o)
    : qkv(make_qkv(in, head_size, head_count, rngs, o)),
      query(make_query(in, head_size, head_count, rngs, o)),
      kv(make_kv(in, head_size, head_count, rngs, o)),
      out({head_count * head_size}, {in}, rngs, dense_options(o, o.kernel_init)),
      heads(head_count),
      groups(o.gqa_groups ? o.gqa_groups : head_count),
      head_dim(head_size),
      causal(o.causal),
      scale(o.scale_attn_logits),
      cross(o.cross) {
  if (groups < 1 || heads % groups != 0)
    fail<ValueError>("[MultiHeadAttention] {} heads must be a multiple of the {} groups", heads, groups);
}

Array MultiHeadAttention::operator()(const Array& x, const std::optional<Array>& mask,
                                     const std::optional<Array>& bias) const {
  if (cross) fail<ValueError>("[MultiHeadAttention] was made for cross-attention: it needs attend(x, context)");
  return attend(x, x, mask, bias);
}

Array MultiHeadAttention::attend(const Array& x, const Array& context, const std::optional<Array>& mask,
                                 const std::optional<Array>& bias) const {
  Array q, k, v;
  if (qkv) {
    const Array joined = (*qkv)(x);
    q = part(joined, 0, heads), k = part(joined, 1, heads), v = part(joined, 2, heads);
  } else {
    const auto [projected, normed] = query->with_norm(x);
    const Array joined = (*kv)(cross ? context : normed);
    Shape shape = x.shape();
    shape.back() = heads;
    shape.push_back(head_dim);
    q = reshape(projected, shape), k = part(joined, 0, groups), v = part(joined, 1, groups);
  }
  AttendOptions options{.causal = causal, .mask = mask, .bias = bias};
  if (!scale) options.scale = 1.0;
  const Array y = dot_product_attention(q, k, v, options);
  Shape joined = x.shape();
  joined.back() = heads * head_dim;
  const Array result = out(reshape(y, joined));
  return cross ? noted(*this, result, x, context) : noted(*this, result, x);
}

RelativePositionBiases::RelativePositionBiases(std::int64_t heads, Rngs& rngs, DType dtype, std::int64_t bucket_count,
                                               std::int64_t most_distant)
    : buckets(bucket_count), max_distance(most_distant) {
  if (heads < 1 || buckets < 4 || buckets % 2 != 0 || max_distance <= buckets / 2)
    fail<ValueError>("[RelativePositionBiases] needs an even number of buckets, at least 4, and a larger distance");
  rel_embedding = variance_scaling(1, Fan::average, Distribution::uniform)(rngs.params(), {heads, buckets}, dtype);
}

Array RelativePositionBiases::operator()(std::int64_t queries, std::int64_t keys, bool bidirectional) const {
  // Buckets are integers of the positions alone: half of them exact distances, the rest logarithmic.
  std::vector<std::int64_t> index;
  const std::int64_t side = bidirectional ? buckets / 2 : buckets, exact = side / 2;
  for (std::int64_t q = 0; q < queries; ++q)
    for (std::int64_t k = 0; k < keys; ++k) {
      const std::int64_t behind = q - k;
      const std::int64_t distance = bidirectional ? std::abs(behind) : std::max<std::int64_t>(behind, 0);
      std::int64_t bucket = distance;
      if (distance >= exact) {
        const double steps = numerics::log(static_cast<double>(distance) / static_cast<double>(exact)) /
                             numerics::log(static_cast<double>(max_distance) / static_cast<double>(exact)) *
                             static_cast<double>(side - exact);
        bucket = std::min(exact + static_cast<std::int64_t>(steps), side - 1);
      }
      index.push_back(bucket + (bidirectional && behind < 0 ? side : 0));
    }
  const Array chosen = take(rel_embedding, Array::from(index, {queries, keys}), 1);
  return expand_dims(chosen, 0);
}

TransformerLayer::TransformerLayer(std::int64_t hidden, Rngs& rngs, const TransformerLayerOptions& o)
    : relpos_bias(o.relative_embedding ? std::optional<RelativePositionBiases>(std::in_place, o.heads, rngs, o.dtype)
                                       : std::nullopt),
      attention(hidden, head_size(hidden, o.heads), o.heads, rngs, attention_options(o, false)),
      encoder_decoder_attention(o.decoder ? std::optional<MultiHeadAttention>(std::in_place, hidden,
                                                                              head_size(hidden, o.heads), o.heads, rngs,
                                                                              attention_options(o, true))
                                          : std::nullopt),
      mlp(hidden, rngs,
          {.intermediate = o.mlp_hidden,
           .norm = o.norm,
           .activations = o.mlp_activations,
           .use_bias = o.use_bias,
           .dropout = o.intermediate_dropout,
           .dtype = o.dtype,
           .fp8 = o.fp8}),
      hidden_dropout(o.hidden_dropout) {}

Array TransformerLayer::operator()(const Array& x, const std::optional<Array>& encoded, Rngs* rngs) const {
  if (encoder_decoder_attention.has_value() != encoded.has_value())
    fail<ValueError>("[TransformerLayer] a decoder, and only a decoder, takes the encoder's output");
  if (x.rank() != 3) fail<ShapeError>("[TransformerLayer] x must be [batch, length, hidden], got {}", x.type());
  std::optional<Array> bias;
  if (relpos_bias) {
    const Array each = (*relpos_bias)(x.extent(1), x.extent(1), !encoder_decoder_attention);
    bias = convert(each, each.dtype() == x.dtype() ? x.dtype() : DType::f32);
  }
  Array y = x + dropped(attention(x, {}, bias), hidden_dropout, rngs);
  if (encoded) y = y + dropped(encoder_decoder_attention->attend(y, *encoded), hidden_dropout, rngs);
  y = y + dropped(mlp(y, rngs), hidden_dropout, rngs);
  return encoded ? noted(*this, y, x, *encoded) : noted(*this, y, x);
}

}  // namespace eadem::nn::te
