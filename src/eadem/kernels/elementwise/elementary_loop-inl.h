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

// y rounds to T as the exact value does, if y errs by at most 2^-bits relatively and its distance from the middle
// between two neighbours is larger: if room_of is above the limit. True of normal results; others are told apart by
// is_normal. Pairs of vectors share one comparison by the smaller room.
template <class T, int bits, class D>
struct RoundingTest {
  static constexpr int kSignificandBits = kWide<D> ? 52 : 23, kDropped = kSignificandBits - kSignificand<T>;
  // From double, 16-bit results are rounded through float, which is exact only beyond 2^-23 of the middle.
  static constexpr int kKept = kWide<D> && Float16<T> ? std::min(bits, 23) : bits;
  using Signed = hn::RebindToSigned<D>;
  using I = hn::TFromD<Signed>;
  static constexpr I kHalf = I{1} << (kDropped - 1), kMargin = I{1} << (kSignificandBits - kKept);
  static_assert(kMargin < kHalf);

  template <class V>
  static HWY_INLINE hn::Vec<Signed> room_of(V y) {
    const Signed di;
    return hn::And(hn::Sub(hn::BitCast(di, y), hn::Set(di, kHalf - kMargin)), hn::Set(di, (I{1} << kDropped) - 1));
  }
  static bool suffices(hn::TFromD<D> y) {
    return ((std::bit_cast<I>(y) - (kHalf - kMargin)) & ((I{1} << kDropped) - 1)) > 2 * kMargin;
  }
  static HWY_INLINE bool suffices(hn::Vec<Signed> room) {
    const Signed di;
    return hn::AllTrue(di, hn::Gt(room, hn::Set(di, 2 * kMargin)));
  }
};

// y is neither subnormal in T, nor NaN, and zero only of zero (elsewhere it may be half the smallest subnormal); nor is
// x NaN, which clamps may have swallowed.
template <class T, class D, class V>
HWY_INLINE hn::Mask<D> is_normal(D d, V x, V y) {
  const auto zero = hn::Zero(d);
  const auto normal = hn::Or(hn::Ge(hn::Abs(y), constant(d, kNormal<T>)), hn::And(hn::Eq(y, zero), hn::Eq(x, zero)));
  return hn::And(normal, hn::Eq(x, x));
}

// The same but for zeros, in fewer steps.
template <class T, class D, class V>
HWY_INLINE bool all_normal_not_zero(D d, V x, V y) {
  return hn::AllTrue(d, hn::And(hn::Ge(hn::Abs(y), constant(d, kNormal<T>)), hn::Eq(x, x)));
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

// Some lanes of y = F(x) did not pass the tests: their results vanish, or numerics/ gives them.
template <class T, numerics::Function f, class Test, class W>
HWY_NOINLINE void repair(const float* x, const W* y, float* out) {
  for (std::size_t i = 0; i < hn::Lanes(hn::ScalableTag<float>()); ++i) {
    const W magnitude = std::fabs(y[i]);
    if (x[i] != x[i]) {
      out[i] = numerics::canonical_nan<float>();
      continue;
    }
    if (magnitude >= static_cast<W>(kNormal<T>) && Test::suffices(y[i])) continue;
    if (sizeof(W) == 8 && magnitude < static_cast<W>(kVanishing<T>))
      out[i] = std::copysign(0.0f, static_cast<float>(y[i]));
    else
      out[i] = to_held<T>(numerics::Elementary<f>{}(from_held<T>(x[i])));
  }
}

// A float vector of arguments; `in` and `out` may be the same.
template <class T, numerics::Function f, class F, class W>
HWY_INLINE void elementary_vector(const float* in, float* out) {
  const hn::ScalableTag<W> d;
  const hn::ScalableTag<float> df;
  const auto x = hn::LoadU(df, in);
  HWY_ALIGN W values[HWY_MAX_BYTES / sizeof(float)];
  HWY_ALIGN float arguments[HWY_MAX_BYTES / sizeof(float)];
  if constexpr (kWide<decltype(d)>) {
    using Test = RoundingTest<T, F::kBits, decltype(d)>;
    const hn::Rebind<float, decltype(d)> half;
    const auto low = F::of(d, hn::PromoteTo(d, hn::LoadU(half, in)));
    const auto high = F::of(d, hn::PromoteTo(d, hn::LoadU(half, in + hn::Lanes(d))));
    const auto y = hn::Combine(df, hn::DemoteTo(half, high), hn::DemoteTo(half, low));
    hn::StoreU(round_held<T>(df, y), df, out);
    const bool safe = Test::suffices(hn::Min(Test::room_of(low), Test::room_of(high)));
    if (HWY_LIKELY(safe && all_normal_not_zero<T>(df, x, y))) return;
    if (safe && hn::AllTrue(df, is_normal<T>(df, x, y))) return;
    hn::Store(low, d, values);
    hn::Store(high, d, values + hn::Lanes(d));
    hn::Store(x, df, arguments);
    repair<T, f, Test>(arguments, values, out);
  } else {
    using Test = RoundingTest<T, F::kFloatBits, decltype(d)>;
    const auto y = F::of(d, x);
    hn::StoreU(round_held<T>(df, y), df, out);
    const bool safe = Test::suffices(Test::room_of(y));
    if (HWY_LIKELY(safe && all_normal_not_zero<T>(df, x, y))) return;
    if (safe && hn::AllTrue(df, is_normal<T>(df, x, y))) return;
    hn::Store(y, d, values);
    hn::Store(x, df, arguments);
    repair<T, f, Test>(arguments, values, out);
  }
}

// F::of approximates function f in lanes of W, for results of T.
template <class T, numerics::Function f, class F, class W>
void elementary_loop(const TileArgs& args) {
  const std::size_t lanes = hn::Lanes(hn::ScalableTag<float>()), whole = args.count - args.count % lanes;
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
