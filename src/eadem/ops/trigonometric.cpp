// Trigonometric and hyperbolic functions and their inverses; angles in radians.
// Correctly rounded in f32, bf16 and f16 (numerics.md section 2).

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

Factor of_sin(const Point& p) {
  return times(cos(p.in()));
}
Factor of_cos(const Point& p) {
  return times(-sin(p.in()));
}
Factor of_tan(const Point& p) {
  return times(p.out() * p.out() + 1.0);
}
Factor of_asin(const Point& p) {
  return over(sqrt((1.0 - p.in()) * (1.0 + p.in())));
}
Factor of_acos(const Point& p) {
  return over(-sqrt((1.0 - p.in()) * (1.0 + p.in())));
}
Factor of_atan(const Point& p) {
  return over(p.in() * p.in() + 1.0);
}
Factor of_sinh(const Point& p) {
  return times(cosh(p.in()));
}
Factor of_cosh(const Point& p) {
  return times(sinh(p.in()));
}
Factor of_tanh(const Point& p) {
  return times(tanh_derivative(p.in()));
}
Factor of_asinh(const Point& p) {
  return over(hypot(p.in(), ones_like(p.in())));
}
Factor of_acosh(const Point& p) {
  return over(sqrt(p.in() - 1.0) * sqrt(p.in() + 1.0));
}
Factor of_atanh(const Point& p) {
  return over((1.0 - p.in()) * (1.0 + p.in()));
}
Factor of_atan2_y(const Point& p) {
  const Array r = hypot(p.in(0), p.in(1));
  return times(p.in(1) / r / r);
}
Factor of_atan2_x(const Point& p) {
  const Array r = hypot(p.in(0), p.in(1));
  return times(-(p.in(0) / r / r));
}
// At the origin, where every direction is as good, 0.
template <std::size_t mine>
Factor of_hypot(const Point& p) {
  const Array zero = zeros_like(p.out());
  return times(where(equal(p.out(), zero), zero, p.in(mine) / p.out()));
}

}  // namespace

constinit const Primitive prim::sin = ops::differentiable<of_sin>(ops::elementary<"sin", numerics::sin>("The sine."));
constinit const Primitive prim::cos = ops::differentiable<of_cos>(ops::elementary<"cos", numerics::cos>("The cosine."));
constinit const Primitive prim::tan =
    ops::differentiable<of_tan>(ops::elementary<"tan", numerics::tan>("The tangent."));
constinit const Primitive prim::asin =
    ops::differentiable<of_asin>(ops::elementary<"asin", numerics::asin>("The arc sine."));
constinit const Primitive prim::acos =
    ops::differentiable<of_acos>(ops::elementary<"acos", numerics::acos>("The arc cosine."));
constinit const Primitive prim::atan =
    ops::differentiable<of_atan>(ops::elementary<"atan", numerics::atan>("The arc tangent."));
constinit const Primitive prim::sinh =
    ops::differentiable<of_sinh>(ops::elementary<"sinh", numerics::sinh>("The hyperbolic sine."));
constinit const Primitive prim::cosh =
    ops::differentiable<of_cosh>(ops::elementary<"cosh", numerics::cosh>("The hyperbolic cosine."));
constinit const Primitive prim::tanh =
    ops::differentiable<of_tanh>(ops::elementary<"tanh", numerics::tanh>("The hyperbolic tangent."));
constinit const Primitive prim::asinh =
    ops::differentiable<of_asinh>(ops::elementary<"asinh", numerics::asinh>("The inverse hyperbolic sine."));
constinit const Primitive prim::acosh =
    ops::differentiable<of_acosh>(ops::elementary<"acosh", numerics::acosh>("The inverse hyperbolic cosine."));
constinit const Primitive prim::atanh =
    ops::differentiable<of_atanh>(ops::elementary<"atanh", numerics::atanh>("The inverse hyperbolic tangent."));
constinit const Primitive prim::atan2 = ops::differentiable<of_atan2_y, of_atan2_x>(
    ops::elementary<"atan2", numerics::atan2, 2>("The angle of the point (x, y)."));
constinit const Primitive prim::hypot =
    ops::differentiable<of_hypot<0>, of_hypot<1>>(ops::elementary<"hypot", numerics::hypot, 2>("sqrt(x^2 + y^2)."));

Array sin(const Array& x) {
  return apply(prim::sin, {ops::as_floating(x)});
}
Array cos(const Array& x) {
  return apply(prim::cos, {ops::as_floating(x)});
}
Array tan(const Array& x) {
  return apply(prim::tan, {ops::as_floating(x)});
}
Array asin(const Array& x) {
  return apply(prim::asin, {ops::as_floating(x)});
}
Array acos(const Array& x) {
  return apply(prim::acos, {ops::as_floating(x)});
}
Array atan(const Array& x) {
  return apply(prim::atan, {ops::as_floating(x)});
}
Array sinh(const Array& x) {
  return apply(prim::sinh, {ops::as_floating(x)});
}
Array cosh(const Array& x) {
  return apply(prim::cosh, {ops::as_floating(x)});
}
Array tanh(const Array& x) {
  return apply(prim::tanh, {ops::as_floating(x)});
}
Array asinh(const Array& x) {
  return apply(prim::asinh, {ops::as_floating(x)});
}
Array acosh(const Array& x) {
  return apply(prim::acosh, {ops::as_floating(x)});
}
Array atanh(const Array& x) {
  return apply(prim::atanh, {ops::as_floating(x)});
}
Array atan2(const Array& y, const Array& x) {
  return ops::apply_binary(prim::atan2, ops::as_floating(y), ops::as_floating(x));
}
Array hypot(const Array& x, const Array& y) {
  return ops::apply_binary(prim::hypot, ops::as_floating(x), ops::as_floating(y));
}

}  // namespace eadem
