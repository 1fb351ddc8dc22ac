// Arithmetic of one rounding; integers wrap (numerics.md section 1).

#include "eadem/numerics/arithmetic.h"

#include "eadem/ops/catalog.h"
#include "eadem/ops/elementwise.h"
#include "eadem/ops/ops.h"
#include "eadem/ops/rules.h"

namespace eadem {
namespace {

using ops::Factor;
using ops::kMinusOne;
using ops::kOne;
using ops::kZero;
using ops::over;
using ops::times;

Factor first(const Point& p) {
  return times(p.in(0));
}
Factor second(const Point& p) {
  return times(p.in(1));
}
Factor over_second(const Point& p) {
  return over(p.in(1));
}
Factor minus_quotient_over_second(const Point& p) {
  return times(-(p.out() / p.in(1)));
}
Factor sign_of(const Point& p) {
  return times(sign(p.in()));
}
// a - b trunc(a / b), and with floor: by b where the quotient does not jump.
Factor minus_trunc(const Point& p) {
  return times(-trunc((p.in(0) - p.out()) / p.in(1)));
}
Factor minus_floor(const Point& p) {
  return times(-round((p.in(0) - p.out()) / p.in(1)));
}
// 1 for the operand that wins, 1/2 each for equal ones, 0 for the other.
template <Array (*wins)(const Array&, const Array&), std::size_t mine, std::size_t other>
Factor share(const Point& p) {
  const Array &x = p.in(mine), &y = p.in(other);
  return times(where(wins(x, y), ones_like(x), where(equal(x, y), full_like(x, 0.5), zeros_like(x))));
}
// relu'(0) = 0 (numerics.md section 6), as frameworks have it; maximum(x, 0) shares, and gives a half there.
Factor of_relu(const Point& p) {
  return times(where(greater(p.in(), zeros_like(p.in())), ones_like(p.in()), zeros_like(p.in())));
}
// clamp is minimum(maximum(x, low), high) with operands (low, x, high): each of two that meet has a half.
Factor clamped_low(const Point& p) {
  const Array &low = p.in(0), &x = p.in(1), &high = p.in(2), one = ones_like(x), half = full_like(x, 0.5);
  const Array wins = where(greater(low, x), one, where(equal(low, x), half, zeros_like(x)));
  return times(wins * where(less(low, high), one, where(equal(low, high), half, zeros_like(x))));
}
Factor inside(const Point& p) {
  const Array &low = p.in(0), &x = p.in(1), &high = p.in(2), one = ones_like(x), half = full_like(x, 0.5);
  const Array wins = where(greater(x, low), one, where(equal(x, low), half, zeros_like(x)));
  return times(wins * where(less(x, high), one, where(equal(x, high), half, zeros_like(x))));
}
Factor clamped_high(const Point& p) {
  const Array &x = p.in(1), &high = p.in(2), one = ones_like(x), inner = maximum(x, p.in(0));
  return times(where(less(high, inner), one, where(equal(high, inner), full_like(x, 0.5), zeros_like(x))));
}

}  // namespace

constinit const Primitive prim::negate =
    ops::differentiable<kMinusOne>(ops::elementwise<"negate", numerics::Negate, 1>("-x.", kernels::negate));
constinit const Primitive prim::abs =
    ops::differentiable<sign_of>(ops::elementwise<"abs", numerics::Abs, 1>("The magnitude.", kernels::abs));
constinit const Primitive prim::sign = ops::differentiable<kZero>(
    ops::elementwise<"sign", numerics::Sign, 1>("-1, 0 or 1; zeros keep their sign.", kernels::sign));
constinit const Primitive prim::add =
    ops::differentiable<kOne, kOne>(ops::elementwise<"add", numerics::Add, 2>("a + b.", kernels::add));
constinit const Primitive prim::subtract = ops::differentiable<kOne, kMinusOne>(
    ops::elementwise<"subtract", numerics::Subtract, 2>("a - b.", kernels::subtract));
constinit const Primitive prim::multiply =
    ops::differentiable<second, first>(ops::elementwise<"multiply", numerics::Multiply, 2>("a b.", kernels::multiply));
constinit const Primitive prim::divide = ops::differentiable<over_second, minus_quotient_over_second>(
    ops::elementwise<"divide", numerics::Divide, 2>("a / b; integers truncate, x/0 is -1.", kernels::divide));
constinit const Primitive prim::gated_multiply =
    ops::differentiable<second, first>(ops::elementwise<"gated_multiply", numerics::GatedMultiply, 2>(
        "a b, and +0 where a is a zero or the product is.", kernels::gated_multiply));
constinit const Primitive prim::gated_divide = ops::differentiable<over_second, minus_quotient_over_second>(
    ops::elementwise<"gated_divide", numerics::GatedDivide, 2>("a / b, and +0 where a is a zero or the quotient is.",
                                                               kernels::gated_divide));
constinit const Primitive prim::fmod = ops::differentiable<kOne, minus_trunc>(
    ops::elementwise<"fmod", numerics::Fmod, 2>("C's remainder, with the sign of a.", kernels::fmod));
constinit const Primitive prim::remainder =
    ops::differentiable<kOne, minus_floor>(ops::elementwise<"remainder", numerics::Remainder, 2>(
        "Python's remainder, with the sign of b.", kernels::remainder));
constinit const Primitive prim::maximum =
    ops::differentiable<share<&eadem::greater, 0, 1>, share<&eadem::greater, 1, 0>>(
        ops::elementwise<"maximum", numerics::Maximum, 2>("The larger; NaN propagates, -0 < +0.", kernels::maximum));
constinit const Primitive prim::minimum = ops::differentiable<share<&eadem::less, 0, 1>, share<&eadem::less, 1, 0>>(
    ops::elementwise<"minimum", numerics::Minimum, 2>("The smaller; NaN propagates, -0 < +0.", kernels::minimum));
constinit const Primitive prim::fma = ops::differentiable<second, first, kOne>(
    ops::elementwise<"fma", numerics::Fma, 3>("a b + c, rounded once.", kernels::fma));
constinit const Primitive prim::clamp = ops::differentiable<clamped_low, inside, clamped_high>(
    ops::elementwise<"clamp", numerics::Clamp, 3>("minimum(maximum(x, low), high).", kernels::clamp));
constinit const Primitive prim::relu = ops::differentiable<of_relu>(
    ops::elementwise<"relu", numerics::Relu, 1>("maximum(x, 0), of derivative 0 at 0.", kernels::relu));

Array negate(const Array& x) {
  return apply(prim::negate, {x});
}
Array abs(const Array& x) {
  return apply(prim::abs, {x});
}
Array relu(const Array& x) {
  return apply(prim::relu, {x});
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
