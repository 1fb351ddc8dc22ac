#include "eadem/kernels/contraction/amx.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <algorithm>
#include <cstring>

#include "eadem/kernels/amx_tiles.h"

#define EADEM_AMX __attribute__((target("amx-tile,amx-bf16")))
#define EADEM_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,fma")))

namespace eadem::kernels::contraction {
namespace {

using numerics::kStepTerms;

// Registers 0..3 are C (row half, column half), 4 and 5 the halves of a, 6 and 7 those of b.
EADEM_AMX void block_sums(const std::uint16_t* a, const std::uint16_t* b, std::int64_t steps, bool two_rows,
                          bool two_columns, float* out) {
  TileCall::configure_tiles();
  constexpr std::int64_t half = kTileElements16, step = 2 * half;
  constexpr int row_bytes = 2 * kTileRows * sizeof(float);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  if (two_rows && two_columns) {
    for (std::int64_t s = 0; s < steps; ++s, a += step, b += step) {
      _tile_loadd(4, a, 64);
      _tile_loadd(6, b, 64);
      _tile_loadd(7, b + half, 64);
      _tile_loadd(5, a + half, 64);
      _tile_dpbf16ps(0, 4, 6);
      _tile_dpbf16ps(1, 4, 7);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
  } else {
    for (std::int64_t s = 0; s < steps; ++s, a += step, b += step) {
      _tile_loadd(4, a, 64);
      _tile_loadd(6, b, 64);
      _tile_dpbf16ps(0, 4, 6);
      if (two_columns) {
        _tile_loadd(7, b + half, 64);
        _tile_dpbf16ps(1, 4, 7);
      }
      if (two_rows) {
        _tile_loadd(5, a + half, 64);
        _tile_dpbf16ps(2, 5, 6);
      }
    }
  }
  _tile_stored(0, out, row_bytes);
  if (two_columns) _tile_stored(1, out + kTileRows, row_bytes);
  if (two_rows) _tile_stored(2, out + 2 * kTileRows * kTileRows, row_bytes);
  if (two_rows && two_columns) _tile_stored(3, out + 2 * kTileRows * kTileRows + kTileRows, row_bytes);
}

// The magnitudes seen. Zero wraps to the largest value, so it never is the minimum.
struct Seen {
  std::uint16_t least = 0xffff, greatest = 0;
  void see(std::uint16_t x) {
    const auto magnitude = static_cast<std::uint16_t>(x & 0x7fff);
    least = std::min(least, static_cast<std::uint16_t>(magnitude - 1));
    greatest = std::max(greatest, magnitude);
  }
  Magnitudes value() const {
    return {static_cast<std::uint16_t>(std::min<unsigned>(least, Magnitudes::kNoMagnitude - 1) + 1), greatest};
  }
};

}  // namespace

// Rows past `count` and terms past `terms` are zeros: they lie in the registers, too.
EADEM_AVX512 Magnitudes amx_pack_a(const Operand& a, int count, std::int64_t terms, void* packed) {
  auto* out = static_cast<std::uint16_t*>(packed);
  Seen seen;
  for (std::int64_t first = 0; first < terms; first += kStepTerms) {
    const auto length = static_cast<int>(std::min(kStepTerms, terms - first));
    for (int i = 0; i < 2 * kTileRows; ++i, out += kStepTerms) {
      const int used = i < count ? length : 0;
      const std::uint16_t* row = reinterpret_cast<const std::uint16_t*>(a.data) + i * a.row + first * a.term;
      if (used > 0 && a.term == 1)
        std::memcpy(out, row, static_cast<std::size_t>(used) * sizeof(*out));
      else
        for (int k = 0; k < used; ++k) out[k] = row[k * a.term];
      for (int k = used; k < kStepTerms; ++k) out[k] = 0;
      for (int k = 0; k < kStepTerms; ++k) seen.see(out[k]);
    }
  }
  return seen.value();
}

EADEM_AVX512 void amx_pack_b(const Operand& b, std::int64_t count, std::int64_t terms, void* packed,
                             std::size_t panel_bytes, Magnitudes* magnitudes) {
  const auto* base = reinterpret_cast<const std::uint16_t*>(b.data);
  for (std::int64_t first = 0; first < terms; first += kStepTerms) {
    const std::int64_t length = std::min(kStepTerms, terms - first);
    for (std::int64_t n0 = 0; n0 < count; n0 += 2 * kTileRows) {
      const std::int64_t panel = n0 / (2 * kTileRows);
      auto* out = reinterpret_cast<std::uint16_t*>(static_cast<std::byte*>(packed) +
                                                   static_cast<std::size_t>(panel) * panel_bytes) +
                  first / kStepTerms * 2 * kTileElements16;
      Seen seen;
      for (std::int64_t column = n0; column < n0 + 2 * kTileRows; column += kTileRows)
        for (std::int64_t k = 0; k < kStepTerms; k += 2, out += 2 * kTileRows) {
          const std::int64_t used = std::clamp<std::int64_t>(k < length ? count - column : 0, 0, kTileRows);
          const std::uint16_t* even = base + column * b.row + (first + k) * b.term;
          const bool both = k + 1 < length;
          for (std::int64_t n = 0; n < used; ++n) {
            out[2 * n] = even[n * b.row];
            out[2 * n + 1] = both ? even[n * b.row + b.term] : std::uint16_t{0};
          }
          for (std::int64_t n = 2 * used; n < 2 * kTileRows; ++n) out[n] = 0;
          for (std::int64_t n = 0; n < 2 * kTileRows; ++n) seen.see(out[n]);
        }
      if (first == 0) magnitudes[panel] = {};
      magnitudes[panel].join(seen.value());
    }
  }
}

EADEM_AVX512 void amx_tile_any(const void* packed_a, const void* packed_b, int rows, int columns, std::int64_t terms,
                               const void* left, void* out) {
  constexpr int group = 8;  // rows at a time
  const std::int64_t steps = (terms + kStepTerms - 1) / kStepTerms;
  const __m512i high = _mm512_set1_epi32(static_cast<int>(0xffff0000u));
  for (int i0 = 0; i0 < rows; i0 += group)
    for (int column = 0; column < columns; column += kTileRows) {
      __m512 block[group];
      for (int i = 0; i < group; ++i) block[i] = _mm512_setzero_ps();
      for (std::int64_t s = 0; s < steps; ++s) {
        const auto* a = static_cast<const std::uint32_t*>(packed_a) + (s * 2 * kTileRows + i0) * kTileRows;
        const auto* b = static_cast<const std::uint32_t*>(packed_b) + (s * 2 * kTileRows + column) * kTileRows;
        __m512 even[group], odd[group];
        for (int i = 0; i < group; ++i) even[i] = odd[i] = _mm512_setzero_ps();
        for (int pair = 0; pair < kTileRows; ++pair) {
          const __m512i y = _mm512_loadu_si512(b + pair * kTileRows);
          const __m512 y_even = _mm512_castsi512_ps(_mm512_slli_epi32(y, 16));
          const __m512 y_odd = _mm512_castsi512_ps(_mm512_and_si512(y, high));
          for (int i = 0; i < group; ++i) {
            const __m512i x = _mm512_set1_epi32(static_cast<int>(a[i * kTileRows + pair]));
            even[i] = _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_slli_epi32(x, 16)), y_even, even[i]);
            odd[i] = _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_and_si512(x, high)), y_odd, odd[i]);
          }
        }
        for (int i = 0; i < group; ++i) block[i] = _mm512_add_ps(block[i], _mm512_add_ps(even[i], odd[i]));
      }
      for (int i = 0; i < group; ++i) {
        const int at = (i0 + i) * 2 * kTileRows + column;
        if (left) block[i] = _mm512_add_ps(_mm512_load_ps(static_cast<const float*>(left) + at), block[i]);
        _mm512_store_ps(static_cast<float*>(out) + at, block[i]);
      }
    }
}

const Engine* amx_engine() {
  static const Engine engine = make_amx_engine<&block_sums>();
  return &engine;
}

}  // namespace eadem::kernels::contraction

#else

namespace eadem::kernels::contraction {
const Engine* amx_engine() {
  return nullptr;
}
}  // namespace eadem::kernels::contraction

#endif
