// What softmax and its relatives share on vectors; included once per Highway target.
#if defined(EADEM_KERNELS_ROWS_SOFTMAX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef EADEM_KERNELS_ROWS_SOFTMAX_INL_H_
#undef EADEM_KERNELS_ROWS_SOFTMAX_INL_H_
#else
#define EADEM_KERNELS_ROWS_SOFTMAX_INL_H_
#endif

#include "eadem/kernels/rows/exp-inl.h"
#include "eadem/kernels/rows/rows-inl.h"
#include "eadem/numerics/reduction.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace eadem::kernels::HWY_NAMESPACE {
#if EADEM_HWY_TARGET
namespace hn = hwy::HWY_NAMESPACE;

/// The maximum as f32 (exact for T), or NaN if there is one.
template <class T>
float maximum(const T* x, std::int64_t n) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  auto most = hn::Set(d, -std::numeric_limits<float>::infinity()), more = most;
  auto ordered = hn::Eq(most, most);
  std::int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    const auto a = load_f32(d, x + i), b = load_f32(d, x + i + lanes);
    most = hn::Max(most, a);
    more = hn::Max(more, b);
    ordered = hn::And(ordered, hn::And(hn::Eq(a, a), hn::Eq(b, b)));
  }
  if (!hn::AllTrue(d, ordered)) return numerics::canonical_nan<float>();
  alignas(64) float each[hn::MaxLanes(d)];
  hn::Store(hn::Max(most, more), d, each);
  float best = *std::max_element(each, each + lanes);
  for (; i < n; ++i) {
    const auto value = static_cast<float>(numerics::to_double(x[i]));
    if (value != value) return numerics::canonical_nan<float>();
    best = std::max(best, value);
  }
  return best;
}

/// The maximum as f64; NaN if there is one.
template <class T>
double row_maximum(const T* x, std::int64_t n) {
  if constexpr (std::is_same_v<T, double>)
    return numerics::max(std::span<const double>(x, static_cast<std::size_t>(n)));
  else
    return maximum(x, n);
}

/// The row sum of e = exp(x - m), m finite; with `keep`, e itself goes to kept[0, n).
template <bool keep = false, class T>
double sum_of_exponentials(const T* x, std::int64_t n, double m, [[maybe_unused]] double* kept = nullptr) {
  const hn::ScalableTag<double> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto shift = hn::Set(d, m);
  // The last, incomplete step of 16 chains, a vector at a time.
  alignas(64) double tail[numerics::kRowLanes];
  const std::int64_t full = n / numerics::kRowLanes * numerics::kRowLanes;
  for (std::int64_t k = 0; k < numerics::kRowLanes; ++k)
    tail[k] = full + k < n ? numerics::to_double(x[full + k]) - m : 0;
  for (std::int64_t k = 0; k < numerics::kRowLanes && full + k < n; k += lanes) {
    hn::Store(exp_f64(d, hn::Load(d, tail + k)), d, tail + k);
  }
  if constexpr (keep) std::copy(tail, tail + (n - full), kept + full);
  return row_sum(
      d, n,
      [&](auto acc, std::int64_t i) HWY_ATTR {
        const auto e = exp_f64(d, hn::Sub(load_f64(d, x + i), shift));
        if constexpr (keep) hn::StoreU(e, d, kept + i);
        return hn::Add(acc, e);
      },
      [&](double acc, std::int64_t i) { return acc + tail[i - full]; });
}

#endif
}  // namespace eadem::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
