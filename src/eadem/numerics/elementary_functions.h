#pragma once

#include <cmath>
#include <limits>

#include "eadem/numerics/elementary.h"
#include "eadem/numerics/elementary_core.h"

// The functions of numerics.md section 2 as formulas free of cancellation, written once over N = double and
// N = DoubleDouble, and the special values.

namespace eadem::numerics::core {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// A value and the magnitude that its error is relative to: |value|, unless terms cancel or an exponent is large.
template <class N>
struct Estimate {
  N value;
  double magnitude;
  Estimate(N v) : value(v), magnitude(std::fabs(leading(v))) {}
  Estimate(N v, double m) : value(v), magnitude(m) {}
};

/// |y - f(x)| <= d.
struct Enclosure {
  double y, d;
};

/// The double estimates err by at most this times their magnitude, for arguments with at most 24 significant bits and
/// |x| >= 2^-149: the blocks give 5 u, the longest composition (gelu') 16 u of the 32 u allowed here.
inline constexpr double kErrorBound = 0x1p-48;

inline double with_sign_of(double v, double x) {
  return x < 0 ? -v : v;
}
inline DoubleDouble with_sign_of(DoubleDouble v, double x) {
  return x < 0 ? -v : v;
}

template <class N>
N half(N x) {
  return x * 0.5;
}

/// Where e = 2^bias exp(...) is small enough to need a bias, 1 + e is 1.
template <class N>
N one_plus(N e, int bias) {
  return bias != 0 ? N(1.0) : 1.0 + e;
}

/// log(e) times a constant, where e is a power of two exactly: the logarithms to other bases.
template <class N>
N log_to_base(double x, DoubleDouble of_two, DoubleDouble of_e) {
  int e;
  const N m = log_parts(N(x), e);
  if constexpr (std::same_as<N, double>)
    return e * of_two.hi + (e * of_two.lo + m * of_e.hi);
  else
    return of_two * static_cast<double>(e) + m * of_e;
}

template <class N>
N cube_root(double x) {
  int e;
  double m = split_exponent(std::fabs(x), e);
  if (m < 1) m *= 2, --e;
  const int q = (e + 1200) / 3 - 400, r = e - 3 * q;
  m *= static_cast<double>(1 << r);  // in [1, 8)
  double y = horner(m, kCbrt);
  for (int i = 0; i < 2; ++i) {  // Halley
    const double y3 = y * y * y;
    y = y * ((y3 + 2 * m) / (2 * y3 + m));
  }
  const double scale = with_sign_of(power_of_two(q), x);
  if constexpr (std::same_as<N, double>)
    return y * scale;
  else
    return scaled(fast_two_sum(y, (m - two_product(y, y) * y).hi / (3 * y * y)), scale);
}

template <class N>
N reciprocal_square_root(double x) {
  double scale = 1;
  if (x < 0x1p-900) x *= 0x1p200, scale = 0x1p100;
  return 1.0 / square_root(N(x)) * scale;
}

/// exp(-x^2/2) and exp(t^2) erfc(t), t = |x| / sqrt(2) >= 1/2.
template <class N>
N normal_exponential(double x, int bias) {
  return exp(square<N>(x) * -0.5, bias);
}

/// The normal distribution function at x > 0.
template <class N>
N upper_phi(double x) {
  const N t = constant<N>(kSqrtHalf) * x;
  if (leading(t) < 0.5) return half(1.0 + erf(t));
  return 1.0 - half(normal_exponential<N>(x, 0) * erfcx(t));
}

template <class N>
Estimate<N> gelu_of(double x, int bias) {
  if (std::fabs(x) < 0x1p-40 && !std::same_as<N, double>) {  // the second term may lie beyond 106 bits, and breaks ties
    return N(x / 2) + x * x * kInverseSqrt2Pi.hi;
  }
  if (x > 0) return upper_phi<N>(x) * x;
  const N t = constant<N>(kSqrtHalf) * -x;
  if (leading(t) < 0.5) return half(1.0 - erf(t)) * x;
  return half(normal_exponential<N>(x, bias) * erfcx(t)) * x;
}

template <class N>
Estimate<N> gelu_derivative_of(double x, int bias) {
  const double a = std::fabs(x);
  const N t = constant<N>(kSqrtHalf) * a, e = normal_exponential<N>(x, bias), slope = constant<N>(kInverseSqrt2Pi) * a;
  if (x >= 0) return upper_phi<N>(x) + slope * e;
  if (leading(t) < 0.5) {
    const N phi = half(1.0 - erf(t)), s = slope * e;
    return {phi - s, leading(phi) + leading(s)};
  }
  const N g = half(erfcx(t));
  return {e * (g - slope), leading(e) * (leading(g) + leading(slope))};
}

/// exp(v) of a v that itself was rounded errs by its |v| times as much; beyond 700 it has underflowed.
template <class N>
double exponent_weight(N v) {
  return 1 + std::fmin(std::fabs(leading(v)), 700) / 8;
}

/// (1 + e + w) e^[x < 0] / (1 + e)^2 with e = exp(-|v|): the derivative of x sigmoid(v(x)), w = x v'(x).
template <class N>
Estimate<N> gated_derivative(double x, N v, N w, int bias) {
  const double steep = exponent_weight(v);
  if (x >= 0) {
    const N e = exp(-v), one = 1.0 + e;
    return {(1.0 + e * (1.0 + w)) / (one * one), 1 + steep * leading(e) * (1 + leading(w))};
  }
  const N e = exp(v, bias), one = one_plus(e, bias);
  const N factor = e / (one * one);
  return {factor * (one + w), leading(factor) * (leading(one) + std::fabs(leading(w))) * steep};
}

/// 1 / (1 + exp(-v)).
template <class N>
N sigmoid_of(N v, int bias = 0) {
  if (leading(v) >= 0) return 1.0 / (1.0 + exp(-v));
  const N e = exp(v, bias);
  return e / one_plus(e, bias);
}

template <class N>
N gelu_tanh_exponent(double x) {
  return (constant<N>(kGeluTanhA) + constant<N>(kGeluTanhB) * square<N>(x)) * x;
}

/// e / (1 + e)^2 with e = exp(-a).
template <class N>
N sigmoid_slope(double a, int bias) {
  const N e = exp(N(-a), bias), one = one_plus(e, bias);
  return e / (one * one);
}

template <class N>
N erfinv_of(double x) {
  const double a = std::fabs(x);
  const double l = -log((1 - a) * (1 + a));
  const int i = l < 37 ? static_cast<int>(l) : 36;
  const double y = a * horner(l - i - 0.5, kErfinv[i]);
  if constexpr (std::same_as<N, double>) {
    return with_sign_of(y, x);
  } else {  // one step of Halley, on erfc where erf has lost the digits
    DoubleDouble rest;
    if (y <= 0.5)
      rest = a - erf(N(y));
    else
      rest = exp(-square<N>(y)) * erfcx(N(y)) - two_sum(1, -a);
    const double step = rest.hi / (kTwoOverSqrtPi.hi * exp(-y * y));
    return with_sign_of(fast_two_sum(y, step * (1 + y * step)), x);
  }
}

template <class N>
N logit_of(double x) {
  if (x < 0.25) return log(N(x)) - log1p(N(-x));
  if (x > 0.75) return log(N(x)) - log(sum<N>(1, -x));
  return log1p((2 * x - 1) / sum<N>(1, -x));
}

template <class N>
Estimate<N> sin_of(double x, int shift) {
  N r;
  const int quadrant = (reduce_half_pi<N>(x, r) + shift) & 3;
  const auto t = sin_cos(r);
  const N v = quadrant & 1 ? t.cos : t.sin;
  return quadrant & 2 ? -v : v;
}

template <class N>
N tan_of(double x) {
  N r;
  const int quadrant = reduce_half_pi<N>(x, r);
  const auto t = sin_cos(r);
  return quadrant & 1 ? -t.cos / t.sin : t.sin / t.cos;
}

/// f(x) 2^bias for finite x inside the domain, not where `special` answers. N = double is for arguments of at most 24
/// significant bits and results within the range of f32; a bias is for N = DoubleDouble in the far tails of f64.
template <Function f, class N>
Estimate<N> evaluate(double x, int bias = 0) {
  using enum Function;
  const double a = std::fabs(x);
  const bool large = a > 0x1p60;  // x^2 + 1 is x^2
  if constexpr (f == rsqrt)
    return reciprocal_square_root<N>(x);
  else if constexpr (f == cbrt)
    return cube_root<N>(x);
  else if constexpr (f == Function::exp)
    return core::exp(N(x), bias);
  else if constexpr (f == Function::exp2)
    return core::exp2(N(x), bias);
  else if constexpr (f == Function::expm1)
    return bias != 0 ? core::exp(N(x), bias) : core::expm1(N(x));
  else if constexpr (f == Function::log)
    return core::log(N(x));
  else if constexpr (f == log2)
    return log_to_base<N>(x, 1.0, kLog2E);
  else if constexpr (f == log10)
    return log_to_base<N>(x, kLog10Of2, kLog10E);
  else if constexpr (f == Function::log1p)
    return core::log1p(N(x));
  else if constexpr (f == sin)
    return sin_of<N>(x, 0);
  else if constexpr (f == cos)
    return sin_of<N>(x, 1);
  else if constexpr (f == tan)
    return tan_of<N>(x);
  else if constexpr (f == asin)
    return with_sign_of(core::atan(N(a), square_root(sum<N>(1, -a) * sum<N>(1, a))), x);
  else if constexpr (f == acos) {
    const N v = core::atan(square_root(sum<N>(1, -a) * sum<N>(1, a)), N(a));
    return x < 0 ? constant<N>(kPi) - v : v;
  } else if constexpr (f == Function::atan)
    return with_sign_of(core::atan(N(a), N(1.0)), x);
  else if constexpr (f == sinh) {
    if (bias != 0) return with_sign_of(half(core::exp(N(a), bias)), x);
    const N e = core::expm1(N(a));
    return with_sign_of(half(e + e / (e + 1.0)), x);
  } else if constexpr (f == cosh) {
    const N e = core::exp(N(a), bias);
    return half(bias != 0 ? e : e + 1.0 / e);
  } else if constexpr (f == tanh) {
    const N e = core::expm1(N(2 * a));
    return with_sign_of(e / (e + 2.0), x);
  } else if constexpr (f == asinh) {
    if (large) return with_sign_of(core::log(N(a)) + constant<N>(kLn2), x);
    const N s = square<N>(a);
    return with_sign_of(core::log1p(a + s / (1.0 + square_root(1.0 + s))), x);
  } else if constexpr (f == acosh) {
    if (large) return core::log(N(x)) + constant<N>(kLn2);
    const N t = sum<N>(x, -1);
    return core::log1p(t + square_root(t * (2.0 + t)));
  } else if constexpr (f == atanh)
    return with_sign_of(half(core::log1p(2 * a / sum<N>(1, -a))), x);
  else if constexpr (f == Function::erf) {
    if (a < 1) return core::erf(N(x));
    return with_sign_of(1.0 - core::exp(-square<N>(a)) * erfcx(N(a)), x);
  } else if constexpr (f == erfc) {
    if (a < 0.5) return 1.0 - core::erf(N(x));
    const N tail = core::exp(-square<N>(x), bias) * erfcx(N(a));
    return x < 0 ? 2.0 - tail : tail;
  } else if constexpr (f == erfinv)
    return erfinv_of<N>(x);
  else if constexpr (f == sqrt2_erfinv)
    return erfinv_of<N>(x) * constant<N>(kSqrt2);
  else if constexpr (f == sigmoid)
    return sigmoid_of(N(x), bias);
  else if constexpr (f == logit)
    return logit_of<N>(x);
  else if constexpr (f == silu) {
    if (a < 0x1p-40 && !std::same_as<N, double>) return N(x / 2) + x * x / 4;
    return sigmoid_of(N(x), bias) * x;
  } else if constexpr (f == softplus) {
    if (bias != 0) return core::exp(N(x), bias);
    const N t = core::log1p(core::exp(N(-a)));
    return x > 0 ? x + t : t;
  } else if constexpr (f == gelu)
    return gelu_of<N>(x, bias);
  else if constexpr (f == gelu_tanh) {
    if (a < 0x1p-40 && !std::same_as<N, double>) return N(x / 2) + x * x * (kGeluTanhA.hi / 4);
    const N v = gelu_tanh_exponent<N>(x);
    const N y = sigmoid_of(v, bias) * x;
    return {y, std::fabs(leading(y)) * (x < 0 ? exponent_weight(v) : 1)};
  } else if constexpr (f == tanh_derivative)
    return 4.0 * sigmoid_slope<N>(2 * a, bias);
  else if constexpr (f == sigmoid_derivative)
    return sigmoid_slope<N>(a, bias);
  else if constexpr (f == silu_derivative)
    return gated_derivative<N>(x, N(x), N(x), bias);
  else if constexpr (f == gelu_derivative)
    return gelu_derivative_of<N>(x, bias);
  else if constexpr (f == gelu_tanh_derivative) {
    const N slope = constant<N>(kGeluTanhA) + constant<N>(kGeluTanh3B) * square<N>(x);
    return gated_derivative<N>(x, gelu_tanh_exponent<N>(x), slope * x, bias);
  } else {
    static_assert(f == reciprocal || f == Function::sqrt);
    return f == reciprocal ? 1.0 / N(x) : square_root(N(x));
  }
}

/// An enclosure of f(x) from double arithmetic, for x of at most 24 significant bits.
template <Function f>
Enclosure enclose(double x) {
  const Estimate<double> e = evaluate<f, double>(x);
  return {e.value, e.magnitude * kErrorBound};
}

/// Whether x is NaN, infinite, a zero or outside the domain of f, where y is the answer; every type can hold it, but
/// for multiples of pi/2, which are to be rounded.
template <Function f>
bool special(double x, double& y) {
  using enum Function;
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  const double a = std::fabs(x);
  constexpr bool of_logarithm = f == log || f == log2 || f == log10;
  constexpr bool of_unit_interval = f == asin || f == acos || f == atanh || f == erfinv || f == sqrt2_erfinv;
  constexpr bool keeps_zero = f == Function::sqrt || f == cbrt || f == expm1 || f == log1p || f == sin || f == tan ||
                              f == asin || f == atan || f == sinh || f == tanh || f == asinh || f == atanh ||
                              f == erf || f == erfinv || f == sqrt2_erfinv || f == silu || f == gelu || f == gelu_tanh;
  if (x != x) return y = nan, true;
  if (x == 0) {
    if constexpr (keeps_zero) return y = x, true;
    if constexpr (of_logarithm || f == logit) return y = -kInfinity, true;
    if constexpr (f == reciprocal || f == rsqrt) return y = 1 / x, true;
  }
  if constexpr (of_logarithm || f == rsqrt || f == Function::sqrt) {
    if (x < 0) return y = nan, true;
  }
  if constexpr (f == log1p) {
    if (x <= -1) return y = x == -1 ? -kInfinity : nan, true;
  }
  if constexpr (f == acosh) {
    if (x < 1) return y = nan, true;
  }
  if constexpr (of_unit_interval) {
    if (a > 1) return y = nan, true;
    if constexpr (f != asin && f != acos) {
      if (a == 1) return y = with_sign_of(kInfinity, x), true;
    }
  }
  if constexpr (f == logit) {
    if (x < 0 || x > 1) return y = nan, true;
    if (x == 1) return y = kInfinity, true;
  }
  if (a == kInfinity) {
    if constexpr (f == sin || f == cos || f == tan)
      y = nan;
    else if constexpr (f == reciprocal || f == rsqrt)
      y = 1 / x;
    else if constexpr (f == exp || f == exp2 || f == softplus)
      y = x > 0 ? x : 0;
    else if constexpr (f == expm1)
      y = x > 0 ? x : -1;
    else if constexpr (f == atan)
      y = with_sign_of(kHalfPi.hi, x);
    else if constexpr (f == tanh || f == erf)
      y = with_sign_of(1, x);
    else if constexpr (f == erfc)
      y = x > 0 ? 0 : 2;
    else if constexpr (f == sigmoid)
      y = x > 0 ? 1 : 0;
    else if constexpr (f == silu || f == gelu || f == gelu_tanh)
      y = x > 0 ? x : -0.0;
    else if constexpr (f == tanh_derivative || f == sigmoid_derivative)
      y = 0;
    else if constexpr (f == silu_derivative || f == gelu_derivative || f == gelu_tanh_derivative)
      y = x > 0 ? 1 : -0.0;
    else if constexpr (f == cosh)
      y = a;
    else
      y = x;  // sqrt cbrt log* sinh asinh acosh
    return true;
  }
  return false;
}

}  // namespace eadem::numerics::core
