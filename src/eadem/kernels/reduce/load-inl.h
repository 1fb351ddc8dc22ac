// Loads of any element type as f64 or 64-bit integers; included once per Highway target.
#if defined(EADEM_KERNELS_REDUCE_LOAD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef EADEM_KERNELS_REDUCE_LOAD_INL_H_
#undef EADEM_KERNELS_REDUCE_LOAD_INL_H_
#else
#define EADEM_KERNELS_REDUCE_LOAD_INL_H_
#endif

#include "eadem/base/dtype.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace eadem::kernels::HWY_NAMESPACE {
#if EADEM_HWY_TARGET
namespace hn = hwy::HWY_NAMESPACE;

/// Lanes(d) elements as f32, exactly; T is f32, bf16 or f16.
template <class D32, class T>
HWY_INLINE hn::Vec<D32> load_f32(D32 d, const T* x) {
  if constexpr (std::is_same_v<T, float>) {
    return hn::LoadU(d, x);
  } else if constexpr (std::is_same_v<T, bfloat16>) {
    const hn::Rebind<std::uint16_t, D32> d16;
    const hn::RebindToUnsigned<D32> du;
    return hn::BitCast(d,
                       hn::ShiftLeft<16>(hn::PromoteTo(du, hn::LoadU(d16, reinterpret_cast<const std::uint16_t*>(x)))));
  } else {
    const hn::Rebind<hwy::float16_t, D32> d16;
    return hn::PromoteTo(d, hn::LoadU(d16, reinterpret_cast<const hwy::float16_t*>(x)));
  }
}

/// Lanes(d) floats as f64, exactly.
template <class D64, class T>
HWY_INLINE hn::Vec<D64> load_f64(D64 d, const T* x) {
  if constexpr (std::is_same_v<T, double>)
    return hn::LoadU(d, x);
  else
    return hn::PromoteTo(d, load_f32(hn::Rebind<float, D64>(), x));
}

/// Lanes(d) integers, extended by their own signedness to the 64 bits of d's lanes.
template <class D64, class T>
HWY_INLINE hn::Vec<D64> load_i64(D64 d, const T* x) {
  using Wide = std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>;
  using Half = std::conditional_t<std::is_signed_v<T>, std::int32_t, std::uint32_t>;
  const hn::Rebind<Wide, D64> dw;
  const hn::Rebind<Half, D64> dh;
  const hn::Rebind<T, D64> dt;
  if constexpr (sizeof(T) == 8)
    return hn::BitCast(d, hn::LoadU(dt, x));
  else if constexpr (sizeof(T) == 4)
    return hn::BitCast(d, hn::PromoteTo(dw, hn::LoadU(dt, x)));
  else
    return hn::BitCast(d, hn::PromoteTo(dw, hn::PromoteTo(dh, hn::LoadU(dt, x))));
}

/// pick folded over all lanes: halves down to 16 bytes, then one by one.
template <class D, class V, class Pick>
HWY_INLINE hn::TFromD<D> fold_lanes(D d, V v, Pick pick) {
  if constexpr (hn::MaxLanes(D()) * sizeof(hn::TFromD<D>) > 16) {
    const hn::Half<D> half;
    return fold_lanes(half, pick(hn::LowerHalf(half, v), hn::UpperHalf(half, v)), pick);
  } else {
    alignas(16) hn::TFromD<D> each[hn::MaxLanes(D())];
    hn::Store(v, d, each);
    auto best = each[0];
    for (std::size_t lane = 1; lane < hn::MaxLanes(D()); ++lane) best = pick(best, each[lane]);
    return best;
  }
}

#endif
}  // namespace eadem::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
