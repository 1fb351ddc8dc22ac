// exp on vectors for softmax: RN32(exp(x)) with the bits of numerics::exp; included once per Highway target.
#if defined(EADEM_KERNELS_ROWS_EXP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef EADEM_KERNELS_ROWS_EXP_INL_H_
#undef EADEM_KERNELS_ROWS_EXP_INL_H_
#else
#define EADEM_KERNELS_ROWS_EXP_INL_H_
#endif

#include "eadem/kernels/target.h"
#include "eadem/numerics/elementary.h"
#include "eadem/numerics/rounding.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace eadem::kernels::HWY_NAMESPACE {
#if EADEM_HWY_TARGET
namespace hn = hwy::HWY_NAMESPACE;

/// exp(x) for x <= 0 or so, with a relative error below 2^-46 where the result is above 2^-200; -inf gives about
/// 2^-288.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V approximate_exp(D d, V x) {
  // exp(x) = 2^n exp(r), |r| <= ln2 / 2; the Taylor polynomial of degree 11 errs by r^12 / 12! < 2^-47.
  const auto clamped = hn::Max(x, hn::Set(d, -200.0));
  const auto magic = hn::Set(d, 0x1.8p52);
  const auto shifted = hn::MulAdd(clamped, hn::Set(d, 0x1.71547652b82fep0), magic);
  const auto n = hn::Sub(shifted, magic);
  auto r = hn::NegMulAdd(n, hn::Set(d, 0x1.62e42fefa39efp-1), clamped);
  r = hn::NegMulAdd(n, hn::Set(d, 0x1.abc9e3b39803fp-56), r);
  // Even and odd parts are independent, which halves the chain of dependent operations.
  const auto r2 = hn::Mul(r, r);
  auto odd = hn::MulAdd(r2, hn::Set(d, 1.0 / 39916800), hn::Set(d, 1.0 / 362880));
  auto even = hn::MulAdd(r2, hn::Set(d, 1.0 / 3628800), hn::Set(d, 1.0 / 40320));
  odd = hn::MulAdd(r2, odd, hn::Set(d, 1.0 / 5040));
  even = hn::MulAdd(r2, even, hn::Set(d, 1.0 / 720));
  odd = hn::MulAdd(r2, odd, hn::Set(d, 1.0 / 120));
  even = hn::MulAdd(r2, even, hn::Set(d, 1.0 / 24));
  odd = hn::MulAdd(r2, odd, hn::Set(d, 1.0 / 6));
  even = hn::MulAdd(r2, even, hn::Set(d, 0.5));
  odd = hn::MulAdd(r2, odd, hn::Set(d, 1.0));
  even = hn::MulAdd(r2, even, hn::Set(d, 1.0));
  const auto p = hn::MulAdd(r, odd, even);
  // The low bits of `shifted` are n: added to the exponent field (n >= -289, p in [0.7, 1.42)).
  const hn::RebindToSigned<D> di;
  return hn::BitCast(d, hn::Add(hn::BitCast(di, p), hn::ShiftLeft<52>(hn::BitCast(di, shifted))));
}

/// e[0, Lanes(d)) = RN32(numerics::exp(x)), for x <= 0 or so; returns them widened.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp_to_f32(D d, V x, float* e) {
  const auto y = approximate_exp(d, x);
  const hn::Rebind<float, D> d32;
  // Ours is within 2^-46, numerics::exp within 2^-52 of the real value: where both ends round alike, so does that.
  const auto low = hn::DemoteTo(d32, hn::Mul(y, hn::Set(d, 1 - 0x1p-45)));
  const auto high = hn::DemoteTo(d32, hn::Mul(y, hn::Set(d, 1 + 0x1p-45)));
  hn::StoreU(low, d32, e);
  if (HWY_LIKELY(hn::AllTrue(d32, hn::Eq(low, high)))) return hn::PromoteTo(d, low);
  alignas(64) double each[hn::MaxLanes(d)];
  hn::Store(x, d, each);
  for (std::size_t lane = 0; lane < hn::Lanes(d); ++lane) {
    e[lane] = numerics::round_to<float>(numerics::exp(each[lane]));
  }
  return hn::PromoteTo(d, hn::LoadU(d32, e));
}

#endif
}  // namespace eadem::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
