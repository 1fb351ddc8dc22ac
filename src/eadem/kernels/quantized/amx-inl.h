#pragma once

// bf16 x on CPUs with AMX: tdpbf16ps adds a whole step of 32 columns, its even and its odd chain, to a tile of Q_g
// (numerics.md section 4); scales are applied by AVX-512 when a group is complete. Tiles flush subnormals: rows of x
// where one could arise go the way of AVX-512. What uses the instruction is one function, so that a test can run all
// the rest on CPUs without AMX, with the instruction's definition in its place.

#include "eadem/kernels/quantized/pairs-inl.h"

namespace eadem::kernels::quantized {
namespace {

inline constexpr int kTileRows = 32;  // two tiles of 16 rows by the two panels of a strip
inline constexpr int kSums = kTileRows * 2;

// Q_g of 32 rows, their pairs `x_stride` words apart, and 32 columns of the result to `out`, [2 row tiles][2
// panels][16] [16]: `steps` steps of codes [16 pairs][2 panels][16].
using GroupProduct = void (*)(const std::uint32_t* x, std::ptrdiff_t x_stride, const std::uint32_t* codes, int steps,
                              float* out);

// sums [2 row tiles][2 panels][16][16] += t_g.
EADEM_BF16 void add_group(const Task& task, const Strip& strip, std::int64_t first, std::int64_t group, const float* q,
                          float* sums) {
  const bool symmetric = task.w->format.symmetric;
  for (int panel = 0; panel < 2; ++panel) {
    const __m512 s = _mm512_load_ps(strip.scales + group * 32 + panel * 16);
    const __m512 b = _mm512_load_ps(strip.biases + group * 32 + panel * 16);
    for (int r = 0; r < kTileRows; ++r) {
      const int at = (r / 16 * 2 + panel) * 256 + r % 16 * 16;
      const __m512 codes = _mm512_load_ps(q + at);
      const __m512 t =
          symmetric
              ? _mm512_mul_ps(s, codes)
              : _mm512_fmadd_ps(s, codes,
                                _mm512_mul_ps(b, _mm512_set1_ps(task.sums[(first + r) * task.sums_stride + group])));
      _mm512_store_ps(sums + at, _mm512_add_ps(_mm512_load_ps(sums + at), t));
    }
  }
}

// nodes[depth - 2] += nodes[depth - 1].
EADEM_BF16 void fold(float* nodes, int depth) {
  float *to = nodes + (depth - 2) * kSums * 16, *from = to + kSums * 16;
  for (int i = 0; i < kSums * 16; i += 16)
    _mm512_store_ps(to + i, _mm512_add_ps(_mm512_load_ps(to + i), _mm512_load_ps(from + i)));
}

template <GroupProduct group_product>
EADEM_BF16 void multiply(const Task& task, const Strip& strip, std::int64_t first, std::int64_t panel) {
  const PackedQuantized& w = *task.w;
  const std::ptrdiff_t x_stride = task.x_stride / 2;
  const std::int64_t groups_of_block = 256 / w.format.group;
  alignas(64) float q[kSums * 16];
  // The binary counter of section 4.3: nodes[level] are sums of the whole tile; K < 2^31, but only levels used are
  // touched.
  auto* const nodes = static_cast<float*>(scratch(0, 24 * sizeof q));
  int depth = 0;
  std::uint32_t blocks = 0;
  for (std::int64_t group = 0; group < w.groups(); ++group) {
    if (group % groups_of_block == 0) {
      if (group) {
        for (std::uint32_t count = blocks++; count & 1; count >>= 1) fold(nodes, depth--);
      }
      std::fill_n(nodes + depth++ * kSums * 16, kSums * 16, 0.0f);
    }
    group_product(task.pairs + first * x_stride + group * w.format.group / 2, x_stride,
                  strip.codes + group * w.format.group / 2 * 32, w.format.group / 32, q);
    add_group(task, strip, first, group, q, nodes + (depth - 1) * kSums * 16);
  }
  while (depth > 1) fold(nodes, depth--);
  for (int r = 0; r < kTileRows && first + r < task.rows; ++r)
    for (int side = 0; side < 2; ++side) {
      const float* sum = nodes + (r / 16 * 2 + side) * 256 + r % 16 * 16;
      store(task, first + r, panel * 16 + side * 16, depth ? _mm512_load_ps(sum) : _mm512_setzero_ps());
    }
}

template <GroupProduct group_product>
void by_tiles(const Task& task, std::int64_t begin, std::int64_t end) {
  if (!task.pairs) return kPrefill.pick(Target::avx512)(task, begin, end);
  by_strips<Pairs::adjacent, kTileRows>(task, begin, end, multiply<group_product>);
}

}  // namespace
}  // namespace eadem::kernels::quantized
