#include "eadem/numerics/normalization.h"

#include "eadem/kernels/rows/rows.h"
#include "eadem/numerics/reduction_views.h"
#include "eadem/ops/batch.h"
#include "eadem/ops/catalog.h"
#include "eadem/ops/normalization.h"
#include "eadem/ops/ops.h"
#include "eadem/ops/reductions.h"
#include "eadem/ops/rules.h"

namespace eadem {
namespace ops {

void require_epsilon(std::string_view name, double epsilon) {
  if (!(epsilon >= 0)) fail<ValueError>("[{}] epsilon must not be negative, got {}", name, epsilon);
}

void require_parameters(std::string_view name, const Signature& s, std::size_t end, std::int64_t length) {
  constexpr std::string_view kNames[] = {"x", "gamma", "beta"};
  const TensorType& x = s.operands[0];
  for (std::size_t i = 1; i < end; ++i) {
    const TensorType& p = s.operands[i];
    if (p.shape != Shape{length}) {
      fail<ShapeError>("[{}] {} must have shape [{}] for x {}, got {}", name, kNames[i], length, x, p);
    }
    if (p.dtype != x.dtype && p.dtype != DType::f32) {
      fail<TypeError>("[{}] {} must be {} (as x) or f32, got {}", name, kNames[i], x.dtype, p);
    }
    if (p.dtype != s.operands[1].dtype) {
      fail<TypeError>("[{}] gamma and beta must have one dtype, got {} and {}", name, s.operands[1], p);
    }
  }
}

void require_groups(std::string_view name, const TensorType& x, std::int64_t groups) {
  if (!is_floating(x.dtype)) fail<TypeError>("[{}] needs a floating-point array, got {}", name, x);
  if (x.shape.rank() < 2) fail<ShapeError>("[{}] needs [N, C, ...], got {}", name, x);
  if (groups < 1 || x.shape[1] % groups != 0)
    fail<ShapeError>("[{}] the {} channels of {} do not divide into {} groups", name, x.shape[1], x, groups);
}

std::vector<double> widened(const TensorView& vector) {
  std::vector<double> out(static_cast<std::size_t>(vector.shape[0]));
  visit_floating(vector.dtype, [&]<class T>(std::type_identity<T>) {
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i] = numerics::to_double(vector.as<const T>()[static_cast<std::int64_t>(i) * vector.strides[0]]);
    }
  });
  return out;
}

}  // namespace ops

namespace {

using ops::epsilon_attribute;
using ops::EpsilonAttribute;
using ops::GammaAttribute;
using ops::GroupAttribute;
using ops::require_epsilon;
using ops::require_groups;
using ops::require_parameters;
using ops::widened;

Types infer_rows(std::string_view name, const Signature& s, std::size_t operands) {
  ops::require_operands(name, s, operands);
  ops::require_floating_rows(name, s.operands[0]);
  require_epsilon(name, s.as<EpsilonAttribute>().epsilon);
  require_parameters(name, s, operands, s.operands[0].shape.back());
  return {s.operands[0]};
}

Types infer_group_norm(const Signature& s) {
  ops::require_operands("group_norm", s, 3);
  const TensorType& x = s.operands[0];
  const auto& a = s.as<GroupAttribute>();
  require_groups("group_norm", x, a.groups);
  require_epsilon("group_norm", a.epsilon);
  require_parameters("group_norm", s, 3, x.shape[1]);
  return {x};
}

// f(row, its result) for every row, or group, over the reduced axes.
template <class F>
void reference(const TensorView& x, const Shape& axes, const TensorView& result, F f) {
  visit_floating(x.dtype, [&]<class T>(std::type_identity<T>) {
    numerics::for_each_reduction<T>(x, axes, [&](std::span<const T> row, std::int64_t index) {
      f(row, std::span(result.as<T>() + index * static_cast<std::int64_t>(row.size()), row.size()), index);
    });
  });
}

void reference_group_norm(const Launch& launch) {
  const auto& a = launch.as<GroupAttribute>();
  TensorView x = launch.operands[0];
  if (x.elements() == 0) return;
  const auto gamma = widened(launch.operands[1]), beta = widened(launch.operands[2]);
  // [N, C, ...] as [N, groups, C / groups, ...]
  const std::int64_t channels = x.shape[1] / a.groups;
  x.shape[1] = channels;
  x.shape.insert(1, a.groups);
  x.strides.insert(1, x.strides[1] * channels);
  Shape axes;
  for (int axis = 2; axis < x.shape.rank(); ++axis) axes.push_back(axis);
  reference(x, axes, launch.results[0], [&]<class T>(std::span<const T> row, std::span<T> y, std::int64_t index) {
    const auto first = static_cast<std::size_t>(index % a.groups * channels);
    const auto n = static_cast<std::size_t>(channels);
    numerics::group_norm<T>(row, static_cast<std::int64_t>(row.size()) / channels,
                            std::span<const double>(gamma).subspan(first, n),
                            std::span<const double>(beta).subspan(first, n), a.epsilon, y);
  });
}

// ---- Rules ----

// What reaches beta: the exact sum, in the wider of the two dtypes, so that it is rounded once when that is beta's.
void add_beta(Vjp& g, const Shape& axes) {
  if (!g.wants(2)) return;
  const DType beta = g.in(2).dtype();
  g.add(2, convert(sum(convert(g.ct(), promote(g.ct().dtype(), beta)), axes), beta));
}

// A sum that underflows may be -0, so what reaches gamma is not canonical.
template <const Primitive& of_x, const Primitive& of_gamma>
void rows_vjp(Vjp& g) {
  const double epsilon = g.as<EpsilonAttribute>().epsilon;
  if (g.wants(0)) g.add_canonical(0, apply(of_x, {g.in(0), g.in(1), g.ct()}, epsilon_attribute(epsilon)));
  if (g.wants(1)) g.add(1, apply(of_gamma, {g.in(0), g.ct()}, GammaAttribute{epsilon, 1, 0, g.in(1).dtype()}));
  Shape rows;
  for (int axis = 0; axis + 1 < g.ct().rank(); ++axis) rows.push_back(axis);
  if (g.operands() == 3) add_beta(g, rows);
}

void group_vjp(Vjp& g) {
  const auto& a = g.as<GroupAttribute>();
  if (g.wants(0)) g.add_canonical(0, apply(prim::group_norm_vjp, {g.in(0), g.in(1), g.ct()}, a));
  if (g.wants(1))
    g.add(1, apply(prim::group_norm_vjp_gamma, {g.in(0), g.ct()},
                   GammaAttribute{a.epsilon, a.groups, 0, g.in(1).dtype()}));
  Shape axes{0};
  for (int axis = 2; axis < g.ct().rank(); ++axis) axes.push_back(axis);
  add_beta(g, axes);
}

// The batch is one more axis of rows, while all slices have the same parameters.
void batch_rows(Batch& b) {
  if (b.batched(1) || (b.operands() == 3 && b.batched(2))) return b.set_by_slices();
  Arrays operands{b.in(0)};
  for (std::size_t i = 1; i < b.operands(); ++i) operands.push_back(b.in(i));
  b.set(apply(b.primitive(), operands, b.equation().attributes.get()));
}
void batch_groups(Batch& b) {
  if (b.batched(1) || b.batched(2)) return b.set_by_slices();
  b.set(ops::split_batch(apply(b.primitive(), std::vector<Array>{ops::merge_batch(b.in(0)), b.in(1), b.in(2)},
                               b.equation().attributes.get()),
                         b.size(), b.in(0).shape()[1]));
}

constexpr DType kFloating[] = {DType::f64, DType::f32, DType::bf16, DType::f16};

template <std::size_t operands>
void samples(SampleSink& sink) {
  const auto add = [&](DType x, DType parameters, const Shape& shape, Fill fill) {
    std::vector<SampleOperand> list{{x, shape, fill}};
    for (std::size_t i = 1; i < operands; ++i) list.push_back({parameters, {shape.back()}, Fill::normal});
    sink.add(list, epsilon_attribute(1e-5));
  };
  for (const DType dtype : kFloating) {
    add(dtype, dtype, {3, 5, 37}, Fill::normal);
    add(dtype, DType::f32, {4, 64}, Fill::wide);
    add(dtype, dtype, {9, 16}, Fill::edges);
    add(dtype, dtype, {2, 4101}, Fill::normal);
  }
  add(DType::f32, DType::f32, {5, 1}, Fill::normal);
  add(DType::f32, DType::f32, {3, 0}, Fill::normal);
}

}  // namespace

constinit const Primitive prim::layer_norm{
    .name = "layer_norm",
    .summary = "(x - mean) / sqrt(variance + epsilon) gamma + beta along the last axis, in f64, rounded once.",
    .attributes = &kAttributesOf<EpsilonAttribute>,
    .infer = [](const Signature& s) { return infer_rows("layer_norm", s, 3); },
    .reference =
        [](const Launch& launch) {
          const TensorView& x = launch.operands[0];
          const auto gamma = widened(launch.operands[1]), beta = widened(launch.operands[2]);
          reference(x, {x.shape.rank() - 1}, launch.results[0],
                    [&]<class T>(std::span<const T> row, std::span<T> y, std::int64_t) {
                      numerics::layer_norm<T>(row, gamma, beta, launch.as<EpsilonAttribute>().epsilon, y);
                    });
        },
    .run = Row{kernels::layer_norm_rows},
    .vjp = rows_vjp<prim::layer_norm_vjp, prim::layer_norm_vjp_gamma>,
    .batch = batch_rows,
    .samples = samples<3>};

constinit const Primitive prim::rms_norm{
    .name = "rms_norm",
    .summary = "x / sqrt(mean(x^2) + epsilon) gamma along the last axis, in f64, rounded once.",
    .attributes = &kAttributesOf<EpsilonAttribute>,
    .infer = [](const Signature& s) { return infer_rows("rms_norm", s, 2); },
    .reference =
        [](const Launch& launch) {
          const TensorView& x = launch.operands[0];
          const auto gamma = widened(launch.operands[1]);
          reference(x, {x.shape.rank() - 1}, launch.results[0],
                    [&]<class T>(std::span<const T> row, std::span<T> y, std::int64_t) {
                      numerics::rms_norm<T>(row, gamma, launch.as<EpsilonAttribute>().epsilon, y);
                    });
        },
    .run = Row{kernels::rms_norm_rows},
    .vjp = rows_vjp<prim::rms_norm_vjp, prim::rms_norm_vjp_gamma>,
    .batch = batch_rows,
    .samples = samples<2>};

constinit const Primitive prim::group_norm{
    .name = "group_norm",
    .summary = "layer_norm over each group of channels of [N, C, ...], gamma and beta a channel.",
    .attributes = &kAttributesOf<GroupAttribute>,
    .infer = infer_group_norm,
    .reference = reference_group_norm,
    .run = Kernel{[](const Launch& launch, Context&) {
      const auto& a = launch.as<GroupAttribute>();
      kernels::group_norm(launch.operands[0], launch.operands[1], launch.operands[2], a.groups, a.epsilon,
                          launch.results[0]);
    }},
    .vjp = group_vjp,
    .batch = batch_groups,
    .samples = [](SampleSink& sink) {
      for (const DType dtype : kFloating) {
        sink.add({{dtype, {2, 6, 5, 7}}, {dtype, {6}}, {dtype, {6}}}, GroupAttribute{3, 1e-5});
        sink.add({{dtype, {3, 4}, Fill::edges}, {DType::f32, {4}}, {DType::f32, {4}}}, GroupAttribute{2, 1e-6});
      }
      sink.add({{DType::f32, {1, 8, 30, 31}}, {DType::f32, {8}}, {DType::f32, {8}}}, GroupAttribute{1, 1e-5});
    }};

Array layer_norm(const Array& x, const Array& gamma, const Array& beta, double epsilon) {
  return apply(prim::layer_norm, {x, gamma, beta}, epsilon_attribute(epsilon));
}
Array layer_norm(const Array& x, double epsilon) {
  ops::require_floating_rows("layer_norm", x.type());
  const Shape length{x.shape().back()};
  return layer_norm(x, broadcast_to(Array::scalar(1, x.dtype()), length),
                    broadcast_to(Array::scalar(0, x.dtype()), length), epsilon);
}
Array rms_norm(const Array& x, const Array& gamma, double epsilon) {
  return apply(prim::rms_norm, {x, gamma}, epsilon_attribute(epsilon));
}
Array group_norm(const Array& x, const Array& gamma, const Array& beta, std::int64_t groups, double epsilon,
                 std::int64_t channel_axis) {
  const int axis = normalize_axis("group_norm", channel_axis, x.rank());
  if (axis == 1) return apply(prim::group_norm, {x, gamma, beta}, GroupAttribute{groups, epsilon});
  if (axis == 0) fail<ShapeError>("[group_norm] axis 0 of {} is the batch, not the channels", x.type());
  // The order of a group's elements is (c, h, w) wherever the channels lie.
  Shape there{0, axis}, back{0};
  for (int i = 1; i < x.rank(); ++i) {
    if (i != axis) there.push_back(i);
  }
  for (int i = 1; i < x.rank(); ++i) back.push_back(i == axis ? 1 : i < axis ? i + 1 : i);
  return transpose(apply(prim::group_norm, {transpose(x, there), gamma, beta}, GroupAttribute{groups, epsilon}), back);
}

}  // namespace eadem
