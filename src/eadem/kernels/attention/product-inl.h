// The product of a few rows by a panel of columns, in the order of numerics/contraction.h: the one inner loop of both
// q k and p v. Included once for every Highway target.

#if defined(EADEM_KERNELS_ATTENTION_PRODUCT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef EADEM_KERNELS_ATTENTION_PRODUCT_INL_H_
#undef EADEM_KERNELS_ATTENTION_PRODUCT_INL_H_
#else
#define EADEM_KERNELS_ATTENTION_PRODUCT_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "eadem/kernels/target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace eadem::kernels::HWY_NAMESPACE {
#if EADEM_HWY_TARGET
namespace hn = hwy::HWY_NAMESPACE;

/// Operands of a product: c [rows][columns] (+)= a [rows][k] b [k][columns], all row-major.
template <class W>
struct Factors {
  const W* a;
  std::size_t lda;
  const W* b;
  std::size_t ldb;
  W* c;
  std::size_t ldc;
  std::int64_t first, end;  ///< k; first is a multiple of 32
  bool accumulate;          ///< whether c already holds the earlier steps of the block
};

// Rows of a group: as many chains as hide the latency of an FMA and still fit the registers.
inline constexpr int kGroupRows = HWY_TARGET == HWY_AVX2 ? 4 : 8;

template <int kRows, int kVectors, int kStride, class D, class V>
HWY_INLINE void chains(D d, const Factors<hn::TFromD<D>>& f, std::int64_t first, std::int64_t end,
                       V (&v)[kRows][kVectors]) {
  constexpr std::size_t kLanes = hn::MaxLanes(D());
  for (int r = 0; r < kRows; ++r)
    for (int c = 0; c < kVectors; ++c) v[r][c] = hn::Zero(d);
  for (std::int64_t k = first; k < end; k += kStride) {
    V b[kVectors];
    for (int c = 0; c < kVectors; ++c) b[c] = hn::LoadU(d, f.b + static_cast<std::size_t>(k) * f.ldb + c * kLanes);
    for (int r = 0; r < kRows; ++r) {
      const V a = hn::Set(d, f.a[static_cast<std::size_t>(r) * f.lda + static_cast<std::size_t>(k)]);
      for (int c = 0; c < kVectors; ++c) v[r][c] = hn::MulAdd(a, b[c], v[r][c]);
    }
  }
}

// The steps of [first, end) for kRows rows and kVectors vectors of columns. The sum of steps waits in memory: it is
// touched once in 32 terms, and the registers are needed for the chains.
template <int kRows, int kVectors, bool kTwoChains, class D>
HWY_INLINE void steps(D d, const Factors<hn::TFromD<D>>& f) {
  using V = hn::Vec<D>;
  constexpr std::size_t kLanes = hn::MaxLanes(D());
  bool accumulate = f.accumulate;
  for (std::int64_t k = f.first; k < f.end; k += 32) {
    const std::int64_t end = std::min(f.end, k + 32);
    V v[kRows][kVectors];
    if constexpr (kTwoChains) {
      V odd[kRows][kVectors];
      chains<kRows, kVectors, 2>(d, f, k, end, v);
      chains<kRows, kVectors, 2>(d, f, k + 1, end, odd);
      for (int r = 0; r < kRows; ++r)
        for (int c = 0; c < kVectors; ++c) v[r][c] = hn::Add(v[r][c], odd[r][c]);
    } else {
      chains<kRows, kVectors, 1>(d, f, k, end, v);
    }
    for (int r = 0; r < kRows; ++r)
      for (int c = 0; c < kVectors; ++c) {
        hn::TFromD<D>* to = f.c + static_cast<std::size_t>(r) * f.ldc + c * kLanes;
        hn::StoreU(accumulate ? hn::Add(hn::LoadU(d, to), v[r][c]) : v[r][c], d, to);
      }
    accumulate = true;
  }
}

template <int kRows, int kVectors, bool kTwoChains, class D>
HWY_NOINLINE void rows_by_columns(D d, Factors<hn::TFromD<D>> f, std::int64_t columns) {
  constexpr std::int64_t kLanes = hn::MaxLanes(D());
  std::int64_t c = 0;
  const auto advance = [&f, &c](std::int64_t by) { f.b += by, f.c += by, c += by; };
  for (; c + kVectors * kLanes <= columns; advance(kVectors * kLanes)) steps<kRows, kVectors, kTwoChains>(d, f);
  for (; c < columns; advance(kLanes)) steps<kRows, 1, kTwoChains>(d, f);
}

/// c (+)= a b over all steps; `columns` is a multiple of 16.
template <bool kTwoChains, class W>
HWY_INLINE void product(Factors<W> f, std::int64_t rows, std::int64_t columns) {
  const hn::ScalableTag<W> d;
  const auto advance = [&f, &rows](std::int64_t by) { f.a += by * f.lda, f.c += by * f.ldc, rows -= by; };
  // With fewer rows more columns keep the FMA units busy.
  for (; rows >= kGroupRows; advance(kGroupRows)) rows_by_columns<kGroupRows, 2, kTwoChains>(d, f, columns);
  if constexpr (kGroupRows > 4) {
    for (; rows >= 4; advance(4)) rows_by_columns<4, 2, kTwoChains>(d, f, columns);
  }
  for (; rows >= 2; advance(2)) rows_by_columns<2, 4, kTwoChains>(d, f, columns);
  if (rows == 1) rows_by_columns<1, 4, kTwoChains>(d, f, columns);
}

#endif  // EADEM_HWY_TARGET
}  // namespace eadem::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // EADEM_KERNELS_ATTENTION_PRODUCT_INL_H_
