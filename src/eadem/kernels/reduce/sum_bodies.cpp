#include "eadem/kernels/reduce/sum_bodies.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "eadem/kernels/target.h"
#include "eadem/numerics/rounding.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "eadem/kernels/reduce/sum_bodies.cpp"
#include "hwy/foreach_target.h"
// foreach_target comes first
#include "eadem/kernels/reduce/load-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace eadem::kernels::HWY_NAMESPACE {
#if EADEM_HWY_TARGET
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
HWY_INLINE Magnitude<T> magnitude_of(T x) {
  using M = Magnitude<T>;
  return static_cast<M>(std::bit_cast<M>(x) & std::numeric_limits<M>::max());
}

struct Larger {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    if constexpr (std::is_integral_v<V>)
      return a > b ? a : b;
    else
      return hn::Max(a, b);
  }
};

template <class T>
Magnitude<T> largest_magnitude(const T* x, std::int64_t n, Magnitude<T> start) {
  using M = Magnitude<T>;
  const hn::ScalableTag<M> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto* bits = reinterpret_cast<const M*>(x);
  const auto mask = hn::Set(d, std::numeric_limits<M>::max());
  auto a = hn::Zero(d), b = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    a = hn::Max(a, hn::And(mask, hn::LoadU(d, bits + i)));
    b = hn::Max(b, hn::And(mask, hn::LoadU(d, bits + i + lanes)));
  }
  start = std::max(start, fold_lanes(d, hn::Max(a, b), Larger()));
  for (; i < n; ++i) start = std::max(start, magnitude_of(x[i]));
  return start;
}

// Sums of neighbours x[2i] + x[2i + 1], each one rounding in f32: two shifts widen a whole vector of bf16. Raises most.
template <class D32, class V16>
HWY_INLINE hn::Vec<D32> neighbours(D32 d, const bfloat16* x, V16& most) {
  const hn::RebindToUnsigned<D32> du;
  const hn::Repartition<std::int16_t, D32> d16;
  const auto both = hn::LoadU(du, reinterpret_cast<const std::uint32_t*>(x));
  most = hn::Max(most, hn::And(hn::BitCast(d16, both), hn::Set(d16, std::int16_t{0x7fff})));
  return hn::Add(hn::BitCast(d, hn::ShiftLeft<16>(both)), hn::BitCast(d, hn::And(both, hn::Set(du, 0xffff0000u))));
}

template <class D64, class V32, class V64>
HWY_INLINE void add_promoted(D64 d, V32 v, V64& lower, V64& upper) {
  const hn::Rebind<float, D64> half;
  lower = hn::Add(lower, hn::PromoteTo(d, hn::LowerHalf(half, v)));
  upper = hn::Add(upper, hn::PromoteTo(d, hn::UpperHalf(half, v)));
}

template <class T, bool quick>
double row(const T* x, std::int64_t n, Magnitude<T>& largest) {
  using M = Magnitude<T>;
  const hn::ScalableTag<double> d;
  const hn::ScalableTag<M> dm;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d)), step = static_cast<std::int64_t>(hn::Lanes(dm));
  auto a = hn::Zero(d), b = hn::Zero(d), c = hn::Zero(d), e = hn::Zero(d);
  auto most = hn::Zero(dm), more = most;
  std::int64_t i = 0;
  if constexpr (quick) {
    const hn::ScalableTag<float> d32;
    for (; i + 16 * lanes <= n; i += 16 * lanes) {
      const auto s01 = hn::Add(neighbours(d32, x + i, most), neighbours(d32, x + i + step, more));
      const auto s23 = hn::Add(neighbours(d32, x + i + 2 * step, most), neighbours(d32, x + i + 3 * step, more));
      add_promoted(d, hn::Add(s01, s23), a, b);
    }
  }
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    // The page after this one, which the hardware would not fetch until it is touched. (Measured on Zen 4: f32 from
    // memory 21 -> 26 GB/s a core. The quick loop above loses by it.)
    constexpr std::int64_t line = 64 / sizeof(T);
    for (std::int64_t at = 0; at < 4 * lanes; at += line) __builtin_prefetch(x + i + at + 64 * line);
    for (std::int64_t at = 0; at < 4 * lanes; at += step)
      most = hn::Max(most, hn::And(hn::Set(dm, std::numeric_limits<M>::max()),
                                   hn::LoadU(dm, reinterpret_cast<const M*>(x) + i + at)));
    a = hn::Add(a, load_f64(d, x + i));
    b = hn::Add(b, load_f64(d, x + i + lanes));
    c = hn::Add(c, load_f64(d, x + i + 2 * lanes));
    e = hn::Add(e, load_f64(d, x + i + 3 * lanes));
  }
  largest = std::max(largest, fold_lanes(dm, hn::Max(most, more), Larger()));
  if (i < n) largest = largest_magnitude(x + i, n - i, largest);
  for (; i + lanes <= n; i += lanes) a = hn::Add(a, load_f64(d, x + i));
  double sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(a, b), hn::Add(c, e))));
  for (; i < n; ++i) sum += numerics::to_double(x[i]);
  return sum;
}

template <class T>
void raise_columns(const T* x, std::int64_t stride, std::int64_t rows, std::int64_t width, Magnitude<T>* largest) {
  using M = Magnitude<T>;
  const hn::ScalableTag<M> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto* bits = reinterpret_cast<const M*>(x);
  const auto mask = hn::Set(d, std::numeric_limits<M>::max());
  std::int64_t c = 0;
  for (; c + lanes <= width; c += lanes) {
    auto most = hn::LoadU(d, largest + c);
    for (std::int64_t k = 0; k < rows; ++k) most = hn::Max(most, hn::And(mask, hn::LoadU(d, bits + k * stride + c)));
    hn::StoreU(most, d, largest + c);
  }
  for (; c < width; ++c) {
    for (std::int64_t k = 0; k < rows; ++k) largest[c] = std::max(largest[c], magnitude_of(x[k * stride + c]));
  }
}

// Adds `rows` (1..8) rows to all columns.
template <class T, bool eight>
HWY_INLINE void add_rows(const T* x, std::int64_t stride, std::int64_t rows, std::int64_t width, double* sums,
                         Magnitude<T>* largest) {
  using M = Magnitude<T>;
  const hn::ScalableTag<double> d;
  const hn::ScalableTag<M> dm;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d)), step = static_cast<std::int64_t>(hn::Lanes(dm));
  const auto mask = hn::Set(dm, std::numeric_limits<M>::max());
  std::int64_t c = 0;
  for (; c + step <= width; c += step) {
    auto most = hn::LoadU(dm, largest + c);
    for (std::int64_t k = 0; k < (eight ? 8 : rows); ++k) {
      most = hn::Max(most, hn::And(mask, hn::LoadU(dm, reinterpret_cast<const M*>(x + k * stride + c))));
    }
    hn::StoreU(most, dm, largest + c);
    for (std::int64_t at = c; at < c + step; at += lanes) {
      const T* p = x + at;
      auto sum = load_f64(d, p);
      if constexpr (eight) {
        const auto s01 = hn::Add(sum, load_f64(d, p + stride));
        const auto s23 = hn::Add(load_f64(d, p + 2 * stride), load_f64(d, p + 3 * stride));
        const auto s45 = hn::Add(load_f64(d, p + 4 * stride), load_f64(d, p + 5 * stride));
        const auto s67 = hn::Add(load_f64(d, p + 6 * stride), load_f64(d, p + 7 * stride));
        sum = hn::Add(hn::Add(s01, s23), hn::Add(s45, s67));
      } else {
        for (std::int64_t k = 1; k < rows; ++k) sum = hn::Add(sum, load_f64(d, p + k * stride));
      }
      hn::StoreU(hn::Add(hn::LoadU(d, sums + at), sum), d, sums + at);
    }
  }
  for (; c < width; ++c) {
    double sum = 0;
    for (std::int64_t k = 0; k < rows; ++k) {
      sum += numerics::to_double(x[k * stride + c]);
      largest[c] = std::max(largest[c], magnitude_of(x[k * stride + c]));
    }
    sums[c] += sum;
  }
}

template <class T>
void columns(const T* x, std::int64_t stride, std::int64_t rows, std::int64_t width, double* sums,
             Magnitude<T>* largest) {
  std::int64_t k = 0;
  for (; k + 8 <= rows; k += 8) add_rows<T, true>(x + k * stride, stride, 8, width, sums, largest);
  if (k < rows) add_rows<T, false>(x + k * stride, stride, rows - k, width, sums, largest);
}

// hi + lo + x = hi' + lo' up to the rounding of lo: Knuth's TwoSum, whose error term is exact.
template <class D, class V>
HWY_INLINE void two_sum(D, V x, V& hi, V& lo) {
  const V sum = hn::Add(hi, x), part = hn::Sub(sum, hi);
  lo = hn::Add(lo, hn::Add(hn::Sub(hi, hn::Sub(sum, part)), hn::Sub(x, part)));
  hi = sum;
}
HWY_INLINE void two_sum(double x, double& hi, double& lo) {
  const double sum = hi + x, part = sum - hi;
  lo += (hi - (sum - part)) + (x - part);
  hi = sum;
}

template <class T, bool window>
void pair_row(const T* x, std::int64_t n, PairSum& sum) {
  const Magnitude<T> largest = largest_magnitude(x, n, Magnitude<T>{0});
  const double most = numerics::to_double(std::bit_cast<T>(largest));
  if (!(most <= sum.largest)) sum.largest = sum.largest != sum.largest ? sum.largest : most;
  const hn::ScalableTag<double> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto none = hn::Set(d, __builtin_inf());
  auto hi0 = hn::Zero(d), lo0 = hn::Zero(d), hi1 = hn::Zero(d), lo1 = hn::Zero(d), least = none;
  const auto take = [&](const T* p, auto& hi, auto& lo) HWY_ATTR {
    const auto v = load_f64(d, p);
    two_sum(d, v, hi, lo);
    if constexpr (window) least = hn::Min(least, hn::IfThenElse(hn::Eq(v, hn::Zero(d)), none, hn::Abs(v)));
  };
  std::int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    take(x + i, hi0, lo0);
    take(x + i + lanes, hi1, lo1);
  }
  alignas(64) double each[3][hn::MaxLanes(d)];
  two_sum(d, hi1, hi0, lo0);
  hn::Store(hi0, d, each[0]);
  hn::Store(hn::Add(lo0, lo1), d, each[1]);
  hn::Store(least, d, each[2]);
  double hi = 0, lo = 0, smallest = window ? sum.smallest : 0;
  for (std::int64_t lane = 0; lane < lanes; ++lane) {
    two_sum(each[0][lane], hi, lo);
    lo += each[1][lane];
    if (window) smallest = std::min(smallest, each[2][lane]);
  }
  for (; i < n; ++i) {
    const double v = numerics::to_double(x[i]);
    two_sum(v, hi, lo);
    if (window && v != 0) smallest = std::min(smallest, std::fabs(v));
  }
  two_sum(hi, sum.hi, sum.lo);
  sum.lo += lo;
  sum.smallest = smallest;
  sum.depth += 2;
  sum.chain = std::max(sum.chain, n / (2 * lanes) + 6 * lanes + 2);
}

template <class T>
void pair_columns(const T* x, std::int64_t stride, std::int64_t rows, std::int64_t width, double* hi, double* lo,
                  Magnitude<T>* largest) {
  const hn::ScalableTag<double> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t k = 0; k < rows; k += 8) {
    const std::int64_t some = std::min<std::int64_t>(8, rows - k);
    const T* at = x + k * stride;
    raise_columns(at, stride, some, width, largest);
    std::int64_t c = 0;
    for (; c + lanes <= width; c += lanes) {
      auto h = hn::LoadU(d, hi + c), l = hn::LoadU(d, lo + c);
      for (std::int64_t row = 0; row < some; ++row) two_sum(d, load_f64(d, at + row * stride + c), h, l);
      hn::StoreU(h, d, hi + c);
      hn::StoreU(l, d, lo + c);
    }
    for (; c < width; ++c) {
      for (std::int64_t row = 0; row < some; ++row) two_sum(numerics::to_double(at[row * stride + c]), hi[c], lo[c]);
    }
  }
}

template <class T>
std::uint64_t integer_row(const T* x, std::int64_t n) {
  const hn::ScalableTag<std::uint64_t> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  auto a = hn::Zero(d), b = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    a = hn::Add(a, load_i64(d, x + i));
    b = hn::Add(b, load_i64(d, x + i + lanes));
  }
  alignas(64) std::uint64_t each[hn::MaxLanes(d)];
  hn::Store(hn::Add(a, b), d, each);
  std::uint64_t sum = 0;
  for (std::int64_t lane = 0; lane < lanes; ++lane) sum += each[lane];
  for (; i < n; ++i) sum += static_cast<std::uint64_t>(static_cast<std::int64_t>(x[i]));
  return sum;
}

template <class T>
void integer_columns(const T* x, std::int64_t stride, std::int64_t rows, std::int64_t width, std::uint64_t* sums) {
  const hn::ScalableTag<std::uint64_t> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t k = 0; k < rows; k += 8) {
    const std::int64_t end = std::min(rows, k + 8);
    std::int64_t c = 0;
    for (; c + lanes <= width; c += lanes) {
      auto sum = hn::LoadU(d, sums + c);
      for (std::int64_t row = k; row < end; ++row) sum = hn::Add(sum, load_i64(d, x + row * stride + c));
      hn::StoreU(sum, d, sums + c);
    }
    for (; c < width; ++c) {
      for (std::int64_t row = k; row < end; ++row) {
        sums[c] += static_cast<std::uint64_t>(static_cast<std::int64_t>(x[row * stride + c]));
      }
    }
  }
}

template <class T>
const FloatSumBodies<T>* float_bodies() {
  static constexpr FloatSumBodies<T> bodies{&row<T, false>,     &row<T, std::is_same_v<T, bfloat16>>,
                                            &columns<T>,        &pair_row<T, false>,
                                            &pair_row<T, true>, &pair_columns<T>};
  return &bodies;
}
template <class T>
const IntegerSumBodies<T>* integer_bodies() {
  static constexpr IntegerSumBodies<T> bodies{&integer_row<T>, &integer_columns<T>};
  return &bodies;
}

#endif
}  // namespace eadem::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eadem::kernels {
namespace {
template <class Bodies>
const Bodies* none() {
  return nullptr;
}
}  // namespace

template <class T>
const FloatSumBodies<T>* float_sum_bodies() {
  return EADEM_PER_TARGET(none<FloatSumBodies<T>>, float_bodies<T>).pick()();
}
template <class T>
const IntegerSumBodies<T>* integer_sum_bodies() {
  return EADEM_PER_TARGET(none<IntegerSumBodies<T>>, integer_bodies<T>).pick()();
}

template const FloatSumBodies<double>* float_sum_bodies();
template const FloatSumBodies<float>* float_sum_bodies();
template const FloatSumBodies<bfloat16>* float_sum_bodies();
template const FloatSumBodies<float16>* float_sum_bodies();
template const IntegerSumBodies<std::int8_t>* integer_sum_bodies();
template const IntegerSumBodies<std::int16_t>* integer_sum_bodies();
template const IntegerSumBodies<std::int32_t>* integer_sum_bodies();
template const IntegerSumBodies<std::int64_t>* integer_sum_bodies();
template const IntegerSumBodies<std::uint8_t>* integer_sum_bodies();
template const IntegerSumBodies<std::uint16_t>* integer_sum_bodies();
template const IntegerSumBodies<std::uint32_t>* integer_sum_bodies();
template const IntegerSumBodies<std::uint64_t>* integer_sum_bodies();

}  // namespace eadem::kernels
#endif
