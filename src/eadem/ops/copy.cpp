#include "eadem/kernels/move/copy.h"

#include "eadem/ops/catalog.h"
#include "eadem/ops/infer.h"
#include "eadem/ops/ops.h"
#include "eadem/ops/rules.h"

namespace eadem {
namespace {

TensorView operand(const Launch& launch) {
  return launch.operands[0];
}

}  // namespace

constinit const Primitive prim::copy{
    .name = "copy",
    .summary = "The same elements in fresh, contiguous memory.",
    .infer = [](const Signature& s) -> Types {
      ops::require_operands("copy", s, 1);
      return {s.operands[0]};
    },
    .reference = ops::reference_of_view<operand>,
    .run = Kernel{[](const Launch& launch, Context&) { kernels::copy(launch.operands[0], launch.results[0]); }},
    .vjp = [](Vjp& g) { g.add_canonical(0, g.ct()); },
    .jvp = ops::moved_jvp,
    .batch = ops::elementwise_batch,
    .samples =
        [](SampleSink& sink) {
          sink.add({{DType::f32, {67, 35}, Fill::edges}});
          sink.add({{DType::u8, {3, 5, 7, 2}, Fill::wide}});
          sink.add({{DType::f64, {}, Fill::normal}});
          sink.add({{DType::f16, {2, 0}}});
        }};

Array copy(const Array& x) {
  return apply(prim::copy, {x});
}
Array contiguous(const Array& x) {
  return x.traced() || x.contiguous() ? x : copy(x);
}

}  // namespace eadem
