// X_g: the sums of x over groups of columns, in the order of a product with ones.
#include <algorithm>
#include <bit>

#include "eadem/kernels/quantized/task.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "eadem/kernels/quantized/sums.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace eadem::kernels::HWY_NAMESPACE {
#if EADEM_HWY_TARGET
namespace {
namespace hn = hwy::HWY_NAMESPACE;

using D4 = hn::FixedTag<float, 4>;
using V4 = hn::Vec<D4>;

// Step i of four rows of four: columns become vectors.
HWY_INLINE HWY_ATTR void transpose(V4 (&v)[4]) {
  const D4 d;
  const V4 a = hn::InterleaveLower(d, v[0], v[2]), b = hn::InterleaveUpper(d, v[0], v[2]);
  const V4 e = hn::InterleaveLower(d, v[1], v[3]), f = hn::InterleaveUpper(d, v[1], v[3]);
  v[0] = hn::InterleaveLower(d, a, e);
  v[1] = hn::InterleaveUpper(d, a, e);
  v[2] = hn::InterleaveLower(d, b, f);
  v[3] = hn::InterleaveUpper(d, b, f);
}

// A step is a chain of dependent additions, so four steps go side by side.
template <int kChains>
HWY_ATTR void sum_steps(const float* x, std::int64_t columns, int group, float* sums) {
  const D4 d;
  const int run = std::min(group, 32);
  const std::int64_t runs = columns / run, last_run = group / run - 1;
  const int log_runs = std::popcount(static_cast<std::uint64_t>(last_run));  // a power of two
  for (std::int64_t first = 0; first < runs; first += 4) {
    const float* from[4];
    for (std::int64_t i = 0; i < 4; ++i) from[i] = x + std::min(first + i, runs - 1) * run;
    V4 chain[2] = {hn::Zero(d), hn::Zero(d)};
    for (int k = 0; k < run; k += 4) {
      V4 v[4];
      for (int i = 0; i < 4; ++i) v[i] = hn::LoadU(d, from[i] + k);
      transpose(v);
      for (int i = 0; i < 4; ++i) chain[i % kChains] = hn::Add(chain[i % kChains], v[i]);
    }
    HWY_ALIGN float steps[4];
    hn::Store(kChains == 2 ? hn::Add(chain[0], chain[1]) : chain[0], d, steps);
    for (std::int64_t n = first; n < std::min(first + 4, runs); ++n) {
      float& sum = sums[n >> log_runs];
      sum = ((n & last_run) == 0 ? 0.0f : sum) + steps[n - first];
    }
  }
}

HWY_ATTR void sum_groups(const float* x, std::int64_t columns, int group, int chains, float* sums) {
  chains == 2 ? sum_steps<2>(x, columns, group, sums) : sum_steps<1>(x, columns, group, sums);
}

}  // namespace

quantized::SumGroups sum_groups_body() {
  return sum_groups;
}
#endif
}  // namespace eadem::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eadem::kernels {
namespace {
quantized::SumGroups no_body() {
  return nullptr;
}
}  // namespace

quantized::SumGroups quantized::pick_sum_groups() {
  static constexpr auto kBodies = EADEM_PER_TARGET(no_body, sum_groups_body);
  return kBodies.pick()();
}

}  // namespace eadem::kernels
#endif
