// bf16 x on CPUs with AVX512-BF16. vdpbf16ps is fma(a0, b0, fma(a1, b1, c)), so pairs of columns (k, k + 2), k in the
// odd slot, run the even chain of a step, and (k + 1, k + 3) the odd one (numerics.md section 4). It flushes
// subnormals: rows of x where one could arise go the way of AVX-512.
#if defined(__x86_64__)
#include "eadem/kernels/quantized/pairs-inl.h"

namespace eadem::kernels::quantized {
namespace {

// Few rows, fields of 4 to 6 bits: codes are looked up in registers.
template <int kWidth, int kRun, int kRows>
EADEM_BF16 void decode_panel(const Task& task, std::int64_t panel) {
  constexpr int kAbreast = std::max(1, 4 / kRows);
  const PackedQuantized& w = *task.w;
  const std::byte* base = w.panel(panel);
  const std::ptrdiff_t x_stride = task.x_stride / 2;
  const CodeTable table(kWidth, w.format.bits);
  const std::int64_t mask = (1 << w.log_steps) - 1;
  const std::int64_t runs = w.columns / kRun;
  __m512 codes[kRows], sum[kRows];
  Tree<kRows> tree;
  for (__m512& each : sum) each = _mm512_setzero_ps();
  const auto close_block = [&]() EADEM_BF16 {
    tree.add(sum);
    for (__m512& each : sum) each = _mm512_setzero_ps();
  };
  const auto several = [&]<int kCount>(std::integral_constant<int, kCount>, std::int64_t run) EADEM_LAMBDA {
    const std::uint32_t *word = w.words(base, run), *x = task.pairs + run * (kRun / 2);
    const std::ptrdiff_t next = w.quad_steps(run) * kPanelRows;
    __m512 chain[kRows][kCount][2];
    unrolled<kRows * kCount * 2>([&](auto i) EADEM_LAMBDA { (&chain[0][0][0])[i] = _mm512_setzero_ps(); });
    const std::uint32_t* plane = word + kRun / 8 * next;
    for (int k = 0; k < kRun; k += 8 * kPlaneUnits<kWidth>, plane += next)
      unrolled<kPlaneUnits<kWidth>>([&](auto u) EADEM_LAMBDA {
        unrolled<4>([&](auto i) EADEM_LAMBDA {
          unrolled<kCount>([&](auto a) EADEM_LAMBDA {
            const __m512i low = _mm512_load_si512(word + a * kPanelRows);
            const __m512i above = kWidth == 4 ? low : _mm512_load_si512(plane + a * kPanelRows);
            const __m512i code = table.pair<kWidth, u, i>(low, above);
            unrolled<kRows>([&](auto r) EADEM_LAMBDA {
              chain[r][a][i % 2] = dot_pairs(chain[r][a][i % 2], x[r * x_stride + a * (kRun / 2) + i], code);
            });
          });
        });
        word += next, x += 4;
      });
    unrolled<kCount>([&](auto a) EADEM_LAMBDA {
      const bool opens = ((run + a) & mask) == 0, closes = ((run + a + 1) & mask) == 0;
      unrolled<kRows>([&](auto r) EADEM_LAMBDA {
        const __m512 step = _mm512_add_ps(chain[r][a][0], chain[r][a][1]);
        codes[r] = opens ? step : _mm512_add_ps(codes[r], step);
      });
      if (!closes) return;
      const std::int64_t group = (run + a) >> w.log_steps;
      const Group scale = load_group(w, base, group);
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
    case 4: return small ? decode_panels<4, 16>(task, begin, end) : decode_panels<4, 32>(task, begin, end);
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
