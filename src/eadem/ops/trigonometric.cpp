// Trigonometric and hyperbolic functions and their inverses; angles in radians.
// Correctly rounded in f32, bf16 and f16 (numerics.md section 2).

#include "eadem/numerics/elementary.h"
#include "eadem/ops/catalog.h"
#include "eadem/ops/elementwise.h"
#include "eadem/ops/ops.h"

namespace eadem {

constinit const Primitive prim::sin = ops::elementary<"sin", numerics::sin>("The sine.");
constinit const Primitive prim::cos = ops::elementary<"cos", numerics::cos>("The cosine.");
constinit const Primitive prim::tan = ops::elementary<"tan", numerics::tan>("The tangent.");
constinit const Primitive prim::asin = ops::elementary<"asin", numerics::asin>("The arc sine.");
constinit const Primitive prim::acos = ops::elementary<"acos", numerics::acos>("The arc cosine.");
constinit const Primitive prim::atan = ops::elementary<"atan", numerics::atan>("The arc tangent.");
constinit const Primitive prim::sinh = ops::elementary<"sinh", numerics::sinh>("The hyperbolic sine.");
constinit const Primitive prim::cosh = ops::elementary<"cosh", numerics::cosh>("The hyperbolic cosine.");
constinit const Primitive prim::tanh = ops::elementary<"tanh", numerics::tanh>("The hyperbolic tangent.");
constinit const Primitive prim::asinh = ops::elementary<"asinh", numerics::asinh>("The inverse hyperbolic sine.");
constinit const Primitive prim::acosh = ops::elementary<"acosh", numerics::acosh>("The inverse hyperbolic cosine.");
constinit const Primitive prim::atanh = ops::elementary<"atanh", numerics::atanh>("The inverse hyperbolic tangent.");
constinit const Primitive prim::atan2 = ops::elementary<"atan2", numerics::atan2, 2>("The angle of the point (x, y).");
constinit const Primitive prim::hypot = ops::elementary<"hypot", numerics::hypot, 2>("sqrt(x^2 + y^2).");

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
