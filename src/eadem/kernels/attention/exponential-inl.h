// The exponentials of attention.h on vectors. Included once for every Highway target.

#if defined(EADEM_KERNELS_ATTENTION_EXPONENTIAL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef EADEM_KERNELS_ATTENTION_EXPONENTIAL_INL_H_
#undef EADEM_KERNELS_ATTENTION_EXPONENTIAL_INL_H_
#else
#define EADEM_KERNELS_ATTENTION_EXPONENTIAL_INL_H_
#endif

#include <cmath>
#include <iterator>
#include <limits>

#include "eadem/kernels/target.h"
#include "eadem/numerics/attention.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace eadem::kernels::HWY_NAMESPACE {
#if EADEM_HWY_TARGET
namespace hn = hwy::HWY_NAMESPACE;
using numerics::ExponentialConstants;

template <class W>
inline constexpr W kInfinity = std::numeric_limits<W>::infinity();

// e^s 2^-m for a row whose greatest score is ordinary: in (-2^19, 2^20). A score of -2^20 or less is then so far below
// that its p is +0 whatever its digits, so the f32 reduction serves all.
template <class D, class V>
HWY_INLINE V exponential(D d, V s, V maximum) {
  using W = hn::TFromD<D>;
  using C = ExponentialConstants<W>;
  const hn::RebindToUnsigned<D> du;
  constexpr int kSignificand = std::numeric_limits<W>::digits - 1;
  const V n = hn::Round(hn::Mul(s, hn::Set(d, C::log2_e)));
  V r = hn::NegMulAdd(n, hn::Set(d, C::ln2_hi), s);
  r = hn::NegMulAdd(n, hn::Set(d, C::ln2_lo), r);
  V f = hn::Set(d, C::c[std::size(C::c) - 1]);
  for (int i = static_cast<int>(std::size(C::c)) - 2; i >= 0; --i) f = hn::MulAdd(f, r, hn::Set(d, C::c[i]));
  f = hn::MulAdd(f, r, hn::Set(d, W{1}));
  f = hn::MulAdd(f, r, hn::Set(d, W{1}));
  const V exponent = hn::Sub(n, maximum);
  // Adding 1.5 2^23 leaves the integer in the low bits; the shift drops the rest.
  constexpr W kMagic = sizeof(W) == 4 ? static_cast<W>(0x1.8p23) : static_cast<W>(0x1.8p52);
  const auto shift = hn::ShiftLeft<kSignificand>(hn::BitCast(du, hn::Add(exponent, hn::Set(d, kMagic))));
  const V p = hn::BitCast(d, hn::Add(hn::BitCast(du, f), shift));
  return hn::IfThenElseZero(hn::Ge(exponent, hn::Set(d, static_cast<W>(C::kNegligible))), p);
}

// The same for any row, one by one.
template <class W>
W exponential_of_any(W s, double maximum) {
  if (s == -kInfinity<W>) return 0;
  const auto [n, f] = numerics::split_exponential(s);
  return n - maximum >= ExponentialConstants<W>::kNegligible ? std::ldexp(f, static_cast<int>(n - maximum)) : W{0};
}

#endif  // EADEM_HWY_TARGET
}  // namespace eadem::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // EADEM_KERNELS_ATTENTION_EXPONENTIAL_INL_H_
