// Per target: approximations of the elementary functions on vectors, to about 2^-40 in double and 2^-20 in float.
// They decide no result by themselves: elementary_loop-inl.h rounds y only where every value within F::kBits of it
// rounds alike, and asks numerics/ otherwise. NaN means "not known here".

#if defined(EADEM_KERNELS_ELEMENTWISE_FUNCTIONS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef EADEM_KERNELS_ELEMENTWISE_FUNCTIONS_INL_H_
#undef EADEM_KERNELS_ELEMENTWISE_FUNCTIONS_INL_H_
#else
#define EADEM_KERNELS_ELEMENTWISE_FUNCTIONS_INL_H_
#endif

#include <type_traits>

#include "eadem/kernels/elementwise/polynomials.h"
#include "eadem/kernels/target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace eadem::kernels::HWY_NAMESPACE {
#if EADEM_HWY_TARGET
namespace hn = hwy::HWY_NAMESPACE;
namespace poly = polynomials;

template <class D>
inline constexpr bool kWide = sizeof(hn::TFromD<D>) == 8;

template <class D>
using BitsTag = hn::RebindToUnsigned<D>;

template <class D, class V = hn::Vec<D>>
HWY_INLINE V constant(D d, double value) {
  return hn::Set(d, static_cast<hn::TFromD<D>>(value));
}
template <class D, class V = hn::Vec<D>>
HWY_INLINE V unknown(D d) {
  return hn::NaN(d);
}

template <class D, class V, class T, std::size_t count>
HWY_INLINE V horner(D d, V x, const T (&c)[count]) {
  V sum = hn::Set(d, c[count - 1]);
  for (std::size_t i = count - 1; i-- > 0;) sum = hn::MulAdd(sum, x, hn::Set(d, c[i]));
  return sum;
}

// The polynomial for D's type: full and short ones in double.
template <class D, class V>
HWY_INLINE V exp_polynomial(D d, V r, bool full) {
  if constexpr (kWide<D>)
    return full ? horner(d, r, poly::kExp) : horner(d, r, poly::kExpShort);
  else
    return horner(d, r, poly::kExpFloat);
}

// x = n ln2 + r; `shifted` holds n in its low bits. |n| < 1000 (float: < 127).
template <class V>
struct ExpReduction {
  V shifted, n, r;
};
template <class D, class V = hn::Vec<D>>
HWY_INLINE ExpReduction<V> reduce_exp(D d, V x) {
  const V shift = constant(d, kWide<D> ? 0x1.8p52 : 0x1.8p23);
  const V shifted = hn::MulAdd(x, constant(d, 0x1.71547652b82fep0), shift), n = hn::Sub(shifted, shift);
  if constexpr (kWide<D>) {
    return {shifted, n, hn::NegMulAdd(n, constant(d, 0x1.62e42fefa39efp-1), x)};
  } else {
    const V r = hn::NegMulAdd(n, constant(d, 0.693359375), x);
    return {shifted, n, hn::NegMulAdd(n, constant(d, -2.12194440054690583e-4), r)};
  }
}
// y 2^n, by the exponent.
template <class D, class V>
HWY_INLINE V scale_by(D d, V y, V shifted) {
  constexpr int significand = kWide<D> ? 52 : 23;
  const BitsTag<D> du;
  return hn::BitCast(d, hn::Add(hn::BitCast(du, y), hn::ShiftLeft<significand>(hn::BitCast(du, shifted))));
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp_of(D d, V x, bool full = true) {
  const ExpReduction<V> e = reduce_exp(d, x);
  const V q = hn::MulAdd(hn::Mul(e.r, e.r), exp_polynomial(d, e.r, full), e.r);
  return scale_by(d, hn::Add(q, constant(d, 1)), e.shifted);
}
// Relative error alike near zero.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V expm1_of(D d, V x, bool full = true) {
  const ExpReduction<V> e = reduce_exp(d, x);
  const V q = hn::Mul(e.r, hn::MulAdd(e.r, exp_polynomial(d, e.r, full), constant(d, 1)));
  const V scale = scale_by(d, constant(d, 1), e.shifted);
  return hn::MulAdd(scale, q, hn::Sub(scale, constant(d, 1)));
}

// x clamped to where double has room for every f32 result (float: for every bf16 result). What becomes of NaN
// depends on the target; the loop takes care of it.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V at_least(D d, V x, double low) {
  return hn::Max(x, constant(d, low));
}
template <class D, class V = hn::Vec<D>>
HWY_INLINE V at_most(D d, V x, double high) {
  return hn::Min(x, constant(d, high));
}
inline constexpr double kBeyond = 200;  // exp(-200) is less than half of any f32 or 16-bit subnormal
template <class D>
inline constexpr double kRoom = kWide<D> ? kBeyond : 87;
// Where float has no room for exp(x), the answer is unknown; double never runs out.
template <class D, class V>
HWY_INLINE V known_below(D d, V x, V y) {
  if constexpr (kWide<D>)
    return y;
  else
    return hn::IfThenElse(hn::Gt(x, constant(d, 87)), unknown(d), y);
}

// log(u) for finite u > 0, where u_minus_1 is u - 1 with all its digits. Unknown outside.
template <class D, class V>
HWY_INLINE V log_mantissa(D d, V u, V u_minus_1, V& exponent) {
  const BitsTag<D> du;
  const hn::RebindToSigned<D> di;
  const auto bits = hn::BitCast(di, u);
  const auto shifted = hn::Sub(bits, hn::Set(di, 0x3fe6a09e667f3bcdLL));  // sqrt(1/2)
  const auto field = hn::And(shifted, hn::Set(di, static_cast<std::int64_t>(0xfff0000000000000ULL)));
  const V m = hn::BitCast(d, hn::Sub(bits, field));
  // The exponent as a double without a conversion from 64-bit integers: the low bits of 2^52 hold e + 1024.
  const auto biased = hn::ShiftRight<52>(hn::BitCast(du, hn::Add(shifted, hn::Set(di, std::int64_t{1} << 62))));
  exponent = hn::Sub(hn::BitCast(d, hn::Or(biased, hn::Set(du, 0x4330000000000000ULL))), constant(d, 0x1p52 + 1024));
  const V f = hn::IfThenElse(hn::Eq(exponent, constant(d, 0)), u_minus_1, hn::Sub(m, constant(d, 1)));
  const V s = hn::Div(f, hn::Add(f, constant(d, 2))), z = hn::Mul(s, s);
  const V y = hn::Mul(s, hn::MulAdd(z, horner(d, z, poly::kLog), constant(d, 2)));
  const auto valid = hn::And(hn::Gt(u, constant(d, 0)), hn::Lt(u, constant(d, 0x1p1000)));
  return hn::IfThenElse(valid, y, unknown(d));
}
template <class D, class V = hn::Vec<D>>
HWY_INLINE V log1p_of(D d, V f, V u) {
  V e;
  const V m = log_mantissa(d, u, f, e);
  return hn::MulAdd(e, constant(d, 0x1.62e42fefa39efp-1), m);
}
template <class D, class V = hn::Vec<D>>
HWY_INLINE V log1p_of(D d, V f) {
  return log1p_of(d, f, hn::Add(f, constant(d, 1)));
}

template <class V>
struct SinCos {
  V sin, cos;
  hn::Vec<hn::RebindToUnsigned<hn::DFromV<V>>> quadrant;
};
// Cody and Waite, for |x| <= 2^20; beyond, unknown.
template <class D, class V = hn::Vec<D>>
HWY_INLINE SinCos<V> sin_cos(D d, V x) {
  const BitsTag<D> du;
  const V shift = constant(d, 0x1.8p52);
  const V shifted = hn::MulAdd(x, constant(d, 0x1.45f306dc9c883p-1), shift), n = hn::Sub(shifted, shift);
  V r = hn::NegMulAdd(n, constant(d, 0x1.921fb54442d18p0), x);
  r = hn::NegMulAdd(n, constant(d, 0x1.1a62633145c07p-54), r);
  r = hn::IfThenElse(hn::Gt(hn::Abs(x), constant(d, 0x1p20)), unknown(d), r);
  const V z = hn::Mul(r, r), one = constant(d, 1);
  const V s = hn::Mul(r, hn::MulAdd(z, horner(d, z, poly::kSin), one));
  const V c = hn::MulAdd(hn::Mul(z, z), horner(d, z, poly::kCos), hn::NegMulAdd(z, constant(d, 0.5), one));
  return {s, c, hn::And(hn::BitCast(du, shifted), hn::Set(du, 3))};
}
// The sine of the quadrants from `first` on.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V sine(D d, V x, std::uint64_t first) {
  const BitsTag<D> du;
  const SinCos<V> t = sin_cos(d, x);
  const auto quadrant = hn::Add(t.quadrant, hn::Set(du, first));
  const auto odd = hn::RebindMask(d, hn::TestBit(quadrant, hn::Set(du, 1)));
  const auto sign = hn::ShiftLeft<62>(hn::And(quadrant, hn::Set(du, 2)));
  return hn::BitCast(d, hn::Xor(hn::BitCast(du, hn::IfThenElse(odd, t.cos, t.sin)), sign));
}

// The angle of the point (den, num), both >= 0 and not both 0.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V atan_of(D d, V num, V den) {
  const auto steep = hn::Gt(num, hn::Mul(den, constant(d, 2.4142135)));
  const auto middle = hn::Gt(num, hn::Mul(den, constant(d, 0.41421356)));
  const V top = hn::IfThenElse(steep, hn::Neg(den), hn::IfThenElse(middle, hn::Sub(num, den), num));
  const V bottom = hn::IfThenElse(steep, num, hn::IfThenElse(middle, hn::Add(num, den), den));
  const V base = hn::IfThenElse(steep, constant(d, 0x1.921fb54442d18p0),
                                hn::IfThenElse(middle, constant(d, 0x1.921fb54442d18p-1), hn::Zero(d)));
  const V t = hn::Div(top, bottom), z = hn::Mul(t, t);
  return hn::MulAdd(t, hn::MulAdd(z, horner(d, z, poly::kAtan), constant(d, 1)), base);
}

// Where terms of total size `magnitude` cancel to less than `least` of it, digits are lost: unknown.
template <class D, class V>
HWY_INLINE V unless_cancelled(D d, V y, V sum, V magnitude, double least) {
  return hn::IfThenElse(hn::Lt(hn::Abs(sum), hn::Mul(magnitude, constant(d, least))), unknown(d), y);
}

// The normal distribution's tail beyond a >= 0: Phi(-a) = exp(-a^2/2) top / bottom. Nothing cancels in these.
template <class V>
struct ScaledTail {
  V top, bottom;
};
template <class D, class V = hn::Vec<D>>
HWY_INLINE ScaledTail<V> scaled_tail(D d, V a, bool full) {
  const V x = at_most(d, a, 15.6);
  if constexpr (!kWide<D>)
    return {horner(d, x, poly::kTailFloatTop), horner(d, x, poly::kTailFloatBottom)};
  else if (full)
    return {horner(d, x, poly::kTailTop), horner(d, x, poly::kTailBottom)};
  else
    return {horner(d, x, poly::kTailShortTop), horner(d, x, poly::kTailShortBottom)};
}
// exp(-a^2/2).
template <class D, class V = hn::Vec<D>>
HWY_INLINE V normal_exponential(D d, V a) {
  return exp_of(d, at_least(d, hn::Mul(hn::Mul(a, a), constant(d, -0.5)), -kRoom<D>), false);
}
// erfc(a) / 2 for a >= 0, z = a^2.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V half_erfc(D d, V a, V z) {
  const auto tail = scaled_tail(d, hn::Mul(a, constant(d, 0x1.6a09e667f3bcdp0)), true);
  return hn::Mul(exp_of(d, at_least(d, hn::Neg(z), -kBeyond)), hn::Div(tail.top, tail.bottom));
}

// 2 sqrt(2/pi) and 0.044715 times it: gelu_tanh(x) = x sigmoid(A x + B x^3).
inline constexpr double kGeluTanhA = 1.5957691216057307, kGeluTanhB = 0.044715 * 1.5957691216057307;

// Derivative of x sigmoid(v(x)) at x, with w = x v'(x); v has the sign of x.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V gated_derivative(D d, V x, V v, V w) {
  const V one = constant(d, 1), e = exp_of(d, at_least(d, hn::Neg(hn::Abs(v)), -kBeyond)), e1 = hn::Add(one, e);
  const auto right = hn::Ge(x, hn::Zero(d));
  const V top = hn::IfThenElse(right, hn::MulAdd(e, hn::Add(one, w), one), hn::Add(e1, w));
  const V factor = hn::Div(hn::IfThenElse(right, one, e), hn::Mul(e1, e1));
  return unless_cancelled(d, hn::Mul(top, factor), top, hn::IfThenElse(right, one, hn::Sub(e1, w)), 0x1p-4);
}

#endif
}  // namespace eadem::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
