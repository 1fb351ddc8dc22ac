#pragma once

#include <algorithm>
#include <array>
#include <cmath>

#include "block_math.h"
#include "oracle.h"

// The filter before the oracle: enclosures of f(x) from the C library's double functions, whose errors (glibc: a few
// ulp) are widened to 2^-48 of the value, or of the terms that cancel. Shares no code with numerics/. Works on blocks.

namespace eadem::prove {

/// y[i] and a magnitude m[i]: the exact value lies within 2^-48 m[i] of y[i], unless y is infinite or m is zero, when
/// it lies beyond double's range, hence far beyond that of any narrower type.
struct Estimates {
  Block y, m;
};

/// Where exp leaves f32's range far behind, but not yet double's, whose slow paths would be met there.
inline Block clamped(const Block& x, double limit = 700) {
  return map(x, [=](double a) { return std::clamp(a, -limit, limit); });
}

/// e / (1 + e) or 1 / (1 + e) with e = exp(-|v|): sigmoid(v), free of overflow.
inline Block sigmoid_in_double(const Block& v) {
  const Block e = exp(map(v, [](double a) { return std::max(-std::fabs(a), -700.0); }));
  return map(v, e, [](double a, double b) { return (a >= 0 ? 1 : b) / (1 + b); });
}

inline constexpr double kA = 0x1.9884533d43651p+0;  // 2 sqrt(2/pi)
inline Block gelu_tanh_exponent_in_double(const Block& x) {
  return map(x, [](double a) { return a * (kA + kA * 0.044715 * a * a); });
}

/// Fills y, and m where it is not |y|. For x of at most 24 bits inside the open domain; f is not erfinv.
template <Function f>
void estimate(const Block& x, Estimates& out) {
  using enum Function;
  Block &y = out.y, &m = out.m;
  const auto magnitude_is_value = [&] { m = map(y, [](double a) { return std::fabs(a); }); };
  if constexpr (f == reciprocal)
    y = map(x, [](double a) { return 1 / a; });
  else if constexpr (f == Function::sqrt)
    y = map(x, [](double a) { return std::sqrt(a); });
  else if constexpr (f == rsqrt)
    y = map(x, [](double a) { return 1 / std::sqrt(a); });
  else if constexpr (f == cbrt)
    y = prove::cbrt(x);
  else if constexpr (f == Function::exp)
    y = prove::exp(clamped(x));
  else if constexpr (f == exp2)
    y = prove::exp2(clamped(x, 1000));
  else if constexpr (f == expm1)
    y = prove::expm1(clamped(x));
  else if constexpr (f == log)
    y = prove::log(x);
  else if constexpr (f == log2)
    y = prove::log2(x);
  else if constexpr (f == log10)
    y = prove::log10(x);
  else if constexpr (f == log1p)
    y = prove::log1p(x);
  else if constexpr (f == sin)
    y = prove::sin(x);
  else if constexpr (f == cos)
    y = prove::cos(x);
  else if constexpr (f == tan)
    y = prove::tan(x);
  else if constexpr (f == asin)
    y = prove::asin(x);
  else if constexpr (f == acos)
    y = prove::acos(x);
  else if constexpr (f == atan)
    y = prove::atan(x);
  else if constexpr (f == sinh)
    y = prove::sinh(clamped(x));
  else if constexpr (f == cosh)
    y = prove::cosh(clamped(x));
  else if constexpr (f == tanh)
    y = prove::tanh(x);
  else if constexpr (f == asinh)
    y = prove::asinh(x);
  else if constexpr (f == acosh)
    y = prove::acosh(x);
  else if constexpr (f == atanh)
    y = prove::atanh(x);
  else if constexpr (f == erf)
    y = prove::erf(x);
  else if constexpr (f == erfc)
    y = prove::erfc(map(x, [](double a) { return std::min(a, 26.0); }));
  else if constexpr (f == Function::sigmoid)
    y = sigmoid_in_double(x);
  else if constexpr (f == logit) {
    // Between 1/4 and 3/4 by atanh(2 x - 1), elsewhere by log(x / (1 - x)).
    const auto inner = [](double a) { return a > 0.25 && a < 0.75; };
    const Block t = prove::atanh(map(x, [&](double a) { return inner(a) ? 2 * a - 1 : 0; }));
    const Block l = prove::log(map(x, [&](double a) { return inner(a) ? 1 : a / (1 - a); }));
    y = map(t, l, [](double a, double b) { return 2 * a + b; });
  } else if constexpr (f == silu) {
    y = map(x, sigmoid_in_double(x), [](double a, double s) { return a * s; });
  } else if constexpr (f == softplus) {
    const Block t = prove::log1p(prove::exp(map(x, [](double a) { return std::max(-std::fabs(a), -700.0); })));
    y = map(x, t, [](double a, double b) { return a > 0 ? a + b : b; });
  } else if constexpr (f == gelu) {  // erfc(t) moves by 2 t^2 times a relative change of t
    const Block q = prove::erfc(map(x, [](double a) { return std::min(-a / M_SQRT2, 26.0); }));
    y = map(x, q, [](double a, double b) { return a / 2 * b; });
    m = map(x, y, [](double a, double b) { return std::fabs(b) * (1 + (a < 0 ? std::min(a * a, 1000.0) / 8 : 0)); });
    return;
  } else if constexpr (f == gelu_tanh) {
    const Block v = map(gelu_tanh_exponent_in_double(x), [](double a) { return std::max(a, -700.0); });
    y = map(x, sigmoid_in_double(v), [](double a, double s) { return a * s; });
    m = map(v, y, [](double a, double b) { return std::fabs(b) * (1 - std::min(a, 0.0) / 4); });
    return;
  } else if constexpr (f == tanh_derivative) {
    y = map(prove::cosh(map(x, [](double a) { return std::min(std::fabs(a), 300.0); })),
            [](double c) { return 1 / (c * c); });
  } else if constexpr (f == sigmoid_derivative) {
    y = map(prove::cosh(map(x, [](double a) { return std::min(std::fabs(a), 600.0) / 2; })),
            [](double c) { return 1 / (4 * c * c); });
  } else if constexpr (f == gelu_derivative) {
    const Block near = map(x, [](double a) { return std::clamp(a, -37.0, 37.0); });
    const Block a = prove::erfc(map(near, [](double t) { return -t / M_SQRT2; }));
    const Block e = prove::exp(map(near, [](double t) { return -t * t / 2; }));
    const Block b = map(near, e, [](double t, double v) { return t * v * 0.39894228040143267794; });
    y = map(a, b, [](double p, double s) { return p / 2 + s; });
    m = map(near, map(a, b, [](double p, double s) { return p / 2 + std::fabs(s); }),
            [](double t, double v) { return v * (1 + (t < 0 ? t * t / 8 : 0)); });
    return;
  } else {
    static_assert(f == silu_derivative || f == gelu_tanh_derivative);
    const Block near = map(x, [](double a) { return std::clamp(a, -200.0, 200.0); });
    const Block v = f == silu_derivative ? near : gelu_tanh_exponent_in_double(near);
    const Block w = f == silu_derivative ? near : map(near, [](double a) { return a * (kA + kA * 0.134145 * a * a); });
    const Block s = sigmoid_in_double(v), t = sigmoid_in_double(map(v, [](double a) { return -a; }));
    const Block wt = map(w, t, [](double a, double b) { return a * b; });
    y = map(s, wt, [](double a, double b) { return a * (1 + b); });
    m = map(v, map(s, wt, [](double a, double b) { return a * (1 + std::fabs(b)); }),
            [](double a, double b) { return b * (1 + std::fabs(a) / 4); });
    return;
  }
  magnitude_is_value();
}

struct Verdict {
  bool right, asked_oracle;
};

/// erfinv has no double function: whether y = RN_t(erfinv(x)), or of sqrt(2) erfinv(x), is where erf passes the
/// midpoints beside y. side[i] is -1 if erf(t[i]) < x[i] surely, 1 if it is above surely, 0 if unknown; x, t > 0.
template <Function f>
Block side_of(const Block& x, const Block& midpoint) {
  const Block t = map(midpoint, [](double a) { return f == Function::sqrt2_erfinv ? a * M_SQRT1_2 : a; });
  const Block p = erf(t), q = erfc(t);
  Block side;
  side.count = x.count;
  for (int i = 0; i < x.count; ++i) {
    const bool low = x[i] <= 0.5;
    const double gap = low ? p[i] - x[i] : (1 - x[i]) - q[i], d = low ? p[i] * 0x1p-46 : q[i] * 0x1p-43;
    side[i] = gap > d ? 1 : gap < -d ? -1 : 0;
  }
  return side;
}

template <FloatingElement T>
T neighbour(T y, int step) {
  if constexpr (std::same_as<T, float>)
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(y) + step);
  else
    return T{static_cast<std::uint16_t>(y.bits + step)};
}

/// Asks the oracle.
template <Function f, FloatingElement T>
Verdict ask(T argument, T result) {
  return {numerics::same_bits(result, right<f>(argument)), true};
}

/// Whether all estimates decide, and each for the result that is there; a loop without branches.
inline bool all_agree(const Estimates& e, const float* results) {
  std::uint32_t differ = 0;
  for (int i = 0; i < e.y.count; ++i) {
    const double d = e.m[i] * 0x1p-48;
    const auto low = std::bit_cast<std::uint32_t>(static_cast<float>(e.y[i] - d));
    const auto high = std::bit_cast<std::uint32_t>(static_cast<float>(e.y[i] + d));
    differ |= (low ^ high) | (low ^ std::bit_cast<std::uint32_t>(results[i]));
  }
  return differ == 0;
}

/// Calls report(i, verdict) for those of n <= kBlock results that are wrong or for which the oracle was asked. The
/// arguments are `consecutive` if their bits are: none is at a limit then when neither the first nor the last is.
template <Function f, FloatingElement T, class Report>
void check_block(const T* arguments, const T* results, int n, bool consecutive, Report&& report) {
  Block x;
  x.count = n;
  for (int i = 0; i < n; ++i) x[i] = numerics::to_double(arguments[i]);
  std::array<bool, kBlock> plain;
  double limit;
  const bool all_plain = consecutive && std::signbit(x[0]) == std::signbit(x[n - 1]) && !at_limit<f>(x[0], limit) &&
                         !at_limit<f>(x[n - 1], limit);
  if (all_plain) plain.fill(true);
  for (int i = 0; i < n && !all_plain; ++i) {
    plain[i] = !at_limit<f>(x[i], limit);
    if (!plain[i]) {
      x[i] = 0.5;
      if (!numerics::same_bits(results[i], numerics::round_to<T>(limit))) report(i, Verdict{false, false});
    }
  }
  if constexpr (f == Function::erfinv || f == Function::sqrt2_erfinv) {
    Block a, below, above;
    a.count = below.count = above.count = n;
    for (int i = 0; i < n; ++i) {
      const double y = std::fabs(numerics::to_double(results[i]));
      a[i] = std::fabs(x[i]), below[i] = above[i] = 1;
      if (y != y || y == 0 || y > 100 || std::signbit(x[i]) != std::signbit(numerics::to_double(results[i]))) continue;
      const T positive = numerics::round_to<T>(y);
      below[i] = (numerics::to_double(neighbour(positive, -1)) + y) / 2;
      above[i] = (numerics::to_double(neighbour(positive, 1)) + y) / 2;
    }
    const Block low = side_of<f>(a, below), high = side_of<f>(a, above);
    for (int i = 0; i < n; ++i) {
      const bool sane = below[i] < above[i];
      if (plain[i] && !(sane && low[i] < 0 && high[i] > 0)) report(i, ask<f>(arguments[i], results[i]));
    }
  } else {
    Estimates e;
    e.y.count = e.m.count = n;
    estimate<f>(x, e);
    if constexpr (std::same_as<T, float>) {
      if (all_plain && all_agree(e, results)) return;
    }
    for (int i = 0; i < n; ++i) {
      const double d = e.m[i] == 0 || std::isinf(e.y[i]) ? 0 : e.m[i] * 0x1p-48;
      const T low = numerics::round_to<T>(e.y[i] - d), high = numerics::round_to<T>(d == 0 ? e.y[i] : e.y[i] + d);
      if (numerics::same_bits(low, high) && numerics::same_bits(low, results[i])) continue;
      if (!plain[i]) continue;
      if (numerics::same_bits(low, high))
        report(i, Verdict{false, false});
      else
        report(i, ask<f>(arguments[i], results[i]));
    }
  }
}

/// Whether `result` is f(x) rounded once.
template <Function f, FloatingElement T>
Verdict check(T argument, T result) {
  Verdict verdict{true, false};
  check_block<f>(&argument, &result, 1, false, [&](int, Verdict v) { verdict = v; });
  return verdict;
}

}  // namespace eadem::prove
