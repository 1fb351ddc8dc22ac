// bf16 x on CPUs with AVX512-BF16. vdpbf16ps is fma(a0, b0, fma(a1, b1, c)), so pairs of columns (k, k + 2), k in the
// odd slot, run the even chain of a step, and (k + 1, k + 3) the odd one (numerics.md section 4). It flushes
// subnormals: rows of x where one could arise go the way of AVX-512.
#if defined(__x86_64__)
#include "eadem/kernels/quantized/pairs-inl.h"

namespace eadem::kernels::quantized {
namespace {

// Few rows, codes of 2 to 6 bits: they are looked up in registers.

// Sums of a slab's steps, [steps][kRows].
template <int kRows>
using StepSums = float[kSlabColumns / 16][kRows][16];

// Steps first .. first + kCount - 1 of a slab of `steps` (an int, or its constant), x beginning with the slab.
template <int kWidth, int kRun, int kRows, int kCount, class Steps>
EADEM_INLINE void add_steps(const CodeTable& table, const std::uint32_t* slab, Steps steps, int first,
                            const std::uint32_t* x, std::ptrdiff_t x_stride, StepSums<kRows>& sums) {
  // Of 3 bits two steps of 16 columns share a plane: of an even number, which is which is known.
  constexpr bool kShared = kWidth == 3 && kRun == 16, kShift = kShared && kCount % 2 != 0;
  constexpr int kUnits = std::min(kPlaneUnits<kWidth>, kRun / kUnit<kWidth>);
  const std::ptrdiff_t next = steps * kPanelRows;
  const std::uint32_t* word = slab + first * kPanelRows;
  const std::uint32_t* plane = slab + kRun / kUnit<kWidth> * next + (kShared ? first / 2 : first) * kPanelRows;
  x += first * (kRun / 2);
  __m512 chain[kRows][kCount][2];
  unrolled<kRows * kCount * 2>([&](auto i) EADEM_LAMBDA { (&chain[0][0][0])[i] = _mm512_setzero_ps(); });
  for (int k = 0; k < kRun; k += kUnit<kWidth> * kUnits, plane += next)
    unrolled<kUnits>([&](auto u) EADEM_LAMBDA {
      unrolled<kUnit<kWidth> / 2>([&](auto i) EADEM_LAMBDA {
        unrolled<kCount>([&](auto a) EADEM_LAMBDA {
          const __m512i low = _mm512_load_si512(word + a * kPanelRows);
          const std::uint32_t* const high = plane + (kShared ? a / 2 : a) * kPanelRows;
          const __m512i above = !kHasPlane<kWidth> ? low
                                : kShift           ? load_plane(high, first % 2 * 2)
                                                   : _mm512_load_si512(high);
          constexpr int unit = kShared && !kShift ? a % 2 : u;
          const __m512i code = table.pair<kWidth, kPairShift<kWidth, i>>(fields_of<kWidth, unit, i % 2>(low, above));
          unrolled<kRows>([&](auto r) EADEM_LAMBDA {
            chain[r][a][i % 2] = dot_pairs(chain[r][a][i % 2], x[r * x_stride + a * (kRun / 2) + i], code);
          });
        });
      });
      word += next, x += kUnit<kWidth> / 2;
    });
  unrolled<kRows * kCount>([&](auto i) EADEM_LAMBDA {
    constexpr int r = i / kCount, a = i % kCount;
    _mm512_store_ps(sums[first + a][r], _mm512_add_ps(chain[r][a][0], chain[r][a][1]));
  });
}

// Adds t_g of the groups of a slab to `total`; x_sums begins with the slab.
template <int kRows>
EADEM_INLINE void add_groups(const PackedQuantized& w, const std::byte* scales, int groups,
                             const StepSums<kRows>& steps, const float* x_sums, std::ptrdiff_t x_stride,
                             __m512 (&total)[kRows]) {
  const GroupScales load(w, scales, groups);
  const int count = 1 << w.log_steps;
  for (int g = 0; g < groups; ++g) {
    const Group scale = load(g);
    unrolled<kRows>([&](auto r) EADEM_LAMBDA {
      __m512 q = _mm512_load_ps(steps[g * count][r]);
      for (int i = 1; i < count; ++i) q = _mm512_add_ps(q, _mm512_load_ps(steps[g * count + i][r]));
      const __m512 t =
          w.format.symmetric
              ? _mm512_mul_ps(scale.s, q)
              : _mm512_fmadd_ps(scale.s, q, _mm512_mul_ps(scale.b, _mm512_set1_ps(x_sums[r * x_stride + g])));
      total[r] = _mm512_add_ps(total[r], t);
    });
  }
}

template <int kWidth, int kRun, int kRows>
EADEM_BF16 void decode_panel(const Task& task, std::int64_t panel) {
  constexpr int kAbreast = std::max(1, 4 / kRows), kSlabSteps = kSlabColumns / kRun;
  const PackedQuantized& w = *task.w;
  const CodeTable table(kWidth, w.format.bits);
  const std::byte* slab = w.panel(panel);
  const std::uint32_t* x = task.pairs;
  const float* x_sums = task.sums;
  __m512 sum[kRows];
  alignas(64) StepSums<kRows> steps_sums;
  Tree<kRows> tree;
  for (__m512& each : sum) each = _mm512_setzero_ps();
  const auto add_slab = [&](auto steps) EADEM_LAMBDA {
    const auto* words = reinterpret_cast<const std::uint32_t*>(slab);
    // With steps of 16 columns the order of memory is not that of use, which the CPU would foresee.
    const std::byte* ahead = slab + kPrefetchBytes;
    const auto prefetch = [&](int count) EADEM_LAMBDA {
      const std::byte* const end = ahead + w.slab_bytes / kSlabSteps * static_cast<std::size_t>(count);
      for (; ahead < end; ahead += 64) _mm_prefetch(reinterpret_cast<const char*>(ahead), _MM_HINT_T0);
    };
    int s = 0;
    for (; s + kAbreast <= steps; s += kAbreast) {
      if constexpr (kRun == 16) prefetch(kAbreast);
      add_steps<kWidth, kRun, kRows, kAbreast>(table, words, steps, s, x, task.x_stride / 2, steps_sums);
    }
    for (; s < steps; ++s) add_steps<kWidth, kRun, kRows, 1>(table, words, steps, s, x, task.x_stride / 2, steps_sums);
    const int groups = steps >> w.log_steps;
    add_groups<kRows>(w, slab + static_cast<std::size_t>(steps) * w.step_bytes, groups, steps_sums, x_sums,
                      task.sums_stride, sum);
    slab += w.slab_bytes, x += kSlabColumns / 2, x_sums += groups;
  };
  const auto close_block = [&]() EADEM_BF16 {
    tree.add(sum);
    for (__m512& each : sum) each = _mm512_setzero_ps();
  };
  std::int64_t k = 0;
  while (k + kSlabColumns <= w.columns) {
    add_slab(Constant<kSlabSteps>());
    k += kSlabColumns;
    if (k % 256 == 0) close_block();
  }
  if (k < w.columns) add_slab(static_cast<int>(w.columns - k) / kRun);
  if (w.columns % 256 != 0) close_block();
  tree.total(sum);
  for (int r = 0; r < kRows; ++r)
    if (r < task.rows) store(task, r, panel * 16, sum[r]);
}

template <int kWidth, int kRun>
void decode_panels(const Task& task, std::int64_t begin, std::int64_t end) {
  for (std::int64_t panel = begin; panel < end; ++panel) {
    if (task.rows == 1)
      decode_panel<kWidth, kRun, 1>(task, panel);
    else if (task.rows == 2)
      decode_panel<kWidth, kRun, 2>(task, panel);
    else if (task.rows <= 4)
      decode_panel<kWidth, kRun, 4>(task, panel);
    else
      decode_panel<kWidth, kRun, 8>(task, panel);
  }
}

// Many rows: tiles of 6 rows by a strip, 24 chains.
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

}  // namespace

EADEM_BF16 bool pair_up(const bfloat16* x, std::int64_t columns, Pairs form, std::uint32_t* pairs) {
  const __m512i magnitude = _mm512_set1_epi16(0x7fff), one = _mm512_set1_epi16(1),
                limit = _mm512_set1_epi16(0x0400 - 1);
  __mmask32 tiny = 0;
  for (std::int64_t k = 0; k < columns; k += 32, pairs += 16) {
    const __m512i bits = _mm512_loadu_si512(x + k);  // columns come in groups of 32, or blocks of 256
    // Zero wraps around to the largest number, so what is below the limit is tiny but not zero.
    tiny |= _mm512_cmplt_epu16_mask(_mm512_sub_epi16(_mm512_and_si512(bits, magnitude), one), limit);
    const __m512i skipping = _mm512_shufflehi_epi16(_mm512_shufflelo_epi16(bits, 0x72), 0x72);  // 0 1 2 3 to 2 0 3 1
    _mm512_storeu_si512(pairs, form == Pairs::adjacent ? bits : skipping);
  }
  return tiny == 0;
}

void decode_pairs(const Task& task, std::int64_t begin, std::int64_t end) {
  const bool plain =
      task.pairs && std::all_of(task.plain, task.plain + task.rows, [](std::uint8_t each) { return each; });
  const bool small = task.w->format.group == 16;
  if (!plain) return kDecode.pick(Target::avx512)(task, begin, end);
  switch (task.w->width) {
    case 2: return small ? decode_panels<2, 16>(task, begin, end) : decode_panels<2, 32>(task, begin, end);
    case 3: return small ? decode_panels<3, 16>(task, begin, end) : decode_panels<3, 32>(task, begin, end);
    case 4: return decode_panels<4, 32>(task, begin, end);
    case 5: return decode_panels<5, 32>(task, begin, end);
    case 6: return small ? decode_panels<6, 16>(task, begin, end) : decode_panels<6, 32>(task, begin, end);
    default: return kDecode.pick(Target::avx512)(task, begin, end);
  }
}

void prefill_pairs(const Task& task, std::int64_t begin, std::int64_t end) {
  if (!task.pairs) return kPrefill.pick(Target::avx512)(task, begin, end);
  by_strips<Pairs::skipping, kTileRows>(task, begin, end, multiply_for(task.w->format));
}

}  // namespace eadem::kernels::quantized
#endif
