#include "eadem/numerics/convert.h"

#include "eadem/ops/catalog.h"
#include "eadem/ops/elementwise.h"
#include "eadem/ops/ops.h"
#include "eadem/ops/rules.h"

// convert: between any two dtypes, rounded once.

namespace eadem {
namespace {

struct ConvertAttribute {
  DType dtype = DType::f32;
  static constexpr auto fields() { return std::tuple(field("dtype", &ConvertAttribute::dtype)); }
};

Types infer(const Signature& s) {
  ops::require_operands("convert", s, 1);
  return {{s.as<ConvertAttribute>().dtype, s.operands[0].shape}};
}

void reference(const Launch& launch) {
  visit(launch.operands[0].dtype, [&]<class From>(std::type_identity<From>) {
    visit(launch.results[0].dtype, [&]<class To>(std::type_identity<To>) {
      ops::for_each_index(launch.results[0].shape, [&](const Shape& index) {
        *reinterpret_cast<To*>(ops::element_at(launch.results[0], index)) =
            numerics::convert<To>(*reinterpret_cast<const From*>(ops::element_at(launch.operands[0], index)));
      });
    });
  });
}

void samples(SampleSink& sink) {
  for (int from = 0; from < kDTypeCount; ++from)
    for (int to = 0; to < kDTypeCount; ++to)
      sink.add({{static_cast<DType>(from), {3, 29}, Fill::edges}}, ConvertAttribute{static_cast<DType>(to)});
  sink.add({{DType::f32, {9, 1031}, Fill::normal}}, ConvertAttribute{DType::bf16});
  sink.add({{DType::bf16, {5, 1031}, Fill::wide}}, ConvertAttribute{DType::f32});
  sink.add({{DType::f64, {}, Fill::normal}}, ConvertAttribute{DType::f16});
  sink.add({{DType::f64, {0, 2}}}, ConvertAttribute{DType::i8});
}

// An integer has no cotangent, and gives none.
void vjp(Vjp& g) {
  if (g.wants(0)) g.add(0, convert(g.ct(), g.in().dtype()));
}
void jvp(Jvp& j) {
  if (is_floating(j.out().dtype())) j.add(convert(j.tangent(), j.out().dtype()));
}

}  // namespace

constinit const Primitive prim::convert{.name = "convert",
                                        .summary = "Another dtype: one rounding; float to integer saturates.",
                                        .attributes = &kAttributesOf<ConvertAttribute>,
                                        .infer = infer,
                                        .reference = reference,
                                        .run = Tile{[](const Signature& s) {
                                          return kernels::convert(s.operands[0].dtype, s.as<ConvertAttribute>().dtype);
                                        }},
                                        .vjp = vjp,
                                        .jvp = jvp,
                                        .batch = ops::elementwise_batch,
                                        .samples = samples,
                                        .promote = Promote::conversion};

Array convert(const Array& x, DType dtype) {
  return x.dtype() == dtype ? x : apply(prim::convert, {x}, ConvertAttribute{dtype});
}

}  // namespace eadem
