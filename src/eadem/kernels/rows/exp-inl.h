// exp on vectors for softmax: RN32(exp(x)) with the bits of numerics::exp; included once per Highway target.
#if defined(EADEM_KERNELS_ROWS_EXP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef EADEM_KERNELS_ROWS_EXP_INL_H_
#undef EADEM_KERNELS_ROWS_EXP_INL_H_
#else
#define EADEM_KERNELS_ROWS_EXP_INL_H_
#endif

#include <bit>
#include <cstdint>

#include "eadem/kernels/target.h"
#include "eadem/numerics/elementary.h"
#include "eadem/numerics/elementary_core.h"
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

/// numerics::exp(x) in every bit of f64, for x <= 0 or so.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp_f64(D d, V x) {
  // x = (64 k + j) ln2 / 64 + r as in numerics/elementary_core.h; 2^(j/64) exp(r) as hi + lo, within 2^-66.
  const hn::RebindToSigned<D> di;
  const auto clamped = hn::Max(x, hn::Set(d, -745.0));
  const auto magic = hn::Set(d, 0x1.8p52);
  const auto shifted = hn::MulAdd(clamped, hn::Set(d, 64 * numerics::core::kLog2E.hi), magic);
  const auto n = hn::Sub(shifted, magic);
  const auto& c = numerics::core::kLn2Over64Parts;
  const auto a = hn::NegMulAdd(n, hn::Set(d, c[0]), clamped);  // exact: c[0] has few bits
  const auto b = hn::Mul(n, hn::Set(d, -c[1]));                // and so has c[1]
  const auto r = hn::Add(a, b);
  const auto part = hn::Sub(r, a);
  const auto lost = hn::Add(hn::Sub(a, hn::Sub(r, part)), hn::Sub(b, part));
  const auto r_low = hn::NegMulAdd(n, hn::Set(d, c[2]), lost);
  // exp(r) - 1 = r + s, |r| < 0.0055: s = r_low (1 + r) + r^2/2 + ..., below 2^-15, so f64 suffices.
  auto p = hn::MulAdd(r, hn::Set(d, 1.0 / 5040), hn::Set(d, 1.0 / 720));
  p = hn::MulAdd(r, p, hn::Set(d, 1.0 / 120));
  p = hn::MulAdd(r, p, hn::Set(d, 1.0 / 24));
  p = hn::MulAdd(r, p, hn::Set(d, 1.0 / 6));
  p = hn::MulAdd(r, p, hn::Set(d, 0.5));
  const auto s = hn::MulAdd(hn::Mul(r, r), p, hn::MulAdd(r_low, r, r_low));
  const auto index = hn::ShiftLeft<1>(hn::And(hn::BitCast(di, shifted), hn::Set(di, std::int64_t{63})));
  const double* table = &numerics::core::kExp2Table[0].hi;
  const auto t = hn::GatherIndex(d, table, index), t_low = hn::GatherIndex(d, table + 1, index);
  const auto product = hn::Mul(t, r), product_low = hn::MulSub(t, r, product);
  const auto sum = hn::Add(t, product);  // |t| > |product|
  const auto sum_low = hn::Sub(product, hn::Sub(sum, t));
  const auto low = hn::Add(sum_low, hn::MulAdd(t, s, hn::MulAdd(t_low, r, hn::Add(t_low, product_low))));
  const auto error = hn::Mul(sum, hn::Set(d, 0x1p-65));
  const auto below = hn::Add(sum, hn::Sub(low, error)), above = hn::Add(sum, hn::Add(low, error));
  // The bits of `shifted` above j are k: multiplied in exactly while the result is normal.
  const auto k =
      hn::ShiftRight<6>(hn::Sub(hn::BitCast(di, shifted), hn::Set(di, std::bit_cast<std::int64_t>(0x1.8p52))));
  auto y = hn::BitCast(d, hn::Add(hn::BitCast(di, below), hn::ShiftLeft<52>(k)));
  y = hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -746.0)), y);
  const auto normal = hn::Or(hn::Ge(x, hn::Set(d, -700.0)), hn::Lt(x, hn::Set(d, -746.0)));
  if (HWY_LIKELY(hn::AllTrue(d, hn::And(normal, hn::Eq(below, above))))) return y;
  alignas(64) double each[hn::MaxLanes(d)], result[hn::MaxLanes(d)], low_end[hn::MaxLanes(d)],
      high_end[hn::MaxLanes(d)];
  hn::Store(x, d, each);
  hn::Store(y, d, result);
  hn::Store(below, d, low_end);
  hn::Store(above, d, high_end);
  for (std::size_t lane = 0; lane < hn::Lanes(d); ++lane) {
    const bool decided = low_end[lane] == high_end[lane] && (each[lane] >= -700 || each[lane] < -746);
    if (!decided) result[lane] = numerics::exp(each[lane]);
  }
  return hn::Load(d, result);
}

#endif
}  // namespace eadem::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
