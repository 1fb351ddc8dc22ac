#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "eadem/numerics/rounding.h"

// Double-double arithmetic: a value is the unevaluated sum hi + lo, |lo| <= ulp(hi)/2. The algorithms and their bounds
// (in u = 2^-53) are those of Joldes, Muller and Popescu, "Tight and rigorous error bounds for basic building blocks of
// double-word arithmetic" (ACM TOMS 44, 2017).

namespace eadem::numerics {

struct DoubleDouble {
  double hi = 0, lo = 0;
  constexpr DoubleDouble() = default;
  constexpr DoubleDouble(double value) : hi(value) {}  // exact, so implicit
  constexpr DoubleDouble(double high, double low) : hi(high), lo(low) {}
};

/// a + b exactly, for any a and b.
inline DoubleDouble two_sum(double a, double b) {
  const double s = a + b, t = s - a;
  return {s, (a - (s - t)) + (b - t)};
}
/// a + b exactly, for |a| >= |b| or a = 0.
inline DoubleDouble fast_two_sum(double a, double b) {
  const double s = a + b;
  return {s, b - (s - a)};
}
/// a * b exactly, barring underflow.
inline DoubleDouble two_product(double a, double b) {
  const double p = a * b;
  return {p, std::fma(a, b, -p)};
}

inline DoubleDouble operator-(DoubleDouble a) {
  return {-a.hi, -a.lo};
}
/// Relative error below 2 u^2.
inline DoubleDouble operator+(DoubleDouble a, double b) {
  const DoubleDouble s = two_sum(a.hi, b);
  return fast_two_sum(s.hi, a.lo + s.lo);
}
inline DoubleDouble operator+(double a, DoubleDouble b) {
  return b + a;
}
/// Relative error below 3 u^2 + 13 u^3, also under cancellation.
inline DoubleDouble operator+(DoubleDouble a, DoubleDouble b) {
  const DoubleDouble s = two_sum(a.hi, b.hi), t = two_sum(a.lo, b.lo);
  const DoubleDouble v = fast_two_sum(s.hi, s.lo + t.hi);
  return fast_two_sum(v.hi, t.lo + v.lo);
}
inline DoubleDouble operator-(DoubleDouble a, DoubleDouble b) {
  return a + -b;
}
inline DoubleDouble operator-(DoubleDouble a, double b) {
  return a + -b;
}
inline DoubleDouble operator-(double a, DoubleDouble b) {
  return -b + a;
}
/// Relative error below 2 u^2.
inline DoubleDouble operator*(DoubleDouble a, double b) {
  const DoubleDouble p = two_product(a.hi, b);
  return fast_two_sum(p.hi, std::fma(a.lo, b, p.lo));
}
inline DoubleDouble operator*(double a, DoubleDouble b) {
  return b * a;
}
/// Relative error below 4 u^2.
inline DoubleDouble operator*(DoubleDouble a, DoubleDouble b) {
  const DoubleDouble p = two_product(a.hi, b.hi);
  const double cross = std::fma(a.lo, b.hi, std::fma(a.hi, b.lo, a.lo * b.lo));
  return fast_two_sum(p.hi, p.lo + cross);
}
/// Relative error below 10 u^2.
inline DoubleDouble operator/(DoubleDouble a, DoubleDouble b) {
  const double q = a.hi / b.hi;
  const DoubleDouble r = b * q;
  const double rest = (a.hi - r.hi) + (a.lo - r.lo);
  return fast_two_sum(q, rest / b.hi);
}
/// The square root of a positive value, relative error below 4 u^2; of zero, zero.
inline DoubleDouble square_root(DoubleDouble a) {
  const double s = std::sqrt(a.hi);
  if (s == 0) return a;
  const double rest = std::fma(-s, s, a.hi) + a.lo;
  return fast_two_sum(s, rest / (2 * s));
}
/// a times a power of two, exact barring overflow and underflow.
inline DoubleDouble scaled(DoubleDouble a, double power) {
  return {a.hi * power, a.lo * power};
}

/// hi + lo rounded once to T: hi is first made odd (its last bit takes the place of all that lies in lo), after which
/// no rounding to fewer bits can err.
template <FloatingElement T>
T round_to(DoubleDouble a) {
  if constexpr (std::same_as<T, double>) return round_to<double>(a.hi + a.lo);
  if (a.lo != 0 && std::fabs(a.hi) < std::numeric_limits<double>::infinity()) {
    const auto bits = std::bit_cast<std::uint64_t>(a.hi);
    if ((bits & 1) == 0) {
      const bool away = (a.lo > 0) == (a.hi > 0);
      a.hi = std::bit_cast<double>(away ? bits + 1 : bits - 1);
    }
  }
  return round_to<T>(a.hi);
}

}  // namespace eadem::numerics
