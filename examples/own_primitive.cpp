// A primitive of one's own is one record: types, meaning, rules. It is traced, differentiated and batched as any other.
#include <cstdio>

#include "eadem/array/print.h"
#include "eadem/array/rules.h"
#include "eadem/ops/infer.h"
#include "eadem/ops/ops.h"
#include "eadem/transforms/compile.h"

using namespace eadem;

namespace {

extern const Primitive cube_primitive;

void cube(const Launch& launch) {
  const TensorView &x = launch.operands[0], &y = launch.results[0];
  ops::for_each_index(y.shape, [&](const Shape& index) {
    const float value = *reinterpret_cast<const float*>(ops::element_at(x, index));
    *reinterpret_cast<float*>(ops::element_at(y, index)) = value * value * value;
  });
}

constinit const Primitive cube_primitive{.name = "cube",
                                         .summary = "x^3, two roundings.",
                                         .infer = [](const Signature& s) -> Types {
                                           ops::require_operands("cube", s, 1);
                                           if (s.operands[0].dtype != DType::f32)
                                             fail<TypeError>("[cube] takes f32, got {}", s.operands[0]);
                                           return {s.operands[0]};
                                         },
                                         .reference = cube,
                                         .run = Kernel{[](const Launch& launch, Context&) { cube(launch); }},
                                         .vjp = [](Vjp& g) { g.add(0, g.ct() * g.in() * g.in() * 3.0); },
                                         .batch = [](Batch& b) { b.set(apply(b.primitive(), {b.in()})); },
                                         .samples =
                                             [](SampleSink& sink) {
                                               sink.add({{DType::f32, {3}}});
                                             }};

}  // namespace

int main() {
  const auto f = [](const Array& x) { return apply(cube_primitive, {x}); };
  const Array x = full({}, 2.0);
  const Array slope = grad(f)(x), curve = grad(grad(f))(x);
  const auto [value, tangent] = jvp(f, std::tuple(x), std::tuple(ones_like(x)));
  const Array row = compile(vmap(grad(f)))(arange(4, DType::f32));
  std::printf("cube at 2: value %s, slope %s, forward %s, curvature %s; slopes at 0..3: %s\n", to_string(value).c_str(),
              to_string(slope).c_str(), to_string(tangent).c_str(), to_string(curve).c_str(), to_string(row).c_str());
  const bool right = slope.item<float>() == 12 && tangent.item<float>() == 12 && curve.item<float>() == 12 &&
                     row.data<float>()[3] == 27;
  return right ? 0 : 1;
}
