#include "eadem/nn/attention.h"

#include "eadem/nn/dropout.h"
#include "eadem/nn/tabulate.h"
#include "eadem/ops/ops.h"

namespace eadem::nn {
namespace {

std::int64_t head_size_of(std::int64_t features, std::int64_t heads, const MultiHeadAttentionOptions& options) {
  const std::int64_t all = options.qkv_features ? options.qkv_features : features;
  if (heads < 1 || all < 1 || all % heads != 0)
    fail<ValueError>("[MultiHeadAttention] features of all heads, {}, must be a multiple of the {} heads", all, heads);
  const std::int64_t kv_heads = options.kv_heads ? options.kv_heads : heads;
  if (kv_heads < 1 || heads % kv_heads != 0)
    fail<ValueError>("[MultiHeadAttention] {} heads must be a multiple of the {} key heads", heads, kv_heads);
  return all / heads;
}

LinearOptions projection(const MultiHeadAttentionOptions& o) {
  return {o.use_bias, o.dtype, o.param_dtype, o.kernel_init, o.bias_init};
}

std::optional<LayerNorm> head_norm(std::int64_t head_size, Rngs& rngs, const MultiHeadAttentionOptions& o) {
  if (!o.normalize_qk) return std::nullopt;
  return LayerNorm(head_size, rngs, {.use_bias = false, .dtype = o.dtype, .param_dtype = o.param_dtype});
}

// A mask or bias that broadcasts to [batch.., heads, queries, keys], with the batch axes as one.
std::optional<Array> four_axes(const std::optional<Array>& x, const Shape& batch, std::int64_t rows) {
  if (!x) return x;
  if (x->rank() > batch.rank() + 3)
    fail<ShapeError>("[attention] a mask or bias has at most {} axes here, got {}", batch.rank() + 3, x->type());
  Shape shape = x->shape();
  while (shape.rank() < batch.rank() + 3) shape.insert(0, 1);
  Array y = reshape(*x, shape);
  bool same = true;
  for (int axis = 0; axis < batch.rank(); ++axis) same &= shape[axis] == 1;
  if (!same) {
    for (int axis = 0; axis < batch.rank(); ++axis) shape[axis] = batch[axis];
    y = broadcast_to(y, shape);
  }
  const int rank = shape.rank();
  return reshape(y, {same ? 1 : rows, shape[rank - 3], shape[rank - 2], shape[rank - 1]});
}

Shape batch_of(const Shape& shape, int others) {
  Shape batch = shape;
  for (int i = 0; i < others; ++i) batch.pop_back();
  return batch;
}

// [batch.., length, heads, D] as [rows, heads, length, D].
Array heads_first(const Array& x) {
  const int rank = x.rank();
  const std::int64_t rows = batch_of(x.shape(), 3).elements();
  return transpose(reshape(x, {rows, x.shape()[rank - 3], x.shape()[rank - 2], x.shape()[rank - 1]}), {0, 2, 1, 3});
}

// [rows, heads, length, D] with each head repeated for the queries' heads that share it.
Array repeated_heads(const Array& x, std::int64_t heads) {
  const Shape& shape = x.shape();
  if (shape[1] == heads) return x;
  if (shape[1] < 1 || heads % shape[1] != 0)
    fail<ShapeError>("[dot_product_attention] {} heads must be a multiple of the {} key heads", heads, shape[1]);
  const Array each = broadcast_to(expand_dims(x, 2), {shape[0], shape[1], heads / shape[1], shape[2], shape[3]});
  return reshape(each, {shape[0], heads, shape[2], shape[3]});
}

// Attention whose weights are dropped: in f32 (f64) up to the weights, which are rounded to v's dtype.
Array dropped_attention(const Array& q, const Array& k, const Array& v, const AttentionArguments& a,
                        const AttendOptions& options) {
  const DType wide = q.dtype() == DType::f64 ? DType::f64 : DType::f32;
  const std::int64_t heads = q.shape()[1], queries = q.shape()[2], keys = k.shape()[2];
  const double scale = a.scale.value_or(1 / std::sqrt(static_cast<double>(q.shape()[3])));
  Array scores = dot_general(q, repeated_heads(k, heads), {3}, {3}, {0, 1}, {0, 1}, wide) * scale;
  if (a.bias) scores = scores + convert(*a.bias, wide);
  Array visible = full({queries, keys}, 1, DType::boolean);
  if (options.causal) visible = tril(visible, keys - queries);
  if (a.mask) visible = logical_and(visible, *a.mask);
  visible = broadcast_to(visible, scores.shape());
  // A query that sees no key has weights 0.
  const Array seen = any(visible, {-1}, true), none = logical_not(seen);
  const Array masked = where(logical_or(visible, none), scores, Array::scalar(-HUGE_VAL, wide));
  const Array weights = where(seen, softmax(masked, -1), zeros_like(masked));
  const Array kept =
      Dropout(options.dropout_rate, options.broadcast_dropout ? Shape{0, 1} : Shape{})(weights, *options.dropout_key);
  return matmul(convert(kept, v.dtype()), repeated_heads(v, heads));
}

}  // namespace

Array dot_product_attention(const Array& q, const Array& k, const Array& v, const AttendOptions& options) {
  if (q.rank() < 3 || k.rank() != q.rank() || v.rank() != q.rank())
    fail<ShapeError>("[dot_product_attention] q, k and v must be [batch.., length, heads, D], got {}, {} and {}",
                     q.type(), k.type(), v.type());
  const Shape batch = batch_of(q.shape(), 3);
  const std::int64_t rows = batch.elements();
  AttentionArguments arguments;
  if (options.causal) arguments.causal = Causal::lower_right;
  arguments.scale = options.scale;
  arguments.mask = four_axes(options.mask, batch, rows);
  arguments.bias = four_axes(options.bias, batch, rows);
  const bool drops = options.dropout_key && options.dropout_rate != 0;
  const Array y = drops ? dropped_attention(heads_first(q), heads_first(k), heads_first(v), arguments, options)
                        : attention(heads_first(q), heads_first(k), heads_first(v), arguments);
  return reshape(transpose(y, {0, 2, 1, 3}), q.shape());
}

MultiHeadAttention::MultiHeadAttention(std::int64_t features, std::int64_t heads, Rngs& rngs,
                                       const MultiHeadAttentionOptions& o)
    : query({features}, {heads, head_size_of(features, heads, o)}, rngs, projection(o)),
      key({o.in_kv_features ? o.in_kv_features : features},
          {o.kv_heads ? o.kv_heads : heads, head_size_of(features, heads, o)}, rngs, projection(o)),
      value({o.in_kv_features ? o.in_kv_features : features},
            {o.kv_heads ? o.kv_heads : heads, head_size_of(features, heads, o)}, rngs, projection(o)),
      query_norm(head_norm(head_size_of(features, heads, o), rngs, o)),
      key_norm(head_norm(head_size_of(features, heads, o), rngs, o)),
      out({heads, head_size_of(features, heads, o)}, {o.out_features ? o.out_features : features}, rngs, projection(o),
          {-2, -1}),
      dtype(o.dtype),
      dropout_rate(o.dropout_rate),
      broadcast_dropout(o.broadcast_dropout) {
  if (!(dropout_rate >= 0 && dropout_rate <= 1))
    fail<ValueError>("[MultiHeadAttention] the dropout rate must be in [0, 1], got {}", dropout_rate);
}

Array MultiHeadAttention::operator()(const Array& queries, const Array& keys, const Array& values,
                                     const AttendOptions& options) const {
  Array q = query(queries), k = key(keys);
  const Array v = value(values);
  if (query_norm) q = (*query_norm)(q);
  if (key_norm) k = (*key_norm)(k);
  const DType t = compute_dtype("MultiHeadAttention", dtype, q, promote(k.dtype(), v.dtype()));
  AttendOptions own = options;
  own.dropout_rate = dropout_rate, own.broadcast_dropout = broadcast_dropout;
  const Array y = out(dot_product_attention(convert(q, t), convert(k, t), convert(v, t), own));
  return noted(*this, y, queries, keys, values);
}

void MultiHeadAttention::init_cache(const Shape& input_shape, DType cache_dtype) {
  if (input_shape.rank() < 2)
    fail<ShapeError>("[MultiHeadAttention] a cache is for inputs [batch.., max length, features], got {}", input_shape);
  if (!is_floating(cache_dtype)) fail<TypeError>("[MultiHeadAttention] a cache is floating, got {}", cache_dtype);
  Shape shape = batch_of(input_shape, 1);
  const Shape& heads = key.kernel.shape();
  shape.push_back(heads[heads.rank() - 2]);
  shape.push_back(heads.back());
  cached_key = cached_value = zeros(shape, cache_dtype);
  cache_index = Array::scalar(0, DType::i32);
}

Array MultiHeadAttention::decode(const Array& x) {
  if (!cached_key || !cached_value || !cache_index)
    fail<ValueError>("[MultiHeadAttention] there is no cache to decode with: call init_cache first");
  Array q = query(x), k = key(x);
  const Array v = value(x);
  if (query_norm) q = (*query_norm)(q);
  if (key_norm) k = (*key_norm)(k);
  const DType t = compute_dtype("MultiHeadAttention", dtype, q, promote(k.dtype(), v.dtype()));
  Shape expected = cached_key->shape();
  const int length_axis = expected.rank() - 3;
  const std::int64_t most = expected[length_axis], rows = batch_of(expected, 3).elements();
  expected[length_axis] = 1;
  if (k.shape() != expected)
    fail<ShapeError>("[MultiHeadAttention] decode takes one token, whose keys are {} for the cache {}, got {}",
                     expected, cached_key->type(), k.type());
  const Array index = *cache_index;
  if (!index.traced() && index.item<std::int32_t>() >= most)
    fail<ValueError>("[MultiHeadAttention] the cache is full: it holds {} tokens", most);
  const Array start = eadem::pad(reshape(index, {1}), Array::scalar(0, DType::i32), {length_axis}, {2});
  cached_key = dynamic_update_slice(*cached_key, convert(k, cached_key->dtype()), start);
  cached_value = dynamic_update_slice(*cached_value, convert(v, cached_value->dtype()), start);
  cache_index = index + 1;
  AttentionArguments arguments;
  arguments.length = broadcast_to(reshape(*cache_index, {1}), {rows});
  const Array y = attention(heads_first(convert(q, t)), heads_first(convert(*cached_key, t)),
                            heads_first(convert(*cached_value, t)), arguments);
  return noted(*this, out(reshape(transpose(y, {0, 2, 1, 3}), q.shape())), x);
}

}  // namespace eadem::nn
