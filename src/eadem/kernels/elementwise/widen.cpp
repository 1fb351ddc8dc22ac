#include "eadem/kernels/elementwise/widen.h"

#include <cstring>

#include "eadem/kernels/target.h"
#include "eadem/numerics/rounding.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "eadem/kernels/elementwise/widen.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace eadem::kernels::HWY_NAMESPACE {
#if EADEM_HWY_TARGET
namespace hn = hwy::HWY_NAMESPACE;

// bf16 is the upper half of a float: plain loops become vectors.
void widen_bf16(const bfloat16* HWY_RESTRICT from, float* HWY_RESTRICT to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) to[i] = std::bit_cast<float>(static_cast<std::uint32_t>(from[i].bits) << 16);
}
void narrow_bf16(const float* HWY_RESTRICT from, bfloat16* HWY_RESTRICT to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i)
    to[i].bits = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(from[i]) >> 16);
}

void widen_f16(const float16* HWY_RESTRICT from, float* HWY_RESTRICT to, std::size_t count) {
  const hn::ScalableTag<float> d;
  const hn::Rebind<hwy::float16_t, decltype(d)> half;
  const std::size_t lanes = hn::Lanes(d), whole = count - count % lanes;
  for (std::size_t i = 0; i < whole; i += lanes) {
    const auto wide = hn::PromoteTo(d, hn::LoadU(half, reinterpret_cast<const hwy::float16_t*>(from + i)));
    hn::StoreU(wide, d, to + i);
    // The instruction makes signalling NaNs quiet.
    if (HWY_UNLIKELY(!hn::AllFalse(d, hn::IsNaN(wide))))
      for (std::size_t k = i; k < i + lanes; ++k) to[k] = to_float(from[k]);
  }
  for (std::size_t i = whole; i < count; ++i) to[i] = to_float(from[i]);
}
void narrow_f16(const float* HWY_RESTRICT from, float16* HWY_RESTRICT to, std::size_t count) {
  const hn::ScalableTag<float> d;
  const hn::Rebind<hwy::float16_t, decltype(d)> half;
  const std::size_t lanes = hn::Lanes(d), whole = count - count % lanes;
  for (std::size_t i = 0; i < whole; i += lanes) {
    const auto wide = hn::LoadU(d, from + i);
    hn::StoreU(hn::DemoteTo(half, wide), half, reinterpret_cast<hwy::float16_t*>(to + i));
    if (HWY_UNLIKELY(!hn::AllFalse(d, hn::IsNaN(wide))))
      for (std::size_t k = i; k < i + lanes; ++k) to[k] = narrow_exact_f16(from[k]);
  }
  for (std::size_t i = whole; i < count; ++i) to[i] = narrow_exact_f16(from[i]);
}

constexpr WidenFns kWidenFns{widen_bf16, widen_f16, narrow_bf16, narrow_f16};
const WidenFns& target_widen_fns() {
  return kWidenFns;
}

#endif
}  // namespace eadem::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eadem::kernels {
namespace {

const WidenFns& reference_widen_fns() {
  static constexpr WidenFns fns{[](const bfloat16* from, float* to, std::size_t count) {
                                  for (std::size_t i = 0; i < count; ++i) to[i] = to_float(from[i]);
                                },
                                [](const float16* from, float* to, std::size_t count) {
                                  for (std::size_t i = 0; i < count; ++i) to[i] = to_float(from[i]);
                                },
                                [](const float* from, bfloat16* to, std::size_t count) {
                                  for (std::size_t i = 0; i < count; ++i) to[i] = narrow_exact_bf16(from[i]);
                                },
                                [](const float* from, float16* to, std::size_t count) {
                                  for (std::size_t i = 0; i < count; ++i) to[i] = narrow_exact_f16(from[i]);
                                }};
  return fns;
}

constexpr auto kTable = EADEM_PER_TARGET(reference_widen_fns, target_widen_fns);

}  // namespace

const WidenFns& widen_fns() {
  return kTable.pick()();
}

}  // namespace eadem::kernels
#endif
