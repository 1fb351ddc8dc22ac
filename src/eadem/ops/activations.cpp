// Activations, the error function and the derivatives of activations as functions of x.
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

Factor of_erf(const Point& p) {
  return times(exp(-(p.in() * p.in())) * (2 * std::numbers::inv_sqrtpi));
}
Factor of_erfc(const Point& p) {
  return times(exp(-(p.in() * p.in())) * (-2 * std::numbers::inv_sqrtpi));
}
Factor of_erfinv(const Point& p) {
  return times(exp(p.out() * p.out()) * (0.5 / std::numbers::inv_sqrtpi));
}
Factor of_sqrt2_erfinv(const Point& p) {
  return times(exp(p.out() * p.out() * 0.5) * (std::numbers::sqrt2 / 2 / std::numbers::inv_sqrtpi));
}
Factor of_sigmoid(const Point& p) {
  return times(sigmoid_derivative(p.in()));
}
Factor of_logit(const Point& p) {
  return over(p.in() * (1.0 - p.in()));
}
Factor of_silu(const Point& p) {
  return times(silu_derivative(p.in()));
}
Factor of_softplus(const Point& p) {
  return times(sigmoid(p.in()));
}
Factor of_gelu(const Point& p) {
  return times(gelu_derivative(p.in()));
}
Factor of_gelu_tanh(const Point& p) {
  return times(gelu_tanh_derivative(p.in()));
}
// Second derivatives, composed.
Factor of_tanh_derivative(const Point& p) {
  return times(tanh(p.in()) * p.out() * -2.0);
}
Factor of_sigmoid_derivative(const Point& p) {
  return times(p.out() * (1.0 - 2.0 * sigmoid(p.in())));
}
Factor of_silu_derivative(const Point& p) {
  const Array& x = p.in();
  return times(sigmoid_derivative(x) * (2.0 + x * (1.0 - 2.0 * sigmoid(x))));
}
Factor of_gelu_derivative(const Point& p) {
  const Array square = p.in() * p.in();
  return times(exp(square * -0.5) * (std::numbers::inv_sqrtpi / std::numbers::sqrt2) * (2.0 - square));
}
Factor of_gelu_tanh_derivative(const Point& p) {
  // x (1 + t) / 2 with t = tanh u, u = a (x + b x^3), twice differentiated.
  constexpr double a = std::numbers::sqrt2 * std::numbers::inv_sqrtpi, b = 0.044715;
  const Array& x = p.in();
  const Array square = x * x, u = (x + square * x * b) * a, t = tanh(u), slope = tanh_derivative(u);
  const Array u1 = (square * (3 * b) + 1.0) * a, u2 = x * (6 * a * b);
  return times(slope * (u1 + x * (u2 * 0.5 - t * u1 * u1)));
}

}  // namespace

constinit const Primitive prim::erf =
    ops::differentiable<of_erf>(ops::elementary<"erf", numerics::erf>("The error function."));
constinit const Primitive prim::erfc =
    ops::differentiable<of_erfc>(ops::elementary<"erfc", numerics::erfc>("1 - erf(x)."));
constinit const Primitive prim::erfinv =
    ops::differentiable<of_erfinv>(ops::elementary<"erfinv", numerics::erfinv>("The inverse of erf."));
constinit const Primitive prim::sqrt2_erfinv =
    ops::differentiable<of_sqrt2_erfinv>(ops::elementary<"sqrt2_erfinv", numerics::sqrt2_erfinv>(
        "sqrt(2) erfinv(x): a uniform on (-1, 1) becomes a normal."));
constinit const Primitive prim::sigmoid =
    ops::differentiable<of_sigmoid>(ops::elementary<"sigmoid", numerics::sigmoid>("1/(1 + exp(-x))."));
constinit const Primitive prim::logit =
    ops::differentiable<of_logit>(ops::elementary<"logit", numerics::logit>("log(x/(1 - x))."));
constinit const Primitive prim::silu =
    ops::differentiable<of_silu>(ops::elementary<"silu", numerics::silu>("x sigmoid(x)."));
constinit const Primitive prim::softplus =
    ops::differentiable<of_softplus>(ops::elementary<"softplus", numerics::softplus>("log(1 + exp(x))."));
constinit const Primitive prim::gelu =
    ops::differentiable<of_gelu>(ops::elementary<"gelu", numerics::gelu>("x Phi(x), Phi the normal distribution."));
constinit const Primitive prim::gelu_tanh =
    ops::differentiable<of_gelu_tanh>(ops::elementary<"gelu_tanh", numerics::gelu_tanh>("gelu's tanh form."));
constinit const Primitive prim::tanh_derivative = ops::differentiable<of_tanh_derivative>(
    ops::elementary<"tanh_derivative", numerics::tanh_derivative>("1 - tanh(x)^2."));
constinit const Primitive prim::sigmoid_derivative = ops::differentiable<of_sigmoid_derivative>(
    ops::elementary<"sigmoid_derivative", numerics::sigmoid_derivative>("sigmoid(x) (1 - sigmoid(x))."));
constinit const Primitive prim::silu_derivative =
    ops::differentiable<of_silu_derivative>(ops::elementary<"silu_derivative", numerics::silu_derivative>("silu'(x)."));
constinit const Primitive prim::gelu_derivative =
    ops::differentiable<of_gelu_derivative>(ops::elementary<"gelu_derivative", numerics::gelu_derivative>("gelu'(x)."));
constinit const Primitive prim::gelu_tanh_derivative = ops::differentiable<of_gelu_tanh_derivative>(
    ops::elementary<"gelu_tanh_derivative", numerics::gelu_tanh_derivative>("gelu_tanh'(x)."));

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
