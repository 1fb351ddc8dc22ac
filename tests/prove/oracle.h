#pragma once

#include <mpfr.h>

#include <cmath>

#include "eadem/numerics/elementary.h"
#include "eadem/numerics/rounding.h"

// The oracle of the elementary functions: MPFR, composed where it lacks a function, shares no code with numerics/.

namespace eadem::prove {

using numerics::Function;
using numerics::Function2;

/// An MPFR number of the oracle's precision.
class Real {
 public:
  explicit Real(double x = 0) {
    mpfr_init2(value_, precision);
    mpfr_set_d(value_, x, MPFR_RNDN);
  }
  Real(const Real& other) : Real() { mpfr_set(value_, other.value_, MPFR_RNDN); }
  Real& operator=(const Real& other) {
    mpfr_set(value_, other.value_, MPFR_RNDN);
    return *this;
  }
  ~Real() { mpfr_clear(value_); }
  mpfr_ptr get() { return value_; }
  mpfr_srcptr get() const { return value_; }

  friend Real operator+(const Real& a, const Real& b) { return apply(mpfr_add, a, b); }
  friend Real operator-(const Real& a, const Real& b) { return apply(mpfr_sub, a, b); }
  friend Real operator*(const Real& a, const Real& b) { return apply(mpfr_mul, a, b); }
  friend Real operator/(const Real& a, const Real& b) { return apply(mpfr_div, a, b); }
  friend Real operator-(const Real& a) { return apply(mpfr_neg, a); }

  template <class F, class... Args>
  static Real apply(F f, const Args&... args) {
    Real result;
    f(result.value_, args.value_..., MPFR_RNDN);
    return result;
  }

  static inline mpfr_prec_t precision = 200;

 private:
  mpfr_t value_;
};

inline Real pi() {
  Real p;
  mpfr_const_pi(p.get(), MPFR_RNDN);
  return p;
}
inline Real decimal(const char* digits) {
  Real r;
  mpfr_set_str(r.get(), digits, 10, MPFR_RNDN);
  return r;
}

/// The real rounded once to T: cut to double with its last bit made odd, then rounded.
template <FloatingElement T>
T round_real(const Real& x) {
  if constexpr (std::same_as<T, double>) {
    return numerics::round_to<double>(mpfr_get_d(x.get(), MPFR_RNDN));
  } else {
    double cut = mpfr_get_d(x.get(), MPFR_RNDZ);
    if (std::isfinite(cut) && mpfr_cmp_d(x.get(), cut) != 0) {
      cut = std::bit_cast<double>(std::bit_cast<std::uint64_t>(cut) | 1);
    }
    return numerics::round_to<T>(cut);
  }
}

inline Real exp(const Real& x) {
  return Real::apply(mpfr_exp, x);
}
inline Real sigmoid(const Real& v) {
  return Real(1) / (Real(1) + exp(-v));
}
inline Real gelu_tanh_exponent(const Real& x) {
  return Real(2) * Real::apply(mpfr_sqrt, Real(2) / pi()) * x * (Real(1) + decimal("0.044715") * x * x);
}
/// The derivative of x sigmoid(v(x)), w = x v'(x).
inline Real gated_derivative(const Real& v, const Real& w) {
  return sigmoid(v) * (Real(1) + w * sigmoid(-v));
}
inline Real phi(const Real& x) {
  return Real::apply(mpfr_erfc, -x / Real::apply(mpfr_sqrt, Real(2))) / Real(2);
}

/// erfinv by Newton's method from a double start, on erfc where erf loses digits.
inline Real erfinv(double x, double start) {
  const Real slope = Real(2) / Real::apply(mpfr_sqrt, pi()), a(std::fabs(x)), q = Real(1) - a;
  Real y(std::fabs(start));
  for (int i = 0; i < 8; ++i) {
    const Real rest = std::fabs(x) < 0.5 ? a - Real::apply(mpfr_erf, y) : Real::apply(mpfr_erfc, y) - q;
    y = y + rest / (slope * exp(-y * y));
  }
  return x < 0 ? -y : y;
}

/// f(x) for finite x inside the open domain.
template <Function f>
Real oracle(double argument) {
  using enum Function;
  const Real x(argument);
  const double a = std::fabs(argument);
  if constexpr (f == reciprocal)
    return Real(1) / x;
  else if constexpr (f == Function::sqrt)
    return Real::apply(mpfr_sqrt, x);
  else if constexpr (f == rsqrt)
    return Real::apply(mpfr_rec_sqrt, x);
  else if constexpr (f == cbrt)
    return Real::apply(mpfr_cbrt, x);
  else if constexpr (f == Function::exp)
    return Real::apply(mpfr_exp, x);
  else if constexpr (f == exp2)
    return Real::apply(mpfr_exp2, x);
  else if constexpr (f == expm1)
    return Real::apply(mpfr_expm1, x);
  else if constexpr (f == log)
    return Real::apply(mpfr_log, x);
  else if constexpr (f == log2)
    return Real::apply(mpfr_log2, x);
  else if constexpr (f == log10)
    return Real::apply(mpfr_log10, x);
  else if constexpr (f == log1p)
    return Real::apply(mpfr_log1p, x);
  else if constexpr (f == sin)
    return Real::apply(mpfr_sin, x);
  else if constexpr (f == cos)
    return Real::apply(mpfr_cos, x);
  else if constexpr (f == tan)
    return Real::apply(mpfr_tan, x);
  else if constexpr (f == asin)
    return Real::apply(mpfr_asin, x);
  else if constexpr (f == acos)
    return Real::apply(mpfr_acos, x);
  else if constexpr (f == atan)
    return Real::apply(mpfr_atan, x);
  else if constexpr (f == sinh)
    return Real::apply(mpfr_sinh, x);
  else if constexpr (f == cosh)
    return Real::apply(mpfr_cosh, x);
  else if constexpr (f == tanh)
    return Real::apply(mpfr_tanh, x);
  else if constexpr (f == asinh)
    return Real::apply(mpfr_asinh, x);
  else if constexpr (f == acosh)
    return Real::apply(mpfr_acosh, x);
  else if constexpr (f == atanh)
    return Real::apply(mpfr_atanh, x);
  else if constexpr (f == erf)
    return Real::apply(mpfr_erf, x);
  else if constexpr (f == erfc)
    return Real::apply(mpfr_erfc, x);
  else if constexpr (f == Function::erfinv)
    return prove::erfinv(argument, numerics::erfinv(argument));
  else if constexpr (f == sqrt2_erfinv) {
    return Real::apply(mpfr_sqrt, Real(2)) * prove::erfinv(argument, numerics::erfinv(argument));
  } else if constexpr (f == Function::sigmoid)
    return prove::sigmoid(x);
  else if constexpr (f == logit) {
    if (a > 0.25) return Real(2) * Real::apply(mpfr_atanh, Real(2) * x - Real(1));
    return Real::apply(mpfr_log, x) - Real::apply(mpfr_log1p, -x);
  } else if constexpr (f == silu)
    return x * prove::sigmoid(x);
  else if constexpr (f == softplus) {
    const Real t = Real::apply(mpfr_log1p, prove::exp(Real(-a)));
    return argument > 0 ? x + t : t;
  } else if constexpr (f == gelu)
    return x * phi(x);
  else if constexpr (f == gelu_tanh)
    return x * prove::sigmoid(gelu_tanh_exponent(x));
  else if constexpr (f == tanh_derivative) {
    const Real s = Real::apply(mpfr_sech, x);
    return s * s;
  } else if constexpr (f == sigmoid_derivative) {
    const Real s = Real::apply(mpfr_sech, x / Real(2)) / Real(2);
    return s * s;
  } else if constexpr (f == silu_derivative)
    return gated_derivative(x, x);
  else if constexpr (f == gelu_derivative) {
    const Real slope = x * prove::exp(-x * x / Real(2)) / Real::apply(mpfr_sqrt, Real(2) * pi());
    return argument < -1e6 ? slope : phi(x) + slope;  // both have underflowed there
  } else {
    static_assert(f == gelu_tanh_derivative);
    const Real w = Real(2) * Real::apply(mpfr_sqrt, Real(2) / pi()) * x * (Real(1) + decimal("0.134145") * x * x);
    return gated_derivative(gelu_tanh_exponent(x), w);
  }
}

/// What the C standard and the limits say where the oracle is not asked: zeros, infinities, NaN, ends of domains. True
/// if x is such an argument; y is the value.
template <Function f>
bool at_limit(double x, double& y) {
  using enum Function;
  static constexpr double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  struct Row {
    double at_minus_inf, at_minus_zero, at_zero, at_inf, lower = -std::numeric_limits<double>::infinity(),
                                                         upper = std::numeric_limits<double>::infinity();
    bool zero_is_limit = true;
    double at_lower = 0, at_upper = 0;
  };
  constexpr auto row = []() -> Row {
    constexpr double half_pi = 0x1.921fb54442d18p+0;
    switch (f) {
      case reciprocal: return {-0.0, -inf, inf, 0};
      case Function::sqrt: return {nan, -0.0, 0, inf, 0, inf, true, 0, inf};
      case rsqrt: return {nan, -inf, inf, 0, 0, inf, true, inf, 0};
      case log:
      case log2:
      case log10: return {nan, -inf, -inf, inf, 0, inf, true, -inf, inf};
      case log1p: return {nan, -0.0, 0, inf, -1, inf, true, -inf, inf};
      case Function::exp:
      case exp2: return {0, 1, 1, inf};
      case expm1: return {-1, -0.0, 0, inf};
      case sin:
      case tan: return {nan, -0.0, 0, nan};
      case cos: return {nan, 1, 1, nan};
      case asin: return {nan, -0.0, 0, nan, -1, 1, true, -half_pi, half_pi};
      case acos: return {nan, half_pi, half_pi, nan, -1, 1, true, 2 * half_pi, 0};
      case atan: return {-half_pi, -0.0, 0, half_pi};
      case cosh: return {inf, 1, 1, inf};
      case tanh:
      case erf: return {-1, -0.0, 0, 1};
      case acosh: return {nan, nan, nan, inf, 1, inf, false, 0, inf};
      case atanh:
      case Function::erfinv:
      case sqrt2_erfinv: return {nan, -0.0, 0, nan, -1, 1, true, -inf, inf};
      case erfc: return {2, 1, 1, 0};
      case Function::sigmoid: return {0, 0.5, 0.5, 1};
      case logit: return {nan, -inf, -inf, nan, 0, 1, true, -inf, inf};
      case silu:
      case gelu:
      case gelu_tanh: return {-0.0, -0.0, 0, inf};
      case softplus: return {0, 0x1.62e42fefa39efp-1, 0x1.62e42fefa39efp-1, inf};
      case tanh_derivative: return {0, 1, 1, 0};
      case sigmoid_derivative: return {0, 0.25, 0.25, 0};
      case silu_derivative:
      case gelu_derivative:
      case gelu_tanh_derivative: return {-0.0, 0.5, 0.5, 1};
      default: return {-inf, -0.0, 0, inf};  // cbrt sinh asinh
    }
  }();
  if (x != x) return y = nan, true;
  if (x == inf) return y = row.at_inf, true;
  if (x == -inf) return y = row.at_minus_inf, true;
  if (x == 0 && row.zero_is_limit) return y = std::signbit(x) ? row.at_minus_zero : row.at_zero, true;
  if (x < row.lower || x > row.upper) return y = nan, true;
  if (x == row.lower) return y = row.at_lower, true;
  if (x == row.upper) return y = row.at_upper, true;
  return false;
}

/// The right result for x.
template <Function f, FloatingElement T>
T right(T x) {
  double y;
  if (at_limit<f>(numerics::to_double(x), y)) return numerics::round_to<T>(y);
  return round_real<T>(oracle<f>(numerics::to_double(x)));
}

/// Rounded towards zero, for atan2(y, x) lies below a quotient y/x that is a tie by less than any precision shows.
inline Real oracle2(Function2 f, double x, double y) {
  Real r;
  if (f == Function2::pow)
    mpfr_pow(r.get(), Real(x).get(), Real(y).get(), MPFR_RNDZ);
  else if (f == Function2::atan2)
    mpfr_atan2(r.get(), Real(x).get(), Real(y).get(), MPFR_RNDZ);
  else
    mpfr_hypot(r.get(), Real(x).get(), Real(y).get(), MPFR_RNDZ);
  return r;
}

}  // namespace eadem::prove
