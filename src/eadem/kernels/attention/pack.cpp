#include <algorithm>
#include <bit>
#include <cstring>

#include "eadem/kernels/attention/tile.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "eadem/kernels/attention/pack.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
HWY_BEFORE_NAMESPACE();
namespace eadem::kernels::HWY_NAMESPACE {
#if EADEM_HWY_TARGET
namespace hn = hwy::HWY_NAMESPACE;
using namespace attention_detail;
using numerics::Wide;

// Plain loops here: the compiler turns them into the target's vectors, except for f16.
template <class T>
void widen_row(const T* from, std::int64_t stride, std::int64_t count, Wide<T>* to) {
  std::int64_t i = 0;
  if constexpr (std::same_as<T, float16>) {
    const hn::ScalableTag<float> d;
    const hn::Rebind<hwy::float16_t, decltype(d)> d16;
    constexpr std::int64_t kLanes = hn::MaxLanes(d);
    for (; stride == 1 && i + kLanes <= count; i += kLanes)
      hn::StoreU(hn::PromoteTo(d, hn::LoadU(d16, reinterpret_cast<const hwy::float16_t*>(from) + i)), d, to + i);
  }
  if (stride == 1) {
    for (; i < count; ++i) to[i] = numerics::widen(from[i]);
  } else {
    for (; i < count; ++i) to[i] = numerics::widen(from[i * stride]);
  }
}

template <class T>
void pack_value_row(const Problem& g, const T* from, std::int64_t stride, std::int64_t j, Wide<T>* v) {
  for (std::int64_t c = 0; c < g.head_size; c += g.value_panel)
    widen_row(from + c * stride, stride, std::min(g.value_panel, g.head_size - c),
              v + column_offset(c, g.value_panel, kKeys) + j * g.value_panel);
}

template <class T>
void pack_dense(const Problem& g, const BlockPlace& place, std::int64_t lo, std::int64_t hi, Wide<T>* k, Wide<T>* v) {
  using W = Wide<T>;
  const auto row = [&](const TensorView& x, std::int64_t j) {
    return x.as<T>() + place.b * x.strides[0] + place.head * x.strides[1] + (place.first_key + j) * x.strides[2];
  };
  constexpr std::int64_t kPart = 64;  // elements of 16 keys at a time, so that both sides of the transpose lie in L1
  alignas(64) W part[16][kPart];
  for (std::int64_t first = lo / 16 * 16; first < hi; first += 16) {
    const std::int64_t from = std::max(lo, first), to = std::min(hi, first + 16);
    for (std::int64_t d0 = 0; d0 < g.head_size; d0 += kPart) {
      const std::int64_t count = std::min(kPart, g.head_size - d0);
      for (std::int64_t j = from; j < to; ++j)
        widen_row(row(g.x.k, j) + d0 * g.x.k.strides[3], g.x.k.strides[3], count, part[j - first]);
      W* const panel = k + column_offset(first, g.key_panel, g.head_size) + d0 * g.key_panel - first;
      for (std::int64_t d = 0; d < count; ++d)
        for (std::int64_t j = from; j < to; ++j) panel[d * g.key_panel + j] = part[j - first][d];
    }
  }
  for (std::int64_t j = lo; j < hi; ++j) pack_value_row(g, row(g.x.v, j), g.x.v.strides[3], j, v);
}

template <class T>
void pack_pages(const Problem& g, const BlockPlace& place, std::int64_t lo, std::int64_t hi, Wide<T>* k, Wide<T>* v) {
  const std::int64_t page = page_of(g, place.b, place.first_key), head_size = g.head_size;
  const bool paired = numerics::paired_pages(g.x.k);
  const std::int64_t stride = paired ? 2 : 1;
  const auto element = [&](auto index, std::int64_t slot, std::int64_t d) {
    return index(paired, g.kv_heads, head_size, page, place.head, slot, d);
  };
  for (std::int64_t first = lo; first < hi;) {
    const std::int64_t end = std::min(hi, first / g.key_panel * g.key_panel + g.key_panel);
    Wide<T>* const panel = k + column_offset(first, g.key_panel, head_size);
    for (std::int64_t d = 0; d < head_size; ++d)
      widen_row(g.x.k.as<T>() + element(numerics::key_page_index, first, d), stride, end - first,
                panel + d * g.key_panel);
    first = end;
  }
  for (std::int64_t j = lo; j < hi; ++j)
    pack_value_row(g, g.x.v.as<T>() + element(numerics::value_page_index, j, 0), stride, j, v);
}

template <class W>
bool all_finite(const W* v, std::int64_t count) {
  using Bits = std::conditional_t<sizeof(W) == 4, std::uint32_t, std::uint64_t>;
  constexpr Bits kExponent = std::bit_cast<Bits>(std::numeric_limits<W>::infinity());
  Bits bad = 0;
  for (std::int64_t i = 0; i < count; ++i)
    bad |= static_cast<Bits>((std::bit_cast<Bits>(v[i]) & kExponent) == kExponent);
  return bad == 0;
}

// Asks for the next block's page while this one is worked on.
template <class T>
void prefetch_page(const Problem& g, const BlockPlace& place) {
  constexpr std::int64_t kLine = 64 / sizeof(T);
  const T* k =
      g.x.k.as<T>() + numerics::key_page_index(false, g.kv_heads, g.head_size, place.next_page, place.head, 0, 0);
  const T* v =
      g.x.v.as<T>() + numerics::value_page_index(false, g.kv_heads, g.head_size, place.next_page, place.head, 0, 0);
  for (std::int64_t i = 0; i < kKeys * g.head_size; i += kLine) {
    __builtin_prefetch(k + i, 0, 2);
    __builtin_prefetch(v + i, 0, 2);
  }
}

template <class T>
void pack(const Problem& g, const BlockPlace& place, PackedBlock& block) {
  using W = Wide<T>;
  const std::int64_t lo = std::clamp<std::int64_t>(std::max<std::int64_t>(place.start, 0) - place.first_key, 0, kKeys);
  const std::int64_t hi = std::clamp<std::int64_t>(place.length - place.first_key, lo, kKeys);
  const std::int64_t values = kKeys * round_up(g.columns, g.value_panel);
  block.paired = false;
  if (std::same_as<T, W> && g.x.pages.data && !numerics::paired_pages(g.x.k) && lo == 0 && g.key_panel == kKeys &&
      g.columns == g.head_size) {
    const std::int64_t page = page_of(g, place.b, place.first_key);
    if (place.next_page >= 0) prefetch_page<T>(g, place);
    const PackedBlock room = block;
    block.k = g.x.k.as<W>() + numerics::key_page_index(false, g.kv_heads, g.head_size, page, place.head, 0, 0);
    block.v = g.x.v.as<W>() + numerics::value_page_index(false, g.kv_heads, g.head_size, page, place.head, 0, 0);
    block.finite = all_finite(static_cast<const W*>(block.v), values);
    // Scores of keys after the sequence's end are replaced, and p = +0 hides what finite values lie there.
    if (block.finite || hi == kKeys) return;
    block = room;
  }
  W* const k = static_cast<W*>(block.k);
  W* const v = static_cast<W*>(block.v);
  if (lo > 0 || hi < kKeys) std::fill(k, k + g.head_size * kKeys, W{0});
  if (lo > 0 || hi < kKeys || values > kKeys * g.head_size) std::fill(v, v + values, W{0});
  if (g.x.pages.data)
    pack_pages<T>(g, place, lo, hi, k, v);
  else
    pack_dense<T>(g, place, lo, hi, k, v);
  block.finite = all_finite(v, values);
}

Pack pack_for(DType dtype) {
  return visit_floating(dtype, []<class T>(std::type_identity<T>) -> Pack { return &pack<T>; });
}

#endif  // EADEM_HWY_TARGET
}  // namespace eadem::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eadem::kernels {
namespace {
attention_detail::Pack no_pack(DType) {
  return nullptr;
}
}  // namespace

attention_detail::Pack attention_detail::pick_pack(DType dtype, Target target) {
  static constexpr auto kPacks = EADEM_PER_TARGET(no_pack, pack_for);
  return kPacks.pick(target)(dtype);
}

}  // namespace eadem::kernels
#endif
