// Powers, roots, exponentials and logarithms.
// Correctly rounded in f32, bf16 and f16 (numerics.md section 2).

#include "eadem/numerics/elementary.h"
#include "eadem/ops/catalog.h"
#include "eadem/ops/elementwise.h"
#include "eadem/ops/ops.h"

namespace eadem {

constinit const Primitive prim::reciprocal = ops::elementary<"reciprocal", numerics::reciprocal>("1/x.");
constinit const Primitive prim::sqrt = ops::elementary<"sqrt", numerics::sqrt>("The square root.");
constinit const Primitive prim::rsqrt = ops::elementary<"rsqrt", numerics::rsqrt>("1/sqrt(x).");
constinit const Primitive prim::cbrt = ops::elementary<"cbrt", numerics::cbrt>("The cube root.");
constinit const Primitive prim::exp = ops::elementary<"exp", numerics::exp>("e^x.");
constinit const Primitive prim::exp2 = ops::elementary<"exp2", numerics::exp2>("2^x.");
constinit const Primitive prim::expm1 = ops::elementary<"expm1", numerics::expm1>("e^x - 1.");
constinit const Primitive prim::log = ops::elementary<"log", numerics::log>("The natural logarithm.");
constinit const Primitive prim::log2 = ops::elementary<"log2", numerics::log2>("The logarithm to base 2.");
constinit const Primitive prim::log10 = ops::elementary<"log10", numerics::log10>("The logarithm to base 10.");
constinit const Primitive prim::log1p = ops::elementary<"log1p", numerics::log1p>("log(1 + x).");
constinit const Primitive prim::pow = ops::elementary<"pow", numerics::pow, 2>("x^y.");

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
Array pow(const Array& x, const Array& y) {
  return ops::apply_binary(prim::pow, ops::as_floating(x), ops::as_floating(y));
}

}  // namespace eadem
