// Loads, roundings and the row sum on vectors; included once per Highway target.
#if defined(EADEM_KERNELS_ROWS_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef EADEM_KERNELS_ROWS_ROWS_INL_H_
#undef EADEM_KERNELS_ROWS_ROWS_INL_H_
#else
#define EADEM_KERNELS_ROWS_ROWS_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "eadem/kernels/reduce/load-inl.h"
#include "eadem/numerics/cotangent.h"
#include "eadem/numerics/rounding.h"
#include "eadem/numerics/row_sum.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace eadem::kernels::HWY_NAMESPACE {
#if EADEM_HWY_TARGET
namespace hn = hwy::HWY_NAMESPACE;

// |x| below 2^-126 (2^-14) is subnormal in bf16 (f16): rounded to a multiple of the smallest one by adding C.
template <class T>
struct NarrowFormat;
template <>
struct NarrowFormat<bfloat16> {
  static constexpr int dropped = 45;  // of the 52 stored significand bits
  static constexpr double normal = 0x1p-126, to_multiple = 0x1.8p-81;
};
template <>
struct NarrowFormat<float16> {
  static constexpr int dropped = 42;
  static constexpr double normal = 0x1p-14, to_multiple = 0x1.8p28;
};

/// RN_T(v) by integer arithmetic, for the 16-bit types.
template <class T, class D, class V = hn::Vec<D>>
HWY_NOINLINE void store_narrow(D d, V v, T* y) {
  using Format = NarrowFormat<T>;
  const hn::RebindToUnsigned<D> du;
  const hn::Rebind<float, D> d32;
  // Round the significand as an integer; a carry moves into the exponent, as it should.
  const auto bits = hn::BitCast(du, v);
  const auto odd = hn::And(hn::ShiftRight<Format::dropped>(bits), hn::Set(du, std::uint64_t{1}));
  const auto half = hn::Set(du, (std::uint64_t{1} << (Format::dropped - 1)) - 1);
  const auto mask = hn::Set(du, ~((std::uint64_t{1} << Format::dropped) - 1));
  const auto normal = hn::BitCast(d, hn::And(hn::Add(bits, hn::Add(half, odd)), mask));
  const auto magnitude = hn::Abs(v), to_multiple = hn::Set(d, Format::to_multiple);
  const auto subnormal = hn::CopySignToAbs(hn::Sub(hn::Add(magnitude, to_multiple), to_multiple), v);
  auto rounded = hn::IfThenElse(hn::Lt(magnitude, hn::Set(d, Format::normal)), subnormal, normal);
  rounded = hn::IfThenElse(hn::Eq(v, v), rounded, hn::Set(d, numerics::canonical_nan<double>()));
  const auto narrow = hn::DemoteTo(d32, rounded);  // exact, or infinite
  if constexpr (std::is_same_v<T, bfloat16>) {
    const hn::Rebind<std::uint16_t, D> d16;
    const hn::RebindToUnsigned<decltype(d32)> du32;
    hn::StoreU(hn::TruncateTo(d16, hn::ShiftRight<16>(hn::BitCast(du32, narrow))), d16,
               reinterpret_cast<std::uint16_t*>(y));
  } else {
    const hn::Rebind<hwy::float16_t, D> d16;
    hn::StoreU(hn::DemoteTo(d16, narrow), d16, reinterpret_cast<hwy::float16_t*>(y));
  }
}

/// y[0, Lanes(d)) = RN_T(v), one rounding, NaN canonical.
template <class T, class D, class V = hn::Vec<D>>
HWY_INLINE void store_rounded(D d, V v, T* y) {
  if constexpr (std::is_same_v<T, double>) {
    hn::StoreU(hn::IfThenElse(hn::Eq(v, v), v, hn::Set(d, numerics::canonical_nan<double>())), d, y);
  } else if constexpr (std::is_same_v<T, float>) {
    const hn::Rebind<float, D> d32;
    const auto narrow = hn::DemoteTo(d32, v);
    hn::StoreU(hn::IfThenElse(hn::Eq(narrow, narrow), narrow, hn::Set(d32, numerics::canonical_nan<float>())), d32, y);
  } else if constexpr (std::is_same_v<T, bfloat16>) {
    // By way of f32: rounding twice errs only where the first rounding ends on a border of the second.
    const hn::Rebind<float, D> d32;
    const hn::RebindToUnsigned<decltype(d32)> du;
    const hn::Rebind<std::uint16_t, D> d16;
    const auto narrow = hn::DemoteTo(d32, v);
    const auto bits = hn::BitCast(du, narrow);
    const auto border = hn::Eq(hn::And(bits, hn::Set(du, 0xffffu)), hn::Set(du, 0x8000u));
    const auto ordinary =
        hn::AndNot(hn::VecFromMask(du, border), hn::BitCast(du, hn::VecFromMask(d32, hn::Eq(narrow, narrow))));
    if (HWY_UNLIKELY(!hn::AllTrue(du, hn::MaskFromVec(ordinary)))) return store_narrow(d, v, y);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1u));
    const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7fffu))));
    hn::StoreU(hn::TruncateTo(d16, rounded), d16, reinterpret_cast<std::uint16_t*>(y));
  } else {
    store_narrow(d, v, y);
  }
}

/// What rounds to a zero becomes +0: half the least subnormal, or less.
template <class T>
inline constexpr double kRoundsToZero = std::is_same_v<T, double>     ? 0
                                        : std::is_same_v<T, float>    ? 0x1p-150
                                        : std::is_same_v<T, bfloat16> ? 0x1p-134
                                                                      : 0x1p-25;

/// y[0, n) = RN_T(f(i)), never -0: vector(i) gives lanes i.., scalar(i) the i-th element as double.
template <class T, class D, class Vector, class Scalar>
HWY_INLINE void store_cotangent(D d, std::int64_t n, T* y, Vector vector, Scalar scalar) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto v = vector(i);
    store_rounded(d, hn::IfThenZeroElse(hn::Le(hn::Abs(v), hn::Set(d, kRoundsToZero<T>)), v), y + i);
  }
  for (; i < n; ++i) y[i] = numerics::round_cotangent<T>(scalar(i));
}

/// The row sum of numerics/row_sum.h on vectors: step(acc, i) adds elements i.. to a vector of chains, step(acc, i) of
/// a double one element to its chain.
template <class D, class VectorStep, class ScalarStep>
HWY_INLINE double row_sum(D d, std::int64_t n, VectorStep vector_step, ScalarStep scalar_step) {
  constexpr std::int64_t lanes = static_cast<std::int64_t>(hn::MaxLanes(D()));
  constexpr std::int64_t vectors = numerics::kRowLanes / lanes;
  const auto add = [](double a, double b) { return a + b; };
  numerics::BinaryTree<double, decltype(add)> tree(add);
  double total = 0;
  for (std::int64_t block = 0; block < n || block == 0; block += numerics::kRowBlock) {
    const std::int64_t end = std::min(n, block + numerics::kRowBlock), full = block + (end - block) / 16 * 16;
    alignas(64) double chain[numerics::kRowLanes];
    {
      auto a = hn::Zero(d), b = hn::Zero(d), c = hn::Zero(d), e = hn::Zero(d);
      auto a2 = hn::Zero(d), b2 = hn::Zero(d), c2 = hn::Zero(d), e2 = hn::Zero(d);
      for (std::int64_t i = block; i < full; i += numerics::kRowLanes) {
        a = vector_step(a, i);
        b = vector_step(b, i + lanes);
        if constexpr (vectors >= 4) {
          c = vector_step(c, i + 2 * lanes);
          e = vector_step(e, i + 3 * lanes);
        }
        if constexpr (vectors >= 8) {
          a2 = vector_step(a2, i + 4 * lanes);
          b2 = vector_step(b2, i + 5 * lanes);
          c2 = vector_step(c2, i + 6 * lanes);
          e2 = vector_step(e2, i + 7 * lanes);
        }
      }
      hn::Store(a, d, chain);
      hn::Store(b, d, chain + lanes);
      if constexpr (vectors >= 4) {
        hn::Store(c, d, chain + 2 * lanes);
        hn::Store(e, d, chain + 3 * lanes);
      }
      if constexpr (vectors >= 8) {
        hn::Store(a2, d, chain + 4 * lanes);
        hn::Store(b2, d, chain + 5 * lanes);
        hn::Store(c2, d, chain + 6 * lanes);
        hn::Store(e2, d, chain + 7 * lanes);
      }
    }
    for (std::int64_t i = full; i < end; ++i)
      chain[i % numerics::kRowLanes] = scalar_step(chain[i % numerics::kRowLanes], i);
    for (std::int64_t half = numerics::kRowLanes / 2; half > 0; half /= 2) {
      for (std::int64_t lane = 0; lane < half; ++lane) chain[lane] += chain[lane + half];
    }
    total = chain[0];
    if (n > numerics::kRowBlock) tree.add(total);
  }
  return n > numerics::kRowBlock ? tree.result() : total;
}

/// The row sum of n elements.
template <class T>
double sum_of(const T* x, std::int64_t n) {
  const hn::ScalableTag<double> d;
  return row_sum(
      d, n, [&](auto acc, std::int64_t i) HWY_ATTR { return hn::Add(acc, load_f64(d, x + i)); },
      [&](double acc, std::int64_t i) { return acc + numerics::to_double(x[i]); });
}

/// The row sum of fma(c, c) with c = x - mean.
template <class T>
double sum_of_squares(const T* x, std::int64_t n, double mean) {
  const hn::ScalableTag<double> d;
  const auto m = hn::Set(d, mean);
  return row_sum(
      d, n,
      [&](auto acc, std::int64_t i) HWY_ATTR {
        const auto c = hn::Sub(load_f64(d, x + i), m);
        return hn::MulAdd(c, c, acc);
      },
      [&](double acc, std::int64_t i) {
        const double c = numerics::to_double(x[i]) - mean;
        return std::fma(c, c, acc);
      });
}

/// The row sum of fma(a, b).
template <class T, class U>
double sum_of_products(const T* a, const U* b, std::int64_t n) {
  const hn::ScalableTag<double> d;
  return row_sum(
      d, n, [&](auto acc, std::int64_t i) HWY_ATTR { return hn::MulAdd(load_f64(d, a + i), load_f64(d, b + i), acc); },
      [&](double acc, std::int64_t i) { return std::fma(numerics::to_double(a[i]), numerics::to_double(b[i]), acc); });
}

#endif
}  // namespace eadem::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
