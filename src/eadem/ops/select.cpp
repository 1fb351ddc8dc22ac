#include "eadem/numerics/compare.h"
#include "eadem/ops/catalog.h"
#include "eadem/ops/elementwise.h"
#include "eadem/ops/ops.h"
#include "eadem/ops/rules.h"

// select: data movement, so bits are kept; of any dtype.

namespace eadem {
namespace {

Types infer(const Signature& s) {
  ops::require_operands("select", s, 3);
  const TensorType &predicate = s.operands[0], &a = s.operands[1], &b = s.operands[2];
  if (predicate.dtype != DType::boolean) fail<TypeError>("[select] the predicate must be bool, got {}", predicate);
  if (a.dtype != b.dtype) fail<TypeError>("[select] both choices must have one dtype, got {} and {}", a, b);
  if (a.shape != predicate.shape || b.shape != predicate.shape)
    fail<ShapeError>("[select] operands must have one shape, got {}, {} and {}", predicate, a, b);
  return {a};
}

void reference(const Launch& launch) {
  const TensorView& result = launch.results[0];
  ops::for_each_index(result.shape, [&](const Shape& index) {
    const bool first = *reinterpret_cast<const bool*>(ops::element_at(launch.operands[0], index));
    ops::move_element(result.dtype, ops::element_at(launch.operands[first ? 1 : 2], index),
                      ops::element_at(result, index));
  });
}

void samples(SampleSink& sink) {
  const auto add = [&](DType dtype, const Shape& shape, Fill fill) {
    sink.add({{DType::boolean, shape}, {dtype, shape, fill}, {dtype, shape, fill}});
  };
  for (int i = 0; i < kDTypeCount; ++i) add(static_cast<DType>(i), {5, 29}, Fill::edges);
  add(DType::f32, {9, 1031}, Fill::normal);
  add(DType::f16, {}, Fill::normal);
  add(DType::i8, {0, 4}, Fill::wide);
}

}  // namespace

constinit const Primitive prim::select{.name = "select",
                                       .summary = "a where the predicate holds, else b; bits are kept.",
                                       .infer = infer,
                                       .reference = reference,
                                       .run = Tile{kernels::select},
                                       .vjp =
                                           [](Vjp& g) {
                                             const Array zero = zeros_like(g.ct());
                                             if (g.wants(1)) g.add_canonical(1, where(g.in(0), g.ct(), zero));
                                             if (g.wants(2)) g.add_canonical(2, where(g.in(0), zero, g.ct()));
                                           },
                                       .jvp =
                                           [](Jvp& j) {
                                             if (!j.has(1) && !j.has(2)) return;
                                             j.add_canonical(where(j.in(0), j.tangent(1), j.tangent(2)));
                                           },
                                       .batch = ops::elementwise_batch,
                                       .samples = samples};

Array where(const Array& predicate, const Array& a, const Array& b) {
  if (predicate.dtype() != DType::boolean)
    fail<TypeError>("[where] the predicate must be bool, got {}", predicate.type());
  const auto [first, second] = ops::matched("where", a, b);
  const Shape shape = broadcast_shapes("where", predicate.shape(), first.shape());
  return apply(prim::select, {broadcast_to(predicate, shape), broadcast_to(first, shape), broadcast_to(second, shape)});
}

}  // namespace eadem
