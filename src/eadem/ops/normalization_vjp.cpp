#include "eadem/numerics/normalization_vjp.h"

#include "eadem/numerics/exact_sum.h"
#include "eadem/numerics/reduction_views.h"
#include "eadem/ops/batch.h"
#include "eadem/ops/catalog.h"
#include "eadem/ops/normalization.h"
#include "eadem/ops/ops.h"
#include "eadem/ops/reductions.h"
#include "eadem/ops/rules.h"

// The reverse derivatives of layer_norm, rms_norm and group_norm as primitives of their own: what reaches x, and what
// reaches gamma. Higher derivatives go through `decompose`, in f64.

namespace eadem {
namespace {

using ops::EpsilonAttribute;
using ops::GammaAttribute;
using ops::GroupAttribute;
using ops::widened;

constexpr DType kFloating[] = {DType::f64, DType::f32, DType::bf16, DType::f16};

// ---- Types ----

void require_cotangent(std::string_view name, const TensorType& x, const TensorType& dy) {
  if (dy != x) fail<ShapeError>("[{}] the cotangent must be {} like x, got {}", name, x, dy);
}

Types infer_rows(std::string_view name, const Signature& s) {
  ops::require_operands(name, s, 3);
  ops::require_floating_rows(name, s.operands[0]);
  ops::require_epsilon(name, s.as<EpsilonAttribute>().epsilon);
  ops::require_parameters(name, s, 2, s.operands[0].shape.back());
  require_cotangent(name, s.operands[0], s.operands[2]);
  return {s.operands[0]};
}

Types infer_group(const Signature& s) {
  ops::require_operands("group_norm_vjp", s, 3);
  const auto& a = s.as<GroupAttribute>();
  ops::require_groups("group_norm_vjp", s.operands[0], a.groups);
  ops::require_epsilon("group_norm_vjp", a.epsilon);
  ops::require_parameters("group_norm_vjp", s, 2, s.operands[0].shape[1]);
  require_cotangent("group_norm_vjp", s.operands[0], s.operands[2]);
  return {s.operands[0]};
}

// x without its batch axes.
TensorType one_of_batch(std::string_view name, const TensorType& x, std::int64_t kept) {
  if (kept < 0 || kept >= x.shape.rank()) fail<ShapeError>("[{}] {} leading axes cannot be kept of {}", name, kept, x);
  TensorType one = x;
  for (std::int64_t i = 0; i < kept; ++i) one.shape.erase(0);
  return one;
}

template <bool grouped>
Types infer_gamma(std::string_view name, const Signature& s) {
  ops::require_operands(name, s, 2);
  const TensorType& x = s.operands[0];
  const auto& a = s.as<GammaAttribute>();
  ops::require_floating_rows(name, x);
  ops::require_epsilon(name, a.epsilon);
  require_cotangent(name, x, s.operands[1]);
  const TensorType one = one_of_batch(name, x, a.kept);
  if (grouped) ops::require_groups(name, one, a.groups);
  const DType result = x.dtype == DType::f64 ? x.dtype : a.result.value_or(x.dtype);
  if (result != x.dtype && result != DType::f32)
    fail<TypeError>("[{}] the result must be {} (as x) or f32, got {}", name, x.dtype, result);
  Shape shape;
  for (int i = 0; i < static_cast<int>(a.kept); ++i) shape.push_back(x.shape[i]);
  shape.push_back(grouped ? one.shape[1] : one.shape.back());
  return {{result, shape}};
}

// ---- Meaning ----

template <bool grouped, bool centered>
kernels::GammaLayout layout_of(const TensorView& x, const GammaAttribute& a) {
  const int first = static_cast<int>(a.kept), rank = x.shape.rank();
  kernels::GammaLayout l{1, 1, 1, 1, 1, centered};
  for (int i = 0; i < first; ++i) l.kept *= x.shape[i];
  if (grouped) {
    l.rows = x.shape[first];
    l.groups = a.groups;
    l.channels = x.shape[first + 1] / a.groups;
    for (int i = first + 2; i < rank; ++i) l.spatial *= x.shape[i];
  } else {
    for (int i = first; i + 1 < rank; ++i) l.rows *= x.shape[i];
    l.channels = x.shape[rank - 1];
  }
  return l;
}

// The elements [first, first + n) of a view in row-major order.
template <class T>
std::vector<T> elements(const TensorView& x, std::int64_t first, std::int64_t n) {
  std::vector<T> out(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i)
    out[static_cast<std::size_t>(i)] = x.as<const T>()[numerics::offset_of(first + i, x.shape, x.strides)];
  return out;
}

template <bool grouped, bool centered>
void reference_gamma(const Launch& launch) {
  const TensorView &x = launch.operands[0], &dy = launch.operands[1], &result = launch.results[0];
  const auto& a = launch.as<GammaAttribute>();
  const kernels::GammaLayout l = layout_of<grouped, centered>(x, a);
  const std::int64_t n = l.channels * l.spatial;
  visit_floating(x.dtype, [&]<class T>(std::type_identity<T>) {
    for (std::int64_t part = 0; part < l.kept * l.groups; ++part) {
      std::vector<numerics::ExactAccumulator> sums(static_cast<std::size_t>(l.channels));
      for (std::int64_t r = 0; r < l.rows; ++r) {
        const std::int64_t first = ((part / l.groups * l.rows + r) * l.groups + part % l.groups) * n;
        const auto in = elements<T>(x, first, n), cotangent = elements<T>(dy, first, n);
        const numerics::Moments row = numerics::moments_of<centered>(std::span<const T>(in), a.epsilon);
        for (std::size_t i = 0; i < in.size(); ++i)
          sums[i / static_cast<std::size_t>(l.spatial)].add(
              static_cast<double>(numerics::gamma_term(in[i], cotangent[i], row)));
      }
      for (std::int64_t c = 0; c < l.channels; ++c)
        visit_floating(result.dtype, [&]<class R>(std::type_identity<R>) {
          result.as<R>()[part * l.channels + c] = sums[static_cast<std::size_t>(c)].sum<R>();
        });
    }
  });
}

template <bool grouped, bool centered>
void run_gamma(const Launch& launch, Context&) {
  const auto& a = launch.as<GammaAttribute>();
  kernels::gamma_vjp(launch.operands[0], launch.operands[1], layout_of<grouped, centered>(launch.operands[0], a),
                     a.epsilon, launch.results[0]);
}

// Blocks of n elements, gamma for runs of `spatial` of them.
template <bool centered>
void reference_blocks(const Launch& launch, std::int64_t n, std::int64_t groups, std::int64_t spatial, double epsilon) {
  const TensorView &x = launch.operands[0], &dy = launch.operands[2];
  if (x.elements() == 0) return;
  const auto gamma = widened(launch.operands[1]);
  const auto channels = static_cast<std::size_t>(n / spatial);
  visit_floating(x.dtype, [&]<class T>(std::type_identity<T>) {
    for (std::int64_t block = 0; block < x.elements() / n; ++block) {
      const auto in = elements<T>(x, block * n, n), cotangent = elements<T>(dy, block * n, n);
      const auto first = static_cast<std::size_t>(block % groups) * channels;
      numerics::normalization_vjp<centered, T>(in, std::span<const double>(gamma).subspan(first, channels), cotangent,
                                               epsilon, std::span(launch.results[0].as<T>() + block * n, in.size()),
                                               static_cast<std::size_t>(spatial));
    }
  });
}
template <bool centered>
void reference_rows(const Launch& launch) {
  reference_blocks<centered>(launch, launch.operands[0].shape.back(), 1, 1, launch.as<EpsilonAttribute>().epsilon);
}
void reference_group(const Launch& launch) {
  const TensorView& x = launch.operands[0];
  if (x.elements() == 0) return;
  const auto& a = launch.as<GroupAttribute>();
  const std::int64_t spatial = x.elements() / (x.shape[0] * x.shape[1]);
  reference_blocks<true>(launch, x.shape[1] / a.groups * spatial, a.groups, spatial, a.epsilon);
}

// ---- Rules ----

void batch_rows(Batch& b) {
  if (b.batched(1)) return b.set_by_slices();
  b.set(
      apply(b.primitive(), std::vector<Array>{b.with_axis(0), b.in(1), b.with_axis(2)}, b.equation().attributes.get()));
}
void batch_group(Batch& b) {
  if (b.batched(1)) return b.set_by_slices();
  const Array x = b.with_axis(0);
  const std::vector<Array> operands{ops::merge_batch(x), b.in(1), ops::merge_batch(b.with_axis(2))};
  b.set(ops::split_batch(apply(b.primitive(), operands, b.equation().attributes.get()), b.size(), x.shape()[1]));
}
void batch_gamma(Batch& b) {
  GammaAttribute attribute = b.as<GammaAttribute>();
  ++attribute.kept;
  b.set(apply(b.primitive(), {b.with_axis(0), b.with_axis(1)}, attribute));
}

Array row_mean(const Array& x) {
  return sum(x, {-1}, true) / static_cast<double>(x.shape().back());
}
// Of x in f64: 1 / sqrt(variance + epsilon), and the normalised x, over the last axis.
struct Normalized {
  Array r, x;
};
template <bool centered>
Normalized normalized(const Array& x, double epsilon) {
  const Array c = centered ? x - row_mean(x) : x;
  const Array r = rsqrt(row_mean(c * c) + epsilon);
  return {r, c * r};
}
template <bool centered>
Array decomposed_rows(const Array& x, const Array& g, double epsilon) {
  const Normalized n = normalized<centered>(x, epsilon);
  const Array shifted = centered ? g - row_mean(g) : g;
  return n.r * (shifted - n.x * row_mean(g * n.x));
}
Array wide(const Array& x) {
  return convert(x, DType::f64);
}

template <bool centered>
Arrays decompose_rows(const Arrays& in, const void* attributes) {
  const double epsilon = static_cast<const EpsilonAttribute*>(attributes)->epsilon;
  return {convert(decomposed_rows<centered>(wide(in[0]), wide(in[2]) * wide(in[1]), epsilon), in[0].dtype())};
}
Arrays decompose_group(const Arrays& in, const void* attributes) {
  const auto& a = *static_cast<const GroupAttribute*>(attributes);
  const Shape& shape = in[0].shape();
  Shape along = Shape::filled(shape.rank() - 1, 1);
  along[0] = shape[1];
  const std::int64_t n = shape.elements() == 0 ? 0 : shape.elements() / (shape[0] * a.groups);
  const auto grouped = [&](const Array& x) { return reshape(x, {shape[0], a.groups, n}); };
  const Array g = wide(in[2]) * reshape(wide(in[1]), along);
  return {convert(reshape(decomposed_rows<true>(grouped(wide(in[0])), grouped(g), a.epsilon), shape), in[0].dtype())};
}

template <bool grouped, bool centered>
Arrays decompose_gamma(const Arrays& in, const void* attributes) {
  const auto& a = *static_cast<const GammaAttribute*>(attributes);
  const Shape& shape = in[0].shape();
  const int kept = static_cast<int>(a.kept);
  const DType result = in[0].dtype() == DType::f64 ? DType::f64 : a.result.value_or(in[0].dtype());
  Array x = wide(in[0]);
  if (grouped) {
    Shape blocks;
    for (int i = 0; i <= kept; ++i) blocks.push_back(shape[i]);
    blocks.push_back(a.groups);
    std::int64_t n = shape[kept + 1] / a.groups;
    for (int i = kept + 2; i < shape.rank(); ++i) n *= shape[i];
    blocks.push_back(n);
    x = reshape(x, blocks);
  }
  const Array terms = wide(in[1]) * reshape(normalized<centered>(x, a.epsilon).x, shape);
  const int channel = grouped ? kept + 1 : shape.rank() - 1;
  Shape axes;
  for (int i = kept; i < shape.rank(); ++i)
    if (i != channel) axes.push_back(i);
  return {convert(sum(terms, axes), result)};
}

// ---- Samples ----

void samples_rows(SampleSink& sink) {
  const auto add = [&](DType x, DType gamma, const Shape& shape, Fill fill) {
    sink.add({{x, shape, fill}, {gamma, {shape.back()}, Fill::normal}, {x, shape, fill}}, ops::epsilon_attribute(1e-5));
  };
  for (const DType dtype : kFloating) {
    add(dtype, dtype, {3, 5, 37}, Fill::normal);
    add(dtype, DType::f32, {4, 64}, Fill::wide);
    add(dtype, dtype, {9, 16}, Fill::edges);
    add(dtype, dtype, {2, 4101}, Fill::normal);
  }
  add(DType::f32, DType::f32, {3001, 1}, Fill::normal);
  add(DType::f32, DType::f32, {3, 0}, Fill::normal);
}

void samples_gamma(SampleSink& sink) {
  const auto add = [&](DType dtype, const Shape& shape, Fill fill, std::int64_t kept, std::optional<DType> result) {
    sink.add({{dtype, shape, fill}, {dtype, shape, fill}}, GammaAttribute{1e-5, 1, kept, result});
  };
  for (const DType dtype : kFloating) {
    add(dtype, {3, 50, 37}, Fill::normal, 0, std::nullopt);
    add(dtype, {3, 50, 37}, Fill::normal, 1, DType::f32);
    add(dtype, {40, 24}, Fill::wide, 0, std::nullopt);
    add(dtype, {9, 16}, Fill::edges, 0, std::nullopt);
    add(dtype, {2, 4101}, Fill::unit, 0, std::nullopt);
  }
  add(DType::f32, {1500, 5}, Fill::normal, 0, std::nullopt);
  add(DType::f32, {7}, Fill::normal, 0, std::nullopt);
  add(DType::f32, {0, 3}, Fill::normal, 0, std::nullopt);
}

void samples_group(SampleSink& sink) {
  for (const DType dtype : kFloating) {
    const Shape shape{2, 6, 5, 7};
    sink.add({{dtype, shape}, {dtype, {6}}, {dtype, shape}}, GroupAttribute{3, 1e-5});
    sink.add({{dtype, {3, 4}, Fill::edges}, {DType::f32, {4}}, {dtype, {3, 4}, Fill::edges}}, GroupAttribute{2, 1e-6});
  }
  const Shape large{1, 8, 30, 31};
  sink.add({{DType::f32, large}, {DType::f32, {8}}, {DType::f32, large}}, GroupAttribute{1, 1e-5});
}
void samples_group_gamma(SampleSink& sink) {
  for (const DType dtype : kFloating) {
    const Shape shape{2, 6, 5, 7}, batched{2, 3, 4, 9};
    sink.add({{dtype, shape}, {dtype, shape}}, GammaAttribute{1e-5, 3, 0, std::nullopt});
    sink.add({{dtype, batched}, {dtype, batched}}, GammaAttribute{1e-5, 2, 1, DType::f32});
    sink.add({{dtype, {3, 4}, Fill::edges}, {dtype, {3, 4}, Fill::edges}}, GammaAttribute{1e-6, 2, 0, std::nullopt});
  }
}

}  // namespace

constinit const Primitive prim::layer_norm_vjp{
    .name = "layer_norm_vjp",
    .summary = "What a cotangent of layer_norm sends to x, in f64, rounded once.",
    .attributes = &kAttributesOf<EpsilonAttribute>,
    .infer = [](const Signature& s) { return infer_rows("layer_norm_vjp", s); },
    .reference = reference_rows<true>,
    .run = Row{kernels::layer_norm_vjp_rows},
    .batch = batch_rows,
    .decompose = decompose_rows<true>,
    .samples = samples_rows};

constinit const Primitive prim::layer_norm_vjp_gamma{
    .name = "layer_norm_vjp_gamma",
    .summary = "What a cotangent of layer_norm sends to gamma: the exact sum of dy times the normalised x.",
    .attributes = &kAttributesOf<GammaAttribute>,
    .infer = [](const Signature& s) { return infer_gamma<false>("layer_norm_vjp_gamma", s); },
    .reference = reference_gamma<false, true>,
    .run = Kernel{run_gamma<false, true>},
    .batch = batch_gamma,
    .decompose = decompose_gamma<false, true>,
    .samples = samples_gamma};

constinit const Primitive prim::rms_norm_vjp{
    .name = "rms_norm_vjp",
    .summary = "What a cotangent of rms_norm sends to x, in f64, rounded once.",
    .attributes = &kAttributesOf<EpsilonAttribute>,
    .infer = [](const Signature& s) { return infer_rows("rms_norm_vjp", s); },
    .reference = reference_rows<false>,
    .run = Row{kernels::rms_norm_vjp_rows},
    .batch = batch_rows,
    .decompose = decompose_rows<false>,
    .samples = samples_rows};

constinit const Primitive prim::rms_norm_vjp_gamma{
    .name = "rms_norm_vjp_gamma",
    .summary = "What a cotangent of rms_norm sends to gamma: the exact sum of dy times the normalised x.",
    .attributes = &kAttributesOf<GammaAttribute>,
    .infer = [](const Signature& s) { return infer_gamma<false>("rms_norm_vjp_gamma", s); },
    .reference = reference_gamma<false, false>,
    .run = Kernel{run_gamma<false, false>},
    .batch = batch_gamma,
    .decompose = decompose_gamma<false, false>,
    .samples = samples_gamma};

constinit const Primitive prim::group_norm_vjp{
    .name = "group_norm_vjp",
    .summary = "What a cotangent of group_norm sends to x, in f64, rounded once.",
    .attributes = &kAttributesOf<GroupAttribute>,
    .infer = infer_group,
    .reference = reference_group,
    .run = Kernel{[](const Launch& launch, Context&) {
      const auto& a = launch.as<GroupAttribute>();
      kernels::group_norm_vjp(launch.operands[0], launch.operands[1], launch.operands[2], a.groups, a.epsilon,
                              launch.results[0]);
    }},
    .batch = batch_group,
    .decompose = decompose_group,
    .samples = samples_group};

constinit const Primitive prim::group_norm_vjp_gamma{
    .name = "group_norm_vjp_gamma",
    .summary = "What a cotangent of group_norm sends to gamma: the exact sum of dy times the normalised x.",
    .attributes = &kAttributesOf<GammaAttribute>,
    .infer = [](const Signature& s) { return infer_gamma<true>("group_norm_vjp_gamma", s); },
    .reference = reference_gamma<true, true>,
    .run = Kernel{run_gamma<true, true>},
    .batch = batch_gamma,
    .decompose = decompose_gamma<true, true>,
    .samples = samples_group_gamma};

}  // namespace eadem
