#include "eadem/ops/convolution.h"

#include <algorithm>

#include "eadem/kernels/convolution/convolution.h"
#include "eadem/kernels/move/copy.h"
#include "eadem/ops/batch.h"
#include "eadem/ops/catalog.h"
#include "eadem/ops/infer.h"
#include "eadem/ops/ops.h"
#include "eadem/ops/rules.h"
#include "eadem/runtime/context.h"

namespace eadem {
namespace {

struct ConvAttribute : numerics::Convolution {
  static constexpr auto fields() {
    using C = numerics::Convolution;
    return std::tuple(field("strides", &C::strides), field("low", &C::low), field("high", &C::high),
                      field("lhs_dilation", &C::lhs_dilation), field("rhs_dilation", &C::rhs_dilation),
                      field("groups", &C::groups), field("flip", &C::flip), field("result", &C::result));
  }
};

// ---- Types ----

constexpr std::int64_t kMostStep = std::int64_t{1} << 31;  // of strides, dilations and padding

void require_steps(std::string_view name, std::string_view what, const Shape& steps, int spatial, std::int64_t least) {
  if (steps.rank() != spatial)
    fail<ValueError>("[{}] {} must have an entry for each of {} spatial axes, got {}", name, what, spatial, steps);
  for (const std::int64_t step : steps)
    if (step < least || step > kMostStep)
      fail<ValueError>("[{}] {} must lie in [{}, {}], got {}", name, what, least, kMostStep, steps);
}

// Checks all but the operands' dtypes, and gives the output's type. x [N, extents.., C], w [taps.., C / groups, C'].
TensorType output_type(std::string_view name, const TensorType& x, const TensorType& w,
                       const numerics::Convolution& c) {
  const int rank = x.shape.rank(), spatial = rank - 2;
  if (spatial < 1 || w.shape.rank() != rank)
    fail<ShapeError>("[{}] x must be [N, extents.., C] and the kernel [taps.., C / groups, C'], got {} and {}", name, x,
                     w);
  require_steps(name, "strides", c.strides, spatial, 1);
  require_steps(name, "lhs_dilation", c.lhs_dilation, spatial, 1);
  require_steps(name, "rhs_dilation", c.rhs_dilation, spatial, 1);
  require_steps(name, "low padding", c.low, spatial, -kMostStep);
  require_steps(name, "high padding", c.high, spatial, -kMostStep);
  if (c.groups < 1 || x.shape.back() != c.groups * w.shape[rank - 2] || w.shape.back() % c.groups != 0)
    fail<ShapeError>(
        "[{}] {} groups need x's channels to be as many times the kernel's and to divide its outputs, got "
        "x {} and kernel {}",
        name, c.groups, x, w);
  TensorType y{x.dtype, {x.shape[0]}};
  for (int axis = 0; axis < spatial; ++axis) {
    if (x.shape[axis + 1] > kMostStep || w.shape[axis] > kMostStep || w.shape[axis] < 1)
      fail<ShapeError>("[{}] spatial extents must be at most {}, and a kernel's at least 1, got x {} and kernel {}",
                       name, kMostStep, x, w);
    y.shape.push_back(numerics::convolved_extent(c, axis, x.shape[axis + 1], w.shape[axis]));
  }
  y.shape.push_back(w.shape.back());
  checked_elements(name, y.shape);
  return y;
}

DType result_dtype(std::string_view name, const TensorType& a, const TensorType& b, const numerics::Convolution& c) {
  if (a.dtype != b.dtype || !is_floating(a.dtype))
    fail<TypeError>("[{}] the operands must have one floating dtype, got {} and {}", name, a, b);
  const DType result = c.result.value_or(a.dtype);
  if (!is_floating(result)) fail<TypeError>("[{}] the result must be floating, got {}", name, result);
  return a.dtype == DType::f64 ? a.dtype : result;
}

Types infer(const Signature& s) {
  constexpr std::string_view name = "conv_general";
  if (s.operands.size() != 2 && s.operands.size() != 3)
    fail<ValueError>("[{}] takes 2 or 3 operands, got {}", name, s.operands.size());
  const TensorType &x = s.operands[0], &w = s.operands[1];
  const auto& c = s.as<ConvAttribute>();
  TensorType y = output_type(name, x, w, c);
  y.dtype = result_dtype(name, x, w, c);
  if (s.operands.size() == 3) {
    const TensorType& bias = s.operands[2];
    if (bias.shape != Shape{w.shape.back()} || !is_floating(bias.dtype))
      fail<ShapeError>("[{}] the bias must be a floating [{}], got {}", name, w.shape.back(), bias);
  }
  return {y};
}

// The taps are attributes here: nothing else says how many there are.
struct KernelAttribute : numerics::Convolution {
  Shape taps;
  static constexpr auto fields() {
    return std::tuple_cat(ConvAttribute::fields(), std::tuple(field("taps", &KernelAttribute::taps)));
  }
};

Types infer_kernel(const Signature& s) {
  constexpr std::string_view name = "conv_general_vjp_kernel";
  ops::require_operands(name, s, 2);
  const TensorType &x = s.operands[0], &dy = s.operands[1];
  const auto& a = s.as<KernelAttribute>();
  if (x.shape.rank() < 3 || dy.shape.rank() != x.shape.rank() || a.taps.rank() != x.shape.rank() - 2)
    fail<ShapeError>("[{}] x must be [N, extents.., C] and dy [N, extents.., C'], got {} and {} for taps {}", name, x,
                     dy, a.taps);
  if (a.groups < 1 || x.shape.back() % a.groups != 0)
    fail<ShapeError>("[{}] the channels of {} do not divide into {} groups", name, x, a.groups);
  TensorType w{result_dtype(name, x, dy, a), a.taps};
  w.shape.push_back(x.shape.back() / a.groups);
  w.shape.push_back(dy.shape.back());
  const TensorType y = output_type(name, x, w, a);
  if (y.shape != dy.shape) fail<ShapeError>("[{}] dy must have the output's shape {}, got {}", name, y.shape, dy);
  checked_elements(name, w.shape);
  return {w};
}

// ---- Running ----

TensorView dense(const TensorView& x, Context& context) {
  if (is_contiguous(x)) return x;
  const TensorView copied =
      contiguous_view(context.scratch(static_cast<std::size_t>(x.elements()) * size_of(x.dtype)), x.dtype, x.shape);
  kernels::copy(x, copied);
  return copied;
}
const TensorView* bias_of(const Launch& launch) {
  return launch.operands.size() == 3 ? &launch.operands[2] : nullptr;
}

Cost cost(const Signature& s, const Types& results) {
  double bytes = 0;
  for (const TensorType& t : s.operands)
    bytes += static_cast<double>(t.shape.elements()) * static_cast<double>(size_of(t.dtype));
  const TensorType &y = results[0], &w = s.operands[1];
  bytes += static_cast<double>(y.shape.elements()) * static_cast<double>(size_of(y.dtype));
  const double terms =
      static_cast<double>(w.shape.elements()) / static_cast<double>(std::max<std::int64_t>(1, w.shape.back()));
  return {bytes, 2 * terms * static_cast<double>(y.shape.elements())};
}

// ---- Rules ----

template <class A>
A with_result(A attribute, DType result) {
  attribute.result = result;
  return attribute;
}

Array convolved(const Array& x, const Array& w, const ConvAttribute& c) {
  const DType dtype = promote(x.dtype(), w.dtype());
  return apply(prim::conv_general, {convert(x, dtype), convert(w, dtype)}, c);
}

// w [taps.., C, groups C'] with the two kinds of channels exchanged in each group: [taps.., C', groups C].
Array exchanged(const Array& w, std::int64_t groups) {
  const int rank = w.rank();
  const std::int64_t channels = w.shape()[rank - 2], per_group = w.shape().back() / groups;
  Shape parted = w.shape();
  parted.back() = groups;
  parted.push_back(per_group);
  Shape order, shape = w.shape();
  for (int axis = 0; axis < rank - 2; ++axis) order.push_back(axis);
  for (const int axis : {rank, rank - 1, rank - 2}) order.push_back(axis);
  shape[rank - 2] = per_group;
  shape[rank - 1] = groups * channels;
  return reshape(transpose(reshape(w, parted), order), shape);
}

// The convolution by which a cotangent reaches x: every element of x meets the taps that met it.
ConvAttribute transposed(const numerics::Convolution& c, const Shape& x, const Shape& taps, const Shape& y) {
  ConvAttribute t;
  t.strides = c.lhs_dilation;
  t.lhs_dilation = c.strides;
  t.rhs_dilation = c.rhs_dilation;
  t.groups = c.groups;
  t.flip = !c.flip;
  for (int axis = 0; axis < c.strides.rank(); ++axis) {
    const std::int64_t window = numerics::dilated_extent(taps[axis], c.rhs_dilation[axis]);
    const std::int64_t low = window - 1 - c.low[axis];
    t.low.push_back(low);
    t.high.push_back(numerics::dilated_extent(x[axis + 1], c.lhs_dilation[axis]) - 1 + window - low -
                     numerics::dilated_extent(y[axis + 1], c.strides[axis]));
  }
  return t;
}

Shape taps_of(const Shape& w) {
  Shape taps = w;
  taps.pop_back();
  taps.pop_back();
  return taps;
}

Array kernel_cotangent(const Array& x, const Array& dy, const numerics::Convolution& c, const Shape& taps,
                       DType result) {
  KernelAttribute attribute;
  static_cast<numerics::Convolution&>(attribute) = c;
  attribute.taps = taps;
  attribute.result = result;
  const DType dtype = promote(x.dtype(), dy.dtype());
  return apply(prim::conv_general_vjp_kernel, {convert(x, dtype), convert(dy, dtype)}, attribute);
}

void vjp(Vjp& g) {
  const auto& c = g.as<ConvAttribute>();
  const Array &x = g.in(0), &w = g.in(1), &ct = g.ct();
  const Shape taps = taps_of(w.shape());
  if (g.wants(0))
    ops::add_contraction(
        g, 0,
        convolved(ct, exchanged(w, c.groups), with_result(transposed(c, x.shape(), taps, ct.shape()), x.dtype())));
  if (g.wants(1)) ops::add_contraction(g, 1, kernel_cotangent(x, ct, c, taps, w.dtype()));
  if (g.operands() == 3 && g.wants(2)) {
    Shape rows;
    for (int axis = 0; axis + 1 < ct.rank(); ++axis) rows.push_back(axis);
    const DType bias = g.in(2).dtype();
    g.add(2, convert(sum(convert(ct, promote(ct.dtype(), bias)), rows), bias));
  }
}

void jvp(Jvp& j) {
  const ConvAttribute c = with_result(j.as<ConvAttribute>(), j.out().dtype());
  if (j.has(0)) ops::add_contraction(j, apply(prim::conv_general, {j.tangent(0), j.in(1)}, c));
  if (j.has(1)) ops::add_contraction(j, apply(prim::conv_general, {j.in(0), j.tangent(1)}, c));
  if (j.operands() == 3 && j.has(2)) j.add(broadcast_to(convert(j.tangent(2), j.out().dtype()), j.out().shape()));
}

void kernel_vjp(Vjp& g) {
  const auto& a = g.as<KernelAttribute>();
  const Array &x = g.in(0), &dy = g.in(1), &ct = g.ct();
  ConvAttribute c;
  static_cast<numerics::Convolution&>(c) = a;
  if (g.wants(0))
    ops::add_contraction(
        g, 0,
        convolved(dy, exchanged(ct, a.groups), with_result(transposed(a, x.shape(), a.taps, dy.shape()), x.dtype())));
  if (g.wants(1)) ops::add_contraction(g, 1, convolved(x, ct, with_result(c, dy.dtype())));
}

void kernel_jvp(Jvp& j) {
  const auto& a = j.as<KernelAttribute>();
  const DType result = j.out().dtype();
  if (j.has(0)) ops::add_contraction(j, kernel_cotangent(j.tangent(0), j.in(1), a, a.taps, result));
  if (j.has(1)) ops::add_contraction(j, kernel_cotangent(j.in(0), j.tangent(1), a, a.taps, result));
}

// [B, .., groups n] as [.., groups B n]: the batch within each group; and the way back.
Array into_groups(const Array& x, std::int64_t groups) {
  Shape parted = x.shape();
  const std::int64_t n = parted.back() / groups, batch = parted[0];
  parted.back() = groups;
  parted.push_back(n);
  const Array moved = move_axis(reshape(x, parted), 0, -2);
  Shape joined = moved.shape();
  joined.pop_back(), joined.pop_back();
  joined.back() = groups * batch * n;
  return reshape(moved, joined);
}
Array out_of_groups(const Array& x, std::int64_t groups, std::int64_t batch) {
  Shape parted = x.shape();
  const std::int64_t n = parted.back() / groups / batch;
  parted.back() = groups;
  parted.push_back(batch), parted.push_back(n);
  const Array moved = move_axis(reshape(x, parted), -2, 0);
  Shape joined = moved.shape();
  joined.pop_back();
  joined.back() = groups * n;
  return reshape(moved, joined);
}

// A batch of inputs joins N; one of kernels, the output channels of each group; both, the groups.
void batch(Batch& b) {
  ConvAttribute c = b.as<ConvAttribute>();
  const bool kernels = b.batched(1) || (b.operands() == 3 && b.batched(2));
  Arrays operands;
  if (!kernels) {
    operands.push_back(ops::merge_batch(b.in(0)));
    for (std::size_t i = 1; i < b.operands(); ++i) operands.push_back(b.in(i));
    const Array y = apply(prim::conv_general, operands, &c);
    return b.set(ops::split_batch(y, b.size(), b.in(0).shape()[1]));
  }
  const std::int64_t groups = b.batched(0) ? 1 : c.groups;
  if (b.batched(0)) {
    operands.push_back(into_groups(b.in(0), 1));
    c.groups *= b.size();
  } else {
    operands.push_back(b.in(0));
  }
  if (b.size() == 0) return b.set_by_slices();
  for (std::size_t i = 1; i < b.operands(); ++i) operands.push_back(into_groups(b.with_axis(i), groups));
  b.set(out_of_groups(apply(prim::conv_general, operands, &c), groups, b.size()));
}

void kernel_batch(Batch& b) {
  if (b.size() == 0) return b.set_by_slices();
  KernelAttribute a = b.as<KernelAttribute>();
  const std::int64_t groups = b.batched(0) ? 1 : a.groups;
  const Array x = b.batched(0) ? into_groups(b.in(0), 1) : b.in(0);
  if (b.batched(0)) a.groups *= b.size();
  b.set(out_of_groups(apply(prim::conv_general_vjp_kernel, {x, into_groups(b.with_axis(1), groups)}, a), groups,
                      b.size()));
}

// ---- Samples ----

struct SampleCase {
  Shape x, w;  // without dtypes
  Shape strides, low, high, lhs_dilation, rhs_dilation;
  std::int64_t groups = 1;
  bool flip = false;
};

std::vector<SampleCase> cases() {
  return {
      {{2, 9, 3}, {3, 3, 4}, {1}, {1}, {1}, {1}, {1}},                           // 1-d, same
      {{2, 7, 8, 3}, {3, 2, 3, 5}, {2, 1}, {1, 0}, {0, 1}, {1, 1}, {1, 2}},      // strides, dilated kernel
      {{1, 5, 4, 4}, {3, 3, 2, 6}, {1, 2}, {2, 1}, {1, -1}, {2, 3}, {1, 1}, 2},  // dilated input, groups
      {{2, 4, 3, 5, 2}, {2, 2, 3, 2, 3}, {1, 1, 2}, {0, 1, 1}, {1, 0, 1}, {1, 1, 1}, {2, 1, 1}},  // 3-d
      {{1, 6, 6, 40}, {3, 3, 40, 35}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},        // several blocks of terms
      {{2, 6, 5, 4}, {3, 2, 1, 8}, {2, 2}, {1, 1}, {2, 0}, {1, 2}, {1, 1}, 4, true},  // depthwise, flipped
      {{3, 4, 5, 7}, {1, 1, 7, 6}, {1, 1}, {0, 0}, {0, 0}, {1, 1}, {1, 1}},           // a matrix product
      {{2, 3, 3}, {5, 3, 4}, {1}, {0}, {0}, {1}, {1}},                                // no output
      {{0, 5, 2}, {3, 2, 3}, {1}, {1}, {1}, {1}, {1}},
  };
}

// A channel a group, more channels than lanes, more rows than a block of terms.
SampleCase depthwise_case() {
  return {{2, 13, 12, 21}, {3, 3, 1, 21}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 21};
}

// A channel a group with more taps than a step, holes and padding; groups of more columns than a vector.
std::vector<SampleCase> grouped_cases() {
  return {{{1, 8, 9, 35}, {7, 7, 1, 35}, {1, 2}, {3, 3}, {3, 2}, {2, 1}, {1, 1}, 35, true},
          {{1, 5, 6, 24}, {3, 2, 12, 80}, {1, 1}, {1, 0}, {1, 1}, {1, 1}, {1, 2}, 2}};
}
// A channel a group whose steps of a kernel's gradient go on in other lines at odd places.
SampleCase odd_lines_case() {
  return {{2, 7, 5, 21}, {3, 3, 1, 21}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 21};
}

template <class A>
A attribute_of(const SampleCase& each) {
  A a;
  a.strides = each.strides, a.low = each.low, a.high = each.high;
  a.lhs_dilation = each.lhs_dilation, a.rhs_dilation = each.rhs_dilation;
  a.groups = each.groups, a.flip = each.flip;
  return a;
}

void samples(SampleSink& sink) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64})
    for (const SampleCase& each : cases()) {
      const auto a = attribute_of<ConvAttribute>(each);
      sink.add({{dtype, each.x}, {dtype, each.w}, {dtype, {each.w.back()}}}, a);
      if (each.w[0] == 3) sink.add({{dtype, each.x, Fill::edges}, {dtype, each.w}}, a);
    }
  sink.add({{DType::bf16, {2, 9, 3}}, {DType::bf16, {3, 3, 4}}, {DType::f32, {4}}},
           with_result(attribute_of<ConvAttribute>(cases()[0]), DType::f32));
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64}) {
    const auto a = attribute_of<ConvAttribute>(depthwise_case());
    const Shape x = depthwise_case().x, w = depthwise_case().w;
    sink.add({{dtype, x, Fill::edges}, {dtype, w, Fill::wide}, {dtype, {21}}}, a);
    sink.add({{dtype, x}, {dtype, w}}, with_result(a, DType::f32));
  }
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64})
    for (const SampleCase& each : grouped_cases())
      sink.add({{dtype, each.x}, {dtype, each.w}, {dtype, {each.w.back()}}}, attribute_of<ConvAttribute>(each));
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64})
    sink.add({{dtype, odd_lines_case().x}, {dtype, odd_lines_case().w}}, attribute_of<ConvAttribute>(odd_lines_case()));
}

void kernel_samples(SampleSink& sink) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64})
    for (const SampleCase& each : cases()) {
      auto a = attribute_of<KernelAttribute>(each);
      a.taps = taps_of(each.w);
      TensorType x{dtype, each.x}, w{dtype, each.w};
      const Shape dy = output_type("conv_general_vjp_kernel", x, w, a).shape;
      sink.add({{dtype, each.x}, {dtype, dy}}, a);
      if (each.w[0] == 3) sink.add({{dtype, each.x, Fill::edges}, {dtype, dy}}, with_result(a, dtype));
    }
  // More rows than one chunk of gathered patches holds.
  auto a = attribute_of<KernelAttribute>({{2, 40, 40, 20}, {}, {1, 1}, {3, 3}, {3, 3}, {1, 1}, {1, 1}});
  a.taps = {7, 7};
  sink.add({{DType::f32, {2, 40, 40, 20}}, {DType::f32, {2, 40, 40, 2}}}, a);
  sink.add({{DType::bf16, {2, 40, 40, 20}}, {DType::bf16, {2, 40, 40, 2}}}, with_result(a, DType::f32));
  a = attribute_of<KernelAttribute>(depthwise_case());
  a.taps = {3, 3};
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64}) {
    const SampleOperand x{dtype, depthwise_case().x}, edges{dtype, x.shape, Fill::edges};
    sink.add({x, x}, a);
    sink.add({edges, x}, with_result(a, dtype));
  }
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64})
    for (const SampleCase& each : grouped_cases()) {
      auto grouped = attribute_of<KernelAttribute>(each);
      grouped.taps = taps_of(each.w);
      const TensorType dy = output_type("conv_general_vjp_kernel", {dtype, each.x}, {dtype, each.w}, grouped);
      sink.add({{dtype, each.x}, {dtype, dy.shape}}, grouped);
    }
  auto odd = attribute_of<KernelAttribute>(odd_lines_case());
  odd.taps = {3, 3};
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64}) {
    const SampleOperand x{dtype, odd_lines_case().x};
    sink.add({x, x}, odd);
  }
}

}  // namespace

constinit const Primitive prim::conv_general{
    .name = "conv_general",
    .summary = "Convolves [N, extents.., C] with [taps.., C / groups, C'] (+ bias), rounded once.",
    .attributes = &kAttributesOf<ConvAttribute>,
    .infer = infer,
    .reference =
        [](const Launch& launch) {
          numerics::convolve(launch.operands[0], launch.operands[1], bias_of(launch), launch.as<ConvAttribute>(),
                             launch.results[0]);
        },
    .run = Kernel{[](const Launch& launch, Context& context) {
      kernels::convolve(launch.operands[0], dense(launch.operands[1], context), bias_of(launch),
                        launch.as<ConvAttribute>(), launch.results[0]);
    }},
    .vjp = vjp,
    .jvp = jvp,
    .batch = batch,
    .samples = samples,
    .cost = cost};

constinit const Primitive prim::conv_general_vjp_kernel{
    .name = "conv_general_vjp_kernel",
    .summary = "What a cotangent of conv_general sends to the kernel, contracted over (n, outputs..), rounded once.",
    .attributes = &kAttributesOf<KernelAttribute>,
    .infer = infer_kernel,
    .reference =
        [](const Launch& launch) {
          numerics::convolve_vjp_kernel(launch.operands[0], launch.operands[1], launch.as<KernelAttribute>(),
                                        launch.results[0]);
        },
    .run = Kernel{[](const Launch& launch, Context& context) {
      kernels::convolve_vjp_kernel(launch.operands[0], dense(launch.operands[1], context), launch.as<KernelAttribute>(),
                                   launch.results[0]);
    }},
    .vjp = kernel_vjp,
    .jvp = kernel_jvp,
    .batch = kernel_batch,
    .samples = kernel_samples};

std::pair<Shape, Shape> same_padding(const Shape& extents, const Shape& taps, const Shape& strides,
                                     const Shape& rhs_dilation) {
  Shape low, high;
  for (int axis = 0; axis < extents.rank(); ++axis) {
    const std::int64_t outs = (extents[axis] + strides[axis] - 1) / strides[axis];
    const std::int64_t needed = (outs - 1) * strides[axis] + numerics::dilated_extent(taps[axis], rhs_dilation[axis]);
    const std::int64_t all = std::max<std::int64_t>(0, needed - extents[axis]);
    low.push_back(all / 2);
    high.push_back(all - all / 2);
  }
  return {low, high};
}

Array conv_general(const Array& x, const Array& kernel, const ConvolutionArguments& arguments) {
  const int spatial = x.rank() - 2;
  if (spatial < 1 || kernel.rank() != x.rank())
    fail<ShapeError>(
        "[conv_general] x must be [N, extents.., C] and the kernel [taps.., C / groups, C'], got {} and {}", x.type(),
        kernel.type());
  const auto each = [&](const Shape& steps) { return steps.empty() ? Shape::filled(spatial, 1) : steps; };
  ConvAttribute c;
  c.strides = each(arguments.strides);
  c.lhs_dilation = each(arguments.lhs_dilation);
  c.rhs_dilation = each(arguments.rhs_dilation);
  c.groups = arguments.groups;
  c.flip = arguments.flip;
  c.result = arguments.result;
  for (const Shape* steps : {&c.strides, &c.lhs_dilation, &c.rhs_dilation})
    require_steps("conv_general", "strides and dilations", *steps, spatial, 1);
  if (arguments.padding.kind == Padding::Kind::given) {
    c.low = arguments.padding.low, c.high = arguments.padding.high;
  } else if (arguments.padding.kind == Padding::Kind::valid) {
    c.low = c.high = Shape::filled(spatial, 0);
  } else {
    Shape extents;
    for (int axis = 0; axis < spatial; ++axis)
      extents.push_back(numerics::dilated_extent(x.shape()[axis + 1], c.lhs_dilation[axis]));
    std::tie(c.low, c.high) = same_padding(extents, taps_of(kernel.shape()), c.strides, c.rhs_dilation);
  }
  const DType dtype = promote(x.dtype(), kernel.dtype());
  const Array a = convert(x, dtype), w = convert(kernel, dtype);
  return arguments.bias ? apply(prim::conv_general, {a, w, *arguments.bias}, c) : apply(prim::conv_general, {a, w}, c);
}

Array conv_transpose(const Array& x, const Array& kernel, const Shape& strides, const Padding& padding,
                     const Shape& rhs_dilation, const std::optional<Array>& bias, bool flip) {
  const int spatial = x.rank() - 2;
  if (spatial < 1 || kernel.rank() != x.rank())
    fail<ShapeError>("[conv_transpose] x must be [N, extents.., C] and the kernel [taps.., C, C'], got {} and {}",
                     x.type(), kernel.type());
  const Shape dilation = rhs_dilation.empty() ? Shape::filled(spatial, 1) : rhs_dilation;
  const Shape steps = strides.empty() ? Shape::filled(spatial, 1) : strides;
  require_steps("conv_transpose", "strides", steps, spatial, 1);
  require_steps("conv_transpose", "rhs_dilation", dilation, spatial, 1);
  Padding given = padding;
  if (padding.kind != Padding::Kind::given) {
    given = Padding::given({}, {});
    for (int axis = 0; axis < spatial; ++axis) {
      const std::int64_t window = numerics::dilated_extent(kernel.shape()[axis], dilation[axis]), step = steps[axis];
      const bool same = padding.kind == Padding::Kind::same;
      const std::int64_t all = window + step - 2 + (same ? 0 : std::max<std::int64_t>(window - step, 0));
      const std::int64_t low = same && step <= window - 1 ? (all + 1) / 2 : window - 1;
      given.low.push_back(low);
      given.high.push_back(all - low);
    }
  }
  return conv_general(x, kernel,
                      {.padding = given, .lhs_dilation = steps, .rhs_dilation = dilation, .flip = flip, .bias = bias});
}

}  // namespace eadem
