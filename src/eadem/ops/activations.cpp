// Activations, the error function and the derivatives of activations as functions of x.
// Correctly rounded in f32, bf16 and f16 (numerics.md section 2).

#include "eadem/numerics/elementary.h"
#include "eadem/ops/catalog.h"
#include "eadem/ops/elementwise.h"
#include "eadem/ops/ops.h"

namespace eadem {

constinit const Primitive prim::erf = ops::elementary<"erf", numerics::erf>("The error function.");
constinit const Primitive prim::erfc = ops::elementary<"erfc", numerics::erfc>("1 - erf(x).");
constinit const Primitive prim::erfinv = ops::elementary<"erfinv", numerics::erfinv>("The inverse of erf.");
constinit const Primitive prim::sqrt2_erfinv = ops::elementary<"sqrt2_erfinv", numerics::sqrt2_erfinv>(
    "sqrt(2) erfinv(x): a uniform on (-1, 1) becomes a normal.");
constinit const Primitive prim::sigmoid = ops::elementary<"sigmoid", numerics::sigmoid>("1/(1 + exp(-x)).");
constinit const Primitive prim::logit = ops::elementary<"logit", numerics::logit>("log(x/(1 - x)).");
constinit const Primitive prim::silu = ops::elementary<"silu", numerics::silu>("x sigmoid(x).");
constinit const Primitive prim::softplus = ops::elementary<"softplus", numerics::softplus>("log(1 + exp(x)).");
constinit const Primitive prim::gelu =
    ops::elementary<"gelu", numerics::gelu>("x Phi(x), Phi the normal distribution.");
constinit const Primitive prim::gelu_tanh = ops::elementary<"gelu_tanh", numerics::gelu_tanh>("gelu's tanh form.");
constinit const Primitive prim::tanh_derivative =
    ops::elementary<"tanh_derivative", numerics::tanh_derivative>("1 - tanh(x)^2.");
constinit const Primitive prim::sigmoid_derivative =
    ops::elementary<"sigmoid_derivative", numerics::sigmoid_derivative>("sigmoid(x) (1 - sigmoid(x)).");
constinit const Primitive prim::silu_derivative =
    ops::elementary<"silu_derivative", numerics::silu_derivative>("silu'(x).");
constinit const Primitive prim::gelu_derivative =
    ops::elementary<"gelu_derivative", numerics::gelu_derivative>("gelu'(x).");
constinit const Primitive prim::gelu_tanh_derivative =
    ops::elementary<"gelu_tanh_derivative", numerics::gelu_tanh_derivative>("gelu_tanh'(x).");

Array erf(const Array& x) {
  return apply(prim::erf, {ops::as_floating(x)});
}
Array erfc(const Array& x) {
  return apply(prim::erfc, {ops::as_floating(x)});
}
Array erfinv(const Array& x) {
  return apply(prim::erfinv, {ops::as_floating(x)});
}
Array sqrt2_erfinv(const Array& x) {
  return apply(prim::sqrt2_erfinv, {ops::as_floating(x)});
}
Array sigmoid(const Array& x) {
  return apply(prim::sigmoid, {ops::as_floating(x)});
}
Array logit(const Array& x) {
  return apply(prim::logit, {ops::as_floating(x)});
}
Array silu(const Array& x) {
  return apply(prim::silu, {ops::as_floating(x)});
}
Array softplus(const Array& x) {
  return apply(prim::softplus, {ops::as_floating(x)});
}
Array gelu(const Array& x) {
  return apply(prim::gelu, {ops::as_floating(x)});
}
Array gelu_tanh(const Array& x) {
  return apply(prim::gelu_tanh, {ops::as_floating(x)});
}
Array tanh_derivative(const Array& x) {
  return apply(prim::tanh_derivative, {ops::as_floating(x)});
}
Array sigmoid_derivative(const Array& x) {
  return apply(prim::sigmoid_derivative, {ops::as_floating(x)});
}
Array silu_derivative(const Array& x) {
  return apply(prim::silu_derivative, {ops::as_floating(x)});
}
Array gelu_derivative(const Array& x) {
  return apply(prim::gelu_derivative, {ops::as_floating(x)});
}
Array gelu_tanh_derivative(const Array& x) {
  return apply(prim::gelu_tanh_derivative, {ops::as_floating(x)});
}

}  // namespace eadem
