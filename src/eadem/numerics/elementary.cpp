#include "eadem/numerics/elementary.h"

#include <cmath>

#include "eadem/numerics/rounding.h"

namespace eadem::numerics {
namespace {

constexpr std::string_view kNames[] = {
    "reciprocal", "sqrt", "rsqrt", "cbrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos",
    "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "erfinv",
    "sqrt2_erfinv", "sigmoid", "logit", "silu", "softplus", "gelu", "gelu_tanh", "tanh_derivative",
    "sigmoid_derivative", "silu_derivative", "gelu_derivative", "gelu_tanh_derivative"};
constexpr std::string_view kNames2[] = {"pow", "atan2", "hypot"};
static_assert(std::size(kNames) == kFunctionCount && std::size(kNames2) == kFunction2Count);

double erfinv_of(double x) {
  if (!(std::fabs(x) < 1)) return x == 1 ? INFINITY : x == -1 ? -INFINITY : NAN;
  double y = x;
  const double w = -std::log((1 - x) * (1 + x));
  if (w > 0.5) y = std::copysign(std::sqrt(w) * 0.8, x);
  for (int i = 0; i < 50; ++i) {
    const double residual = x > 0.5 ? (1 - x) - std::erfc(y) : x < -0.5 ? std::erfc(-y) - (1 + x) : std::erf(y) - x;
    const double step = residual / (2 / std::sqrt(M_PI) * std::exp(-y * y));
    y -= step / (1 + y * step);
  }
  return y;
}

template <Function f>
double of(double x) {
  using enum Function;
  const double s = x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x));
  const double a = 2 * std::sqrt(2 / M_PI), u = x * (a + a * 0.044715 * x * x);
  const double g = u >= 0 ? 1 / (1 + std::exp(-u)) : std::exp(u) / (1 + std::exp(u));
  const double phi = std::erfc(-x / M_SQRT2) / 2;
  const double e = std::exp(-std::fabs(x));
  if constexpr (f == reciprocal) return 1 / x;
  else if constexpr (f == sqrt) return std::sqrt(x);
  else if constexpr (f == rsqrt) return 1 / std::sqrt(x);
  else if constexpr (f == cbrt) return std::cbrt(x);
  else if constexpr (f == exp) return std::exp(x);
  else if constexpr (f == exp2) return std::exp2(x);
  else if constexpr (f == expm1) return std::expm1(x);
  else if constexpr (f == log) return std::log(x);
  else if constexpr (f == log2) return std::log2(x);
  else if constexpr (f == log10) return std::log10(x);
  else if constexpr (f == log1p) return std::log1p(x);
  else if constexpr (f == sin) return std::sin(x);
  else if constexpr (f == cos) return std::cos(x);
  else if constexpr (f == tan) return std::tan(x);
  else if constexpr (f == asin) return std::asin(x);
  else if constexpr (f == acos) return std::acos(x);
  else if constexpr (f == atan) return std::atan(x);
  else if constexpr (f == sinh) return std::sinh(x);
  else if constexpr (f == cosh) return std::cosh(x);
  else if constexpr (f == tanh) return std::tanh(x);
  else if constexpr (f == asinh) return std::asinh(x);
  else if constexpr (f == acosh) return std::acosh(x);
  else if constexpr (f == atanh) return std::atanh(x);
  else if constexpr (f == erf) return std::erf(x);
  else if constexpr (f == erfc) return std::erfc(x);
  else if constexpr (f == erfinv) return erfinv_of(x);
  else if constexpr (f == sqrt2_erfinv) return M_SQRT2 * erfinv_of(x);
  else if constexpr (f == sigmoid) return s;
  else if constexpr (f == logit) return std::log(x / (1 - x));
  else if constexpr (f == silu) return x == -INFINITY ? -0.0 : x * s;
  else if constexpr (f == softplus) return x > 0 ? x + std::log1p(e) : std::log1p(e);
  else if constexpr (f == gelu) return x == -INFINITY ? -0.0 : x * phi;
  else if constexpr (f == gelu_tanh) return x == -INFINITY ? -0.0 : x * g;
  else if constexpr (f == tanh_derivative) return 4 * e * e / ((1 + e * e) * (1 + e * e));
  else if constexpr (f == sigmoid_derivative) return e / ((1 + e) * (1 + e));
  else {
    if (x > 100) return 1;
    if (x < -100) return -0.0;
    if constexpr (f == silu_derivative) return s * (1 + x * (1 - s));
    else if constexpr (f == gelu_derivative) return phi + x * std::exp(-x * x / 2) / std::sqrt(2 * M_PI);
    else return g * (1 + x * (1 - g) * (a + 3 * a * 0.044715 * x * x));
  }
}

}  // namespace

std::string_view name_of(Function function) { return kNames[static_cast<int>(function)]; }
std::string_view name_of(Function2 function) { return kNames2[static_cast<int>(function)]; }

template <Function f>
double Elementary<f>::operator()(double x) const noexcept { return round_to<double>(of<f>(x)); }
template <Function f>
float Elementary<f>::operator()(float x) const noexcept { return round_to<float>(of<f>(x)); }
template <Function f>
bfloat16 Elementary<f>::operator()(bfloat16 x) const noexcept { return round_to<bfloat16>(of<f>(to_double(x))); }
template <Function f>
float16 Elementary<f>::operator()(float16 x) const noexcept { return round_to<float16>(of<f>(to_double(x))); }

namespace {
template <Function2 f>
double of(double x, double y) {
  if constexpr (f == Function2::pow) return std::pow(x, y);
  else if constexpr (f == Function2::atan2) return std::atan2(x, y);
  else return std::hypot(x, y);
}
}  // namespace

template <Function2 f>
double Elementary2<f>::operator()(double x, double y) const noexcept { return round_to<double>(of<f>(x, y)); }
template <Function2 f>
float Elementary2<f>::operator()(float x, float y) const noexcept { return round_to<float>(of<f>(x, y)); }
template <Function2 f>
bfloat16 Elementary2<f>::operator()(bfloat16 x, bfloat16 y) const noexcept {
  return round_to<bfloat16>(of<f>(to_double(x), to_double(y)));
}
template <Function2 f>
float16 Elementary2<f>::operator()(float16 x, float16 y) const noexcept {
  return round_to<float16>(of<f>(to_double(x), to_double(y)));
}

template struct Elementary<Function::reciprocal>;
template struct Elementary<Function::sqrt>;
template struct Elementary<Function::rsqrt>;
template struct Elementary<Function::cbrt>;
template struct Elementary<Function::exp>;
template struct Elementary<Function::exp2>;
template struct Elementary<Function::expm1>;
template struct Elementary<Function::log>;
template struct Elementary<Function::log2>;
template struct Elementary<Function::log10>;
template struct Elementary<Function::log1p>;
template struct Elementary<Function::sin>;
template struct Elementary<Function::cos>;
template struct Elementary<Function::tan>;
template struct Elementary<Function::asin>;
template struct Elementary<Function::acos>;
template struct Elementary<Function::atan>;
template struct Elementary<Function::sinh>;
template struct Elementary<Function::cosh>;
template struct Elementary<Function::tanh>;
template struct Elementary<Function::asinh>;
template struct Elementary<Function::acosh>;
template struct Elementary<Function::atanh>;
template struct Elementary<Function::erf>;
template struct Elementary<Function::erfc>;
template struct Elementary<Function::erfinv>;
template struct Elementary<Function::sqrt2_erfinv>;
template struct Elementary<Function::sigmoid>;
template struct Elementary<Function::logit>;
template struct Elementary<Function::silu>;
template struct Elementary<Function::softplus>;
template struct Elementary<Function::gelu>;
template struct Elementary<Function::gelu_tanh>;
template struct Elementary<Function::tanh_derivative>;
template struct Elementary<Function::sigmoid_derivative>;
template struct Elementary<Function::silu_derivative>;
template struct Elementary<Function::gelu_derivative>;
template struct Elementary<Function::gelu_tanh_derivative>;
template struct Elementary2<Function2::pow>;
template struct Elementary2<Function2::atan2>;
template struct Elementary2<Function2::hypot>;

}  // namespace eadem::numerics
