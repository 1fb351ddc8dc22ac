#include <array>

#include "eadem/kernels/move/copy.h"
#include "eadem/kernels/rows/columns.h"
#include "eadem/numerics/normalization.h"
#include "eadem/numerics/reduction_views.h"
#include "eadem/ops/catalog.h"
#include "eadem/ops/normalization.h"
#include "eadem/ops/ops.h"
#include "eadem/ops/reductions.h"
#include "eadem/ops/rules.h"
#include "eadem/runtime/context.h"

// batch_norm: layer_norm's formula over all axes but the channels, which are the last, with the batch's own moments, or
// with given ones.

namespace eadem {
namespace {

using ops::EpsilonAttribute;
using ops::GammaAttribute;
using ops::GroupAttribute;
using ops::widened;

// ---- Types ----

void require_x(std::string_view name, const TensorType& x) {
  ops::require_floating_rows(name, x);
  if (x.shape.rank() < 2) fail<ShapeError>("[{}] needs [N, .., C], got {}", name, x);
}

Types infer(const Signature& s) {
  ops::require_operands("batch_norm", s, 3);
  const TensorType& x = s.operands[0];
  require_x("batch_norm", x);
  ops::require_epsilon("batch_norm", s.as<EpsilonAttribute>().epsilon);
  ops::require_parameters("batch_norm", s, 3, x.shape.back());
  const TensorType moment{x.dtype == DType::f64 ? DType::f64 : DType::f32, {x.shape.back()}};
  return {x, moment, moment};
}

// x, gamma, beta as batch_norm's, then mean and variance.
Types infer_inference(const Signature& s) {
  constexpr std::string_view name = "batch_norm_inference";
  ops::require_operands(name, s, 5);
  const TensorType& x = s.operands[0];
  require_x(name, x);
  ops::require_epsilon(name, s.as<EpsilonAttribute>().epsilon);
  ops::require_parameters(name, s, 3, x.shape.back());
  for (std::size_t i = 3; i < 5; ++i)
    if (s.operands[i].shape != Shape{x.shape.back()} || !is_floating(s.operands[i].dtype))
      fail<ShapeError>("[{}] the {} must be a floating [{}] for x {}, got {}", name, i == 3 ? "mean" : "variance",
                       x.shape.back(), x, s.operands[i]);
  return {x};
}

// ---- Meaning and kernels ----

void reference(const Launch& launch) {
  const TensorView& x = launch.operands[0];
  const double epsilon = launch.as<EpsilonAttribute>().epsilon;
  const std::int64_t channels = x.shape.back(), rows = channels == 0 ? 0 : x.elements() / channels;
  const auto gamma = widened(launch.operands[1]), beta = widened(launch.operands[2]);
  Shape axes;
  for (int axis = 0; axis + 1 < x.shape.rank(); ++axis) axes.push_back(axis);
  visit_floating(x.dtype, [&]<class T>(std::type_identity<T>) {
    numerics::for_each_reduction<T>(x, axes, [&](std::span<const T> column, std::int64_t c) {
      std::vector<T> y(column.size());
      const auto at = static_cast<std::size_t>(c);
      numerics::group_norm<T>(column, rows, std::span(gamma).subspan(at, 1), std::span(beta).subspan(at, 1), epsilon,
                              std::span<T>(y));
      for (std::int64_t row = 0; row < rows; ++row)
        launch.results[0].as<T>()[row * channels + c] = y[static_cast<std::size_t>(row)];
      const auto moments = numerics::mean_and_variance(
          rows, [&](std::int64_t row) { return numerics::to_double(column[static_cast<std::size_t>(row)]); });
      launch.results[1].as<numerics::Wide<T>>()[c] = numerics::round_to<numerics::Wide<T>>(moments.mean);
      launch.results[2].as<numerics::Wide<T>>()[c] = numerics::round_to<numerics::Wide<T>>(moments.variance);
    });
  });
}

void reference_inference(const Launch& launch) {
  const TensorView& x = launch.operands[0];
  const auto gamma = widened(launch.operands[1]), beta = widened(launch.operands[2]);
  const auto mean = widened(launch.operands[3]), variance = widened(launch.operands[4]);
  const std::int64_t channels = x.shape.back();
  visit_floating(x.dtype, [&]<class T>(std::type_identity<T>) {
    for (std::int64_t i = 0; i < x.elements(); ++i) {
      const auto c = static_cast<std::size_t>(i % channels);
      const double r = 1 / std::sqrt(variance[c] + launch.as<EpsilonAttribute>().epsilon);
      const double element = numerics::to_double(x.as<const T>()[numerics::offset_of(i, x.shape, x.strides)]);
      launch.results[0].as<T>()[i] = numerics::round_to<T>(std::fma((element - mean[c]) * r, gamma[c], beta[c]));
    }
  });
}

// x as [rows, channels], contiguous.
TensorView as_columns(const TensorView& x, Context& context) {
  TensorView view = x;
  if (!is_contiguous(x)) {
    view =
        contiguous_view(context.scratch(static_cast<std::size_t>(x.elements()) * size_of(x.dtype)), x.dtype, x.shape);
    kernels::copy(x, view);
  }
  const std::int64_t channels = x.shape.back();
  return contiguous_view(view.data, x.dtype, {channels == 0 ? 0 : x.elements() / channels, channels});
}

void normalize(const Launch& launch, const TensorView& x, const std::vector<double>& mean,
               const std::vector<double>& variance) {
  std::vector<double> scale(variance.size());
  for (std::size_t c = 0; c < scale.size(); ++c)
    scale[c] = 1 / std::sqrt(variance[c] + launch.as<EpsilonAttribute>().epsilon);
  const auto gamma = widened(launch.operands[1]), beta = widened(launch.operands[2]);
  kernels::normalize_columns(x, {mean, scale, gamma, beta}, launch.results[0]);
}

void run(const Launch& launch, Context& context) {
  const TensorView x = as_columns(launch.operands[0], context);
  std::vector<double> mean(static_cast<std::size_t>(x.shape[1])), variance(mean.size());
  kernels::column_moments(x, mean, variance);
  normalize(launch, x, mean, variance);
  visit_floating(launch.results[1].dtype, [&]<class W>(std::type_identity<W>) {
    for (std::size_t c = 0; c < mean.size(); ++c) {
      launch.results[1].as<W>()[c] = numerics::round_to<W>(mean[c]);
      launch.results[2].as<W>()[c] = numerics::round_to<W>(variance[c]);
    }
  });
}
void run_inference(const Launch& launch, Context& context) {
  normalize(launch, as_columns(launch.operands[0], context), widened(launch.operands[3]), widened(launch.operands[4]));
}

// ---- Rules ----

Shape all_but_last(const Array& x) {
  Shape axes;
  for (int axis = 0; axis + 1 < x.rank(); ++axis) axes.push_back(axis);
  return axes;
}

// A channel is a group of its own of one example: [N, .., C] as [1, C, N ..].
Array channels_as_groups(const Array& x) {
  const std::int64_t channels = x.shape().back(), rows = channels == 0 ? 0 : x.elements() / channels;
  return reshape(transpose(reshape(x, {rows, channels})), {1, channels, rows});
}

void vjp(Vjp& g) {
  const double epsilon = g.as<EpsilonAttribute>().epsilon;
  const Array &x = g.in(0), &gamma = g.in(1);
  const std::int64_t channels = x.shape().back();
  if (g.has_ct(0)) {
    const Array groups = channels_as_groups(x), ct = channels_as_groups(g.ct(0));
    if (g.wants(0) && channels > 0) {
      const Array dx = apply(prim::group_norm_vjp, {groups, gamma, ct}, GroupAttribute{channels, epsilon});
      g.add_canonical(0, reshape(transpose(squeeze(dx, 0)), x.shape()));
    }
    if (g.wants(1) && channels > 0)
      g.add(1, apply(prim::group_norm_vjp_gamma, {groups, ct}, GammaAttribute{epsilon, channels, 0, gamma.dtype()}));
    if (g.wants(2)) {
      const DType beta = g.in(2).dtype();
      g.add(2, convert(sum(convert(g.ct(0), promote(g.ct(0).dtype(), beta)), all_but_last(x)), beta));
    }
  }
  // What reaches x through the moments.
  if (!g.wants(0) || x.elements() == 0) return;
  const double rows = static_cast<double>(x.elements() / channels);
  const auto spread = [&](const Array& v) { return broadcast_to(convert(v, DType::f64), x.shape()); };
  if (g.has_ct(1)) g.add(0, convert(spread(g.ct(1)) / rows, x.dtype()));
  if (g.has_ct(2)) {
    const Array wide = convert(x, DType::f64), slope = (wide - mean(wide, all_but_last(x), true)) * (2 / rows);
    g.add(0, convert(ops::through(spread(g.ct(2)), ops::times(slope)), x.dtype()));
  }
}

// The batch becomes more channels: [B, N, .., C] as [N, .., B C], parameters [B, C] as [B C].
void batch(Batch& b) {
  const Array x = move_axis(b.with_axis(0), 0, b.in(0).rank() - (b.batched(0) ? 2 : 1));
  Shape shape = x.shape();
  const std::int64_t channels = shape.back();
  shape.pop_back();
  shape.back() *= channels;
  Arrays operands{reshape(x, shape)};
  for (std::size_t i = 1; i < b.operands(); ++i) operands.push_back(reshape(b.with_axis(i), {b.size() * channels}));
  Arrays results = apply_all(b.primitive(), operands, b.equation().attributes.get());
  results[0] = move_axis(reshape(results[0], x.shape()), x.rank() - 2, 0);
  for (std::size_t r = 1; r < results.size(); ++r) results[r] = reshape(results[r], {b.size(), channels});
  b.set(std::move(results));
}

Arrays decompose_inference(const Arrays& in, const void* attributes) {
  const double epsilon = static_cast<const EpsilonAttribute*>(attributes)->epsilon;
  const auto wide = [&](std::size_t i) { return convert(in[i], DType::f64); };
  const Array normalized = (wide(0) - wide(3)) * rsqrt(wide(4) + epsilon);
  return {convert(normalized * wide(1) + wide(2), in[0].dtype())};
}

template <bool inference>
void samples(SampleSink& sink) {
  const auto add = [&](DType x, DType parameters, const Shape& shape, Fill fill) {
    const Shape channels{shape.back()};
    std::vector<SampleOperand> operands{{x, shape, fill}, {parameters, channels}, {parameters, channels}};
    if (inference) {
      operands.push_back({x == DType::f64 ? DType::f64 : DType::f32, channels});
      operands.push_back({operands.back().dtype, channels, Fill::positive});
    }
    sink.add(operands, ops::epsilon_attribute(1e-5));
  };
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
    add(dtype, dtype, {2, 3, 5, 7}, Fill::normal);
    add(dtype, DType::f32, {40, 70}, Fill::wide);
    add(dtype, dtype, {9, 16}, Fill::edges);
    add(dtype, dtype, {4101, 3}, Fill::normal);
  }
  add(DType::f32, DType::f32, {1, 5}, Fill::normal);
  add(DType::f32, DType::f32, {0, 3}, Fill::normal);
}

}  // namespace

constinit const Primitive prim::batch_norm{
    .name = "batch_norm",
    .summary =
        "layer_norm's formula for each channel (the last axis) over all other axes; and their means and variances.",
    .attributes = &kAttributesOf<EpsilonAttribute>,
    .infer = infer,
    .reference = reference,
    .run = Kernel{run},
    .vjp = vjp,
    .batch = batch,
    .samples = samples<false>};

constinit const Primitive prim::batch_norm_inference{
    .name = "batch_norm_inference",
    .summary = "(x - mean) / sqrt(variance + epsilon) gamma + beta with each channel's given moments, rounded once.",
    .attributes = &kAttributesOf<EpsilonAttribute>,
    .infer = infer_inference,
    .reference = reference_inference,
    .run = Kernel{run_inference},
    .batch = batch,
    .decompose = decompose_inference,
    .samples = samples<true>};

BatchNormResult batch_norm(const Array& x, const Array& gamma, const Array& beta, double epsilon,
                           std::int64_t channel_axis) {
  const int axis = normalize_axis("batch_norm", channel_axis, x.rank());
  const Arrays all =
      apply_all(prim::batch_norm, {ops::move_axis_last(x, axis), gamma, beta}, ops::epsilon_attribute(epsilon));
  return {ops::move_axis_back(all[0], axis), all[1], all[2]};
}
Array batch_norm_inference(const Array& x, const Array& mean, const Array& variance, const Array& gamma,
                           const Array& beta, double epsilon, std::int64_t channel_axis) {
  const int axis = normalize_axis("batch_norm", channel_axis, x.rank());
  return ops::move_axis_back(
      apply(prim::batch_norm_inference, {ops::move_axis_last(x, axis), gamma, beta, mean, variance},
            ops::epsilon_attribute(epsilon)),
      axis);
}

}  // namespace eadem
