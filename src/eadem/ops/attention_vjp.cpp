#include "eadem/numerics/attention_vjp.h"

#include <cstring>

#include "eadem/kernels/attention/attention.h"
#include "eadem/kernels/reduce/reduce.h"
#include "eadem/numerics/exact_sum.h"
#include "eadem/numerics/reduction_views.h"
#include "eadem/ops/attention.h"
#include "eadem/ops/batch.h"
#include "eadem/ops/catalog.h"
#include "eadem/ops/infer.h"
#include "eadem/ops/ops.h"
#include "eadem/runtime/context.h"

// Attention that keeps residuals, and its reverse derivative as primitives: what reaches q, k and v, and what reaches
// the bias. Higher derivatives go through `decompose`, in f64.

namespace eadem {
namespace {

using Attributes = ops::AttentionAttributes;
using numerics::AttentionResiduals;

// q, k, v, dy, m, l, o; the optional operands follow.
constexpr std::size_t kFixed = 7;

DType wide(DType dtype) {
  return dtype == DType::f64 ? DType::f64 : DType::f32;
}

// ---- Types ----

Types residual_types(const TensorType& q) {
  const Shape rows{q.shape[0], q.shape[1], q.shape[2]};
  return {{DType::f64, rows}, {wide(q.dtype), rows}, {wide(q.dtype), q.shape}};
}

void require_backward(std::string_view name, const Signature& s) {
  ops::require_operands(name, s, kFixed + ops::count_of(s.as<Attributes>()));
  ops::require_dense(name, s, kFixed);
  const TensorType& q = s.operands[0];
  if (s.operands[3] != q) fail<ShapeError>("[{}] the cotangent must be {} like q, got {}", name, q, s.operands[3]);
  const Types residuals = residual_types(q);
  for (std::size_t i = 0; i < residuals.size(); ++i)
    if (s.operands[4 + i] != residuals[i])
      fail<ShapeError>("[{}] residual {} must be {}, got {}", name, i, residuals[i], s.operands[4 + i]);
}

Types infer_saving(const Signature& s) {
  ops::require_dense("attention_saving", s, 3);
  Types types{s.operands[0]};
  for (const TensorType& each : residual_types(s.operands[0])) types.push_back(each);
  return types;
}
Types infer_vjp(const Signature& s) {
  require_backward("attention_vjp", s);
  return {s.operands[0], s.operands[1], s.operands[2]};
}
Types infer_bias(const Signature& s) {
  require_backward("attention_vjp_bias", s);
  if (!s.as<Attributes>().bias) fail<ValueError>("[attention_vjp_bias] there is no bias");
  return {*ops::optional_operands(s.operands, kFixed, s.as<Attributes>()).bias};
}

// ---- Running ----

AttentionResiduals saved_by(const Launch& launch) {
  return {launch.results[1], launch.results[2], launch.results[3]};
}

// The residuals among the operands, contiguous.
AttentionResiduals saved_in(const Launch& launch, Context& context) {
  const auto dense = [&](const TensorView& x) {
    if (is_contiguous(x)) return x;
    const TensorView to =
        contiguous_view(context.scratch(static_cast<std::size_t>(x.elements()) * size_of(x.dtype)), x.dtype, x.shape);
    ops::for_each_index(
        x.shape, [&](const Shape& at) { ops::move_element(x.dtype, ops::element_at(x, at), ops::element_at(to, at)); });
    return to;
  };
  return {dense(launch.operands[4]), dense(launch.operands[5]), dense(launch.operands[6])};
}

template <bool fast>
void run_vjp(const Launch& launch, Context& context) {
  const numerics::AttentionOperands x = ops::dense(launch, kFixed);
  constexpr auto* run = fast ? kernels::attention_vjp : numerics::attention_vjp;
  run(x, launch.as<Attributes>().options(), launch.operands[3], saved_in(launch, context),
      {launch.results[0], launch.results[1], launch.results[2], {}});
}

// The exact sums of ds over the axes along which the bias was repeated.
template <bool fast>
void run_bias(const Launch& launch, Context& context) {
  const numerics::AttentionOperands x = ops::dense(launch, kFixed);
  const Shape full{x.q.shape[0], x.q.shape[1], x.q.shape[2], x.k.shape[2]};
  const DType dtype = wide(x.q.dtype);
  const TensorView scores =
      contiguous_view(context.scratch(static_cast<std::size_t>(full.elements()) * size_of(dtype)), dtype, full);
  constexpr auto* run = fast ? kernels::attention_vjp : numerics::attention_vjp;
  run(x, launch.as<Attributes>().options(), launch.operands[3], saved_in(launch, context), {{}, {}, {}, scores});
  const TensorView& result = launch.results[0];
  if (result.elements() == 0) return;
  Shape axes;
  for (int axis = 0; axis < 4; ++axis)
    if (result.shape[axis] != full[axis]) axes.push_back(axis);
  if (fast && result.dtype == dtype) return kernels::sum(scores, axes, result);
  visit_floating(dtype, [&]<class W>(std::type_identity<W>) {
    if constexpr (sizeof(W) >= 4)
      numerics::for_each_reduction<W>(scores, axes, [&](std::span<const W> terms, std::int64_t index) {
        numerics::ExactAccumulator sum;
        for (const W each : terms) sum.add(static_cast<double>(each));
        visit_floating(result.dtype, [&]<class R>(std::type_identity<R>) { result.as<R>()[index] = sum.sum<R>(); });
      });
  });
}

template <void (*run)(const Launch&, Context&)>
void reference(const Launch& launch) {
  Context context;
  run(launch, context);
}

Cost cost(const Signature& s, const Types& results) {
  const Shape &q = s.operands[0].shape, &k = s.operands[1].shape;
  const double elements = static_cast<double>(q.elements() * 3 + k.elements() * 4);
  return {elements * static_cast<double>(size_of(results[0].dtype)),
          10.0 * static_cast<double>(q.elements()) * static_cast<double>(k[2])};
}

// ---- The same in simple operations, for derivatives: m counts as a constant ----

Array f64(const Array& x) {
  return convert(x, DType::f64);
}
// Without derivative.
Array integral(const Array& x) {
  return f64(convert(round(x), DType::i64));
}

// [B, H or 1, ...] as [B, Hkv, G, ...] or [B, 1, 1, ...].
Array by_group(const Array& x, std::int64_t kv_heads) {
  Shape shape = x.shape();
  const std::int64_t heads = shape[1];
  shape[1] = heads == 1 ? 1 : kv_heads;
  shape.insert(2, heads == 1 ? 1 : heads / kv_heads);
  return reshape(x, shape);
}

// Which keys each query may see: bool, broadcasting to [B, Hkv, G, Lq, Lk].
Array visible(const ops::AttentionOptional<Array>& optional, const Attributes& a, const Shape& q, const Shape& k) {
  const auto constant = [](std::int64_t value) {
    return full({1, 1, 1, 1, 1}, static_cast<double>(value), DType::i64);
  };
  const auto each = [&](const Array* vector, const Array& absent) {
    return vector ? reshape(convert(*vector, DType::i64), {q[0], 1, 1, 1, 1}) : absent;
  };
  const Array j = iota(DType::i64, {1, 1, 1, 1, k[2]}, 4), i = iota(DType::i64, {1, 1, 1, q[2], 1}, 3);
  const Array length = clamp(each(optional.length, constant(k[2])), constant(0), constant(k[2]));
  Array seen = bitwise_and(less(j, length), greater_equal(j, each(optional.start, constant(0))));
  if (a.causal) {
    const Array aligned = a.upper_left ? constant(0) : length - constant(q[2]);
    const Array position = each(optional.position, aligned) + i;
    seen = bitwise_and(seen, less_equal(j, position));
    if (a.window > 0) seen = bitwise_and(seen, greater(j, position - constant(a.window)));
  }
  return optional.mask ? bitwise_and(seen, by_group(*optional.mask, k[1])) : seen;
}

// Scores in f64, [B, Hkv, G, Lq, Lk]: as the softmax takes them, tanh of the softcap, and which are seen.
struct Scores {
  Array q, k, v, final, bend, seen;
};
Scores scores(const Arrays& in, std::size_t fixed, const Attributes& a) {
  const auto optional = ops::optional_operands(std::span<const Array>(in), fixed, a);
  const std::int64_t kv_heads = in[1].shape()[1];
  Scores s{by_group(f64(in[0]), kv_heads), f64(in[1]), f64(in[2]), {}, {}, {}};
  const Array scaled = dot_general(s.q, s.k, {4}, {3}, {0, 1}, {0, 1}) * a.scale;
  s.final = scaled;
  if (a.softcap != 0) {
    s.bend = tanh(scaled / a.softcap);
    s.final = s.bend * a.softcap;
  }
  if (optional.bias) s.final = s.final + by_group(f64(*optional.bias), kv_heads);
  s.seen = broadcast_to(visible(optional, a, in[0].shape(), in[1].shape()), s.final.shape());
  return s;
}
constexpr double kLog2E = 1.4426950408889634;

// e^s 2^-m, 0 for what is not seen; m [B, Hkv, G, Lq, 1].
Array exponentials(const Scores& s, const Array& m) {
  return where(s.seen, exp(s.final - m / kLog2E), zeros(s.final.shape(), DType::f64));
}
// x, but 1 for 0: what a query without a key divides by.
Array nonzero(const Array& x) {
  return where(equal(x, zeros_like(x)), full_like(x, 1), x);
}

Arrays decompose_saving(const Arrays& in, const void* attributes) {
  const auto& a = *static_cast<const Attributes*>(attributes);
  const DType dtype = in[0].dtype();
  const Scores s = scores(in, 3, a);
  const Array most =
      in[1].shape()[2] == 0
          ? zeros({s.final.shape()[0], s.final.shape()[1], s.final.shape()[2], s.final.shape()[3], 1}, DType::f64)
          : max(where(s.seen, s.final, full_like(s.final, -1e18)), {-1}, true);
  const Array m = integral(most * kLog2E), e = exponentials(s, m);
  const Array l = sum(e, {-1}, true);
  const Array o = dot_general(e / nonzero(l), s.v, {4}, {2}, {0, 1}, {0, 1});
  const Shape q = in[0].shape(), rows{q[0], q[1], q[2]};
  return {convert(reshape(o, q), dtype), reshape(m, rows), convert(reshape(l, rows), wide(dtype)),
          convert(reshape(o, q), wide(dtype))};
}

// p, ds and dt of the backward operands.
struct Backward {
  Scores s;
  Array dy, p, ds, dt;
};
Backward backward(const Arrays& in, const Attributes& a) {
  Backward x{scores(in, kFixed, a), {}, {}, {}, {}};
  const Shape rows{x.s.final.shape()[0], x.s.final.shape()[1], x.s.final.shape()[2], x.s.final.shape()[3], 1};
  const Array m = reshape(integral(in[4]), rows), l = reshape(f64(in[5]), rows);
  x.dy = reshape(f64(in[3]), x.s.q.shape());
  x.p = exponentials(x.s, m) / nonzero(l);
  const Array dp = dot_general(x.dy, x.s.v, {4}, {3}, {0, 1}, {0, 1});
  x.ds = x.p * (dp - sum(x.dy * reshape(f64(in[6]), x.s.q.shape()), {-1}, true));
  x.dt = a.softcap != 0 ? x.ds * (1.0 - x.s.bend * x.s.bend) : x.ds;
  return x;
}

Arrays decompose_vjp(const Arrays& in, const void* attributes) {
  const auto& a = *static_cast<const Attributes*>(attributes);
  const Backward x = backward(in, a);
  const DType dtype = in[0].dtype();
  const Array dq = dot_general(x.dt, x.s.k, {4}, {2}, {0, 1}, {0, 1}) * a.scale;
  const Array dk = dot_general(x.dt, x.s.q, {2, 3}, {2, 3}, {0, 1}, {0, 1}) * a.scale;
  const Array dv = dot_general(x.p, x.dy, {2, 3}, {2, 3}, {0, 1}, {0, 1});
  return {convert(reshape(dq, in[0].shape()), dtype), convert(dk, dtype), convert(dv, dtype)};
}

Arrays decompose_bias(const Arrays& in, const void* attributes) {
  const auto& a = *static_cast<const Attributes*>(attributes);
  const Array& bias = *ops::optional_operands(std::span<const Array>(in), kFixed, a).bias;
  const Shape q = in[0].shape(), k = in[1].shape();
  const Array ds = reshape(backward(in, a).ds, {q[0], q[1], q[2], k[2]});
  Shape axes;
  for (int axis = 0; axis < 4; ++axis)
    if (bias.shape()[axis] != ds.shape()[axis]) axes.push_back(axis);
  return {convert(sum(ds, axes, true), bias.dtype())};
}

// ---- Batch ----

// Operands with the batch joined to B; nothing if an operand cannot be: a bias whose cotangent is to be summed over B.
std::optional<Arrays> merged(const Batch& b, std::size_t fixed, bool sums_bias) {
  const auto& a = b.as<Attributes>();
  const std::int64_t batch = b.with_axis(0).shape()[1];
  Arrays operands;
  for (std::size_t i = 0; i < b.operands(); ++i) {
    const bool broadcasts = i >= fixed && b.rank(i) == 4;  // mask and bias
    const Array& x = b.in(i);
    const std::int64_t own = x.shape()[b.batched(i) ? 1 : 0];
    const bool is_bias = broadcasts && a.bias && i == fixed + (a.mask ? 1 : 0);
    if (is_bias && sums_bias && own != batch) return std::nullopt;
    if (broadcasts && !b.batched(i) && own == 1 && !(is_bias && sums_bias)) {
      operands.push_back(x);
      continue;
    }
    Array wide = b.with_axis(i);
    if (own != batch) {
      Shape shape = wide.shape();
      shape[1] = batch;
      wide = broadcast_to(wide, shape);
    }
    operands.push_back(ops::merge_batch(wide));
  }
  return operands;
}

template <bool sums_bias>
void backward_batch(Batch& b) {
  const auto operands = merged(b, kFixed, sums_bias);
  if (!operands) return b.set_by_slices();
  Arrays results = apply_all(b.primitive(), *operands, b.equation().attributes.get());
  for (Array& each : results) each = ops::split_batch(each, b.size(), b.with_axis(0).shape()[1]);
  b.set(std::move(results));
}

// ---- Samples ----

template <bool backward, bool with_bias>
void samples(SampleSink& sink) {
  const auto add = [&](DType t, std::int64_t lq, std::int64_t lk, std::int64_t d, Attributes a,
                       const std::vector<SampleOperand>& more = {}) {
    const Shape q{2, 4, lq, d}, k{2, 2, lk, d}, rows{2, 4, lq};
    std::vector<SampleOperand> operands{{t, q}, {t, k}, {t, k}};
    if (backward) {
      operands.push_back({t, q});
      operands.push_back({DType::f64, rows, Fill::indices, 4});
      operands.push_back({wide(t), rows, Fill::unit});
      operands.push_back({wide(t), q});
    }
    operands.insert(operands.end(), more.begin(), more.end());
    if (a.scale == 1) a.scale = numerics::attention_scale(t, d);
    sink.add(operands, a);
  };
  for (const DType t : {DType::f32, DType::bf16, DType::f16, DType::f64})
    add(t, 9, 140, 16, {.causal = true, .bias = with_bias},
        with_bias ? std::vector<SampleOperand>{{DType::f32, {2, 1, 9, 140}}} : std::vector<SampleOperand>{});
  add(DType::bf16, 5, 70, 8, {.softcap = 5, .mask = true, .bias = true},
      {{DType::boolean, {2, 1, 5, 70}}, {DType::bf16, {1, 4, 1, 70}}});
  add(DType::f32, 6, 20, 4, {.causal = true, .window = 15, .scale = 0x1p-7, .bias = with_bias},
      with_bias ? std::vector<SampleOperand>{{DType::f32, {1, 1, 6, 20}}} : std::vector<SampleOperand>{});
  if (with_bias) return;
  add(DType::f32, 150, 33, 5, {.causal = true, .upper_left = true, .window = 9});
  add(DType::bf16, 150, 20, 5, {});
  add(DType::f32, 3, 0, 4, {});
  add(DType::f32, 6, 150, 8, {.causal = true, .start = true, .length = true, .position = true},
      {{DType::i32, {2}, Fill::indices, 60},
       {DType::i64, {2}, Fill::indices, 150},
       {DType::i32, {2}, Fill::indices, 150}});
}

}  // namespace

void ops::attention_rule(Vjp& g, const Arrays& residuals) {
  Arrays operands{g.in(0), g.in(1), g.in(2), g.ct()};
  operands.insert(operands.end(), residuals.begin(), residuals.end());
  for (std::size_t i = 3; i < g.operands(); ++i) operands.push_back(g.in(i));
  const auto& a = g.as<Attributes>();
  if (g.wants(0) || g.wants(1) || g.wants(2)) {
    const Arrays results = apply_all(prim::attention_vjp, operands, &a);
    for (std::size_t i = 0; i < 3; ++i) g.add_canonical(i, results[i]);
  }
  const std::size_t bias = a.mask ? 4 : 3;
  if (a.bias && g.wants(bias)) g.add(bias, apply_all(prim::attention_vjp_bias, operands, &a)[0]);
}

void ops::attention_batch(Batch& b) {
  Arrays results = apply_all(b.primitive(), *merged(b, 3, false), b.equation().attributes.get());
  for (Array& each : results) each = split_batch(each, b.size(), b.with_axis(0).shape()[1]);
  b.set(std::move(results));
}

constinit const Primitive prim::attention_saving{
    .name = "attention_saving",
    .summary = "attention, and what its derivative needs: the maxima, the sums and the result in f32.",
    .attributes = &kAttributesOf<Attributes>,
    .infer = infer_saving,
    .reference =
        [](const Launch& l) { numerics::attention_saving(ops::dense(l), l.as<Attributes>().options(), saved_by(l)); },
    .run = Kernel{[](const Launch& l, Context&) {
      const AttentionResiduals residuals = saved_by(l);
      kernels::attention(ops::dense(l), l.as<Attributes>().options(), &residuals);
    }},
    .batch = ops::attention_batch,
    .decompose = decompose_saving,
    .samples = samples<false, false>};

constinit const Primitive prim::attention_vjp{.name = "attention_vjp",
                                              .summary = "What a cotangent of attention sends to q, k and v.",
                                              .attributes = &kAttributesOf<Attributes>,
                                              .infer = infer_vjp,
                                              .reference = reference<run_vjp<false>>,
                                              .run = Kernel{run_vjp<true>},
                                              .batch = backward_batch<false>,
                                              .decompose = decompose_vjp,
                                              .samples = samples<true, false>,
                                              .cost = cost};

constinit const Primitive prim::attention_vjp_bias{
    .name = "attention_vjp_bias",
    .summary = "What a cotangent of attention sends to the bias: exact sums.",
    .attributes = &kAttributesOf<Attributes>,
    .infer = infer_bias,
    .reference = reference<run_bias<false>>,
    .run = Kernel{run_bias<true>},
    .batch = backward_batch<true>,
    .decompose = decompose_bias,
    .samples = samples<true, true>,
    .cost = cost};

}  // namespace eadem
