// Powers, roots, exponentials and logarithms.
// Correctly rounded in f32, bf16 and f16 (numerics.md section 2).

#include <array>
#include <numbers>

#include "eadem/numerics/elementary.h"
#include "eadem/ops/catalog.h"
#include "eadem/ops/elementwise.h"
#include "eadem/ops/ops.h"
#include "eadem/ops/rules.h"

namespace eadem {
namespace {

using ops::Factor;
using ops::over;
using ops::times;

// Derivatives, from the result where that is exact enough.
Factor by_result(const Point& p) {
  return times(p.out());
}
Factor minus_square(const Point& p) {
  return times(-(p.out() * p.out()));
}
Factor over_twice_root(const Point& p) {
  return over(p.out() * 2.0);
}
Factor of_rsqrt(const Point& p) {
  return times(p.out() / p.in() * -0.5);
}
Factor of_cbrt(const Point& p) {
  return over(p.out() * p.out() * 3.0);
}
Factor of_exp2(const Point& p) {
  return times(p.out() * std::numbers::ln2);
}
Factor of_expm1(const Point& p) {
  return times(exp(p.in()));
}
Factor over_operand(const Point& p) {
  return over(p.in());
}
Factor of_log2(const Point& p) {
  return over(p.in() * std::numbers::ln2);
}
Factor of_log10(const Point& p) {
  return over(p.in() * std::numbers::ln10);
}
Factor of_log1p(const Point& p) {
  return over(p.in() + 1.0);
}
// x^y: y x^(y-1), which is 0 for y = 0 whatever x, and x^y log x, which is 0 for x = 0 and y > 0.
Factor of_base(const Point& p) {
  const Array &x = p.in(0), &y = p.in(1);
  return times(where(equal(y, zeros_like(y)), zeros_like(y), y * pow(x, y - 1.0)));
}
Factor of_exponent(const Point& p) {
  const Array &x = p.in(0), &y = p.in(1), zero = zeros_like(x);
  return times(where(logical_and(equal(x, zero), greater(y, zero)), zero, p.out() * log(x)));
}

}  // namespace

constinit const Primitive prim::reciprocal =
    ops::differentiable<minus_square>(ops::elementary<"reciprocal", numerics::reciprocal>("1/x."));
constinit const Primitive prim::sqrt =
    ops::differentiable<over_twice_root>(ops::elementary<"sqrt", numerics::sqrt>("The square root."));
constinit const Primitive prim::rsqrt =
    ops::differentiable<of_rsqrt>(ops::elementary<"rsqrt", numerics::rsqrt>("1/sqrt(x)."));
constinit const Primitive prim::cbrt =
    ops::differentiable<of_cbrt>(ops::elementary<"cbrt", numerics::cbrt>("The cube root."));
constinit const Primitive prim::exp = ops::differentiable<by_result>(ops::elementary<"exp", numerics::exp>("e^x."));
constinit const Primitive prim::exp2 = ops::differentiable<of_exp2>(ops::elementary<"exp2", numerics::exp2>("2^x."));
constinit const Primitive prim::expm1 =
    ops::differentiable<of_expm1>(ops::elementary<"expm1", numerics::expm1>("e^x - 1."));
constinit const Primitive prim::log =
    ops::differentiable<over_operand>(ops::elementary<"log", numerics::log>("The natural logarithm."));
constinit const Primitive prim::log2 =
    ops::differentiable<of_log2>(ops::elementary<"log2", numerics::log2>("The logarithm to base 2."));
constinit const Primitive prim::log10 =
    ops::differentiable<of_log10>(ops::elementary<"log10", numerics::log10>("The logarithm to base 10."));
constinit const Primitive prim::log1p =
    ops::differentiable<of_log1p>(ops::elementary<"log1p", numerics::log1p>("log(1 + x)."));
constinit const Primitive prim::pow =
    ops::differentiable<of_base, of_exponent>(ops::elementary<"pow", numerics::pow, 2>("x^y."));

Array reciprocal(const Array& x) {
  return apply(prim::reciprocal, {ops::as_floating(x)});
}
Array sqrt(const Array& x) {
  return apply(prim::sqrt, {ops::as_floating(x)});
}
Array rsqrt(const Array& x) {
  return apply(prim::rsqrt, {ops::as_floating(x)});
}
Array cbrt(const Array& x) {
  return apply(prim::cbrt, {ops::as_floating(x)});
}
Array exp(const Array& x) {
  return apply(prim::exp, {ops::as_floating(x)});
}
Array exp2(const Array& x) {
  return apply(prim::exp2, {ops::as_floating(x)});
}
Array expm1(const Array& x) {
  return apply(prim::expm1, {ops::as_floating(x)});
}
Array log(const Array& x) {
  return apply(prim::log, {ops::as_floating(x)});
}
Array log2(const Array& x) {
  return apply(prim::log2, {ops::as_floating(x)});
}
Array log10(const Array& x) {
  return apply(prim::log10, {ops::as_floating(x)});
}
Array log1p(const Array& x) {
  return apply(prim::log1p, {ops::as_floating(x)});
}
Array logaddexp(const Array& x, const Array& y) {
  const auto [a, b] = ops::matched("logaddexp", ops::as_floating(x), ops::as_floating(y));
  return logsumexp(stack(std::array{a, b}, -1), -1);
}
Array pow(const Array& x, const Array& y) {
  return ops::apply_binary(prim::pow, ops::as_floating(x), ops::as_floating(y));
}

}  // namespace eadem
