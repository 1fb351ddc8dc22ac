// Many rows of x: the codes of a strip of panels are unpacked once to f32 and used for all rows.
#include <algorithm>

#include "eadem/kernels/quantized/task.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "eadem/kernels/quantized/prefill.cpp"
// Highway's order of includes has a meaning.
// clang-format off
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "eadem/kernels/quantized/lanes-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace eadem::kernels::HWY_NAMESPACE {
#if EADEM_HWY_TARGET
namespace {

// A strip is as wide as the registers allow with `kChainRegisters` chains: 2 vectors of 16, 2 of 8, or 4 of 4 lanes.
inline constexpr int kStripVectors = kLanes == 4 ? 4 : 2;
inline constexpr int kStripLanes = kStripVectors * kLanes;
inline constexpr int kStripPanels = std::max(1, kStripLanes / kPanelRows);
inline constexpr int kChainRegisters = kLanes == 16 ? 24 : kLanes == 8 ? 8 : 16;

// Codes [columns][kStripLanes], s and b' [groups][kStripLanes], in f32.
struct Strip {
  float *codes, *scales, *biases;
};

template <int kWidth>
HWY_ATTR void unpack(const PackedQuantized& w, std::int64_t panel, int first_vector, const Strip& strip) {
  const DF df;
  const VF centre = hn::Set(df, static_cast<float>(1 << (w.format.bits - 1)));
  constexpr int kColumns = kUnit<kWidth>;
  constexpr int kUnits = kWidth == 3 ? 1 : kPlaneUnits<kWidth>;  // of 3 bits the other unit may be another step's
  for (int v = 0; v < kStripVectors; ++v) {
    const std::int64_t p = panel + v * kLanes / kPanelRows;
    const int within = first_vector + v - static_cast<int>(p - panel) * kVectors;
    if (p >= w.panels()) {  // a strip's second panel may not exist; its lanes are never stored, but must hold something
      for (std::int64_t k = 0; k < w.columns; ++k)
        hn::Store(hn::Zero(df), df, strip.codes + k * kStripLanes + v * kLanes);
      for (std::int64_t g = 0; g < w.groups(); ++g) {
        hn::Store(hn::Zero(df), df, strip.scales + g * kStripLanes + v * kLanes);
        hn::Store(hn::Zero(df), df, strip.biases + g * kStripLanes + v * kLanes);
      }
      continue;
    }
    const std::byte* base = w.panel(p);
    float* codes = strip.codes + v * kLanes;
    for (std::int64_t step = 0; step < w.steps(); ++step) {
      const std::uint32_t* words = w.words(base, step) + within * kLanes;
      const std::ptrdiff_t next = w.slab_steps(step) * kPanelRows;
      const std::uint32_t* plane = kHasPlane<kWidth> ? w.plane(base, step) + within * kLanes : words;
      for (int k = 0; k < w.step; k += kUnits * kColumns) {
        VU above = load_plane<kWidth>(plane, next, k);
        if constexpr (kWidth == 3) above = hn::ShiftRightSame(above, w.plane_shift(step) + k / 8);
        unrolled<kUnits>([&](auto u) HWY_ATTR __attribute__((always_inline)) {
          Unit<kWidth> unit;
          load_unit<kWidth, u>(words, above, unit);
          unrolled<kColumns>(
              [&](auto j) HWY_ATTR { hn::Store(centred_code<kWidth, j>(unit, centre), df, codes + j * kStripLanes); });
          words += next, codes += kColumns * kStripLanes;
        });
      }
    }
    with_scales(w.format.scale_dtype, [&](auto scales) HWY_ATTR {
      for (std::int64_t g = 0; g < w.groups(); ++g) {
        const std::byte *at = w.scales(base, g), *factors = scales() == DType::i8 ? w.factors(base, g) : nullptr;
        const VF s = load_scales<scales()>(at, factors, within);
        hn::Store(s, df, strip.scales + g * kStripLanes + v * kLanes);
        if (!w.format.symmetric)
          hn::Store(hn::MulAdd(centre, s, load_scales<scales()>(at, factors, within + kVectors)), df,
                    strip.biases + g * kStripLanes + v * kLanes);
      }
    });
  }
}

template <int kChains>
HWY_ATTR void multiply(const quantized::Task& task, const Strip& strip, std::int64_t first, std::int64_t n) {
  constexpr int kRows = kChainRegisters / kStripVectors / kChains;
  const DF df;
  const numerics::QuantizedFormat& format = task.w->format;
  const int run = std::min(format.group, 32);
  VF sum[kRows][kStripVectors], code_sum[kRows][kStripVectors];
  Tree tree[kRows][kStripVectors];
  for (auto& row : sum)
    for (VF& each : row) each = hn::Zero(df);
  const auto close_block = [&]() HWY_ATTR {
    for (int r = 0; r < kRows; ++r)
      for (int v = 0; v < kStripVectors; ++v) {
        tree[r][v].add(sum[r][v]);
        sum[r][v] = hn::Zero(df);
      }
  };
  const float* x = task.x + first * task.x_stride;
  const float* codes = strip.codes;
  std::int64_t group = 0;
  for (std::int64_t k = 0; k < task.w->columns;) {
    VF chain[kRows][kStripVectors][kChains];
    unrolled<kRows>([&](auto r) HWY_ATTR {
      unrolled<kStripVectors * kChains>([&](auto i) HWY_ATTR { chain[r][i / kChains][i % kChains] = hn::Zero(df); });
    });
    for (int i = 0; i < run; i += kChains, x += kChains, codes += kChains * kStripLanes) {
      unrolled<kChains>([&](auto c) HWY_ATTR {
        VF code[kStripVectors];
        unrolled<kStripVectors>([&](auto v) HWY_ATTR { code[v] = hn::Load(df, codes + c * kStripLanes + v * kLanes); });
        unrolled<kRows>([&](auto r) HWY_ATTR {
          const VF each = hn::Set(df, x[r * task.x_stride + c]);
          unrolled<kStripVectors>([&](auto v) HWY_ATTR { chain[r][v][c] = hn::MulAdd(each, code[v], chain[r][v][c]); });
        });
      });
    }
    const bool opens = (k & (format.group - 1)) == 0;
    k += run;
    const bool closes = (k & (format.group - 1)) == 0;
    const float* scales = strip.scales + group * kStripLanes;
    const float* biases = strip.biases + group * kStripLanes;
    unrolled<kRows>([&](auto r) HWY_ATTR {
      unrolled<kStripVectors>([&](auto v) HWY_ATTR {
        VF q = kChains == 2 ? hn::Add(chain[r][v][0], chain[r][v][kChains - 1]) : chain[r][v][0];
        if (!opens) q = hn::Add(code_sum[r][v], q);
        if (!closes) {
          code_sum[r][v] = q;
          return;
        }
        const VF s = hn::Load(df, scales + v * kLanes);
        const VF t = format.symmetric ? hn::Mul(s, q)
                                      : scaled(s, q, hn::Load(df, biases + v * kLanes),
                                               hn::Set(df, task.sums[(first + r) * task.sums_stride + group]));
        sum[r][v] = hn::Add(sum[r][v], t);
      });
    });
    if (closes) ++group;
    if (k % 256 == 0) close_block();
  }
  if (task.w->columns % 256 != 0) close_block();
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < kStripVectors; ++v)
      if (first + r < task.rows) store(task, first + r, n + v * kLanes, tree[r][v].total());
}

template <int kChains>
HWY_ATTR void strips(const quantized::Task& task, std::int64_t begin, std::int64_t end) {
  const PackedQuantized& w = *task.w;
  const auto lanes = static_cast<std::size_t>(kStripLanes);
  const std::size_t codes = static_cast<std::size_t>(w.columns) * lanes,
                    scales = static_cast<std::size_t>(w.groups()) * lanes;
  auto* memory = static_cast<float*>(quantized::scratch(0, (codes + 2 * scales) * sizeof(float)));
  const Strip strip{memory, memory + codes, memory + codes + scales};
  for (std::int64_t panel = begin; panel < end; panel += kStripPanels)
    for (int vector = 0; vector < std::max(kVectors, kStripVectors) - kStripVectors + 1; vector += kStripVectors) {
      switch (w.width) {
        case 2: unpack<2>(w, panel, vector, strip); break;
        case 3: unpack<3>(w, panel, vector, strip); break;
        case 4: unpack<4>(w, panel, vector, strip); break;
        case 5: unpack<5>(w, panel, vector, strip); break;
        case 6: unpack<6>(w, panel, vector, strip); break;
        default: unpack<8>(w, panel, vector, strip);
      }
      for (std::int64_t first = 0; first < task.rows; first += kChainRegisters / kStripVectors / kChains)
        multiply<kChains>(task, strip, first, panel * kPanelRows + vector * kLanes);
    }
}

}  // namespace

HWY_ATTR void prefill(const quantized::Task& task, std::int64_t begin, std::int64_t end) {
  task.chains == 2 ? strips<2>(task, begin, end) : strips<1>(task, begin, end);
}
#endif
}  // namespace eadem::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eadem::kernels::quantized {
constinit const PerTarget<Body> kPrefill = [] {
  PerTarget<Body> bodies = EADEM_PER_TARGET(reference, prefill);
#if defined(__x86_64__)
  bodies.avx512bf16 = &prefill_pairs;
  bodies.amx = &prefill_tiles;
#endif
  return bodies;
}();
}  // namespace eadem::kernels::quantized
#endif
