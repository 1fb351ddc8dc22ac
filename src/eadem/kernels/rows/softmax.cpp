#include "eadem/numerics/softmax.h"

#include <vector>

#include "eadem/kernels/reduce/settle.h"
#include "eadem/kernels/rows/rows.h"
#include "eadem/kernels/target.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "eadem/kernels/rows/softmax.cpp"
#include "hwy/foreach_target.h"
// foreach_target comes first
#include "eadem/kernels/rows/softmax-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace eadem::kernels::HWY_NAMESPACE {
#if EADEM_HWY_TARGET
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
void softmax(const RowArgs& args) {
  const hn::ScalableTag<double> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t n = args.length;
  std::vector<float> scratch(std::is_same_v<T, float> ? 0 : static_cast<std::size_t>(n));
  for (std::int64_t row = 0; row < args.rows; ++row) {
    const T* x = reinterpret_cast<const T*>(args.in[0]) + row * n;
    T* y = reinterpret_cast<T*>(args.out[0]) + row * n;
    const double m = maximum(x, n);
    if (!std::isfinite(m)) {
      std::fill(y, y + n, numerics::canonical_nan<T>());
      continue;
    }
    float* e = scratch.data();
    if constexpr (std::is_same_v<T, float>) e = y;
    const auto shift = hn::Set(d, m);
    auto a = hn::Zero(d), b = hn::Zero(d);
    std::int64_t i = 0;
    for (; i + 2 * lanes <= n; i += 2 * lanes) {
      a = hn::Add(a, exp_to_f32(d, hn::Sub(load_f64(d, x + i), shift), e + i));
      b = hn::Add(b, exp_to_f32(d, hn::Sub(load_f64(d, x + i + lanes), shift), e + i + lanes));
    }
    for (; i < n; i += lanes) {
      // What a short vector lacks is -inf, whose exponential is +0.
      alignas(64) double shifted[hn::MaxLanes(d)];
      alignas(64) float some[hn::MaxLanes(d)];
      const std::int64_t left = std::min(lanes, n - i);
      std::fill(shifted, shifted + lanes, -std::numeric_limits<double>::infinity());
      for (std::int64_t k = 0; k < left; ++k) shifted[k] = numerics::to_double(x[i + k]) - m;
      a = hn::Add(a, exp_to_f32(d, hn::Load(d, shifted), some));
      std::copy(some, some + left, e + i);
    }
    const double sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(a, b)));
    // No addend is negative, so the sum bounds itself.
    const double depth = static_cast<double>(n / (2 * lanes) + 4 * lanes);
    const auto settled = settle_bound<float>(sum, (depth + 3) * kUnit * (1 + 0x1p-20) * sum, 1);
    const double r =
        1 / static_cast<double>(settled ? *settled
                                        : numerics::exact_sum(std::span<const float>(e, static_cast<std::size_t>(n))));
    const auto scale = hn::Set(d, r);
    for (i = 0; i + lanes <= n; i += lanes) store_rounded(d, hn::Mul(load_f64(d, e + i), scale), y + i);
    for (; i < n; ++i) y[i] = numerics::round_to<T>(static_cast<double>(e[i]) * r);
  }
}

template <class T>
void log_softmax(const RowArgs& args) {
  const hn::ScalableTag<double> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t n = args.length;
  if (n == 0) return;
  for (std::int64_t row = 0; row < args.rows; ++row) {
    const T* x = reinterpret_cast<const T*>(args.in[0]) + row * n;
    T* y = reinterpret_cast<T*>(args.out[0]) + row * n;
    const double m = row_maximum(x, n);
    if (!std::isfinite(m)) {
      std::fill(y, y + n, numerics::canonical_nan<T>());
      continue;
    }
    const double log_sum = numerics::log(sum_of_exponentials(x, n, m));
    const auto shift = hn::Set(d, m), log_shift = hn::Set(d, log_sum);
    std::int64_t i = 0;
    for (; i + lanes <= n; i += lanes) {
      store_rounded(d, hn::Sub(hn::Sub(load_f64(d, x + i), shift), log_shift), y + i);
    }
    for (; i < n; ++i) y[i] = numerics::round_to<T>((numerics::to_double(x[i]) - m) - log_sum);
  }
}

template <class T>
void logsumexp(const RowArgs& args) {
  for (std::int64_t row = 0; row < args.rows; ++row) {
    const T* x = reinterpret_cast<const T*>(args.in[0]) + row * args.length;
    const double m = args.length == 0 ? -std::numeric_limits<double>::infinity() : row_maximum(x, args.length);
    reinterpret_cast<T*>(args.out[0])[row] =
        numerics::round_to<T>(std::isfinite(m) ? m + numerics::log(sum_of_exponentials(x, args.length, m)) : m);
  }
}

#endif
}  // namespace eadem::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eadem::kernels {
namespace {

template <class T, class F>
void for_each_row(const RowArgs& args, F f) {
  const auto n = static_cast<std::size_t>(args.length);
  for (std::size_t row = 0; row < static_cast<std::size_t>(args.rows); ++row) {
    f(std::span<const T>(reinterpret_cast<const T*>(args.in[0]) + row * n, n), row);
  }
}
template <class T>
void scalar_softmax(const RowArgs& args) {
  for_each_row<T>(args, [&](std::span<const T> x, std::size_t row) {
    numerics::softmax(x, std::span(reinterpret_cast<T*>(args.out[0]) + row * x.size(), x.size()));
  });
}
template <class T>
void scalar_log_softmax(const RowArgs& args) {
  for_each_row<T>(args, [&](std::span<const T> x, std::size_t row) {
    numerics::log_softmax(x, std::span(reinterpret_cast<T*>(args.out[0]) + row * x.size(), x.size()));
  });
}
template <class T>
void scalar_logsumexp(const RowArgs& args) {
  for_each_row<T>(args, [&](std::span<const T> x, std::size_t row) {
    reinterpret_cast<T*>(args.out[0])[row] = numerics::logsumexp(x);
  });
}

}  // namespace

RowFn softmax_rows(const Signature& s) {
  return visit_floating(s.operands[0].dtype, []<class T>(std::type_identity<T>) {
    if constexpr (std::is_same_v<T, double>)
      return PerTarget<RowFn>{.scalar = &scalar_softmax<T>}.pick();
    else
      return EADEM_PER_TARGET(scalar_softmax<T>, softmax<T>).pick();
  });
}
RowFn log_softmax_rows(const Signature& s) {
  return visit_floating(s.operands[0].dtype, []<class T>(std::type_identity<T>) {
    return EADEM_PER_TARGET(scalar_log_softmax<T>, log_softmax<T>).pick();
  });
}
RowFn logsumexp_rows(const Signature& s) {
  return visit_floating(s.operands[0].dtype, []<class T>(std::type_identity<T>) {
    return EADEM_PER_TARGET(scalar_logsumexp<T>, logsumexp<T>).pick();
  });
}

}  // namespace eadem::kernels
#endif
