#include "eadem/numerics/softmax.h"

#include "eadem/kernels/rows/rows.h"
#include "eadem/numerics/reduction_views.h"
#include "eadem/ops/catalog.h"
#include "eadem/ops/ops.h"
#include "eadem/ops/reductions.h"
#include "eadem/ops/rules.h"

namespace eadem {
namespace {

template <bool per_row>
Types infer(std::string_view name, const Signature& s) {
  ops::require_operands(name, s, 1);
  TensorType type = s.operands[0];
  ops::require_floating_rows(name, type);
  if (per_row) type.shape.pop_back();
  return {type};
}

// f(row, result of the row) for every row.
template <class F>
void reference(const Launch& launch, F f) {
  const TensorView &x = launch.operands[0], &result = launch.results[0];
  visit_floating(x.dtype, [&]<class T>(std::type_identity<T>) {
    numerics::for_each_reduction<T>(x, {x.shape.rank() - 1},
                                    [&](std::span<const T> row, std::int64_t index) { f(row, result.as<T>(), index); });
  });
}

void samples(SampleSink& sink) {
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
    sink.add({{dtype, {3, 5, 37}}});
    sink.add({{dtype, {8, 16}, Fill::edges}});
    sink.add({{dtype, {40, 7}, Fill::wide}});
    sink.add({{dtype, {2, 4099}}});
  }
  sink.add({{DType::f32, {1}}});
  sink.add({{DType::f32, {3, 0}}});
}

}  // namespace

constinit const Primitive prim::softmax{
    .name = "softmax",
    .summary = "exp(x - max) over its exact sum along the last axis; NaN without a finite maximum.",
    .infer = [](const Signature& s) { return infer<false>("softmax", s); },
    .reference =
        [](const Launch& launch) {
          reference(launch, []<class T>(std::span<const T> row, T* y, std::int64_t index) {
            const auto n = static_cast<std::int64_t>(row.size());
            numerics::softmax(row, std::span(y + index * n, row.size()));
          });
        },
    .run = Row{kernels::softmax_rows},
    .vjp =
        [](Vjp& g) {
          g.add_canonical(0, apply(softmax_vjp, {g.out(), g.ct()}));
        },
    .batch = ops::elementwise_batch,
    .samples = samples};

constinit const Primitive prim::log_softmax{
    .name = "log_softmax",
    .summary = "The logarithm of softmax along the last axis, in f64, rounded once.",
    .infer = [](const Signature& s) { return infer<false>("log_softmax", s); },
    .reference =
        [](const Launch& launch) {
          reference(launch, []<class T>(std::span<const T> row, T* y, std::int64_t index) {
            const auto n = static_cast<std::int64_t>(row.size());
            numerics::log_softmax(row, std::span(y + index * n, row.size()));
          });
        },
    .run = Row{kernels::log_softmax_rows},
    .vjp =
        [](Vjp& g) {
          g.add_canonical(0, apply(log_softmax_vjp, {g.in(), g.ct()}));
        },
    .batch = ops::elementwise_batch,
    .samples = samples};

constinit const Primitive prim::logsumexp{
    .name = "logsumexp",
    .summary = "log(sum(exp(x))) along the last axis, in f64, rounded once; the maximum where that is infinite.",
    .infer = [](const Signature& s) { return infer<true>("logsumexp", s); },
    .reference =
        [](const Launch& launch) {
          reference(launch, []<class T>(std::span<const T> row, T* y, std::int64_t index) {
            y[index] = numerics::logsumexp(row);
          });
        },
    .run = Row{kernels::logsumexp_rows},
    .vjp =
        [](Vjp& g) {
          g.add_canonical(0, apply(logsumexp_vjp, {g.in(), expand_dims(g.ct(), -1)}));
        },
    .batch = ops::elementwise_batch,
    .samples = samples};

Array softmax(const Array& x, std::int64_t axis) {
  return ops::along_axis("softmax", x, axis, [](const Array& rows) { return apply(prim::softmax, {rows}); });
}
Array log_softmax(const Array& x, std::int64_t axis) {
  return ops::along_axis("log_softmax", x, axis, [](const Array& rows) { return apply(prim::log_softmax, {rows}); });
}
Array logsumexp(const Array& x, std::int64_t axis, bool keepdims) {
  const int at = normalize_axis("logsumexp", axis, x.rank());
  const Array y = apply(prim::logsumexp, {ops::move_axis_last(x, at)});
  return keepdims ? expand_dims(y, at) : y;
}

}  // namespace eadem
