#include "eadem/kernels/contraction/scaling.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <algorithm>
#include <array>
#include <utility>

#include "eadem/numerics/contraction.h"

// vdpbf16ps computes fma(a0, b0, fma(a1, b1, c)), slot 1 being the high half: with k there and k + 2 in the low half it
// runs one of the two chains of a bf16 step. It flushes subnormals, so the driver gives it only tiles whose products
// are normal, or are so when scaled; the others go to the same packed operands' widened FMA (scaling.h).

#define EADEM_AVX512BF16 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,fma")))

namespace eadem::kernels::contraction {
namespace {

using numerics::kStepTerms;

constexpr int kRows = 8, kVectors = 2, kLanes = 16, kColumns = kVectors * kLanes;
constexpr int kStepPairs = 16;
constexpr std::int64_t kUnitStride = 8 * kStepPairs + 16;  // as tile-inl.h pads rows of units

template <int rows, int vectors>
EADEM_AVX512BF16 void tile(const void* packed_a, const void* packed_b, std::int64_t terms, const void* left,
                           void* sums) {
  const auto* a = static_cast<const std::uint32_t*>(packed_a);
  const auto* b = static_cast<const std::uint32_t*>(packed_b);
  const auto* before = static_cast<const float*>(left);
  auto* out = static_cast<float*>(sums);
  alignas(64) float even[rows * kColumns];
  for (std::int64_t k = 0; k < terms; k += kStepTerms) {
    const std::int64_t step = std::min(kStepTerms, terms - k);
    const bool join = left && k + kStepTerms >= terms;
    for (int chain = 0; chain < 2; ++chain) {
      __m512 c[rows][vectors];
#pragma GCC unroll 16
      for (int i = 0; i < rows; ++i)
#pragma GCC unroll 2
        for (int j = 0; j < vectors; ++j) c[i][j] = _mm512_setzero_ps();
      const std::uint32_t* unit = a + chain * (kStepPairs / 2);
      const std::uint32_t* row = b + chain * (kStepPairs / 2) * kColumns;
      const std::int64_t pairs = ((step + 1 - chain) / 2 + 1) / 2;
      for (std::int64_t r = 0; r < pairs; ++r, ++unit, row += kColumns) {
        __m512i bs[vectors];
#pragma GCC unroll 2
        for (int j = 0; j < vectors; ++j) bs[j] = _mm512_loadu_si512(row + j * kLanes);
#pragma GCC unroll 16
        for (int i = 0; i < rows; ++i) {
          const __m512i x = _mm512_set1_epi32(static_cast<int>(unit[i * kUnitStride]));
#pragma GCC unroll 2
          for (int j = 0; j < vectors; ++j) c[i][j] = _mm512_dpbf16_ps(c[i][j], (__m512bh)x, (__m512bh)bs[j]);
        }
      }
#pragma GCC unroll 16
      for (int i = 0; i < rows; ++i)
#pragma GCC unroll 2
        for (int j = 0; j < vectors; ++j) {
          const int at = i * kColumns + j * kLanes;
          if (chain == 0) {
            _mm512_store_ps(even + at, c[i][j]);
            continue;
          }
          __m512 v = _mm512_add_ps(_mm512_load_ps(even + at), c[i][j]);
          if (k != 0) v = _mm512_add_ps(_mm512_load_ps(out + at), v);
          if (join) v = _mm512_add_ps(_mm512_load_ps(before + at), v);
          _mm512_store_ps(out + at, v);
        }
    }
    a += kStepPairs;
    b += kStepPairs * kColumns;
  }
}

using TileFn = void (*)(const void*, const void*, std::int64_t, const void*, void*);
template <int... i>
constexpr std::array<TileFn, sizeof...(i)> tile_table(std::integer_sequence<int, i...>) {
  return {&tile<i / kVectors + 1, i % kVectors + 1>...};
}

void any_tile(const void* a, const void* b, int rows, int columns, std::int64_t terms, const void* left, void* out) {
  static constexpr auto table = tile_table(std::make_integer_sequence<int, kRows * kVectors>());
  const int vectors = (columns + kLanes - 1) / kLanes;
  table[static_cast<std::size_t>((rows - 1) * kVectors + vectors - 1)](a, b, terms, left, out);
}

// Lane numbers for permutations of 16-bit lanes.
struct alignas(64) Lanes {
  std::uint16_t at[32];
};
// Of a step's 32 terms: pair p of the even chain, then of the odd, k + 2 low and k high.
constexpr Lanes kStepToPairs = [] {
  Lanes lanes{};
  for (int pair = 0; pair < kStepPairs; ++pair) {
    const int k = pair % 8 * 4 + pair / 8;
    lanes.at[2 * pair] = static_cast<std::uint16_t>(k + 2);
    lanes.at[2 * pair + 1] = static_cast<std::uint16_t>(k);
  }
  return lanes;
}();
// Of two rows of 32 columns (0..31 the one with k + 2, 32..63 the one with k): columns first .. first + 15 as pairs.
constexpr Lanes interleaved(int first) {
  Lanes lanes{};
  for (int n = 0; n < kLanes; ++n) {
    lanes.at[2 * n] = static_cast<std::uint16_t>(first + n);
    lanes.at[2 * n + 1] = static_cast<std::uint16_t>(32 + first + n);
  }
  return lanes;
}
constexpr Lanes kRowsToPairs[kVectors] = {interleaved(0), interleaved(kLanes)};

// The magnitudes seen. Zero wraps to the largest value, so it never is the minimum.
class Seen {
 public:
  EADEM_AVX512BF16 Seen() : least_(_mm512_set1_epi16(-1)), greatest_(_mm512_setzero_si512()) {}
  EADEM_AVX512BF16 void see(__m512i x) {
    const __m512i magnitude = _mm512_and_si512(x, _mm512_set1_epi16(0x7fff));
    least_ = _mm512_min_epu16(least_, _mm512_sub_epi16(magnitude, _mm512_set1_epi16(1)));
    greatest_ = _mm512_max_epu16(greatest_, magnitude);
  }
  EADEM_AVX512BF16 Magnitudes value() const {
    const unsigned least = least_lane(least_),
                   greatest = 0xffff - least_lane(_mm512_xor_si512(greatest_, _mm512_set1_epi16(-1)));
    return {static_cast<std::uint16_t>(std::min<unsigned>(least, Magnitudes::kNoMagnitude - 1) + 1),
            static_cast<std::uint16_t>(greatest)};
  }

 private:
  EADEM_AVX512BF16 static unsigned least_lane(__m512i x) {
    alignas(64) __m256i halves[2];  // by way of memory: gcc 12 takes what the header leaves undefined for a mistake
    _mm512_store_si512(halves, x);
    const __m256i half = _mm256_min_epu16(halves[0], halves[1]);
    const __m128i eighth = _mm_min_epu16(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
    return static_cast<unsigned>(_mm_cvtsi128_si32(_mm_minpos_epu16(eighth))) & 0xffff;
  }
  __m512i least_, greatest_;
};

EADEM_AVX512BF16 Magnitudes pack_a(const Operand& a, int count, std::int64_t terms, void* packed) {
  if (a.term != 1) return pair_engine()->pack_a(a, count, terms, packed);
  const __m512i permutation = _mm512_load_si512(kStepToPairs.at);
  const auto* base = reinterpret_cast<const std::uint16_t*>(a.data);
  auto* out = static_cast<std::uint32_t*>(packed);
  Seen seen;
  for (std::int64_t k = 0; k < terms; k += kStepTerms, base += kStepTerms, out += kStepPairs) {
    const std::int64_t length = std::min(kStepTerms, terms - k);
    const auto mask = static_cast<__mmask32>((std::uint64_t{1} << length) - 1);
    const std::uint16_t* row = base;
    std::uint32_t* to = out;
#pragma GCC unroll 4
    for (int i = 0; i < count; ++i, row += a.row, to += kUnitStride) {
      const __m512i x = _mm512_maskz_loadu_epi16(mask, row);
      seen.see(x);
      _mm512_storeu_si512(to, _mm512_permutexvar_epi16(permutation, x));
    }
  }
  return seen.value();
}

// Columns of four registers to rows, in each 128-bit lane.
EADEM_AVX512BF16 void transpose_lanes(__m512i (&x)[4]) {
  const __m512i a = _mm512_unpacklo_epi32(x[0], x[1]), b = _mm512_unpackhi_epi32(x[0], x[1]);
  const __m512i c = _mm512_unpacklo_epi32(x[2], x[3]), d = _mm512_unpackhi_epi32(x[2], x[3]);
  x[0] = _mm512_unpacklo_epi64(a, c), x[1] = _mm512_unpackhi_epi64(a, c);
  x[2] = _mm512_unpacklo_epi64(b, d), x[3] = _mm512_unpackhi_epi64(b, d);
}

// Stores the 128-bit lanes of x `stride` units apart.
EADEM_AVX512BF16 void store_lanes(__m512i x, std::uint32_t* to, std::int64_t stride) {
  alignas(64) __m256i halves[2];
  _mm512_store_si512(halves, x);
  for (const __m256i& half : halves) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_castsi256_si128(half));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + stride), _mm256_extracti128_si256(half, 1));
    to += 2 * stride;
  }
}

// 32 adjacent rows' term k; zeros past the last. Brings in the next step's line.
EADEM_AVX512BF16 __m512i term_of(const std::uint16_t* base, std::int64_t stride, std::int64_t k, std::int64_t terms) {
  if (k >= terms) return _mm512_setzero_si512();
  _mm_prefetch(reinterpret_cast<const char*>(base + (k + kStepTerms) * stride), _MM_HINT_T1);
  return _mm512_loadu_si512(base + k * stride);
}

// A k of four panels is one register, a panel in each of its 128-bit lanes; four pairs at a time become rows.
EADEM_AVX512BF16 Magnitudes pack_together(const Operand& a, std::int64_t terms, void* packed, std::size_t panel_bytes) {
  static_assert(kTogether * kRows == 32);
  const auto* base = reinterpret_cast<const std::uint16_t*>(a.data);
  auto* out = static_cast<std::uint32_t*>(packed);
  const auto panel_units = static_cast<std::int64_t>(panel_bytes / sizeof(*out));
  Seen seen;
  for (std::int64_t first = 0; first < terms; first += kStepTerms)
    for (int pair = 0; pair < kStepPairs; pair += 4, out += 4) {
      __m512i upper[4], lower[4];
#pragma GCC unroll 4
      for (int p = 0; p < 4; ++p) {
        const std::int64_t k = first + (pair + p) % 8 * 4 + (pair + p) / 8;
        const __m512i high = term_of(base, a.term, k, terms), low = term_of(base, a.term, k + 2, terms);
        seen.see(high);
        seen.see(low);
        upper[p] = _mm512_unpacklo_epi16(low, high), lower[p] = _mm512_unpackhi_epi16(low, high);
      }
      transpose_lanes(upper), transpose_lanes(lower);
#pragma GCC unroll 4
      for (int row = 0; row < 4; ++row) {
        store_lanes(upper[row], out + row * kUnitStride, panel_units);
        store_lanes(lower[row], out + (row + 4) * kUnitStride, panel_units);
      }
    }
  return seen.value();
}

// Whole panels of adjacent columns two rows at a time; everything else by the general way.
EADEM_AVX512BF16 void pack_b(const Operand& b, std::int64_t count, std::int64_t terms, void* packed,
                             std::size_t panel_bytes, Magnitudes* magnitudes) {
  const std::int64_t whole = b.row == 1 && terms % kStepTerms == 0 ? count / kColumns : 0;
  const __m512i first_half = _mm512_load_si512(kRowsToPairs[0].at), second_half = _mm512_load_si512(kRowsToPairs[1].at);
  const auto* base = reinterpret_cast<const std::uint16_t*>(b.data);
  for (std::int64_t first = 0; whole > 0 && first < terms; first += kStepTerms) {
    auto* panel = static_cast<std::byte*>(packed);
    for (std::int64_t j = 0; j < whole; ++j, panel += panel_bytes) {
      auto* out = reinterpret_cast<std::uint32_t*>(panel) + first / kStepTerms * kStepPairs * kColumns;
      Seen seen;
      // Four panels ahead, on into the next step.
      const std::int64_t ahead = (j + 4) % whole * kColumns + ((j + 4) / whole * kStepTerms) * b.term - j * kColumns;
      for (std::int64_t pair = 0; pair < kStepPairs; ++pair, out += kColumns) {
        const std::uint16_t* high = base + j * kColumns + (first + pair % 8 * 4 + pair / 8) * b.term;
        const std::uint16_t* low = high + 2 * b.term;
        _mm_prefetch(reinterpret_cast<const char*>(high + ahead), _MM_HINT_T0);
        _mm_prefetch(reinterpret_cast<const char*>(low + ahead), _MM_HINT_T0);
        const __m512i x = _mm512_loadu_si512(low), y = _mm512_loadu_si512(high);
        seen.see(x);
        seen.see(y);
        _mm512_storeu_si512(out, _mm512_permutex2var_epi16(x, first_half, y));
        _mm512_storeu_si512(out + kLanes, _mm512_permutex2var_epi16(x, second_half, y));
      }
      if (first == 0) magnitudes[j] = {};
      magnitudes[j].join(seen.value());
    }
  }
  if (whole * kColumns < count) {
    const Operand rest{b.data + whole * kColumns * b.row * static_cast<std::int64_t>(sizeof(std::uint16_t)), b.row,
                       b.term};
    pair_engine()->pack_b(rest, count - whole * kColumns, terms,
                          static_cast<std::byte*>(packed) + static_cast<std::size_t>(whole) * panel_bytes, panel_bytes,
                          magnitudes + whole);
  }
}

// vcvtne2ps2bf16 rounds to nearest even but flushes subnormals and keeps NaN's payloads: tiles that hold such values,
// or a -0, are done again the general way, which does narrow tiles and other destinations, too.
EADEM_AVX512BF16 void finish(const void* sums, std::int64_t stride, int rows, int columns, const Destination& c) {
  constexpr int special = 0x01 | 0x04 | 0x20;  // quiet NaN (sums hold no other), -0, subnormal
  const int whole = c.dtype == DType::bf16 && !c.bias && c.column == 1 ? columns / kColumns * kColumns : 0;
  __mmask16 found = 0;
  for (int n = 0; n < whole; n += kColumns) {
    const float* in = static_cast<const float*>(sums) + n;
    std::uint16_t* out = reinterpret_cast<std::uint16_t*>(c.data) + n;
#pragma GCC unroll 2
    for (int i = 0; i < rows; ++i, in += stride, out += c.row) {
      const __m512 first = _mm512_loadu_ps(in), second = _mm512_loadu_ps(in + kLanes);
      found = _kor_mask16(found, _mm512_fpclass_ps_mask(first, special));
      found = _kor_mask16(found, _mm512_fpclass_ps_mask(second, special));
      _mm512_storeu_si512(out, (__m512i)_mm512_cvtne2ps_pbh(second, first));
    }
  }
  if (found != 0) [[unlikely]]
    return pair_engine()->finish(sums, stride, rows, columns, c);
  if (whole == columns) return;
  Destination rest = c;
  rest.data += whole * c.column * static_cast<std::int64_t>(size_of(c.dtype));
  if (c.bias) rest.bias += whole * c.bias_column * static_cast<std::int64_t>(sizeof(float));
  pair_engine()->finish(static_cast<const float*>(sums) + whole, stride, rows, columns - whole, rest);
}

}  // namespace

const Engine* avx512bf16_engine() {
  static const Engine engine = [] {
    Engine e = *pair_engine();
    e.name = "vdpbf16ps", e.target = Target::avx512bf16;
    static constexpr char form = 0;
    e.form = &form, e.group = 2;
    e.tile_any = e.tile, e.tile = &any_tile, e.pack_a = &pack_a, e.pack_together = &pack_together, e.pack_b = &pack_b;
    e.finish = &finish, e.scale = &scale_bf16, e.unscale = &unscale_sums;
    return e;
  }();
  return &engine;
}

}  // namespace eadem::kernels::contraction

#else

namespace eadem::kernels::contraction {
const Engine* avx512bf16_engine() {
  return nullptr;
}
}  // namespace eadem::kernels::contraction

#endif
