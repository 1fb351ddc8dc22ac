// Per target: the loop of an elementary function over a tile, with the two-sided rounding test.

#if defined(EADEM_KERNELS_ELEMENTWISE_ELEMENTARY_LOOP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef EADEM_KERNELS_ELEMENTWISE_ELEMENTARY_LOOP_INL_H_
#undef EADEM_KERNELS_ELEMENTWISE_ELEMENTARY_LOOP_INL_H_
#else
#define EADEM_KERNELS_ELEMENTWISE_ELEMENTARY_LOOP_INL_H_
#endif

#include <algorithm>
#include <cstring>

#include "eadem/kernels/elementwise/functions-inl.h"
#include "eadem/kernels/elementwise/held.h"
#include "eadem/kernels/tile.h"
#include "eadem/numerics/elementary.h"

HWY_BEFORE_NAMESPACE();
namespace eadem::kernels::HWY_NAMESPACE {
#if EADEM_HWY_TARGET

// Of an element type: stored significand bits, smallest normal number, a quarter of the smallest subnormal one.
template <class T>
inline constexpr int kSignificand = std::same_as<T, float>      ? 23
                                    : std::same_as<T, bfloat16> ? 7
                                                                : 10;
template <class T>
inline constexpr double kNormal = std::same_as<T, float16> ? 0x1p-14 : 0x1p-126;
template <class T>
inline constexpr double kVanishing = kNormal<T>*(std::same_as<T, float>      ? 0x1p-25
                                                 : std::same_as<T, bfloat16> ? 0x1p-9
                                                                             : 0x1p-12);

// Lanes where y, of relative error below 2^-bits, certainly rounds to T as the exact value does: its distance from the
// middle between two neighbours is more than the error. Results below the normal numbers are not judged, but for 0.
template <class T, int bits, class D, class V>
HWY_INLINE hn::Mask<D> rounds_safely(D d, V y) {
  constexpr int significand = kWide<D> ? 52 : 23, dropped = significand - kSignificand<T>;
  // 16-bit results are rounded through float, exactly so only beyond 2^-23 of the middle.
  constexpr int kept = kWide<D> && Float16<T> ? std::min(bits, 23) : bits;
  const BitsTag<D> du;
  const hn::RebindToSigned<D> di;
  using U = hn::TFromD<BitsTag<D>>;
  using I = hn::TFromD<hn::RebindToSigned<D>>;
  constexpr U half = U{1} << (dropped - 1), margin = U{1} << (significand - kept);
  static_assert(margin < half);
  const auto above =
      hn::And(hn::Sub(hn::BitCast(du, y), hn::Set(du, half - margin)), hn::Set(du, (U{1} << dropped) - 1));
  const auto apart = hn::RebindMask(d, hn::Gt(hn::BitCast(di, above), hn::Set(di, static_cast<I>(2 * margin))));
  const auto normal = hn::Or(hn::Ge(hn::Abs(y), constant(d, kNormal<T>)), hn::Eq(y, hn::Zero(d)));
  return hn::And(apart, normal);
}

// Rounds floats to the nearest T, held; never called in the middle, nor for subnormal results of T.
template <class T, class D, class V>
HWY_INLINE V round_held(D d, V x) {
  if constexpr (std::same_as<T, float>) {
    return x;
  } else {
    constexpr int dropped = 23 - kSignificand<T>;
    const BitsTag<D> du;
    const auto bits = hn::BitCast(du, x);
    const auto up = hn::Add(bits, hn::Set(du, 1u << (dropped - 1)));
    const V y = hn::BitCast(d, hn::And(up, hn::Set(du, ~((1u << dropped) - 1))));
    if constexpr (std::same_as<T, bfloat16>)
      return y;
    else
      return hn::IfThenElse(hn::Ge(hn::Abs(y), constant(d, 65536)), hn::CopySign(hn::Inf(d), y), y);
  }
}

// Asks numerics/ in the lanes that are not safe, unless their result vanishes.
template <class T, numerics::Function f, class D, class DF, class V, class VF>
HWY_NOINLINE VF repair(D d, DF df, VF x, V y, VF result, hn::Mask<D> safe) {
  if constexpr (kWide<D>) {
    safe = hn::Or(safe, hn::Lt(hn::Abs(y), constant(d, kVanishing<T>)));
    const auto vanishing = hn::Lt(hn::Abs(result), constant(df, kVanishing<T>));
    result = hn::IfThenElse(vanishing, hn::CopySign(hn::Zero(df), result), result);
    if (hn::AllTrue(d, safe)) return result;
  }
  constexpr std::size_t kLanes = HWY_MAX_BYTES / sizeof(float);
  HWY_ALIGN float arguments[kLanes], results[kLanes];
  HWY_ALIGN std::uint8_t bits[8] = {};
  hn::Store(x, df, arguments);
  hn::Store(result, df, results);
  hn::StoreMaskBits(d, safe, bits);
  for (std::size_t i = 0; i < hn::Lanes(d); ++i)
    if (!(bits[i / 8] >> (i % 8) & 1)) results[i] = to_held<T>(numerics::Elementary<f>{}(from_held<T>(arguments[i])));
  return hn::Load(df, results);
}

template <class T, numerics::Function f, class F, class W>
HWY_INLINE void elementary_vector(const float* in, float* out) {
  const hn::ScalableTag<W> d;
  const hn::Rebind<float, decltype(d)> df;
  const auto x = hn::LoadU(df, in);
  if constexpr (kWide<decltype(d)>) {
    const auto y = F::of(d, hn::PromoteTo(d, x));
    const auto safe = rounds_safely<T, F::kBits>(d, y);
    auto result = round_held<T>(df, hn::DemoteTo(df, y));
    result = hn::IfThenElse(hn::IsNaN(x), hn::Set(df, numerics::canonical_nan<float>()), result);
    const auto known = hn::Or(safe, hn::IsNaN(hn::PromoteTo(d, x)));
    if (HWY_UNLIKELY(!hn::AllTrue(d, known))) result = repair<T, f>(d, df, x, y, result, known);
    hn::StoreU(result, df, out);
  } else {
    const auto y = F::of(d, x);
    const auto nan = hn::IsNaN(x);
    const auto known = hn::Or(rounds_safely<T, F::kFloatBits>(d, y), nan);
    auto result = hn::IfThenElse(nan, hn::Set(df, numerics::canonical_nan<float>()), round_held<T>(df, y));
    if (HWY_UNLIKELY(!hn::AllTrue(d, known))) result = repair<T, f>(d, df, x, y, result, known);
    hn::StoreU(result, df, out);
  }
}

// F::of approximates function f in lanes of W, for results of T.
template <class T, numerics::Function f, class F, class W>
void elementary_loop(const TileArgs& args) {
  const std::size_t lanes = hn::Lanes(hn::ScalableTag<W>()), whole = args.count - args.count % lanes;
  const auto* in = static_cast<const float*>(args.in[0]);
  auto* out = static_cast<float*>(args.out);
  for (std::size_t i = 0; i < whole; i += lanes) elementary_vector<T, f, F, W>(in + i, out + i);
  if (whole == args.count) return;
  HWY_ALIGN float rest[HWY_MAX_BYTES / sizeof(float)] = {};
  std::copy(in + whole, in + args.count, rest);
  elementary_vector<T, f, F, W>(rest, rest);
  std::copy_n(rest, args.count - whole, out + whole);
}

#endif
}  // namespace eadem::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
