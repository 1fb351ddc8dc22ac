// Per target: Approximation<f>, the elementary functions that have a vector form: of(d, x) errs relatively by at most
// 2^-kBits in lanes of double and, where kFloatBits is given (for 16-bit results), 2^-kFloatBits in lanes of float.

#if defined(EADEM_KERNELS_ELEMENTWISE_APPROXIMATIONS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef EADEM_KERNELS_ELEMENTWISE_APPROXIMATIONS_INL_H_
#undef EADEM_KERNELS_ELEMENTWISE_APPROXIMATIONS_INL_H_
#else
#define EADEM_KERNELS_ELEMENTWISE_APPROXIMATIONS_INL_H_
#endif

#include "eadem/kernels/elementwise/functions-inl.h"
#include "eadem/numerics/elementary.h"

HWY_BEFORE_NAMESPACE();
namespace eadem::kernels::HWY_NAMESPACE {
#if EADEM_HWY_TARGET

using numerics::Function;

// Full polynomials; the short ones lose the rounding test once in some 2^14 lanes, and are faster.
struct Full {
  static constexpr int kBits = 43, kFloatBits = 0;
};
struct Short {
  static constexpr int kBits = 38, kFloatBits = 20;
};

// None: the function runs in scalar code.
template <Function f>
struct Approximation {
  static constexpr int kBits = 0, kFloatBits = 0;
};

template <>
struct Approximation<Function::exp> : Short {
  template <class D, class V>
  static HWY_INLINE V of(D d, V x) {
    if constexpr (kWide<D>)
      return exp_of(d, at_most(d, at_least(d, x, -kBeyond), kBeyond), false);
    else
      return known_below(d, hn::Abs(x), exp_of(d, at_most(d, at_least(d, x, -87), 87)));
  }
};
template <>
struct Approximation<Function::exp2> : Short {
  static constexpr int kFloatBits = 0;
  template <class D, class V>
  static HWY_INLINE V of(D d, V x) {
    const V shift = constant(d, 0x1.8p52), bounded = at_most(d, at_least(d, x, -2 * kBeyond), 2 * kBeyond);
    const V shifted = hn::Add(bounded, shift),
            r = hn::Mul(hn::Sub(bounded, hn::Sub(shifted, shift)), constant(d, 0x1.62e42fefa39efp-1));
    const V q = hn::MulAdd(hn::Mul(r, r), exp_polynomial(d, r, false), r);
    return scale_by(d, hn::Add(q, constant(d, 1)), shifted);
  }
};
template <>
struct Approximation<Function::expm1> : Full {
  template <class D, class V>
  static HWY_INLINE V of(D d, V x) {
    return hn::CopySign(expm1_of(d, at_most(d, at_least(d, x, -60), kBeyond)), x);
  }
};
template <>
struct Approximation<Function::sigmoid> : Short {
  template <class D, class V>
  static HWY_INLINE V of(D d, V x) {
    const V minus = hn::Neg(x), e = exp_of(d, at_most(d, at_least(d, minus, -kRoom<D>), kRoom<D>), false);
    return known_below(d, minus, hn::Div(constant(d, 1), hn::Add(e, constant(d, 1))));
  }
};
template <>
struct Approximation<Function::silu> : Short {
  template <class D, class V>
  static HWY_INLINE V of(D d, V x) {
    const V minus = hn::Neg(x), e = exp_of(d, at_most(d, at_least(d, minus, -kRoom<D>), kRoom<D>), false);
    return known_below(d, minus, hn::Div(at_least(d, x, -kBeyond), hn::Add(e, constant(d, 1))));
  }
};
template <>
struct Approximation<Function::gelu_tanh> : Short {
  template <class D, class V>
  static HWY_INLINE V of(D d, V x) {
    const V bounded = at_least(d, x, -kBeyond);
    const V minus =
        hn::Mul(bounded, hn::NegMulAdd(hn::Mul(bounded, bounded), constant(d, kGeluTanhB), constant(d, -kGeluTanhA)));
    const V e = exp_of(d, at_most(d, at_least(d, minus, -kRoom<D>), kRoom<D>), false);
    return known_below(d, minus, hn::Div(bounded, hn::Add(e, constant(d, 1))));
  }
};
template <>
struct Approximation<Function::tanh> : Short {
  template <class D, class V>
  static HWY_INLINE V of(D d, V x) {
    const V a = at_most(d, hn::Abs(x), 20), e = expm1_of(d, hn::Add(a, a), false);
    return hn::CopySign(hn::Div(e, hn::Add(e, constant(d, 2))), x);
  }
};
template <>
struct Approximation<Function::gelu> : Short {
  template <class D, class V>
  static HWY_INLINE V of(D d, V x) {
    const V bounded = at_least(d, x, kWide<D> ? -kBeyond : -16), a = hn::Abs(x);
    const auto tail = scaled_tail(d, a, false);
    const V lower = hn::Mul(normal_exponential(d, a), tail.top);
    const V top = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), lower, hn::Sub(tail.bottom, lower));
    return hn::Mul(bounded, hn::Div(top, tail.bottom));
  }
};
template <>
struct Approximation<Function::sinh> : Full {
  template <class D, class V>
  static HWY_INLINE V of(D d, V x) {
    const V e = expm1_of(d, at_most(d, hn::Abs(x), kBeyond));
    const V twice = hn::Add(e, hn::Div(e, hn::Add(e, constant(d, 1))));
    return hn::CopySign(hn::Mul(twice, constant(d, 0.5)), x);
  }
};
template <>
struct Approximation<Function::cosh> : Full {
  template <class D, class V>
  static HWY_INLINE V of(D d, V x) {
    const V e = exp_of(d, at_most(d, hn::Abs(x), kBeyond));
    return hn::Mul(hn::Add(e, hn::Div(constant(d, 1), e)), constant(d, 0.5));
  }
};
template <>
struct Approximation<Function::softplus> : Full {
  template <class D, class V>
  static HWY_INLINE V of(D d, V x) {
    const V e = exp_of(d, at_least(d, hn::Neg(hn::Abs(x)), -kBeyond));
    return hn::Add(at_least(d, x, 0), log1p_of(d, e));
  }
};
template <>
struct Approximation<Function::tanh_derivative> : Full {
  template <class D, class V>
  static HWY_INLINE V of(D d, V x) {
    const V e = exp_of(d, at_least(d, hn::Mul(hn::Abs(x), constant(d, -2)), -kBeyond)), e1 = hn::Add(e, constant(d, 1));
    return hn::Div(hn::Mul(e, constant(d, 4)), hn::Mul(e1, e1));
  }
};
template <>
struct Approximation<Function::sigmoid_derivative> : Full {
  template <class D, class V>
  static HWY_INLINE V of(D d, V x) {
    const V e = exp_of(d, at_least(d, hn::Neg(hn::Abs(x)), -kBeyond)), e1 = hn::Add(e, constant(d, 1));
    return hn::Div(e, hn::Mul(e1, e1));
  }
};
template <>
struct Approximation<Function::silu_derivative> : Full {
  template <class D, class V>
  static HWY_INLINE V of(D d, V x) {
    const V bounded = at_most(d, at_least(d, x, -kBeyond), kBeyond);
    return gated_derivative(d, bounded, bounded, bounded);
  }
};
template <>
struct Approximation<Function::gelu_tanh_derivative> : Full {
  template <class D, class V>
  static HWY_INLINE V of(D d, V x) {
    const V bounded = at_most(d, at_least(d, x, -kBeyond), kBeyond), square = hn::Mul(bounded, bounded);
    const V v = hn::Mul(bounded, hn::MulAdd(square, constant(d, kGeluTanhB), constant(d, kGeluTanhA)));
    const V w = hn::Mul(bounded, hn::MulAdd(square, constant(d, 3 * kGeluTanhB), constant(d, kGeluTanhA)));
    return gated_derivative(d, bounded, v, w);
  }
};
// The terms of the difference err by at most 2^-48, so that nine bits may cancel.
template <>
struct Approximation<Function::gelu_derivative> : Short {
  static constexpr int kFloatBits = 0;
  template <class D, class V>
  static HWY_INLINE V of(D d, V x) {
    const V a = at_most(d, hn::Abs(x), kBeyond);
    const auto tail = scaled_tail(d, a, true);
    const V slope = hn::Mul(hn::Mul(a, constant(d, 0x1.9884533d43651p-2)), tail.bottom);  // 1/sqrt(2 pi)
    const V difference = hn::Sub(tail.top, slope);
    const V left = hn::Mul(normal_exponential(d, a), hn::Div(difference, tail.bottom));
    const V known = unless_cancelled(d, left, difference, hn::Add(tail.top, slope), 0x1p-9);
    return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), known, hn::Sub(constant(d, 1), left));
  }
};

template <>
struct Approximation<Function::log> : Full {
  template <class D, class V>
  static HWY_INLINE V of(D d, V x) {
    return log1p_of(d, hn::Sub(x, constant(d, 1)), x);
  }
};
template <>
struct Approximation<Function::log2> : Full {
  template <class D, class V>
  static HWY_INLINE V of(D d, V x) {
    V e;
    const V m = log_mantissa(d, x, hn::Sub(x, constant(d, 1)), e);
    return hn::MulAdd(m, constant(d, 0x1.71547652b82fep0), e);
  }
};
template <>
struct Approximation<Function::log10> : Full {
  template <class D, class V>
  static HWY_INLINE V of(D d, V x) {
    V e;
    const V m = log_mantissa(d, x, hn::Sub(x, constant(d, 1)), e);
    return hn::MulAdd(e, constant(d, 0x1.34413509f79ffp-2), hn::Mul(m, constant(d, 0x1.bcb7b1526e50ep-2)));
  }
};
template <>
struct Approximation<Function::log1p> : Full {
  template <class D, class V>
  static HWY_INLINE V of(D d, V x) {
    return hn::CopySign(log1p_of(d, x), x);
  }
};
template <>
struct Approximation<Function::logit> : Full {
  template <class D, class V>
  static HWY_INLINE V of(D d, V x) {
    const V one = constant(d, 1), rest = hn::Sub(one, x);
    return log1p_of(d, hn::Div(hn::MulAdd(x, constant(d, 2), constant(d, -1)), rest), hn::Div(x, rest));
  }
};
template <>
struct Approximation<Function::asinh> : Full {
  template <class D, class V>
  static HWY_INLINE V of(D d, V x) {
    const V a = hn::Abs(x), one = constant(d, 1), square = hn::Mul(a, a);
    const V root = hn::Sqrt(hn::Add(square, one));
    return hn::CopySign(log1p_of(d, hn::Add(a, hn::Div(square, hn::Add(root, one)))), x);
  }
};
template <>
struct Approximation<Function::acosh> : Full {
  template <class D, class V>
  static HWY_INLINE V of(D d, V x) {
    const V t = hn::Sub(x, constant(d, 1));
    const V y = log1p_of(d, hn::Add(t, hn::Sqrt(hn::Mul(t, hn::Add(t, constant(d, 2))))));
    return hn::IfThenElse(hn::Lt(t, hn::Zero(d)), unknown(d), y);
  }
};
template <>
struct Approximation<Function::atanh> : Full {
  template <class D, class V>
  static HWY_INLINE V of(D d, V x) {
    const V a = hn::Abs(x), f = hn::Div(hn::Add(a, a), hn::Sub(constant(d, 1), a));
    return hn::CopySign(hn::Mul(log1p_of(d, f), constant(d, 0.5)), x);
  }
};

template <>
struct Approximation<Function::sin> : Full {
  template <class D, class V>
  static HWY_INLINE V of(D d, V x) {
    return sine(d, x, 0);
  }
};
template <>
struct Approximation<Function::cos> : Full {
  template <class D, class V>
  static HWY_INLINE V of(D d, V x) {
    return sine(d, x, 1);
  }
};
template <>
struct Approximation<Function::tan> : Full {
  template <class D, class V>
  static HWY_INLINE V of(D d, V x) {
    const auto t = sin_cos(d, x);
    const auto odd = hn::RebindMask(d, hn::TestBit(t.quadrant, hn::Set(BitsTag<D>(), 1)));
    return hn::Div(hn::IfThenElse(odd, hn::Neg(t.cos), t.sin), hn::IfThenElse(odd, t.sin, t.cos));
  }
};
template <>
struct Approximation<Function::atan> : Full {
  template <class D, class V>
  static HWY_INLINE V of(D d, V x) {
    return hn::CopySign(atan_of(d, hn::Abs(x), constant(d, 1)), x);
  }
};
template <>
struct Approximation<Function::asin> : Full {
  template <class D, class V>
  static HWY_INLINE V of(D d, V x) {
    const V a = hn::Abs(x), one = constant(d, 1);
    return hn::CopySign(atan_of(d, a, hn::Sqrt(hn::Mul(hn::Sub(one, a), hn::Add(one, a)))), x);
  }
};
template <>
struct Approximation<Function::acos> : Full {
  template <class D, class V>
  static HWY_INLINE V of(D d, V x) {
    const V a = hn::Abs(x), one = constant(d, 1);
    const V v = atan_of(d, hn::Sqrt(hn::Mul(hn::Sub(one, a), hn::Add(one, a))), a);
    return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Sub(constant(d, 0x1.921fb54442d18p1), v), v);
  }
};

template <>
struct Approximation<Function::erf> : Full {
  template <class D, class V>
  static HWY_INLINE V of(D d, V x) {
    const V a = hn::Abs(x), z = hn::Mul(x, x), one = constant(d, 1);
    const V half_tail = half_erfc(d, a, z), tail = hn::Add(half_tail, half_tail);
    const V small = hn::Mul(a, horner(d, at_most(d, z, 1), poly::kErf));
    return hn::CopySign(hn::IfThenElse(hn::Lt(a, one), small, hn::Sub(one, tail)), x);
  }
};
template <>
struct Approximation<Function::erfc> : Full {
  template <class D, class V>
  static HWY_INLINE V of(D d, V x) {
    const V a = hn::Abs(x), z = hn::Mul(x, x), one = constant(d, 1);
    const V half_tail = half_erfc(d, a, z), tail = hn::Add(half_tail, half_tail);
    const V small = hn::NegMulAdd(x, horner(d, at_most(d, z, 1), poly::kErf), one);
    const V large = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Sub(constant(d, 2), tail), tail);
    return hn::IfThenElse(hn::Lt(a, constant(d, 0.5)), small, large);
  }
};
template <>
struct Approximation<Function::rsqrt> : Full {
  template <class D, class V>
  static HWY_INLINE V of(D d, V x) {
    return hn::Div(constant(d, 1), hn::Sqrt(x));
  }
};

#endif
}  // namespace eadem::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
