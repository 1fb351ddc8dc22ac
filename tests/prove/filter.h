#pragma once

#include <cmath>

#include "oracle.h"

// The filter before the oracle: an enclosure of f(x) from the C library's double functions, whose errors (glibc: a few
// ulp) are widened to 2^-48 of the value, or of the terms that cancel. Shares no code with numerics/.

namespace eadem::prove {

struct Interval {
  double low, high;
};
inline Interval around(double y, double magnitude) {
  if (magnitude == 0 || std::isinf(y)) return {y, y};  // beyond double's range, so far beyond that of narrower types
  const double d = std::fabs(magnitude) * 0x1p-48;
  return {y - d, y + d};
}
inline Interval around(double y) {
  return around(y, y);
}

inline double sigmoid_in_double(double v) {
  if (v >= 0) return 1 / (1 + std::exp(-v));
  const double e = std::exp(v);
  return e / (1 + e);
}

/// For finite x of at most 24 bits inside the open domain; f is not erfinv.
template <Function f>
Interval filter(double x) {
  using enum Function;
  constexpr double kA = 0x1.9884533d43651p+0;  // 2 sqrt(2/pi)
  if constexpr (f == reciprocal)
    return around(1 / x);
  else if constexpr (f == Function::sqrt)
    return around(std::sqrt(x));
  else if constexpr (f == rsqrt)
    return around(1 / std::sqrt(x));
  else if constexpr (f == cbrt)
    return around(std::cbrt(x));
  else if constexpr (f == Function::exp)
    return around(std::exp(x));
  else if constexpr (f == exp2)
    return around(std::exp2(x));
  else if constexpr (f == expm1)
    return around(std::expm1(x));
  else if constexpr (f == log)
    return around(std::log(x));
  else if constexpr (f == log2)
    return around(std::log2(x));
  else if constexpr (f == log10)
    return around(std::log10(x));
  else if constexpr (f == log1p)
    return around(std::log1p(x));
  else if constexpr (f == sin)
    return around(std::sin(x));
  else if constexpr (f == cos)
    return around(std::cos(x));
  else if constexpr (f == tan)
    return around(std::tan(x));
  else if constexpr (f == asin)
    return around(std::asin(x));
  else if constexpr (f == acos)
    return around(std::acos(x));
  else if constexpr (f == atan)
    return around(std::atan(x));
  else if constexpr (f == sinh)
    return around(std::sinh(x));
  else if constexpr (f == cosh)
    return around(std::cosh(x));
  else if constexpr (f == tanh)
    return around(std::tanh(x));
  else if constexpr (f == asinh)
    return around(std::asinh(x));
  else if constexpr (f == acosh)
    return around(std::acosh(x));
  else if constexpr (f == atanh)
    return around(std::atanh(x));
  else if constexpr (f == erf)
    return around(std::erf(x));
  else if constexpr (f == erfc)
    return around(std::erfc(x));
  else if constexpr (f == Function::sigmoid)
    return around(sigmoid_in_double(x));
  else if constexpr (f == logit) {
    if (x > 0.25 && x < 0.75) return around(2 * std::atanh(2 * x - 1));
    return around(std::log(x / (1 - x)));
  } else if constexpr (f == silu)
    return around(x * sigmoid_in_double(x));
  else if constexpr (f == softplus)
    return around(x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)));
  else if constexpr (f == gelu) {  // erfc(t) moves by 2 t^2 times a relative change of t
    const double y = x / 2 * std::erfc(-x / M_SQRT2);
    return around(y, y * (1 + (x < 0 ? std::fmin(x * x, 1000) / 8 : 0)));
  } else if constexpr (f == gelu_tanh) {
    const double v = std::fmax(x * (kA + kA * 0.044715 * x * x), -700), y = x * sigmoid_in_double(v);
    return around(y, y * (1 + std::fabs(std::fmin(v, 0)) / 4));
  } else if constexpr (f == tanh_derivative) {
    const double c = std::cosh(std::fmin(std::fabs(x), 300));
    return around(1 / (c * c));
  } else if constexpr (f == sigmoid_derivative) {
    const double c = 2 * std::cosh(std::fmin(std::fabs(x), 600) / 2);
    return around(1 / (c * c));
  } else if constexpr (f == gelu_derivative) {
    if (x < -37) return {-0.0, -0.0};
    const double a = std::erfc(-x / M_SQRT2) / 2, b = x * std::exp(-x * x / 2) * 0.39894228040143267794;
    return around(a + b, (a + std::fabs(b)) * (1 + (x < 0 ? x * x / 8 : 0)));
  } else {
    static_assert(f == silu_derivative || f == gelu_tanh_derivative);
    if (x < -200) return {-0.0, -0.0};
    if (x > 200) return {1, 1};
    const double v = f == silu_derivative ? x : x * (kA + kA * 0.044715 * x * x);
    const double w = f == silu_derivative ? x : x * (kA + kA * 0.134145 * x * x);
    const double s = sigmoid_in_double(v), t = sigmoid_in_double(-v);
    return around(s * (1 + w * t), s * (1 + std::fabs(w) * t) * (1 + std::fabs(v) / 4));
  }
}

/// Whether y = RN_t(erfinv(x)), or of sqrt(2) erfinv(x), by where erf passes the midpoints beside y; x in (0, 1), y >
/// 0.
template <Function f, FloatingElement T>
bool is_erfinv(double x, T y, bool& asked_oracle) {
  const auto between = [](T a, T b) { return (numerics::to_double(a) + numerics::to_double(b)) / 2; };
  const auto bits = [&] {
    if constexpr (std::same_as<T, float>)
      return std::bit_cast<std::uint32_t>(y);
    else
      return y.bits;
  }();
  const auto at = [&](int step) {
    if constexpr (std::same_as<T, float>)
      return std::bit_cast<float>(static_cast<std::uint32_t>(bits + step));
    else
      return T{static_cast<std::uint16_t>(bits + step)};
  };
  constexpr bool scaled = f == Function::sqrt2_erfinv;
  // Whether erf(m) < x.
  const auto below = [&](double m) {
    const double t = scaled ? m * M_SQRT1_2 : m;
    if (x <= 0.5) {
      const double v = std::erf(t), d = v * 0x1p-46;
      if (v + d < x) return true;
      if (v - d > x) return false;
    } else {
      const double v = std::erfc(t), d = v * 0x1p-43;
      if (v - d > 1 - x) return true;
      if (v + d < 1 - x) return false;
    }
    asked_oracle = true;
    const Real r = Real::apply(mpfr_erf, scaled ? Real(m) / Real::apply(mpfr_sqrt, Real(2)) : Real(m));
    return mpfr_cmp_d(r.get(), x) < 0;
  };
  return below(between(at(-1), y)) && !below(between(y, at(1)));
}

struct Verdict {
  bool right, asked_oracle;
};

/// Whether `result` is f(x) rounded once.
template <Function f, FloatingElement T>
Verdict check(T argument, T result) {
  const double x = numerics::to_double(argument);
  double limit;
  if (at_limit<f>(x, limit)) return {numerics::same_bits(result, numerics::round_to<T>(limit)), false};
  if constexpr (f == Function::erfinv || f == Function::sqrt2_erfinv) {
    bool asked = false;
    const double y = numerics::to_double(result);
    if (y != y || (x < 0) != std::signbit(y) || y == 0) {  // a subnormal of a 16-bit type may round to 0 or to itself
      return {numerics::same_bits(result, right<f>(argument)), true};
    }
    const T positive = numerics::round_to<T>(std::fabs(y));
    return {is_erfinv<f>(std::fabs(x), positive, asked), asked};
  } else {
    const Interval i = filter<f>(x);
    const T low = numerics::round_to<T>(i.low);
    if (numerics::same_bits(low, numerics::round_to<T>(i.high))) return {numerics::same_bits(result, low), false};
    return {numerics::same_bits(result, right<f>(argument)), true};
  }
}

}  // namespace eadem::prove
