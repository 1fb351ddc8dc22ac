#include "eadem/kernels/contraction/engine.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <algorithm>
#include <array>
#include <utility>

#include "eadem/numerics/contraction.h"

// vdpbf16ps computes fma(a0, b0, fma(a1, b1, c)), slot 1 being the high half: with k there and k + 2 in the low half it
// runs one of the two chains of a bf16 step. It flushes subnormals, so the driver gives it only tiles whose products
// are normal; the others go to the same packed operands' widened FMA.

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

// A step's 32 consecutive terms become its 16 pairs by one permutation of 16-bit lanes.
EADEM_AVX512BF16 Smallest pack_a(const Operand& a, int count, std::int64_t terms, void* packed) {
  if (a.term != 1) return pair_engine()->pack_a(a, count, terms, packed);
  alignas(64) std::uint16_t order[32];
  for (int pair = 0; pair < 16; ++pair) {
    const int k = pair % 8 * 4 + pair / 8;
    order[2 * pair] = static_cast<std::uint16_t>(k + 2);
    order[2 * pair + 1] = static_cast<std::uint16_t>(k);
  }
  const __m512i permutation = _mm512_load_si512(order), magnitude = _mm512_set1_epi16(0x7fff);
  const __m512i one = _mm512_set1_epi16(1);
  __m512i least = _mm512_set1_epi16(-1);
  auto* out = static_cast<std::uint32_t*>(packed);
  for (int i = 0; i < count; ++i, out += kUnitStride) {
    const std::uint16_t* row = reinterpret_cast<const std::uint16_t*>(a.data) + i * a.row;
    for (std::int64_t k = 0; k < terms; k += kStepTerms) {
      const std::int64_t length = std::min(kStepTerms, terms - k);
      const auto mask = static_cast<__mmask32>((std::uint64_t{1} << length) - 1);
      const __m512i x = _mm512_permutexvar_epi16(permutation, _mm512_maskz_loadu_epi16(mask, row + k));
      least = _mm512_min_epu16(least, _mm512_sub_epi16(_mm512_and_si512(x, magnitude), one));
      _mm512_storeu_si512(out + k / 2, x);
    }
  }
  alignas(64) std::uint16_t each[32];
  _mm512_store_si512(each, least);
  unsigned result = kNoneSmall - 1;
  for (const std::uint16_t x : each) result = std::min<unsigned>(result, x);
  return static_cast<Smallest>(result + 1);
}

}  // namespace

const Engine* avx512bf16_engine() {
  static const Engine engine = [] {
    Engine e = *pair_engine();
    e.name = "vdpbf16ps", e.target = Target::avx512bf16;
    static constexpr char form = 0;
    e.form = &form;
    e.tile_any = e.tile, e.tile = &any_tile, e.pack_a = &pack_a;
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
