// bf16 x on CPUs with AVX512-BF16. vdpbf16ps is fma(a0, b0, fma(a1, b1, c)), so pairs of columns (k, k + 2), k in the
// odd slot, run the even chain of a step, and (k + 1, k + 3) the odd one (numerics.md section 4). It flushes
// subnormals: rows of x where one could arise go the way of AVX-512.
#include "eadem/kernels/quantized/task.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <algorithm>
#include <utility>

#include "eadem/numerics/rounding.h"

#define EADEM_BF16 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,fma,f16c")))
#define EADEM_INLINE EADEM_BF16 __attribute__((always_inline)) inline
#define EADEM_LAMBDA EADEM_BF16 __attribute__((always_inline))

namespace eadem::kernels::quantized {
namespace {

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

EADEM_INLINE __m512 load_scales(const std::byte* at, bool half) {
  return half ? _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(at))) : _mm512_loadu_ps(at);
}

// The codes 0..15 of 4-bit fields, centred, in bf16; twice, so that the fifth bit of an index does not matter.
EADEM_INLINE __m512i code_table(int bits) {
  alignas(64) std::uint16_t table[32];
  for (int i = 0; i < 32; ++i) table[i] = to_bfloat16(static_cast<float>(i % 16 - (1 << (bits - 1)))).bits;
  return _mm512_load_si512(table);
}

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
EADEM_INLINE Group load_group(const PackedQuantized& w, const std::byte* scales, std::int64_t group) {
  const bool half = w.format.scale_dtype == DType::f16;
  const std::ptrdiff_t bytes = 16 * (half ? 2 : 4);
  if (w.format.symmetric) return {load_scales(scales + group * bytes, half), _mm512_setzero_ps()};
  const __m512 s = load_scales(scales + 2 * group * bytes, half);
  const __m512 centre = _mm512_set1_ps(static_cast<float>(1 << (w.format.bits - 1)));
  return {s, _mm512_fmadd_ps(centre, s, load_scales(scales + (2 * group + 1) * bytes, half))};
}

// Few rows, 4-bit fields: codes are looked up in registers.
template <int kRun, int kRows>
EADEM_BF16 void decode_panel(const Task& task, std::int64_t panel) {
  constexpr int kAbreast = std::max(1, 4 / kRows);
  constexpr std::ptrdiff_t kWords = kRun / 8 * 16;
  const PackedQuantized& w = *task.w;
  const std::uint32_t* words = w.words(panel);
  const std::byte* scales = w.scales(panel);
  const std::ptrdiff_t x_stride = task.x_stride / 2;
  const __m512i table = code_table(w.format.bits);
  const auto mask = static_cast<std::int64_t>(w.format.group / kRun - 1);
  const std::int64_t runs = w.columns / kRun;
  __m512 codes[kRows], sum[kRows];
  Tree<kRows> tree;
  for (__m512& each : sum) each = _mm512_setzero_ps();
  const auto close_block = [&]() EADEM_BF16 {
    tree.add(sum);
    for (__m512& each : sum) each = _mm512_setzero_ps();
  };
  const auto several = [&]<int kCount>(std::integral_constant<int, kCount>, std::int64_t run) EADEM_LAMBDA {
    const std::uint32_t *word = words + run * kWords, *x = task.pairs + run * (kRun / 2);
    __m512 chain[kRows][kCount][2];
    unrolled<kRows * kCount * 2>([&](auto i) EADEM_LAMBDA { (&chain[0][0][0])[i] = _mm512_setzero_ps(); });
    for (int k = 0; k < kRun; k += 8, word += 16, x += 4)
      unrolled<4>([&](auto i) EADEM_LAMBDA {
        unrolled<kCount>([&](auto a) EADEM_LAMBDA {
          const __m512i index = _mm512_srli_epi16(_mm512_load_si512(word + a * kWords), 4 * i);
          const __m512i code = _mm512_permutexvar_epi16(index, table);
          unrolled<kRows>([&](auto r) EADEM_LAMBDA {
            chain[r][a][i % 2] = dot_pairs(chain[r][a][i % 2], x[r * x_stride + a * (kRun / 2) + i], code);
          });
        });
      });
    unrolled<kCount>([&](auto a) EADEM_LAMBDA {
      const bool opens = ((run + a) & mask) == 0, closes = ((run + a + 1) & mask) == 0;
      unrolled<kRows>([&](auto r) EADEM_LAMBDA {
        const __m512 step = _mm512_add_ps(chain[r][a][0], chain[r][a][1]);
        codes[r] = opens ? step : _mm512_add_ps(codes[r], step);
      });
      if (!closes) return;
      const std::int64_t group = (run + a) >> __builtin_popcountll(static_cast<unsigned long long>(mask));
      const Group scale = load_group(w, scales, group);
      unrolled<kRows>([&](auto r) EADEM_LAMBDA {
        const __m512 t =
            w.format.symmetric
                ? _mm512_mul_ps(scale.s, codes[r])
                : _mm512_fmadd_ps(scale.s, codes[r],
                                  _mm512_mul_ps(scale.b, _mm512_set1_ps(task.sums[r * task.sums_stride + group])));
        sum[r] = _mm512_add_ps(sum[r], t);
      });
      if ((group + 1) * w.format.group % 256 == 0) close_block();
    });
  };
  std::int64_t run = 0;
  for (; run + kAbreast <= runs; run += kAbreast) several(std::integral_constant<int, kAbreast>{}, run);
  if constexpr (kAbreast > 1)
    for (; run < runs; ++run) several(std::integral_constant<int, 1>{}, run);
  if (w.columns % 256 != 0) close_block();
  tree.total(sum);
  for (int r = 0; r < kRows; ++r)
    if (r < task.rows) store(task, r, panel * 16, sum[r]);
}

template <int kRun>
void decode_panels(const Task& task, std::int64_t begin, std::int64_t end) {
  for (std::int64_t panel = begin; panel < end; ++panel) {
    if (task.rows == 1)
      decode_panel<kRun, 1>(task, panel);
    else if (task.rows == 2)
      decode_panel<kRun, 2>(task, panel);
    else if (task.rows <= 4)
      decode_panel<kRun, 4>(task, panel);
    else
      decode_panel<kRun, 8>(task, panel);
  }
}

// Many rows: two panels' codes, unpacked once to pairs in bf16 [columns / 2][2 panels][16], s and b' [groups][2][16].
struct Strip {
  std::uint32_t* codes;
  float *scales, *biases;
};

EADEM_BF16 void unpack(const PackedQuantized& w, std::int64_t panel, const Strip& strip) {
  const __m512i table = code_table(std::min(w.format.bits, 4));
  const __m512 magic = _mm512_set1_ps(0x1p23f),
               offset = _mm512_set1_ps(0x1p23f + static_cast<float>(1 << (w.format.bits - 1)));
  for (int side = 0; side < 2; ++side) {
    std::uint32_t* out = strip.codes + 16 * side;
    if (panel + side >= w.panels()) {
      for (std::int64_t k = 0; k < w.columns / 2; ++k) _mm512_store_si512(out + k * 32, _mm512_setzero_si512());
      for (std::int64_t g = 0; g < w.groups(); ++g) {
        _mm512_store_ps(strip.scales + g * 32 + 16 * side, _mm512_setzero_ps());
        _mm512_store_ps(strip.biases + g * 32 + 16 * side, _mm512_setzero_ps());
      }
      continue;
    }
    const std::uint32_t* words = w.words(panel + side);
    if (w.width == 4) {
      for (std::int64_t k = 0; k < w.columns; k += 8, words += 16, out += 4 * 32)
        unrolled<4>([&](auto i) EADEM_LAMBDA {
          const __m512i index = _mm512_srli_epi16(_mm512_load_si512(words), 4 * i);
          _mm512_store_si512(out + i * 32, _mm512_permutexvar_epi16(index, table));
        });
    } else {
      // A byte q as 2^23 + q, less 2^23 + centre, is the centred code in f32, whose upper half is its bf16.
      const __m512i byte = _mm512_set1_epi32(0xff);
      for (std::int64_t k = 0; k < w.columns; k += 4, words += 16, out += 2 * 32)
        unrolled<2>([&](auto i) EADEM_LAMBDA {
          const __m512i word = _mm512_load_si512(words);
          const auto code = [&](__m512i q) EADEM_LAMBDA {
            const __m512i bits = _mm512_or_si512(_mm512_and_si512(q, byte), _mm512_castps_si512(magic));
            return _mm512_castps_si512(_mm512_sub_ps(_mm512_castsi512_ps(bits), offset));
          };
          const __m512i low = code(_mm512_srli_epi32(word, 8 * i)), high = code(_mm512_srli_epi32(word, 16 + 8 * i));
          _mm512_store_si512(out + i * 32, _mm512_or_si512(_mm512_srli_epi32(low, 16), high));
        });
    }
    for (std::int64_t g = 0; g < w.groups(); ++g) {
      const Group scale = load_group(w, w.scales(panel + side), g);
      _mm512_store_ps(strip.scales + g * 32 + 16 * side, scale.s);
      _mm512_store_ps(strip.biases + g * 32 + 16 * side, scale.b);
    }
  }
}

inline constexpr int kTileRows = 6;

template <bool kSymmetric, bool kOneStep>  // kOneStep: a group is one step of 32 (or 16) columns
EADEM_BF16 void multiply(const Task& task, const Strip& strip, std::int64_t first, std::int64_t panel) {
  const PackedQuantized& w = *task.w;
  const int group_columns = w.format.group, run = kOneStep ? group_columns : 32;
  const std::ptrdiff_t x_stride = task.x_stride / 2;
  const std::uint32_t *x = task.pairs + first * x_stride, *codes = strip.codes;
  const float *scales = strip.scales, *biases = strip.biases, *sums = task.sums + first * task.sums_stride;
  __m512 sum[kTileRows * 2], codes_sum[kTileRows * 2];
  Tree<kTileRows * 2> tree;
  const auto reset = [&]() EADEM_LAMBDA {
    unrolled<kTileRows * 2>([&](auto i) EADEM_LAMBDA { sum[i] = _mm512_setzero_ps(); });
  };
  reset();
  for (std::int64_t k = 0; k < w.columns;) {
    __m512 chain[kTileRows][2][2];
    unrolled<kTileRows * 4>([&](auto i) EADEM_LAMBDA { chain[i / 4][i / 2 % 2][i % 2] = _mm512_setzero_ps(); });
    for (int i = 0; i < run; i += 4, x += 2, codes += 64)
      unrolled<2>([&](auto c) EADEM_LAMBDA {
        const __m512i left = _mm512_load_si512(codes + c * 32), right = _mm512_load_si512(codes + c * 32 + 16);
        unrolled<kTileRows>([&](auto r) EADEM_LAMBDA {
          const std::uint32_t pair = x[r * x_stride + c];
          chain[r][0][c] = dot_pairs(chain[r][0][c], pair, left);
          chain[r][1][c] = dot_pairs(chain[r][1][c], pair, right);
        });
      });
    const bool opens = kOneStep || (k & (group_columns - 1)) == 0;
    unrolled<kTileRows * 2>([&](auto i) EADEM_LAMBDA {
      const __m512 step = _mm512_add_ps(chain[i / 2][i % 2][0], chain[i / 2][i % 2][1]);
      codes_sum[i] = opens ? step : _mm512_add_ps(codes_sum[i], step);
    });
    k += run;
    if (kOneStep || (k & (group_columns - 1)) == 0) {
      const __m512 s[2] = {_mm512_load_ps(scales), _mm512_load_ps(scales + 16)};
      const __m512 b[2] = {_mm512_load_ps(biases), _mm512_load_ps(biases + 16)};
      unrolled<kTileRows>([&](auto r) EADEM_LAMBDA {
        const __m512 x_sum = _mm512_set1_ps(kSymmetric ? 0.0f : sums[r * task.sums_stride]);
        unrolled<2>([&](auto v) EADEM_LAMBDA {
          const __m512 q = codes_sum[2 * r + v];
          const __m512 t = kSymmetric ? _mm512_mul_ps(s[v], q) : _mm512_fmadd_ps(s[v], q, _mm512_mul_ps(b[v], x_sum));
          sum[2 * r + v] = _mm512_add_ps(sum[2 * r + v], t);
        });
      });
      scales += 32;
      biases += 32;
      ++sums;
    }
    if (k % 256 == 0 || k == w.columns) {
      tree.add(sum);
      reset();
    }
  }
  tree.total(sum);
  for (int i = 0; i < kTileRows * 2; ++i)
    if (first + i / 2 < task.rows) store(task, first + i / 2, panel * 16 + i % 2 * 16, sum[i]);
}

using Multiply = void (*)(const Task&, const Strip&, std::int64_t first, std::int64_t panel);
Multiply multiply_for(const numerics::QuantizedFormat& format) {
  const bool one_step = format.group <= 32;
  if (format.symmetric) return one_step ? multiply<true, true> : multiply<true, false>;
  return one_step ? multiply<false, true> : multiply<false, false>;
}

// Rows [first, first + count) of a task.
Task rows_of(const Task& task, std::int64_t first, std::int64_t count) {
  Task part = task;
  part.rows = count;
  part.x += first * task.x_stride;
  part.sums += first * task.sums_stride;
  part.y.data += first * task.y.strides[0] * static_cast<std::ptrdiff_t>(size_of(task.y.dtype));
  return part;
}

}  // namespace

EADEM_BF16 bool pair_up(const bfloat16* x, std::int64_t columns, std::uint32_t* pairs) {
  const __m512i magnitude = _mm512_set1_epi16(0x7fff), one = _mm512_set1_epi16(1),
                limit = _mm512_set1_epi16(0x0400 - 1);
  __mmask32 tiny = 0;
  for (std::int64_t k = 0; k < columns; k += 32, pairs += 16) {
    const __m512i bits = _mm512_loadu_si512(x + k);  // columns come in groups of 32, or blocks of 256
    // Zero wraps around to the largest number, so what is below the limit is tiny but not zero.
    tiny |= _mm512_cmplt_epu16_mask(_mm512_sub_epi16(_mm512_and_si512(bits, magnitude), one), limit);
    const __m512i paired = _mm512_shufflehi_epi16(_mm512_shufflelo_epi16(bits, 0x72), 0x72);  // 0 1 2 3 to 2 0 3 1
    _mm512_storeu_si512(pairs, paired);
  }
  return tiny == 0;
}

void decode_pairs(const Task& task, std::int64_t begin, std::int64_t end) {
  const bool plain =
      task.pairs && std::all_of(task.plain, task.plain + task.rows, [](std::uint8_t each) { return each; });
  if (!plain || task.w->width != 4) return kDecode.avx512(task, begin, end);
  task.w->format.group == 16 ? decode_panels<16>(task, begin, end) : decode_panels<32>(task, begin, end);
}

void prefill_pairs(const Task& task, std::int64_t begin, std::int64_t end) {
  if (!task.pairs) return kPrefill.avx512(task, begin, end);
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
  const Multiply tile = multiply_for(w.format);
  const auto plain = [&](std::int64_t first) {
    const std::uint8_t *from = task.plain + first, *to = task.plain + std::min(first + kTileRows, task.rows);
    return std::all_of(from, to, [](std::uint8_t each) { return each; });
  };
  for (std::int64_t panel = begin; panel < end; panel += 2 * count) {
    const std::int64_t strips = std::min(count, (end - panel + 1) / 2);
    for (std::int64_t i = 0; i < strips; ++i) unpack(w, panel + 2 * i, strip(i));
    for (std::int64_t first = 0; first < task.rows; first += kTileRows)
      if (plain(first))
        for (std::int64_t i = 0; i < strips; ++i) tile(task, strip(i), first, panel + 2 * i);
  }
  for (std::int64_t first = 0; first < task.rows; first += kTileRows)
    if (!plain(first))
      kPrefill.avx512(rows_of(task, first, std::min<std::int64_t>(kTileRows, task.rows - first)), begin, end);
}

}  // namespace eadem::kernels::quantized
#endif
