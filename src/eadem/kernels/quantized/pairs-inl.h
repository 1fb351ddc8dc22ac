#pragma once

// What the bodies for AVX512-BF16 and AMX share: lookups, scales, the tree over blocks, strips of unpacked codes,
// stores. Everything has internal linkage and target attributes, for no other code may be compiled for those CPUs.

#include <immintrin.h>

#include <algorithm>
#include <utility>

#include "eadem/kernels/quantized/task.h"
#include "eadem/numerics/rounding.h"

#define EADEM_BF16 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,fma,f16c")))
#define EADEM_INLINE EADEM_BF16 __attribute__((always_inline)) inline
#define EADEM_LAMBDA EADEM_BF16 __attribute__((always_inline))

namespace eadem::kernels::quantized {
namespace {

template <int i>
using Constant = std::integral_constant<int, i>;

template <int N, class F>
EADEM_INLINE void unrolled(F&& f) {
  [&]<int... i>(std::integer_sequence<int, i...>) EADEM_BF16 __attribute__((always_inline)) {
    (f(std::integral_constant<int, i>{}), ...);
  }
  (std::make_integer_sequence<int, N>{});
}

EADEM_INLINE __m512 dot_pairs(__m512 sum, std::uint32_t x, __m512i codes) {
  return _mm512_dpbf16_ps(sum, (__m512bh)codes, (__m512bh)_mm512_set1_epi32(static_cast<int>(x)));
}

EADEM_INLINE __m512 load_half(const std::byte* at) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)));
}
EADEM_INLINE __m512 load_integers(const std::byte* at) {
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at))));
}

// The centred codes of fields of up to 6 bits, in bf16, as lookups take them: the low bits of each 16-bit lane are the
// index, whatever the others are.
class CodeTable {
 public:
  EADEM_INLINE CodeTable(int width, int bits) {
    alignas(64) std::uint16_t table[64];
    for (int i = 0; i < 64; ++i) table[i] = to_bfloat16(static_cast<float>(i % (1 << width) - (1 << (bits - 1)))).bits;
    low_ = _mm512_load_si512(table);
    high_ = _mm512_load_si512(table + 32);
  }
  // The pair of codes at bit `shift` of the halves of `fields`.
  template <int kWidth, int shift>
  EADEM_INLINE __m512i pair(__m512i fields) const {
    const __m512i index = shift == 0 ? fields : _mm512_srli_epi16(fields, shift);
    return kWidth == 6 ? _mm512_permutex2var_epi16(low_, index, high_) : _mm512_permutexvar_epi16(index, low_);
  }

 private:
  __m512i low_, high_;
};

// Units are the columns of a word of low bits; so many share a word of the plane.
template <int kWidth>
inline constexpr int kUnit = 32 / low_bits(kWidth);
template <int kWidth>
inline constexpr bool kHasPlane = kWidth != low_bits(kWidth);
template <int kWidth>
inline constexpr int kPlaneUnits = kHasPlane<kWidth> ? low_bits(kWidth) / (kWidth - low_bits(kWidth)) : 1;

// A word of the plane, its bits from `shift` on at the low end.
EADEM_INLINE __m512i load_plane(const std::uint32_t* plane, int shift) {
  return _mm512_srl_epi32(_mm512_load_si512(plane), _mm_cvtsi32_si128(shift));
}

// The fields that unit `unit` of those that share the word `above` is looked up from: of widths with a plane the low
// bits joined with it, in fields twice as wide, for the even and for the odd columns.
template <int kWidth, int unit, int parity>
EADEM_INLINE __m512i fields_of(__m512i word, [[maybe_unused]] __m512i above) {
  if constexpr (!kHasPlane<kWidth>) return word;
  constexpr int low = low_bits(kWidth), shift = (kWidth - low) * (2 * unit + parity) - low;
  const __m512i high = shift > 0    ? _mm512_srli_epi16(above, shift > 0 ? shift : 0)
                       : shift == 0 ? above
                                    : _mm512_slli_epi16(above, shift < 0 ? -shift : 0);
  // The low bits of the one, the rest of the other.
  return _mm512_ternarylogic_epi32(parity == 0 ? word : _mm512_srli_epi16(word, low), high,
                                   _mm512_set1_epi16(low == 4 ? 0x0f0f : 0x3333), 0xe4);
}
template <int kWidth, int i>
inline constexpr int kPairShift = low_bits(kWidth) * (kHasPlane<kWidth> ? i / 2 * 2 : i);

// The binary counter of section 4.3 over the blocks of kCount sums that go side by side.
template <int kCount>
class Tree {
 public:
  EADEM_INLINE void add(const __m512 (&block)[kCount]) {
    unrolled<kCount>([&](auto i) EADEM_LAMBDA { _mm512_store_ps(nodes_[depth_][i], block[i]); });
    ++depth_;
    for (std::uint32_t count = count_++; count & 1; count >>= 1) fold();
  }
  EADEM_INLINE void total(__m512 (&sum)[kCount]) {
    while (depth_ > 1) fold();
    unrolled<kCount>([&](auto i)
                         EADEM_LAMBDA { sum[i] = depth_ ? _mm512_load_ps(nodes_[0][i]) : _mm512_setzero_ps(); });
  }

 private:
  EADEM_INLINE void fold() {
    --depth_;
    unrolled<kCount>([&](auto i) EADEM_LAMBDA {
      _mm512_store_ps(nodes_[depth_ - 1][i],
                      _mm512_add_ps(_mm512_load_ps(nodes_[depth_ - 1][i]), _mm512_load_ps(nodes_[depth_][i])));
    });
  }

  alignas(64) float nodes_[24][kCount][16];  // K < 2^31
  int depth_ = 0;
  std::uint32_t count_ = 0;
};

EADEM_INLINE void store(const Task& task, std::int64_t m, std::int64_t n, __m512 value) {
  const std::int64_t count = std::min<std::int64_t>(16, task.w->rows - n);
  if (count <= 0) return;
  if (task.bias) value = _mm512_add_ps(value, _mm512_loadu_ps(task.bias + n));
  const __m512 nan = _mm512_castsi512_ps(_mm512_set1_epi32(0x7fc00000));
  value = _mm512_mask_blend_ps(_mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q), value, nan);
  const std::ptrdiff_t stride = task.y.strides[1], at = m * task.y.strides[0] + n * stride;
  const auto mask = static_cast<__mmask16>((1u << count) - 1);
  if (task.y.dtype == DType::f32 && stride == 1) return _mm512_mask_storeu_ps(task.y.as<float>() + at, mask, value);
  if (task.y.dtype == DType::bf16 && stride == 1) {
    // Not vcvtneps2bf16, which flushes subnormals.
    const __m512i bits = _mm512_castps_si512(value);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i up = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    return _mm256_mask_storeu_epi16(task.y.as<std::uint16_t>() + at, mask,
                                    _mm512_cvtepi32_epi16(_mm512_srli_epi32(up, 16)));
  }
  alignas(64) float lanes[16];
  _mm512_store_ps(lanes, value);
  visit_floating(task.y.dtype, [&]<class T>(std::type_identity<T>) {
    for (std::int64_t i = 0; i < count; ++i) task.y.as<T>()[at + i * stride] = numerics::round_to<T>(lanes[i]);
  });
}

// t_g added to the sums of kRows rows: Q_g in `codes`.
struct Group {
  __m512 s, b;
};
// Of the groups of a slab, whose `count` begin at `scales`.
class GroupScales {
 public:
  EADEM_INLINE GroupScales(const PackedQuantized& w, const std::byte* scales, int count)
      : format_(w.format), scales_(scales), next_(w.group_scale_bytes) {
    if (format_.scale_dtype != DType::i8) return;
    const std::byte* factors = scales + static_cast<std::size_t>(count) * next_;
    factors_[0] = load_half(factors);
    if (!format_.symmetric) factors_[1] = load_half(factors + 32);
  }
  EADEM_INLINE Group operator()(int group) const {
    const std::byte* at = scales_ + static_cast<std::size_t>(group) * next_;
    const __m512 s = load(at, 0);
    if (format_.symmetric) return {s, _mm512_setzero_ps()};
    return {s, _mm512_fmadd_ps(_mm512_set1_ps(static_cast<float>(1 << (format_.bits - 1))), s, load(at, 1))};
  }

 private:
  EADEM_INLINE __m512 load(const std::byte* at, int which) const {
    if (format_.scale_dtype == DType::f16) return load_half(at + 32 * which);
    if (format_.scale_dtype == DType::f32) return _mm512_loadu_ps(at + 64 * which);
    return _mm512_mul_ps(load_integers(at + 16 * which), factors_[which]);
  }

  const numerics::QuantizedFormat& format_;
  const std::byte* scales_;
  std::size_t next_;
  __m512 factors_[2];
};

// The codes of two panels, unpacked to pairs in bf16, [columns / 2][2][16], and s and b' [groups][2][16] in f32.
struct Strip {
  std::uint32_t* codes;
  float *scales, *biases;
};

// Stores the pairs of columns k .. k + 3 of 16 rows.
template <Pairs kPairs>
EADEM_INLINE void store_pairs(std::uint32_t* out, __m512i even, __m512i odd) {
  if constexpr (kPairs == Pairs::adjacent) {
    const __m512i high = _mm512_set1_epi32(static_cast<int>(0xffff0000u));
    const __m512i first = _mm512_or_si512(_mm512_srli_epi32(even, 16), _mm512_and_si512(odd, high));
    odd = _mm512_or_si512(_mm512_andnot_si512(high, even), _mm512_slli_epi32(odd, 16));
    even = first;
  }
  _mm512_store_si512(out, even);
  _mm512_store_si512(out + 32, odd);
}

template <Pairs kPairs, int kWidth>
EADEM_BF16 void unpack_fields(const PackedQuantized& w, const std::byte* base, std::int64_t step, std::uint32_t* out) {
  const CodeTable table(kWidth, w.format.bits);
  const std::uint32_t* words = w.words(base, step);
  const std::uint32_t* plane = kHasPlane<kWidth> ? w.plane(base, step) : words;
  const std::ptrdiff_t next = w.slab_steps(step) * kPanelRows;
  constexpr int kUnits = kWidth == 3 ? 1 : kPlaneUnits<kWidth>;  // of 3 bits the other unit may be another step's
  for (int k = 0; k < w.step; k += kUnit<kWidth> * kUnits) {
    const __m512i above = kWidth == 3 ? load_plane(plane, w.plane_shift(step) + k / 8) : _mm512_load_si512(plane);
    if constexpr (kWidth != 3) plane += next;
    unrolled<kUnits>([&](auto u) EADEM_LAMBDA {
      const __m512i word = _mm512_load_si512(words);
      const __m512i fields[2] = {fields_of<kWidth, u, 0>(word, above), fields_of<kWidth, u, 1>(word, above)};
      unrolled<kUnit<kWidth> / 4>([&](auto i) EADEM_LAMBDA {
        store_pairs<kPairs>(out, table.pair<kWidth, kPairShift<kWidth, 2 * i>>(fields[0]),
                            table.pair<kWidth, kPairShift<kWidth, 2 * i + 1>>(fields[1]));
        out += 2 * 32;
      });
      words += next;
    });
  }
}

template <Pairs kPairs>
EADEM_BF16 void unpack_bytes(const PackedQuantized& w, const std::byte* base, std::int64_t step, std::uint32_t* out) {
  const std::uint32_t* words = w.words(base, step);
  const std::ptrdiff_t next = w.slab_steps(step) * kPanelRows;
  // A byte q as 2^23 + q, less 2^23 + centre, is the centred code in f32, whose upper half is its bf16.
  const __m512i byte = _mm512_set1_epi32(0xff), magic = _mm512_castps_si512(_mm512_set1_ps(0x1p23f));
  const __m512 offset = _mm512_set1_ps(0x1p23f + static_cast<float>(1 << (w.format.bits - 1)));
  for (int k = 0; k < w.step; k += 4, words += next, out += 2 * 32) {
    const __m512i word = _mm512_load_si512(words);
    const auto code = [&](unsigned shift) EADEM_LAMBDA {
      const __m512i wide = _mm512_or_si512(_mm512_and_si512(_mm512_srli_epi32(word, shift), byte), magic);
      return _mm512_castps_si512(_mm512_sub_ps(_mm512_castsi512_ps(wide), offset));
    };
    const auto pair = [&](unsigned shift) EADEM_LAMBDA {
      return _mm512_or_si512(code(16 + shift), _mm512_srli_epi32(code(shift), 16));
    };
    store_pairs<kPairs>(out, pair(0), pair(8));
  }
}

template <Pairs kPairs>
EADEM_BF16 void unpack(const PackedQuantized& w, std::int64_t panel, const Strip& strip) {
  for (int side = 0; side < 2; ++side) {
    std::uint32_t* out = strip.codes + 16 * side;
    const bool exists = panel + side < w.panels();  // else its lanes are never stored, but must hold something
    if (!exists) {
      for (std::int64_t k = 0; k < w.columns / 2; ++k) _mm512_store_si512(out + k * 32, _mm512_setzero_si512());
    } else {
      for (std::int64_t step = 0; step < w.steps(); ++step, out += w.step / 2 * 32) {
        const std::byte* base = w.panel(panel + side);
        switch (w.width) {
          case 2: unpack_fields<kPairs, 2>(w, base, step, out); break;
          case 3: unpack_fields<kPairs, 3>(w, base, step, out); break;
          case 4: unpack_fields<kPairs, 4>(w, base, step, out); break;
          case 5: unpack_fields<kPairs, 5>(w, base, step, out); break;
          case 6: unpack_fields<kPairs, 6>(w, base, step, out); break;
          default: unpack_bytes<kPairs>(w, base, step, out);
        }
      }
    }
    const std::int64_t slab_groups = kSlabColumns / w.format.group;
    float *s = strip.scales + 16 * side, *b = strip.biases + 16 * side;
    for (std::int64_t first = 0; first < w.groups(); first += slab_groups) {
      const int count = static_cast<int>(std::min(slab_groups, w.groups() - first));
      const auto store = [&](Group scale) EADEM_LAMBDA {
        _mm512_store_ps(s, scale.s);
        _mm512_store_ps(b, scale.b);
        s += 32, b += 32;
      };
      if (!exists) {
        for (int g = 0; g < count; ++g) store(Group{});
        continue;
      }
      const GroupScales scale(w, w.scales(w.panel(panel + side), first), count);
      for (int g = 0; g < count; ++g) store(scale(g));
    }
  }
}

// Prefill: unpacks strips of panels [begin, end), and calls tile(task, strip, first row, panel) for all tiles of
// kTileRows plain rows of x; the others go to AVX-512.
template <Pairs kPairs, int kTileRows, class Tile>
void by_strips(const Task& task, std::int64_t begin, std::int64_t end, Tile tile) {
  const PackedQuantized& w = *task.w;
  // Several strips at a time, as many as leave room in the second-level cache, so that a tile of x serves them all.
  const std::int64_t codes = w.columns * 16, scales = w.groups() * 32;
  const std::int64_t count = std::clamp<std::int64_t>((256 << 10) / std::max<std::int64_t>(1, codes * 4), 1, 4);
  auto* memory = static_cast<std::uint32_t*>(scratch(4, static_cast<std::size_t>(count * (codes + 2 * scales)) * 4));
  const auto strip = [&](std::int64_t i) {
    std::uint32_t* const at = memory + i * (codes + 2 * scales);
    auto* const s = reinterpret_cast<float*>(at + codes);
    return Strip{at, s, s + scales};
  };
  const auto plain = [&](std::int64_t first) {
    const std::uint8_t *from = task.plain + first, *to = task.plain + std::min(first + kTileRows, task.rows);
    return std::all_of(from, to, [](std::uint8_t each) { return each; });
  };
  for (std::int64_t panel = begin; panel < end; panel += 2 * count) {
    const std::int64_t strips = std::min(count, (end - panel + 1) / 2);
    for (std::int64_t i = 0; i < strips; ++i) unpack<kPairs>(w, panel + 2 * i, strip(i));
    for (std::int64_t first = 0; first < task.rows; first += kTileRows)
      if (plain(first))
        for (std::int64_t i = 0; i < strips; ++i) tile(task, strip(i), first, panel + 2 * i);
  }
  for (std::int64_t first = 0; first < task.rows; first += kTileRows)
    if (!plain(first))
      kPrefill.pick(Target::avx512)(rows_of(task, first, std::min<std::int64_t>(kTileRows, task.rows - first)), begin,
                                    end);
}

}  // namespace
}  // namespace eadem::kernels::quantized
