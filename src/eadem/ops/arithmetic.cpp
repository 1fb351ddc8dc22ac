// Arithmetic of one rounding; integers wrap (numerics.md section 1).

#include "eadem/numerics/arithmetic.h"

#include "eadem/ops/catalog.h"
#include "eadem/ops/elementwise.h"
#include "eadem/ops/ops.h"

namespace eadem {

constinit const Primitive prim::negate = ops::elementwise<"negate", numerics::Negate, 1>("-x.", kernels::negate);
constinit const Primitive prim::abs = ops::elementwise<"abs", numerics::Abs, 1>("The magnitude.", kernels::abs);
constinit const Primitive prim::sign =
    ops::elementwise<"sign", numerics::Sign, 1>("-1, 0 or 1; zeros keep their sign.", kernels::sign);
constinit const Primitive prim::add = ops::elementwise<"add", numerics::Add, 2>("a + b.", kernels::add);
constinit const Primitive prim::subtract =
    ops::elementwise<"subtract", numerics::Subtract, 2>("a - b.", kernels::subtract);
constinit const Primitive prim::multiply =
    ops::elementwise<"multiply", numerics::Multiply, 2>("a b.", kernels::multiply);
constinit const Primitive prim::divide =
    ops::elementwise<"divide", numerics::Divide, 2>("a / b; integers truncate, x/0 is -1.", kernels::divide);
constinit const Primitive prim::fmod =
    ops::elementwise<"fmod", numerics::Fmod, 2>("C's remainder, with the sign of a.", kernels::fmod);
constinit const Primitive prim::remainder = ops::elementwise<"remainder", numerics::Remainder, 2>(
    "Python's remainder, with the sign of b.", kernels::remainder);
constinit const Primitive prim::maximum =
    ops::elementwise<"maximum", numerics::Maximum, 2>("The larger; NaN propagates, -0 < +0.", kernels::maximum);
constinit const Primitive prim::minimum =
    ops::elementwise<"minimum", numerics::Minimum, 2>("The smaller; NaN propagates, -0 < +0.", kernels::minimum);
constinit const Primitive prim::fma = ops::elementwise<"fma", numerics::Fma, 3>("a b + c, rounded once.", kernels::fma);
constinit const Primitive prim::clamp =
    ops::elementwise<"clamp", numerics::Clamp, 3>("minimum(maximum(x, low), high).", kernels::clamp);

Array negate(const Array& x) {
  return apply(prim::negate, {x});
}
Array abs(const Array& x) {
  return apply(prim::abs, {x});
}
Array sign(const Array& x) {
  return apply(prim::sign, {x});
}
Array add(const Array& a, const Array& b) {
  return ops::apply_binary(prim::add, a, b);
}
Array subtract(const Array& a, const Array& b) {
  return ops::apply_binary(prim::subtract, a, b);
}
Array multiply(const Array& a, const Array& b) {
  return ops::apply_binary(prim::multiply, a, b);
}
Array divide(const Array& a, const Array& b) {
  return ops::apply_binary(prim::divide, a, b);
}
Array fmod(const Array& a, const Array& b) {
  return ops::apply_binary(prim::fmod, a, b);
}
Array remainder(const Array& a, const Array& b) {
  return ops::apply_binary(prim::remainder, a, b);
}
Array maximum(const Array& a, const Array& b) {
  return ops::apply_binary(prim::maximum, a, b);
}
Array minimum(const Array& a, const Array& b) {
  return ops::apply_binary(prim::minimum, a, b);
}

namespace {

// Three operands in their promoted dtype and common shape.
Array apply_ternary(const Primitive& primitive, const Array& a, const Array& b, const Array& c) {
  const auto [ab, ba] = ops::matched(primitive.name, a, b);
  const auto [first, last] = ops::matched(primitive.name, ab, c);
  const auto [second, same] = ops::matched(primitive.name, ba, last);
  return apply(primitive, {first, second, same});
}

}  // namespace

Array fma(const Array& a, const Array& b, const Array& c) {
  return apply_ternary(prim::fma, a, b, c);
}
Array clamp(const Array& x, const Array& low, const Array& high) {
  return apply_ternary(prim::clamp, low, x, high);
}

}  // namespace eadem
