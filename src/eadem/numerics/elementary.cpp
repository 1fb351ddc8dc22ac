#include "eadem/numerics/elementary.h"

#include "eadem/numerics/elementary_functions.h"
#include "eadem/numerics/rounding.h"

namespace eadem::numerics {
namespace {

using core::kInfinity;

constexpr std::string_view kNames[] = {"reciprocal",
                                       "sqrt",
                                       "rsqrt",
                                       "cbrt",
                                       "exp",
                                       "exp2",
                                       "expm1",
                                       "log",
                                       "log2",
                                       "log10",
                                       "log1p",
                                       "sin",
                                       "cos",
                                       "tan",
                                       "asin",
                                       "acos",
                                       "atan",
                                       "sinh",
                                       "cosh",
                                       "tanh",
                                       "asinh",
                                       "acosh",
                                       "atanh",
                                       "erf",
                                       "erfc",
                                       "erfinv",
                                       "sqrt2_erfinv",
                                       "sigmoid",
                                       "logit",
                                       "silu",
                                       "softplus",
                                       "gelu",
                                       "gelu_tanh",
                                       "tanh_derivative",
                                       "sigmoid_derivative",
                                       "silu_derivative",
                                       "gelu_derivative",
                                       "gelu_tanh_derivative"};
static_assert(std::size(kNames) == kFunctionCount);

/// Where double decides too little: about once in 2^22 arguments, and at the ties.
template <Function f, FloatingElement T>
[[gnu::noinline, gnu::cold]] T round_accurate(double x) {
  return round_to<T>(core::evaluate<f, DoubleDouble>(x).value);
}

/// The exact f(x) rounded once to a type narrower than double.
template <Function f, FloatingElement T>
T round_exact(T argument) {
  const double x = to_double(argument);
  double y;
  if (core::special<f>(x, y)) return round_to<T>(y);
  if constexpr (f == Function::reciprocal || f == Function::sqrt) {
    return round_to<T>(core::evaluate<f, double>(x).value);  // 53 >= 2 * 24 + 2 bits: the second rounding is innocuous
  } else {
    const core::Enclosure e = core::enclose<f>(x);
    const T below = round_to<T>(e.y - e.d), above = round_to<T>(e.y + e.d);
    if (same_bits(below, above)) [[likely]]
      return above;
    return round_accurate<f, T>(x);
  }
}

/// In f64: arguments from which on the result is a limit, and from which on exp needs a bias to keep its digits.
struct Range {
  double below = -kInfinity, bias_below = -kInfinity, bias_above = kInfinity, above = kInfinity;
};
template <Function f>
constexpr Range range_of() {
  using enum Function;
  switch (f) {
    case exp: return {-746, -600, 700, 709.8};
    case exp2: return {-1076, -900, 1000, 1024};
    case expm1: return {-60, -kInfinity, 700, 709.8};
    case sinh:
    case cosh: return {-711, -700, 700, 711};
    case tanh: return {.below = -30, .above = 30};
    case erf: return {.below = -6, .above = 6};
    case erfc: return {-6, -kInfinity, 20, 27.3};
    case sigmoid: return {.below = -746, .bias_below = -600, .above = 40};
    case silu: return {.below = -760, .bias_below = -600, .above = 60};
    case softplus: return {.below = -746, .bias_below = -600, .above = 60};
    case gelu: return {.below = -39.5, .bias_below = -30, .above = 10};
    case gelu_tanh: return {.below = -22, .bias_below = -18, .above = 10};
    case tanh_derivative: return {-375, -300, 300, 375};
    case sigmoid_derivative: return {-750, -600, 600, 750};
    case silu_derivative: return {.below = -760, .bias_below = -600, .above = 60};
    case gelu_derivative: return {.below = -39.5, .bias_below = -30, .above = 12};
    case gelu_tanh_derivative: return {.below = -22, .bias_below = -18, .above = 12};
    default: return {};
  }
}
/// exp, sinh, ... overflow where their bias is above; all others with a bias underflow.
template <Function f>
constexpr bool grows() {
  using enum Function;
  return f == exp || f == exp2 || f == expm1 || f == sinh || f == cosh;
}

/// The slope at 0 of the functions with f(0) = 0 and a slope there, else 0.
template <Function f>
constexpr DoubleDouble slope_at_zero() {
  using enum Function;
  switch (f) {
    case expm1:
    case log1p:
    case sin:
    case tan:
    case asin:
    case atan:
    case sinh:
    case tanh:
    case asinh:
    case atanh: return 1.0;
    case erf: return core::kTwoOverSqrtPi;
    case erfinv: return core::kSqrtPiOver2;
    case sqrt2_erfinv: return core::kSqrtHalfPi;
    case silu:
    case gelu:
    case gelu_tanh: return 0.5;
    default: return 0.0;
  }
}

/// Near its zero a derivative is its Taylor polynomial there.
inline bool near_zero(const core::DerivativeZero& zero, double x, double& y) {
  const DoubleDouble h = (x - zero.at[0]) - DoubleDouble(zero.at[1], zero.at[2]);
  if (std::fabs(h.hi) > 0x1p-16) return false;
  y = (h * (zero.slope + h * core::horner(h.hi, zero.higher))).hi;
  return true;
}

template <Function f>
double compute_f64(double x) {
  using enum Function;
  double y;
  if (core::special<f>(x, y)) return y;
  constexpr Range range = range_of<f>();
  if (x <= range.below || x >= range.above) {
    constexpr bool gated = f == silu || f == softplus || f == gelu || f == gelu_tanh;
    if constexpr (gated) {
      if (x > 0) return x;
    }
    core::special<f>(core::with_sign_of(kInfinity, x), y);
    return y;
  }
  constexpr DoubleDouble slope = slope_at_zero<f>();
  if constexpr (slope.hi != 0) {
    if (std::fabs(x) < 0x1p-60) {
      if constexpr (slope.hi == 1)
        return x;
      else
        return (slope * (x * 0x1p200)).hi * 0x1p-200;
    }
  }
  if constexpr (f == silu_derivative) {
    if (near_zero(core::kSiluDerivativeZero, x, y)) return y;
  } else if constexpr (f == gelu_derivative) {
    if (near_zero(core::kGeluDerivativeZero, x, y)) return y;
  } else if constexpr (f == gelu_tanh_derivative) {
    if (near_zero(core::kGeluTanhDerivativeZero, x, y)) return y;
  } else if constexpr (f == reciprocal || f == Function::sqrt) {
    return core::evaluate<f, double>(x).value;
  }
  int bias = 0;
  if (x < range.bias_below) bias = grows<f>() && (f == sinh || f == cosh) ? -64 : 512;
  if (x > range.bias_above) bias = grows<f>() ? -64 : 512;
  return core::evaluate<f, DoubleDouble>(x, bias).value.hi * core::power_of_two(-bias);
}

}  // namespace

std::string_view name_of(Function function) {
  return kNames[static_cast<int>(function)];
}

template <Function f>
double Elementary<f>::operator()(double x) const noexcept {
  return round_to<double>(compute_f64<f>(x));
}
template <Function f>
float Elementary<f>::operator()(float x) const noexcept {
  return round_exact<f>(x);
}
template <Function f>
bfloat16 Elementary<f>::operator()(bfloat16 x) const noexcept {
  return round_exact<f>(x);
}
template <Function f>
float16 Elementary<f>::operator()(float16 x) const noexcept {
  return round_exact<f>(x);
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

}  // namespace eadem::numerics
