#include "eadem/numerics/norm.h"

#include <cmath>

#include "eadem/kernels/reduce/reduce.h"
#include "eadem/numerics/reduction_views.h"
#include "eadem/ops/catalog.h"
#include "eadem/ops/ops.h"
#include "eadem/ops/reductions.h"
#include "eadem/ops/rules.h"

namespace eadem {
namespace {

using ops::AxesAttribute;

Types infer(const Signature& s) {
  ops::require_operands("norm", s, 1);
  const TensorType& x = s.operands[0];
  if (!is_floating(x.dtype)) fail<TypeError>("[norm] needs a floating-point array, got {}", x);
  return {{x.dtype, ops::kept_axes("norm", x, s.as<AxesAttribute>().axes)}};
}

// x / norm, which is 0 at the origin; from the norm in f64, as x's dtype may hold few of its digits.
void vjp(Vjp& g) {
  const Shape& axes = g.as<AxesAttribute>().axes;
  const Array x = convert(g.in(), DType::f64);
  const Array length = ops::spread(apply(prim::norm, {x}, AxesAttribute{axes}), axes, x.shape());
  const Array slope = where(equal(length, zeros_like(length)), zeros_like(x), x / length);
  const Array ct = ops::spread(convert(g.ct(), DType::f64), axes, x.shape());
  g.add(0, convert(ops::through(ct, ops::times(slope)), g.in().dtype()));
}

void batch(Batch& b) {
  b.set(apply(prim::norm, {b.in()}, AxesAttribute{ops::behind_batch(b.as<AxesAttribute>().axes)}));
}

void samples(SampleSink& sink) {
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
    sink.add({{dtype, {3, 5, 19}}}, AxesAttribute{{2}});
    sink.add({{dtype, {4, 37}, Fill::edges}}, AxesAttribute{{1}});
    sink.add({{dtype, {37, 9}, Fill::wide}}, AxesAttribute{{0}});
    sink.add({{dtype, {6, 5}, Fill::wide}}, AxesAttribute{{}});
    sink.add({{dtype, {2, 4099}}}, AxesAttribute{{0, 1}});
  }
  sink.add({{DType::f32, {3, 4, 5, 6}}}, AxesAttribute{{0, 2}});
  sink.add({{DType::f32, {3, 0}}}, AxesAttribute{{1}});
}

}  // namespace

constinit const Primitive prim::norm{
    .name = "norm",
    .summary =
        "The 2-norm: the exact sum of squares rounded to f64, its root, one rounding; it does not overflow inside.",
    .attributes = &kAttributesOf<AxesAttribute>,
    .infer = infer,
    .reference =
        [](const Launch& launch) {
          const TensorView &x = launch.operands[0], &result = launch.results[0];
          visit_floating(x.dtype, [&]<class T>(std::type_identity<T>) {
            numerics::for_each_reduction<T>(
                x, launch.as<AxesAttribute>().axes,
                [&](std::span<const T> row, std::int64_t output) { result.as<T>()[output] = numerics::norm(row); });
          });
        },
    .run = Kernel{[](const Launch& launch, Context&) {
      kernels::norm(launch.operands[0], launch.as<AxesAttribute>().axes, launch.results[0]);
    }},
    .vjp = vjp,
    .batch = batch,
    .samples = samples};

Array norm(const Array& x, const Shape& axes, double ord, bool keepdims) {
  const Array real = is_floating(x.dtype()) ? x : convert(x, DType::f32);
  if (ord == 1) return sum(abs(real), axes, keepdims);
  if (ord == HUGE_VAL) return max(abs(real), axes, keepdims);
  if (ord == -HUGE_VAL) return min(abs(real), axes, keepdims);
  if (ord != 2) fail<ValueError>("[norm] ord must be 1, 2, inf or -inf, got {}", ord);
  const Shape sorted = ops::normalize_axes("norm", axes, x.rank());
  const Array result = apply(prim::norm, {real}, AxesAttribute{sorted});
  if (!keepdims) return result;
  Shape shape = x.shape();
  for (const std::int64_t axis : sorted) shape[static_cast<int>(axis)] = 1;
  return reshape(result, shape);
}
Array norm(const Array& x) {
  Shape axes;
  for (int axis = 0; axis < x.rank(); ++axis) axes.push_back(axis);
  return norm(x, axes);
}

}  // namespace eadem
