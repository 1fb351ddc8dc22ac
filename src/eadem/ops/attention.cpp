#include "eadem/kernels/attention/attention.h"

#include <cstdint>

#include "eadem/kernels/move/copy.h"
#include "eadem/ops/attention.h"
#include "eadem/ops/catalog.h"
#include "eadem/ops/infer.h"
#include "eadem/ops/ops.h"
#include "eadem/runtime/context.h"

// Attention over dense keys, over a paged cache, and the writing of that cache.

namespace eadem {
namespace ops {

void require_heads(std::string_view operation, const TensorType& q, const TensorType& k, std::int64_t kv_heads,
                   std::int64_t head_size) {
  if (!is_floating(q.dtype)) fail<TypeError>("[{}] q must be floating, got {}", operation, q);
  if (k.dtype != q.dtype) fail<TypeError>("[{}] q, k and v must have one dtype, got {} and {}", operation, q, k);
  if (q.shape.rank() != 4) fail<ShapeError>("[{}] q must be [B, H, Lq, D], got {}", operation, q);
  if (head_size != q.shape[3] || q.shape[3] == 0)
    fail<ShapeError>("[{}] heads of q and k must have one size of at least 1, got {} and {}", operation, q, k);
  if (kv_heads == 0 || q.shape[1] % kv_heads != 0)
    fail<ShapeError>("[{}] the {} heads of q {} must be a multiple of the {} key heads of {}", operation, q.shape[1], q,
                     kv_heads, k);
}

void require_vector(std::string_view operation, std::string_view what, const TensorType& type, std::int64_t batch) {
  if (type.dtype != DType::i32 && type.dtype != DType::i64)
    fail<TypeError>("[{}] {} must be i32 or i64, got {}", operation, what, type);
  if (type.shape != Shape{batch}) fail<ShapeError>("[{}] {} must be [{}], got {}", operation, what, batch, type);
}

void require_options(std::string_view operation, const AttentionAttributes& a) {
  if (a.window < 0) fail<ValueError>("[{}] window must not be negative, got {}", operation, a.window);
  if (!a.causal && (a.window > 0 || a.upper_left || a.position))
    fail<ValueError>("[{}] window and position need a causal alignment: they count from the query's own position",
                     operation);
  if (!(a.softcap >= 0) || a.softcap > 3e38)
    fail<ValueError>("[{}] softcap must be finite and not negative, got {}", operation, a.softcap);
}

void require_dense(std::string_view operation, const Signature& s, std::size_t fixed) {
  const AttentionAttributes& a = s.as<AttentionAttributes>();
  require_operands(operation, s, fixed + count_of(a));
  const TensorType &q = s.operands[0], &k = s.operands[1], &v = s.operands[2];
  if (k.shape.rank() != 4) fail<ShapeError>("[{}] k must be [B, Hkv, Lk, D], got {}", operation, k);
  require_heads(operation, q, k, k.shape[1], k.shape[3]);
  if (k.shape[0] != q.shape[0]) fail<ShapeError>("[{}] batches of q and k differ: {} and {}", operation, q, k);
  if (v != k) fail<ShapeError>("[{}] v must be {} like k, got {}", operation, k, v);
  require_options(operation, a);
  const auto optional = optional_operands(s.operands, fixed, a);
  const Shape full{q.shape[0], q.shape[1], q.shape[2], k.shape[2]};
  const auto require_broadcast = [&](std::string_view what, const TensorType& type) {
    bool fits = type.shape.rank() == 4;
    for (int i = 0; fits && i < 4; ++i) fits = type.shape[i] == 1 || type.shape[i] == full[i];
    if (!fits) fail<ShapeError>("[{}] {} must broadcast to {}, got {}", operation, what, full, type);
  };
  if (optional.mask) {
    if (optional.mask->dtype != DType::boolean)
      fail<TypeError>("[{}] mask must be bool (True: visible), got {}; an additive one is `bias`", operation,
                      *optional.mask);
    require_broadcast("mask", *optional.mask);
  }
  if (optional.bias) {
    if (optional.bias->dtype != DType::f32 && optional.bias->dtype != q.dtype)
      fail<TypeError>("[{}] bias must be f32 or {}, got {}", operation, q.dtype, *optional.bias);
    require_broadcast("bias", *optional.bias);
  }
  if (optional.start) require_vector(operation, "start", *optional.start, q.shape[0]);
  if (optional.length) require_vector(operation, "length", *optional.length, q.shape[0]);
  if (optional.position) require_vector(operation, "position", *optional.position, q.shape[0]);
}

numerics::AttentionOperands dense(const Launch& launch, std::size_t fixed) {
  const auto optional = optional_operands(launch.operands, fixed, launch.as<AttentionAttributes>());
  numerics::AttentionOperands x{launch.operands[0], launch.operands[1], launch.operands[2], launch.results[0]};
  const auto take = [](const TensorView* from, TensorView& to) {
    if (from) to = *from;
  };
  take(optional.mask, x.mask);
  take(optional.bias, x.bias);
  take(optional.start, x.start);
  take(optional.length, x.length);
  take(optional.position, x.position);
  return x;
}

}  // namespace ops

namespace {

using numerics::Causal;
using ops::AttentionAttributes;
using ops::count_of;
using ops::dense;
using ops::optional_operands;
using ops::require_heads;
using ops::require_options;
using ops::require_vector;
using Attributes = AttentionAttributes;

struct AppendAttributes {
  bool values = false, count = false;
  static constexpr auto fields() {
    return std::tuple(field("values", &AppendAttributes::values), field("count", &AppendAttributes::count));
  }
};

void require_table(std::string_view operation, const TensorType& type, std::int64_t batch) {
  if (type.dtype != DType::i32) fail<TypeError>("[{}] the page table must be i32, got {}", operation, type);
  if (type.shape.rank() != 2 || type.shape[0] != batch)
    fail<ShapeError>("[{}] the page table must be [{}, T], got {}", operation, batch, type);
}

// ---- Checks ----

Types infer(const Signature& s) {
  ops::require_dense("attention", s, 3);
  return {s.operands[0]};
}

// The head size of a pool, or a ShapeError.
std::int64_t head_size_of(std::string_view operation, const TensorType& pool, bool values, std::int64_t head_size) {
  const std::int64_t pages = pool.shape.rank() > 0 ? pool.shape[0] : 0;
  const std::int64_t heads = pool.shape.rank() > 1 ? pool.shape[1] : 0;
  const auto shape = values ? numerics::value_page_shape : numerics::key_page_shape;
  const bool plain = !is_16_bit_float(pool.dtype) && pool.shape == shape(DType::f32, pages, heads, head_size);
  const bool paired = (is_16_bit_float(pool.dtype) || pool.dtype == DType::f64) &&
                      pool.shape == shape(DType::bf16, pages, heads, head_size);
  if (!plain && !paired)
    fail<ShapeError>("[{}] {} pages for heads of size {} must be {}, got {}", operation, values ? "value" : "key",
                     head_size, shape(pool.dtype, pages, heads, head_size), pool);
  return heads;
}

Types infer_paged(const Signature& s) {
  const Attributes& a = s.as<Attributes>();
  if (a.mask || a.bias || a.start || a.length)
    fail<ValueError>("[paged_attention] takes no mask, bias or start: a page's keys count from the sequence's first");
  ops::require_operands("paged_attention", s, 5 + count_of(a));
  const TensorType &q = s.operands[0], &k = s.operands[1], &v = s.operands[2];
  if (q.shape.rank() != 4) fail<ShapeError>("[paged_attention] q must be [B, H, Lq, D], got {}", q);
  const std::int64_t heads = head_size_of("paged_attention", k, false, q.shape[3]);
  require_heads("paged_attention", q, k, heads, q.shape[3]);
  if (v.dtype != q.dtype) fail<TypeError>("[paged_attention] value pages must be {}, got {}", q.dtype, v);
  head_size_of("paged_attention", v, true, q.shape[3]);
  if (v.shape[0] != k.shape[0] || v.shape[1] != heads || v.shape.rank() != k.shape.rank())
    fail<ShapeError>("[paged_attention] key pages {} and value pages {} differ in pages, heads or form", k, v);
  require_table("paged_attention", s.operands[3], q.shape[0]);
  require_vector("paged_attention", "length", s.operands[4], q.shape[0]);
  require_options("paged_attention", a);
  if (a.position) require_vector("paged_attention", "position", s.operands[5], q.shape[0]);
  return {q};
}

Types infer_append(const Signature& s) {
  const AppendAttributes& a = s.as<AppendAttributes>();
  ops::require_operands("kv_page_append", s, 4 + static_cast<std::size_t>(a.count));
  const TensorType &pool = s.operands[0], &fresh = s.operands[1];
  if (!is_floating(pool.dtype) || fresh.dtype != pool.dtype)
    fail<TypeError>("[kv_page_append] pages and fresh rows must have one floating dtype, got {} and {}", pool, fresh);
  if (fresh.shape.rank() != 4) fail<ShapeError>("[kv_page_append] fresh rows must be [B, Hkv, L, D], got {}", fresh);
  if (head_size_of("kv_page_append", pool, a.values, fresh.shape[3]) != fresh.shape[1])
    fail<ShapeError>("[kv_page_append] fresh rows {} have {} heads, the pages {} have {}", fresh, fresh.shape[1], pool,
                     pool.shape[1]);
  require_table("kv_page_append", s.operands[2], fresh.shape[0]);
  require_vector("kv_page_append", "position", s.operands[3], fresh.shape[0]);
  if (a.count) require_vector("kv_page_append", "count", s.operands[4], fresh.shape[0]);
  return {pool};
}

// ---- Running ----

// Pages are read as whole words where they lie; any other layout is copied first.
TensorView readable(const TensorView& pool, Context& context) {
  if (is_contiguous(pool) && reinterpret_cast<std::uintptr_t>(pool.data) % 8 == 0) return pool;
  const std::size_t bytes = static_cast<std::size_t>(pool.elements()) * size_of(pool.dtype);
  const TensorView copy = contiguous_view(context.scratch(bytes), pool.dtype, pool.shape);
  kernels::copy(pool, copy);
  return copy;
}

numerics::AttentionOperands paged(const Launch& launch, Context& context) {
  numerics::AttentionOperands x{launch.operands[0], readable(launch.operands[1], context),
                                readable(launch.operands[2], context), launch.results[0]};
  x.pages = launch.operands[3];
  x.length = launch.operands[4];
  if (launch.as<Attributes>().position) x.position = launch.operands[5];
  return x;
}

numerics::PageAppend append(const Launch& launch, const TensorView& pool) {
  const AppendAttributes& a = launch.as<AppendAttributes>();
  numerics::PageAppend x{pool, launch.operands[1], launch.operands[2], launch.operands[3], {}, a.values};
  if (a.count) x.count = launch.operands[4];
  return x;
}

Cost cost(const Signature& s, const Types& results) {
  const Shape &q = s.operands[0].shape, &k = s.operands[1].shape;
  const double elements = static_cast<double>(q.elements() * 2 + k.elements() * 2);
  return {elements * static_cast<double>(size_of(results[0].dtype)),
          4.0 * static_cast<double>(q.elements()) * static_cast<double>(k[2])};
}

Cost cost_paged(const Signature& s, const Types& results) {
  const Shape &q = s.operands[0].shape, &k = s.operands[1].shape, &table = s.operands[3].shape;
  const double keys = static_cast<double>(table[1] * numerics::kKeyBlock);
  const double elements =
      2 * static_cast<double>(q.elements()) + 2 * keys * static_cast<double>(table[0] * k[1] * q[3]);
  return {elements * static_cast<double>(size_of(results[0].dtype)), 4.0 * static_cast<double>(q.elements()) * keys};
}

// ---- Samples ----

void samples(SampleSink& sink) {
  const auto dense_sample = [&](DType t, std::int64_t lq, std::int64_t lk, std::int64_t d, Fill fill, Attributes a,
                                std::initializer_list<SampleOperand> more = {}) {
    std::vector<SampleOperand> operands{{t, {2, 4, lq, d}, fill}, {t, {2, 2, lk, d}, fill}, {t, {2, 2, lk, d}, fill}};
    operands.insert(operands.end(), more);
    if (a.scale == 1) a.scale = numerics::attention_scale(t, d);
    sink.add(operands, a);
  };
  for (const DType t : {DType::f32, DType::bf16, DType::f16, DType::f64})
    dense_sample(t, 9, 140, 16, Fill::normal, {.causal = true});
  dense_sample(DType::f32, 34, 33, 5, Fill::edges, {.causal = true, .upper_left = true, .window = 9});
  dense_sample(DType::bf16, 2, 40, 7, Fill::wide, {.scale = 0.125});
  dense_sample(DType::f32, 3, 0, 4, Fill::normal, {});
  dense_sample(DType::bf16, 5, 70, 8, Fill::normal, {.softcap = 5, .mask = true, .bias = true},
               {{DType::boolean, {2, 1, 5, 70}}, {DType::f32, {1, 4, 1, 70}, Fill::edges}});
  dense_sample(DType::f32, 6, 150, 8, Fill::normal, {.causal = true, .start = true, .length = true, .position = true},
               {{DType::i32, {2}, Fill::indices, 60},
                {DType::i64, {2}, Fill::indices, 150},
                {DType::i32, {2}, Fill::indices, 150}});
}

void samples_paged(SampleSink& sink) {
  for (const DType t : {DType::f32, DType::bf16, DType::f16, DType::f64}) {
    const std::vector<SampleOperand> operands{{t, {2, 4, 3, 6}},
                                              {t, numerics::key_page_shape(t, 3, 2, 6)},
                                              {t, numerics::value_page_shape(t, 3, 2, 6)},
                                              {DType::i32, {2, 2}, Fill::indices, 4},
                                              {DType::i32, {2}, Fill::indices, 256}};
    sink.add(operands, Attributes{.causal = true, .scale = 0.5});
  }
}

void samples_append(SampleSink& sink) {
  for (const bool values : {false, true}) {
    const auto shape = values ? numerics::value_page_shape : numerics::key_page_shape;
    for (const DType t : {DType::f32, DType::bf16, DType::f16, DType::f64})
      sink.add({{t, shape(t, 3, 2, 5)},
                {t, {1, 2, 130, 5}, Fill::edges},
                {DType::i32, {1, 3}, Fill::indices, 1},
                {DType::i64, {1}, Fill::indices, 200},
                {DType::i32, {1}, Fill::indices, 60}},
               AppendAttributes{.values = values, .count = true});
  }
}

// ---- Public functions ----

// mask and bias may lack leading axes.
Array with_four_axes(Array x) {
  while (x.rank() < 4) x = expand_dims(x, 0);
  return x;
}

Attributes attributes_of(const AttentionArguments& arguments, const Array& q) {
  Attributes a;
  a.causal = arguments.causal != Causal::none;
  a.upper_left = arguments.causal == Causal::upper_left;
  a.window = arguments.window;
  a.softcap = arguments.softcap;
  const std::int64_t head_size = q.rank() == 4 ? q.shape()[3] : 1;
  a.scale = arguments.scale.value_or(numerics::attention_scale(q.dtype(), head_size));
  a.mask = arguments.mask.has_value();
  a.bias = arguments.bias.has_value();
  a.start = arguments.start.has_value();
  a.length = arguments.length.has_value();
  a.position = arguments.position.has_value();
  return a;
}

Array append_pages(Array pool, const Array& fresh, const Array& pages, const Array& position,
                   const std::optional<Array>& count, bool values) {
  const AppendAttributes attributes{values, count.has_value()};
  std::vector<Array> operands{std::move(pool), fresh, pages, position};
  if (count) operands.push_back(*count);
  return std::move(apply_all(prim::kv_page_append, operands, &attributes, true)[0]);
}

}  // namespace

constinit const Primitive prim::attention{
    .name = "attention",
    .summary = "Softmax attention over dense keys, one rounding at the end.",
    .attributes = &kAttributesOf<Attributes>,
    .infer = infer,
    .reference = [](const Launch& l) { numerics::attention(dense(l), l.as<Attributes>().options()); },
    .run = Kernel{[](const Launch& l, Context&) { kernels::attention(dense(l), l.as<Attributes>().options()); }},
    .vjp = [](Vjp& g) { ops::attention_rule(g, g.saved()); },
    .batch = ops::attention_batch,
    .run_saving =
        [](const Equation& equation, std::span<const Array> operands, const std::vector<bool>&, Arrays& saved) {
          Arrays results = apply_all(attention_saving, operands, equation.attributes.get());
          saved.assign(results.begin() + 1, results.end());
          return Arrays{results[0]};
        },
    .samples = samples,
    .cost = cost};

constinit const Primitive prim::kv_page_append{.name = "kv_page_append",
                                               .summary = "A pool of key or value pages with new rows written.",
                                               .attributes = &kAttributesOf<AppendAttributes>,
                                               .infer = infer_append,
                                               .reference =
                                                   [](const Launch& l) {
                                                     ops::for_each_index(l.results[0].shape, [&](const Shape& index) {
                                                       ops::move_element(l.results[0].dtype,
                                                                         ops::element_at(l.operands[0], index),
                                                                         ops::element_at(l.results[0], index));
                                                     });
                                                     numerics::append_to_pages(append(l, l.results[0]));
                                                   },
                                               .run = Kernel{[](const Launch& l, Context&) {
                                                 if (l.results[0].data != l.operands[0].data)
                                                   kernels::copy(l.operands[0], l.results[0]);
                                                 kernels::append_to_pages(append(l, l.results[0]));
                                               }},
                                               .samples = samples_append};

constinit const Primitive prim::paged_attention{.name = "paged_attention",
                                                .summary = "Softmax attention over a paged cache of keys and values.",
                                                .attributes = &kAttributesOf<Attributes>,
                                                .infer = infer_paged,
                                                .reference =
                                                    [](const Launch& l) {
                                                      Context context;
                                                      numerics::attention(paged(l, context),
                                                                          l.as<Attributes>().options());
                                                    },
                                                .run = Kernel{[](const Launch& l, Context& context) {
                                                  kernels::attention(paged(l, context), l.as<Attributes>().options());
                                                }},
                                                .samples = samples_paged,
                                                .cost = cost_paged};

Array attention(const Array& q, const Array& k, const Array& v, const AttentionArguments& arguments) {
  std::vector<Array> operands{q, k, v};
  if (arguments.mask) operands.push_back(with_four_axes(*arguments.mask));
  if (arguments.bias) operands.push_back(with_four_axes(*arguments.bias));
  for (const auto* each : {&arguments.start, &arguments.length, &arguments.position})
    if (*each) operands.push_back(**each);
  const Attributes attributes = attributes_of(arguments, q);
  return apply(prim::attention, operands, &attributes);
}

Array paged_attention(const Array& q, const Array& key_pages, const Array& value_pages, const Array& pages,
                      const Array& length, const AttentionArguments& arguments) {
  if (arguments.length)
    fail<ValueError>("[paged_attention] length was given twice: as an operand and among the arguments");
  std::vector<Array> operands{q, key_pages, value_pages, pages, length};
  if (arguments.position) operands.push_back(*arguments.position);
  const Attributes attributes = attributes_of(arguments, q);
  return apply(prim::paged_attention, operands, &attributes);
}

Array append_key_pages(Array pool, const Array& fresh, const Array& pages, const Array& position,
                       const std::optional<Array>& count) {
  return append_pages(std::move(pool), fresh, pages, position, count, false);
}
Array append_value_pages(Array pool, const Array& fresh, const Array& pages, const Array& position,
                         const std::optional<Array>& count) {
  return append_pages(std::move(pool), fresh, pages, position, count, true);
}

}  // namespace eadem
