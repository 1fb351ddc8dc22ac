// The products of bf16 attention with AVX512-BF16. vdpbf16ps adds, in each lane, first the product of the odd slots to
// the sum and then that of the even slots, each as a fused multiply-add. With term k in the odd slot and k + 2 in the
// even slot it runs one of the two chains of a 16-bit step, so terms come in quads: a word e = (k, k + 2) for the chain
// over even k, a word o = (k + 1, k + 3) for the odd one.

#include "eadem/kernels/attention/tile.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <algorithm>
#include <cstring>

#define EADEM_AVX512_BF16 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,avx2,fma")))

namespace eadem::kernels {
namespace {

using namespace attention_detail;
using std::uint16_t;
using std::uint32_t;

constexpr std::int64_t kStepQuads = 8;

struct Words {
  const uint32_t* a;
  std::int64_t lda;
  const uint32_t* b;
  std::int64_t ldb;
  float* c;
  std::int64_t ldc;
  std::int64_t first, end;  // quads
  bool accumulate;
};

EADEM_AVX512_BF16 inline __m512bh words(__m512i x) {
  return reinterpret_cast<__m512bh>(x);
}

template <int kRows, int kVectors>
EADEM_AVX512_BF16 inline void steps(const Words& w) {
  bool accumulate = w.accumulate;
  for (std::int64_t q = w.first; q < w.end; q += kStepQuads) {
    const std::int64_t end = std::min(w.end, q + kStepQuads);
    __m512 even[kRows][kVectors], odd[kRows][kVectors];
    for (int r = 0; r < kRows; ++r)
      for (int c = 0; c < kVectors; ++c) even[r][c] = odd[r][c] = _mm512_setzero_ps();
    for (std::int64_t k = q; k < end; ++k) {
      const uint32_t* b = w.b + k * 2 * w.ldb;
      __m512bh b_even[kVectors], b_odd[kVectors];
      for (int c = 0; c < kVectors; ++c) b_even[c] = words(_mm512_loadu_si512(b + c * 16));
      for (int c = 0; c < kVectors; ++c) b_odd[c] = words(_mm512_loadu_si512(b + w.ldb + c * 16));
      for (int r = 0; r < kRows; ++r) {
        const uint32_t* a = w.a + r * w.lda + k * 2;
        const __m512bh a_even = words(_mm512_set1_epi32(static_cast<int>(a[0])));
        const __m512bh a_odd = words(_mm512_set1_epi32(static_cast<int>(a[1])));
        for (int c = 0; c < kVectors; ++c) even[r][c] = _mm512_dpbf16_ps(even[r][c], a_even, b_even[c]);
        for (int c = 0; c < kVectors; ++c) odd[r][c] = _mm512_dpbf16_ps(odd[r][c], a_odd, b_odd[c]);
      }
    }
    for (int r = 0; r < kRows; ++r)
      for (int c = 0; c < kVectors; ++c) {
        float* to = w.c + r * w.ldc + c * 16;
        const __m512 step = _mm512_add_ps(even[r][c], odd[r][c]);
        _mm512_storeu_ps(to, accumulate ? _mm512_add_ps(_mm512_loadu_ps(to), step) : step);
      }
    accumulate = true;
  }
}

template <int kRows, int kVectors>
EADEM_AVX512_BF16 void rows_by_columns(Words w, std::int64_t columns) {
  for (; columns >= kVectors * 16; columns -= kVectors * 16, w.b += kVectors * 16, w.c += kVectors * 16)
    steps<kRows, kVectors>(w);
  for (; columns > 0; columns -= 16, w.b += 16, w.c += 16) steps<kRows, 1>(w);
}

void product(const uint32_t* a, std::int64_t lda, const uint32_t* b, std::int64_t ldb, std::int64_t first_quad,
             std::int64_t end_quad, std::int64_t rows, std::int64_t columns, float* c, std::int64_t ldc,
             bool accumulate) {
  Words w{a, lda, b, ldb, c, ldc, first_quad, end_quad, accumulate};
  for (; rows >= 4; rows -= 4, w.a += 4 * lda, w.c += 4 * ldc) rows_by_columns<4, 2>(w, columns);
  for (; rows >= 2; rows -= 2, w.a += 2 * lda, w.c += 2 * ldc) rows_by_columns<2, 4>(w, columns);
  if (rows == 1) rows_by_columns<1, 4>(w, columns);
}

// Puts each quad of bf16 (0 1 2 3) into the words' order (2 0 3 1).
EADEM_AVX512_BF16 inline __m256i quads_of(__m256bh x) {
  const __m128i order = _mm_setr_epi8(4, 5, 0, 1, 6, 7, 2, 3, 12, 13, 8, 9, 14, 15, 10, 11);
  return _mm256_shuffle_epi8(reinterpret_cast<__m256i>(x), _mm256_broadcastsi128_si256(order));
}

EADEM_AVX512_BF16 void split(float* p, std::int64_t lo, std::int64_t hi) {
  alignas(64) uint32_t both[kKeys];
  for (std::int64_t j = lo; j < hi; j += 16) {
    const __m512 x = _mm512_load_ps(p + j);
    const __m256bh high = _mm512_cvtneps_pbh(x);
    const __m512i widened = _mm512_slli_epi32(_mm512_cvtepu16_epi32(reinterpret_cast<__m256i>(high)), 16);
    const __m256bh low = _mm512_cvtneps_pbh(_mm512_sub_ps(x, _mm512_castsi512_ps(widened)));
    _mm256_store_si256(reinterpret_cast<__m256i*>(both + j / 2), quads_of(high));
    _mm256_store_si256(reinterpret_cast<__m256i*>(both + (kKeys + j) / 2), quads_of(low));
  }
  std::memcpy(p + lo / 2, both + lo / 2, static_cast<std::size_t>(hi - lo) * 2);
  std::memcpy(p + (kKeys + lo) / 2, both + (kKeys + lo) / 2, static_cast<std::size_t>(hi - lo) * 2);
}

constexpr uint32_t word(uint32_t first, uint32_t second) {
  return second | first << 16;
}

// The least non-zero and the greatest magnitude of the elements seen, by lanes.
struct Magnitudes {
  __m512i least;  // less one, so that zero becomes the greatest of all
  __m512i greatest;
};
EADEM_AVX512_BF16 inline Magnitudes nothing_seen() {
  return {_mm512_set1_epi16(-1), _mm512_setzero_si512()};
}
EADEM_AVX512_BF16 inline void note(Magnitudes& seen, __m512i x) {
  const __m512i magnitude = _mm512_and_si512(x, _mm512_set1_epi16(0x7fff));
  seen.least = _mm512_min_epu16(seen.least, _mm512_sub_epi16(magnitude, _mm512_set1_epi16(1)));
  seen.greatest = _mm512_max_epu16(seen.greatest, magnitude);
}
EADEM_AVX512_BF16 void note(Magnitudes& seen, const uint16_t* x, std::int64_t count) {
  for (; count >= 32; count -= 32, x += 32) note(seen, _mm512_loadu_si512(x));
  if (count > 0) note(seen, _mm512_maskz_loadu_epi16((1u << count) - 1, x));
}
EADEM_AVX512_BF16 int least_exponent(const Magnitudes& seen) {
  alignas(64) uint16_t lanes[32];
  _mm512_store_si512(lanes, seen.least);
  const uint16_t least = *std::min_element(lanes, lanes + 32);
  return least == 0xffff ? 255 : (least + 1) >> 7;
}
EADEM_AVX512_BF16 bool finite(const Magnitudes& seen) {
  return _mm512_cmpge_epu16_mask(seen.greatest, _mm512_set1_epi16(0x7f80)) == 0;
}

const uint16_t* contiguous(const uint16_t* from, std::int64_t stride, std::int64_t count, uint16_t* room) {
  if (stride == 1) return from;
  for (std::int64_t i = 0; i < count; ++i) room[i] = from[i * stride];
  return room;
}

// quads[n] = the two words of elements 4n .. 4n + 3 of a row; a short last quad is filled with zeros.
EADEM_AVX512_BF16 void row_words(const uint16_t* x, std::int64_t count, uint32_t* out) {
  std::int64_t n = 0;
  for (; (n + 1) * 4 <= count; ++n) {
    out[2 * n] = word(x[4 * n], x[4 * n + 2]);
    out[2 * n + 1] = word(x[4 * n + 1], x[4 * n + 3]);
  }
  if (n * 4 == count) return;
  uint16_t last[4] = {};
  std::copy(x + 4 * n, x + count, last);
  out[2 * n] = word(last[0], last[2]);
  out[2 * n + 1] = word(last[1], last[3]);
}

// What packing one block needs to know.
struct Source {
  const Problem& g;
  const BlockPlace& place;
  std::int64_t lo, hi;  // the keys that exist
  std::int64_t page;    // or -1
  uint16_t* room;       // 5 rows

  const uint16_t* dense(const TensorView& x, std::int64_t j, uint16_t* to) const {
    const uint16_t* from =
        x.as<uint16_t>() + place.b * x.strides[0] + place.head * x.strides[1] + (place.first_key + j) * x.strides[2];
    return contiguous(from, x.strides[3], g.head_size, to);
  }
  std::int64_t key_words() const { return (g.head_size + 1) / 2 * kKeys; }
  std::int64_t value_words() const { return kKeys / 2 * g.head_size; }
  const uint32_t* page_keys() const { return g.x.k.as<uint32_t>() + (page * g.kv_heads + place.head) * key_words(); }
  const uint32_t* page_values() const {
    return g.x.v.as<uint32_t>() + (page * g.kv_heads + place.head) * value_words();
  }
  // How far the next block's page lies from this one's, in words; zero when there is none.
  std::int64_t pages_ahead() const { return place.next_page < 0 ? 0 : (place.next_page - page) * g.kv_heads; }
  std::int64_t next_keys() const { return pages_ahead() * key_words(); }
  std::int64_t next_values() const { return pages_ahead() * value_words(); }
};

// From two rows of pairs (0 1) and (2 3), the words (0 2) and (1 3); meanwhile asks for the same rows of the next
// block.
EADEM_AVX512_BF16 void join_pairs(const uint32_t* x, const uint32_t* y, std::int64_t count, uint32_t* even,
                                  uint32_t* odd, Magnitudes& seen, std::int64_t next) {
  for (std::int64_t i = 0; i < count; i += 16) {
    const __mmask16 lanes = count - i >= 16 ? 0xffff : static_cast<__mmask16>((1u << (count - i)) - 1);
    const __m512i first = _mm512_maskz_loadu_epi32(lanes, x + i), second = _mm512_maskz_loadu_epi32(lanes, y + i);
    note(seen, first);
    note(seen, second);
    _mm512_mask_storeu_epi32(even + i, lanes,
                             _mm512_mask_blend_epi16(0x55555555, _mm512_slli_epi32(first, 16), second));
    _mm512_mask_storeu_epi32(odd + i, lanes, _mm512_mask_blend_epi16(0xaaaaaaaa, _mm512_srli_epi32(second, 16), first));
    if (next == 0) continue;
    _mm_prefetch(reinterpret_cast<const char*>(x + i + next), _MM_HINT_T1);
    _mm_prefetch(reinterpret_cast<const char*>(y + i + next), _MM_HINT_T1);
  }
}

EADEM_AVX512_BF16 void pack_keys(const Source& from, uint32_t* k, Magnitudes& seen) {
  const std::int64_t head_size = from.g.head_size, quads = (head_size + 3) / 4, panel = from.g.key_panel;
  if (from.lo > 0 || from.hi < kKeys) std::fill(k, k + quads * 2 * kKeys, 0u);
  if (from.page < 0) {
    uint32_t* row = reinterpret_cast<uint32_t*>(from.room + from.g.columns);
    for (std::int64_t j = from.lo; j < from.hi; ++j) {
      const uint16_t* x = from.dense(from.g.x.k, j, from.room);
      note(seen, x, head_size);
      row_words(x, head_size, row);
      uint32_t* const to = k + column_offset(j, panel, 2 * quads);
      for (std::int64_t n = 0; n < 2 * quads; ++n) to[n * panel] = row[n];
    }
    return;
  }
  alignas(64) static constexpr uint32_t kZeros[kKeys] = {};
  const uint32_t* pairs = from.page_keys();
  for (std::int64_t first = from.lo; first < from.hi;) {
    const std::int64_t end = std::min(from.hi, first / panel * panel + panel), count = end - first;
    for (std::int64_t n = 0; n < quads; ++n) {
      const uint32_t* x = pairs + 2 * n * kKeys + first;
      const bool half = 2 * n + 1 == (head_size + 1) / 2;
      const uint32_t* y = half ? kZeros : x + kKeys;
      uint32_t* even = k + column_offset(first, panel, 2 * quads) + 2 * n * panel;
      join_pairs(x, y, count, even, even + panel, seen, half ? 0 : from.next_keys());
    }
    first = end;
  }
}

EADEM_AVX512_BF16 void pack_values(const Source& from, uint32_t* v, Magnitudes& seen) {
  const std::int64_t head_size = from.g.head_size, columns = from.g.columns, panel = from.g.value_panel;
  for (std::int64_t n = 0; n < kKeys / 4; ++n) {
    const bool whole = from.lo <= 4 * n && 4 * n + 4 <= from.hi;
    const uint16_t* rows[4];
    for (std::int64_t i = 0; i < 4 && !(whole && from.page >= 0); ++i) {
      const std::int64_t j = 4 * n + i;
      uint16_t* room = from.room + i * columns;
      rows[i] = room;
      if (j < from.lo || j >= from.hi) {
        std::fill(room, room + head_size, uint16_t{0});
      } else if (from.page < 0) {
        rows[i] = from.dense(from.g.x.v, j, room);
      } else {
        const uint32_t* pairs = from.page_values() + j / 2 * head_size;
        for (std::int64_t d = 0; d < head_size; ++d) room[d] = static_cast<uint16_t>(pairs[d] >> (j % 2 * 16));
      }
    }
    for (std::int64_t first = 0; first < columns; first += panel) {
      const std::int64_t count = std::min(panel, head_size - first), width = std::min(panel, columns - first);
      uint32_t* even = v + column_offset(first, panel, kKeys / 2) + 2 * n * panel;
      uint32_t* odd = even + panel;
      if (whole && from.page >= 0) {
        const uint32_t* x = from.page_values() + 2 * n * head_size + first;
        join_pairs(x, x + head_size, count, even, odd, seen, from.next_values());
      } else {
        for (std::int64_t d = 0; d < count; ++d) {
          even[d] = word(rows[0][first + d], rows[2][first + d]);
          odd[d] = word(rows[1][first + d], rows[3][first + d]);
        }
        note(seen, reinterpret_cast<const uint16_t*>(even), 2 * count);
        note(seen, reinterpret_cast<const uint16_t*>(odd), 2 * count);
      }
      std::fill(even + count, even + width, 0u);
      std::fill(odd + count, odd + width, 0u);
    }
  }
}

EADEM_AVX512_BF16 bool pack(const Problem& g, const BlockPlace& place, PackedBlock& block) {
  if (g.head_size > 256) return false;  // the tree over blocks of 256 is the wide body's
  const std::int64_t lo = std::clamp<std::int64_t>(std::max<std::int64_t>(place.start, 0) - place.first_key, 0, kKeys);
  const std::int64_t hi = std::clamp<std::int64_t>(place.length - place.first_key, lo, kKeys);
  alignas(64) uint16_t room[5 * 256];
  const Source from{g, place, lo, hi, g.x.pages.data ? page_of(g, place.b, place.first_key) : -1, room};
  Magnitudes keys = nothing_seen(), values = nothing_seen();
  pack_keys(from, static_cast<uint32_t*>(block.k), keys);
  pack_values(from, static_cast<uint32_t*>(block.v), values);
  block.paired = true;
  block.finite = finite(values);
  block.least_exponent = least_exponent(keys);
  return block.finite && least_exponent(values) >= kLeastValueExponent && block.least_exponent > 0;
}

EADEM_AVX512_BF16 void pack_queries(const Problem& g, Tile& t) {
  if (g.head_size > 256) return;
  const TensorView& q = g.x.q;
  const std::int64_t quads = (g.head_size + 3) / 4;
  uint16_t room[256];
  Magnitudes seen = nothing_seen();
  for (std::int64_t row = 0; row < t.rows; ++row) {
    const std::int64_t h = t.head * g.group + (t.first_row + row) / g.queries, i = (t.first_row + row) % g.queries;
    const uint16_t* from = q.as<uint16_t>() + t.b * q.strides[0] + h * q.strides[1] + i * q.strides[2];
    const uint16_t* x = contiguous(from, q.strides[3], g.head_size, room);
    note(seen, x, g.head_size);
    row_words(x, g.head_size, t.pairs + row * quads * 2);
  }
  // A subnormal may meet any key: then no block will do.
  const int least = least_exponent(seen);
  t.least_exponent = least > 0 ? least : -kLeastExponents;
}

constexpr PairedBody kBody{pack, pack_queries, product, split};

}  // namespace

const PairedBody* attention_detail::paired_body() {
  return &kBody;
}

}  // namespace eadem::kernels

#else

namespace eadem::kernels {
const attention_detail::PairedBody* attention_detail::paired_body() {
  return nullptr;
}
}  // namespace eadem::kernels

#endif
