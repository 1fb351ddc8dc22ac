#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <utility>

#include "eadem/numerics/double_double.h"
#include "eadem/numerics/elementary_tables.h"

// The building blocks of the elementary functions, each twice: in double (relative error at most 5 u, u = 2^-53, by
// + - * / sqrt alone) and in double-double (relative error below 2^-95; erf and erfcx 2^-74). Formulas in
// elementary_functions.h are written once over both. No block calls the C library but for fma and sqrt, which are exact
// IEEE operations.

namespace eadem::numerics::core {

/// x to the nearest integer, for |x| < 2^51.
inline double nearest(double x) {
  return (x + 0x1.8p52) - 0x1.8p52;
}

/// 2^n for -1022 <= n <= 1023.
inline double power_of_two(int n) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(n + 1023) << 52);
}

inline double leading(double x) {
  return x;
}
inline double leading(DoubleDouble x) {
  return x.hi;
}

template <class N>
N constant(DoubleDouble c) {
  if constexpr (std::same_as<N, double>)
    return c.hi;
  else
    return c;
}

inline double square_root(double x) {
  return std::sqrt(x);
}
using numerics::square_root;

/// x * x: exact in double-double, and in double too when x has at most 26 significant bits (as f32 has).
template <class N>
N square(double x) {
  if constexpr (std::same_as<N, double>)
    return x * x;
  else
    return two_product(x, x);
}

/// a + b of two doubles: exact in double-double.
template <class N>
N sum(double a, double b) {
  if constexpr (std::same_as<N, double>)
    return a + b;
  else
    return two_sum(a, b);
}

template <int count>
double horner(double x, const double (&c)[count]) {
  double p = c[count - 1];
  for (int i = count - 2; i >= 0; --i) p = p * x + c[i];
  return p;
}

/// The first `wide` coefficients are used in double-double, the others, whose terms are small, in double.
template <int count>
DoubleDouble horner(DoubleDouble x, const DoubleDouble (&c)[count], int wide) {
  double tail = c[count - 1].hi;
  for (int i = count - 2; i >= wide; --i) tail = tail * x.hi + c[i].hi;
  DoubleDouble p = tail;
  for (int i = wide - 1; i >= 0; --i) p = p * x + c[i];
  return p;
}

// --- exp, expm1, exp2: times 2^bias, so that f64 tails keep their digits until the last multiplication.

/// (exp(r) - 1 - r) for |r| <= ln2/2.
inline double exp_tail(double r) {
  return r * r * horner(r, kExp);
}

/// x = n ln2 + r; arguments beyond +-700 count as +-700, which no type narrower than double tells apart.
inline double reduce_exp(double x, double& n) {
  if (x > 700) x = 700;
  if (x < -700) x = -700;
  n = nearest(x * kLog2E.hi);
  return (x - n * kLn2Parts[0]) - n * (kLn2Parts[1] + kLn2Parts[2]);
}
inline double exp(double x, int bias = 0) {
  double n;
  const double r = reduce_exp(x, n);
  return (1 + (r + exp_tail(r))) * power_of_two(static_cast<int>(n) + bias);
}
inline double expm1(double x) {
  double n;
  const double r = reduce_exp(x, n);
  const double scale = power_of_two(static_cast<int>(n));
  return scale * (r + exp_tail(r)) + (scale - 1);
}
inline double exp2(double x, int bias = 0) {
  if (x > 1000) x = 1000;
  if (x < -1000) x = -1000;
  const double n = nearest(x), r = (x - n) * kLn2.hi;
  return (1 + (r + exp_tail(r))) * power_of_two(static_cast<int>(n) + bias);
}

/// exp(r) - 1 for |r| <= ln2/128, by its Taylor polynomial.
inline DoubleDouble expm1_small(DoubleDouble r) {
  double tail = kInverseFactorial[11].hi;
  for (int n = 10; n >= 6; --n) tail = tail * r.hi + kInverseFactorial[n].hi;
  DoubleDouble p = tail;
  for (int n = 5; n >= 2; --n) p = p * r + kInverseFactorial[n];
  return r + r * r * p;
}

/// x = (64 k + j) ln2/64 + r.
struct ExpReduction {
  DoubleDouble r;
  int k, j;
};
inline ExpReduction reduce_exp(DoubleDouble x) {
  const double n = nearest(x.hi * (64 * kLog2E.hi));
  const auto& c = kLn2Over64Parts;
  const DoubleDouble r = two_sum(x.hi, -n * c[0]) + (-n * c[1]) + two_sum(x.lo, -n * c[2]);
  const int i = static_cast<int>(n);
  return {r, i >> 6, i & 63};
}
/// For |x| < 1100, as long as 2^(bias) exp(x) is far from overflow and underflow.
inline DoubleDouble exp(DoubleDouble x, int bias = 0) {
  const ExpReduction e = reduce_exp(x);
  const DoubleDouble t = kExp2Table[e.j];
  return scaled(t + t * expm1_small(e.r), power_of_two(e.k + bias));
}
inline DoubleDouble expm1(DoubleDouble x) {
  const ExpReduction e = reduce_exp(x);
  const DoubleDouble p = expm1_small(e.r);
  if (e.k == 0 && e.j == 0) return p;
  const DoubleDouble t = scaled(kExp2Table[e.j], power_of_two(e.k));
  return (t - 1.0) + t * p;
}
inline DoubleDouble exp2(DoubleDouble x, int bias = 0) {
  const double n = nearest(x.hi * 64);
  const DoubleDouble r = ((x.hi - n / 64) + x.lo) * kLn2;
  const int i = static_cast<int>(n);
  const DoubleDouble t = kExp2Table[i & 63];
  return scaled(t + t * expm1_small(r), power_of_two((i >> 6) + bias));
}

// --- log, log1p.

/// log(1 + f) for 1 + f in [sqrt(1/2), sqrt(2)].
inline double log1p_small(double f) {
  const double s = f / (2 + f), z = s * s;
  return 2 * s + s * z * horner(z, kLog);
}
inline DoubleDouble log1p_small(DoubleDouble f);

/// x = 2^e m with m in [sqrt(1/2), sqrt(2)), for x > 0; returns m.
inline double split_exponent(double x, int& e) {
  e = 0;
  if (x < 0x1p-1022) x *= 0x1p54, e = -54;
  const auto bits = std::bit_cast<std::uint64_t>(x);
  const std::uint64_t shifted = bits - 0x3fe6a09e667f3bcdULL;  // sqrt(1/2)
  const std::int64_t exponent = static_cast<std::int64_t>(shifted) >> 52;
  e += static_cast<int>(exponent);
  return std::bit_cast<double>(bits - (static_cast<std::uint64_t>(exponent) << 52));
}
/// log(m), where x = 2^e m.
inline double log_parts(double x, int& e) {
  return log1p_small(split_exponent(x, e) - 1);
}
inline DoubleDouble log_parts(DoubleDouble x, int& e) {
  const double m = split_exponent(x.hi, e);
  double lo = x.lo;
  if (lo != 0) {  // two steps: e may be as large as 1024
    lo *= power_of_two(-e / 2);
    lo *= power_of_two(-e - -e / 2);
  }
  return log1p_small(two_sum(m - 1, lo));
}
template <class N>
N log(N x) {
  int e;
  const N m = log_parts(x, e);
  if constexpr (std::same_as<N, double>) {
    return e * (kLn2Parts[0]) + (m + e * (kLn2Parts[1] + kLn2Parts[2]));
  } else {
    return e == 0 ? m : m + kLn2 * static_cast<double>(e);
  }
}
template <class N>
N log1p(N f) {
  if (leading(f) > -0.29 && leading(f) < 0.41) return log1p_small(f);
  return log(1.0 + f);
}
/// One Newton step from the double value y: log(1 + f) = y + w - w^2/2 + ..., w = (f - expm1(y)) / exp(y).
inline DoubleDouble log1p_small(DoubleDouble f) {
  const double y = log1p_small(f.hi);
  const DoubleDouble e = expm1(DoubleDouble(y));
  const double w = (f - e).hi / (1 + e.hi);
  return fast_two_sum(y, w - w * w / 2);
}

// --- sine, cosine, and the reduction of any double.

struct SinCos64 {
  double sin, cos;
};
/// For |r| <= pi/4.
inline SinCos64 sin_cos(double r) {
  const double z = r * r;
  return {r + r * z * horner(z, kSin), 1 - (z / 2 - z * z * horner(z, kCos))};
}
struct SinCos {
  DoubleDouble sin, cos;
};
inline SinCos sin_cos(DoubleDouble r) {
  const DoubleDouble z = r * r;
  double ts = kInverseFactorial[27].hi, tc = kInverseFactorial[26].hi;
  for (int n = 25; n >= 17; n -= 2) ts = kInverseFactorial[n].hi - ts * z.hi;
  for (int n = 24; n >= 16; n -= 2) tc = kInverseFactorial[n].hi - tc * z.hi;
  DoubleDouble s = ts, c = tc;
  for (int n = 15; n >= 3; n -= 2) s = kInverseFactorial[n] - s * z;
  for (int n = 14; n >= 2; n -= 2) c = kInverseFactorial[n] - c * z;
  return {r - r * (s * z), 1.0 - c * z};
}

/// x = (4 n + quadrant) pi/2 + r with |r| <= pi/4: exact integer products with 256 bits of 2/pi (Payne and Hanek), of
/// which those that make multiples of 2 pi are left out; the fraction keeps 254 bits, 2^-201 at worst.
template <class N>
int reduce_half_pi(double x, N& r) {
  constexpr double kLimit = 0.785;
  if (std::fabs(x) <= kLimit) {
    r = x;
    return 0;
  }
  using u64 = std::uint64_t;
  using u128 = unsigned __int128;
  const u64 bits = std::bit_cast<u64>(x);
  const u64 m = (bits & 0xfffffffffffffULL) | 0x10000000000000ULL;
  const int e = static_cast<int>((bits >> 52) & 0x7ff) - 1075;  // |x| = m 2^e
  const int start = e - 1 + 63;  // of the first bit with weight 2^(1-e); word 0 of the table has weights 2^63..2^0
  const u64* w = kTwoOverPi + (start >> 6);
  const int shift = start & 63;
  const auto word = [&](int i) { return shift == 0 ? w[i] : (w[i] << shift) | (w[i + 1] >> (64 - shift)); };
  u128 carry = static_cast<u128>(m) * word(3);
  const u64 p3 = static_cast<u64>(carry);
  carry = static_cast<u128>(m) * word(2) + static_cast<u64>(carry >> 64);
  const u64 p2 = static_cast<u64>(carry);
  carry = static_cast<u128>(m) * word(1) + static_cast<u64>(carry >> 64);
  u64 p1 = static_cast<u64>(carry);
  u64 p0 = m * word(0) + static_cast<u64>(carry >> 64);
  int quadrant = static_cast<int>((p0 + (u64{1} << 61)) >> 62) & 3;
  p0 -= static_cast<u64>(quadrant) << 62;  // now a signed fraction of weight 2^-62
  const bool negative = static_cast<std::int64_t>(p0) < 0;
  u64 a0 = p0, a1 = p1, a2 = p2;
  if (negative) {  // the last word is dropped: an error of 2^-190, relative 2^-128 at worst
    a0 = ~a0, a1 = ~a1, a2 = ~a2;
    if (p3 == 0 && ++a2 == 0 && ++a1 == 0) ++a0;
  }
  int exponent = -62;
  while (a0 == 0) a0 = a1, a1 = a2, a2 = 0, exponent -= 64;
  const int zeros = std::countl_zero(a0);
  if (zeros != 0) {
    a0 = (a0 << zeros) | (a1 >> (64 - zeros));
    a1 = (a1 << zeros) | (a2 >> (64 - zeros));
    exponent -= zeros;
  }
  const double scale = power_of_two(exponent);
  const bool flip = negative != (x < 0);
  if constexpr (std::same_as<N, double>) {
    const double t = static_cast<double>(a0 >> 1) * (2 * scale);
    r = (flip ? -t : t) * kHalfPi.hi;
  } else {
    const double high = static_cast<double>(a0 >> 11) * 0x1p11;
    const double low = static_cast<double>(((a0 & 0x7ff) << 42) | (a1 >> 22)) * 0x1p-42;
    const DoubleDouble t = scaled(fast_two_sum(high, low), scale);
    r = (flip ? -t : t) * kHalfPi;
  }
  return x < 0 ? -quadrant & 3 : quadrant;
}

// --- the arc tangent of num/den, both >= 0 and not both 0.

inline double atan(double num, double den) {
  DoubleDouble base = 0.0;
  double t;
  if (num > 2.4142135 * den) {
    t = -den / num;
    base = kHalfPi;
  } else if (num > 0.41421356 * den) {
    t = (num - den) / (num + den);
    base = kQuarterPi;
  } else {
    t = num / den;
  }
  const double z = t * t;
  return base.hi + (t + (t * z * horner(z, kAtan) + base.lo));
}
/// One step: tan(atan(num/den) - y) = (num cos y - den sin y) / (den cos y + num sin y).
inline DoubleDouble atan(DoubleDouble num, DoubleDouble den) {
  const bool swapped = num.hi > den.hi;
  if (swapped) std::swap(num, den);
  const double y = atan(num.hi, den.hi);
  const SinCos t = sin_cos(DoubleDouble(y));
  const double step = (num * t.cos - den * t.sin).hi / (den * t.cos + num * t.sin).hi;
  const DoubleDouble result = fast_two_sum(y, step);
  return swapped ? kHalfPi - result : result;
}

// --- the error function.

/// erf(x) for |x| <= 1.
inline double erf(double x) {
  return x * horner(x * x, kErf);
}
inline DoubleDouble erf(DoubleDouble x) {
  return x * horner(x * x, kErfAccurate, 11);
}

/// exp(x^2) erfc(x) for x >= 1/2; x above 28 counts as 28.
inline double erfcx(double x) {
  const double w = 1 / (1 + (x > 28 ? 28 : x));
  const int i = static_cast<int>(w * 16);
  return horner(w - (i + 0.5) / 16, kErfcx[i]);
}
inline DoubleDouble erfcx(DoubleDouble x) {
  const DoubleDouble w = 1.0 / (1.0 + (x.hi > 28 ? DoubleDouble(28.0) : x));
  const int i = static_cast<int>(w.hi * 16);
  return horner(w - (i + 0.5) / 16, kErfcxAccurate[i], 7);
}

}  // namespace eadem::numerics::core
