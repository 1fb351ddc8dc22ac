// Rounding to integral values of the same dtype: steps, whose derivative is zero.

#include "eadem/numerics/arithmetic.h"
#include "eadem/ops/catalog.h"
#include "eadem/ops/elementwise.h"
#include "eadem/ops/ops.h"
#include "eadem/ops/rules.h"

namespace eadem {

constinit const Primitive prim::floor = ops::differentiable<ops::kZero>(
    ops::elementwise<"floor", numerics::Floor, 1>("The largest integer not above x.", kernels::floor));
constinit const Primitive prim::ceil = ops::differentiable<ops::kZero>(
    ops::elementwise<"ceil", numerics::Ceil, 1>("The smallest integer not below x.", kernels::ceil));
constinit const Primitive prim::round = ops::differentiable<ops::kZero>(
    ops::elementwise<"round", numerics::Round, 1>("The nearest integer, halves to even.", kernels::round));
constinit const Primitive prim::trunc =
    ops::differentiable<ops::kZero>(ops::elementwise<"trunc", numerics::Trunc, 1>("The integer part.", kernels::trunc));

Array floor(const Array& x) {
  return apply(prim::floor, {x});
}
Array ceil(const Array& x) {
  return apply(prim::ceil, {x});
}
Array round(const Array& x) {
  return apply(prim::round, {x});
}
Array trunc(const Array& x) {
  return apply(prim::trunc, {x});
}

}  // namespace eadem
