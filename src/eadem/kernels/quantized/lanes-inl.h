// What the bodies for Highway targets share: unpacking codes, applying scales, the tree over blocks, storing results.
// Included once for each target.
#if defined(EADEM_KERNELS_QUANTIZED_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef EADEM_KERNELS_QUANTIZED_LANES_INL_H_
#undef EADEM_KERNELS_QUANTIZED_LANES_INL_H_
#else
#define EADEM_KERNELS_QUANTIZED_LANES_INL_H_
#endif

#include <bit>
#include <utility>

#include "eadem/kernels/quantized/task.h"
#include "eadem/numerics/rounding.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace eadem::kernels::HWY_NAMESPACE {
#if EADEM_HWY_TARGET
namespace {
namespace hn = hwy::HWY_NAMESPACE;

using DF = hn::CappedTag<float, kPanelRows>;
using DU = hn::RebindToUnsigned<DF>;
using VF = hn::Vec<DF>;
using VU = hn::Vec<DU>;
inline constexpr int kLanes = HWY_MAX_BYTES / 4 < kPanelRows ? HWY_MAX_BYTES / 4 : kPanelRows;
inline constexpr int kVectors = kPanelRows / kLanes;  // of a panel

// Calls f(integral_constant) for 0 .. N - 1, unrolled whatever the compiler's heuristics say.
template <int N, class F>
HWY_INLINE HWY_ATTR void unrolled(F&& f) {
  [&]<int... i>(std::integer_sequence<int, i...>) HWY_ATTR __attribute__((always_inline)) {
    (f(std::integral_constant<int, i>{}), ...);
  }
  (std::make_integer_sequence<int, N>{});
}

// Codes are unpacked by units of so many columns, which lie in one word or, for widths with a plane, in two after
// joining it: two units at a time share a vector of high bits.
template <int kWidth>
inline constexpr int kUnit = 32 / low_bits(kWidth);
template <int kWidth>
inline constexpr bool kHasPlane = kWidth != low_bits(kWidth);
template <int kWidth>
inline constexpr int kUnitWords = kHasPlane<kWidth> ? 2 : 1;
template <int kWidth>
inline constexpr int kPlaneUnits = kHasPlane<kWidth> ? 2 : 1;

// What a unit is read from, in one vector: its words, and the same shifted right by 16.
template <int kWidth>
struct Unit {
  HWY_INLINE HWY_ATTR Unit() {}  // an implicit one would lack the target's attribute
  VU words[kUnitWords<kWidth>], high[kUnitWords<kWidth>];
};

template <int kShift>
HWY_INLINE HWY_ATTR VU shifted_right(VU x) {
  if constexpr (kShift >= 0)
    return hn::ShiftRight<kShift>(x);
  else
    return hn::ShiftLeft<-kShift>(x);
}

// The high bits of two units from column k of a step on, whose plane begins at `plane`: at the low end of the fields.
template <int kWidth>
HWY_INLINE HWY_ATTR VU load_plane([[maybe_unused]] const std::uint32_t* plane, [[maybe_unused]] std::ptrdiff_t next,
                                  [[maybe_unused]] int k) {
  if constexpr (kWidth == 3) return hn::Load(DU(), plane);
  if constexpr (kWidth == 5) return hn::ShiftRightSame(hn::Load(DU(), plane), k / 4);
  if constexpr (kWidth == 6) return hn::Load(DU(), plane + k / 16 * next);
  return hn::Zero(DU());
}

// Unit `unit` of those that share `above`. With it the codes of even columns become the fields of one word, twice as
// wide, those of odd columns of another.
template <int kWidth, int unit>
HWY_INLINE HWY_ATTR void load_unit(const std::uint32_t* word, [[maybe_unused]] VU above, Unit<kWidth>& result) {
  const DU du;
  result.words[0] = hn::Load(du, word);
  if constexpr (kHasPlane<kWidth>) {
    constexpr int low_width = low_bits(kWidth), bits = kWidth - low_width;
    constexpr std::uint32_t fields = low_width == 4 ? 0x01010101 : 0x11111111;
    const VU low = result.words[0], low_mask = hn::Set(du, ((1u << low_width) - 1) * fields),
             high_mask = hn::Set(du, ((1u << bits) - 1) * fields << low_width);
    result.words[0] = hn::OrAnd(hn::And(low, low_mask), shifted_right<bits * 2 * unit - low_width>(above), high_mask);
    result.words[1] = hn::OrAnd(hn::And(hn::ShiftRight<low_width>(low), low_mask),
                                shifted_right<bits*(2 * unit + 1) - low_width>(above), high_mask);
  }
  for (int i = 0; i < kUnitWords<kWidth>; ++i) result.high[i] = hn::ShiftRight<16>(result.words[i]);
}

// The centred code of column j of each lane's unit, as float: the bits of q are the low bits of the significand of
// 2^e + q, with e such that they have weight one; subtracting 2^e + centre is exact.
template <int kWidth, int j>
HWY_INLINE HWY_ATTR VF centred_code(const Unit<kWidth>& unit, VF centre) {
  constexpr int word = kHasPlane<kWidth> ? j % 2 : 0;
  constexpr int place = places_of(kWidth, j).shift - low_bits(kWidth) * word;  // a field of a pair becomes the pair's
  constexpr int shift = place % 16;
  constexpr float base = static_cast<float>(1u << (23 - shift));
  const DU du;
  const VU bits =
      hn::OrAnd(hn::Set(du, std::bit_cast<std::uint32_t>(base)), place < 16 ? unit.words[word] : unit.high[word],
                hn::Set(du, ((1u << kWidth) - 1) << shift));
  return hn::Sub(hn::BitCast(DF(), bits), hn::Add(hn::Set(DF(), base), centre));
}

// s or b of a group for the lanes of one vector: `index` 0 .. kVectors - 1 are those of s, the next ones of b.
HWY_INLINE HWY_ATTR VF load_half(const std::byte* at, int index) {
  return hn::PromoteTo(
      DF(), hn::LoadU(hn::Rebind<hwy::float16_t, DF>(), reinterpret_cast<const hwy::float16_t*>(at) + index * kLanes));
}
template <DType kScales>
HWY_INLINE HWY_ATTR VF load_scales(const std::byte* at, const std::byte* factors, int index) {
  if constexpr (kScales == DType::f32) return hn::LoadU(DF(), reinterpret_cast<const float*>(at) + index * kLanes);
  if constexpr (kScales == DType::f16) return load_half(at, index);
  const hn::Rebind<std::int32_t, DF> di;
  const auto integers =
      hn::LoadU(hn::Rebind<std::int8_t, DF>(), reinterpret_cast<const std::int8_t*>(at) + index * kLanes);
  return hn::Mul(hn::ConvertTo(DF(), hn::PromoteTo(di, integers)), load_half(factors, index));
}

// Calls f(std::integral_constant) for the dtype of scales.
template <class F>
HWY_INLINE HWY_ATTR void with_scales(DType dtype, F&& f) {
  if (dtype == DType::f16) return f(std::integral_constant<DType, DType::f16>{});
  if (dtype == DType::f32) return f(std::integral_constant<DType, DType::f32>{});
  f(std::integral_constant<DType, DType::i8>{});
}

// t_g of numerics.md section 7, for groups with and without b'.
HWY_INLINE HWY_ATTR VF scaled(VF s, VF q, VF centred_bias, VF sum) {
  return hn::MulAdd(s, q, hn::Mul(centred_bias, sum));
}

// The blocks' sums in ascending order, as a binary counter: one for each row and vector.
class Tree {
 public:
  HWY_INLINE HWY_ATTR void add(VF block) {
    for (std::uint32_t count = count_++; count & 1; count >>= 1)
      block = hn::Add(hn::Load(DF(), nodes_[--depth_]), block);
    hn::Store(block, DF(), nodes_[depth_++]);
  }
  HWY_INLINE HWY_ATTR VF total() const {
    if (depth_ == 0) return hn::Zero(DF());
    VF sum = hn::Load(DF(), nodes_[depth_ - 1]);
    for (int i = depth_ - 1; i-- > 0;) sum = hn::Add(hn::Load(DF(), nodes_[i]), sum);
    return sum;
  }

 private:
  alignas(64) float nodes_[24][kLanes];  // K < 2^31
  int depth_ = 0;
  std::uint32_t count_ = 0;
};

// Stores `count` leading lanes to columns n.. of row m: bias, canonical NaN, rounding to y's dtype.
HWY_INLINE HWY_ATTR void store(const quantized::Task& task, std::int64_t m, std::int64_t n, VF value) {
  const DF df;
  const std::int64_t count = std::min<std::int64_t>(kLanes, task.w->rows - n);
  if (count <= 0) return;
  if (task.bias) value = hn::Add(value, hn::LoadU(df, task.bias + n));
  value = hn::IfThenElse(hn::IsNaN(value), hn::Set(df, numerics::canonical_nan<float>()), value);
  const std::ptrdiff_t stride = task.y.strides[1], at = m * task.y.strides[0] + n * stride;
  if (task.y.dtype == DType::f32) {
    float* y = task.y.as<float>() + at;
    if (count == kLanes && stride == 1) return hn::StoreU(value, df, y);
    alignas(64) float lanes[kLanes];
    hn::Store(value, df, lanes);
    for (std::int64_t i = 0; i < count; ++i) y[i * stride] = lanes[i];
    return;
  }
  if (task.y.dtype == DType::f64) {
    alignas(64) float lanes[kLanes];
    hn::Store(value, df, lanes);
    for (std::int64_t i = 0; i < count; ++i) task.y.as<double>()[at + i * stride] = lanes[i];
    return;
  }
  alignas(64) std::uint16_t lanes[kLanes];
  if (task.y.dtype == DType::bf16) {
    const DU du;
    const VU bits = hn::BitCast(du, value);
    const VU odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1));
    // The canonical NaN has no low bits to carry upwards.
    const VU rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7fff))));
    alignas(64) std::uint32_t wide[kLanes];
    hn::Store(rounded, du, wide);
    for (int i = 0; i < kLanes; ++i) lanes[i] = static_cast<std::uint16_t>(wide[i]);
  } else {
    const hn::Rebind<hwy::float16_t, DF> dh;
    hn::StoreU(hn::DemoteTo(dh, value), dh, reinterpret_cast<hwy::float16_t*>(lanes));
  }
  std::uint16_t* y = task.y.as<std::uint16_t>() + at;
  for (std::int64_t i = 0; i < count; ++i) y[i * stride] = lanes[i];
}

}  // namespace
#endif
}  // namespace eadem::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
