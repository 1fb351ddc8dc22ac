// Few rows of x: codes are unpacked in registers and used at once for all rows, so that each packed byte is read once.
#include <algorithm>

#include "eadem/kernels/quantized/task.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "eadem/kernels/quantized/decode.cpp"
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

// A run is one step of section 4.1: 32 columns, or the 16 of a small group. Runs are independent, so several go side by
// side to hide the latency of their chains.
template <int kWidth, int kRun, int kChains, int kRows>
class PanelProduct {
 public:
  HWY_INLINE HWY_ATTR PanelProduct(const quantized::Task& task, std::int64_t panel, int vector)
      : task_(task),
        base_(task.w->panel(panel)),
        centre_(hn::Set(DF(), static_cast<float>(1 << (task.w->format.bits - 1)))),
        vector_(vector) {}

  HWY_INLINE HWY_ATTR void compute(std::int64_t n) {
    const std::int64_t runs = task_.w->columns / kRun;
    for (int r = 0; r < kRows; ++r) sum_[r] = hn::Zero(DF());
    constexpr int kAbreast = kRows == 1 ? 4 : kRows == 2 ? 8 / kRows / kChains : kRows == 4 ? 2 / kChains : 1;
    std::int64_t run = 0;
    for (; run + kAbreast <= runs; run += kAbreast) several<kAbreast>(run);
    if constexpr (kRun == 32) rest<kAbreast / 2>(run, runs);  // groups of 16 come in blocks of 256 columns
    if (task_.w->columns % 256 != 0) close_block();
    for (int r = 0; r < kRows; ++r)
      if (r < task_.rows) store(task_, r, n, tree_[r].total());
  }

 private:
  template <int kAbreast>
  HWY_INLINE HWY_ATTR void rest(std::int64_t run, std::int64_t runs) {
    if constexpr (kAbreast > 0) {
      if (run + kAbreast <= runs) {
        several<kAbreast>(run);
        run += kAbreast;
      }
      rest<kAbreast / 2>(run, runs);
    }
  }

  template <int kAbreast>
  HWY_INLINE HWY_ATTR void several(std::int64_t run) {
    // Of 3 bits two runs of 16 columns share a plane.
    constexpr bool kShared = kWidth == 3 && kRun == 16;
    constexpr int kColumns = kUnit<kWidth>, kUnits = kShared ? 1 : kPlaneUnits<kWidth>;
    if (kRun == 16 && vector_ == 0) prefetch(run, kAbreast);
    const std::uint32_t* words = task_.w->words(base_, run) + vector_ * kLanes;
    const std::ptrdiff_t next = task_.w->slab_steps(run) * kPanelRows;
    const std::uint32_t* plane = kHasPlane<kWidth> ? task_.w->plane(base_, run) + vector_ * kLanes : words;
    const float* x = task_.x + run * kRun;
    const std::int64_t mask = (1 << task_.w->log_steps) - 1;
    VF chain[kRows][kAbreast][kChains];
    unrolled<kRows>([&](auto r) HWY_ATTR {
      unrolled<kAbreast>(
          [&](auto a) HWY_ATTR { unrolled<kChains>([&](auto c) HWY_ATTR { chain[r][a][c] = hn::Zero(DF()); }); });
    });
    for (int k = 0; k < kRun; k += kUnits * kColumns) {
      VU above[kAbreast];
      unrolled<kAbreast>([&](auto a) HWY_ATTR {
        const int at = kShared ? static_cast<int>((run + a) / 2 - run / 2) : static_cast<int>(a);
        above[a] = load_plane<kWidth>(plane + at * kPanelRows, next, k);
        if constexpr (kShared) above[a] = hn::ShiftRightSame(above[a], task_.w->plane_shift(run + a));
      });
      unrolled<kUnits>([&](auto u) HWY_ATTR __attribute__((always_inline)) {
        Unit<kWidth> unit[kAbreast];
        unrolled<kAbreast>([&](auto a) HWY_ATTR { load_unit<kWidth, u>(words + a * kPanelRows, above[a], unit[a]); });
        unrolled<kColumns>([&](auto j) HWY_ATTR __attribute__((always_inline)) {
          unrolled<kAbreast>([&](auto a) HWY_ATTR {
            const VF code = centred_code<kWidth, j>(unit[a], centre_);
            unrolled<kRows>([&](auto r) HWY_ATTR {
              VF& into = chain[r][a][kChains == 2 ? j % 2 : 0];
              into = hn::MulAdd(hn::Set(DF(), x[r * task_.x_stride + a * kRun + j]), code, into);
            });
          });
        });
        words += next, x += kColumns;
      });
    }
    VF steps[kAbreast][kRows];
    unrolled<kAbreast>([&](auto a) HWY_ATTR {
      unrolled<kRows>([&](auto r) HWY_ATTR {
        steps[a][r] = kChains == 2 ? hn::Add(chain[r][a][0], chain[r][a][kChains - 1]) : chain[r][a][0];
      });
    });
    if (mask == 0) return close_groups(steps, run);
    unrolled<kAbreast>([&](auto a) HWY_ATTR {
      unrolled<kRows>([&](auto r) HWY_ATTR {
        codes_[0][r] = ((run + a) & mask) == 0 ? steps[a][r] : hn::Add(codes_[0][r], steps[a][r]);
      });
      if (((run + a + 1) & mask) == 0) close_groups(codes_, (run + a) >> task_.w->log_steps);
    });
  }

  // Adds t_g of kCount groups from `group` on. They lie in one slab, and only the last may end a block.
  template <int kCount>
  HWY_INLINE HWY_ATTR void close_groups(const VF (&codes)[kCount][kRows], std::int64_t group) {
    with_scales(task_.w->format.scale_dtype, [&](auto scales) HWY_ATTR { add_groups<scales()>(codes, group); });
    if ((group + kCount) * task_.w->format.group % 256 == 0) close_block();
  }

  template <DType kScales, int kCount>
  HWY_INLINE HWY_ATTR void add_groups(const VF (&codes)[kCount][kRows], std::int64_t group) {
    const std::byte* scales = task_.w->scales(base_, group);
    const std::byte* factors = kScales == DType::i8 ? task_.w->factors(base_, group) : nullptr;
    const std::size_t next = task_.w->group_scale_bytes;
    VF sum[kRows];
    unrolled<kRows>([&](auto r) HWY_ATTR { sum[r] = sum_[r]; });
    if (task_.w->format.symmetric) {
      unrolled<kCount>([&](auto i) HWY_ATTR {
        const VF s = load_scales<kScales>(scales + i * next, factors, vector_);
        unrolled<kRows>([&](auto r) HWY_ATTR { sum[r] = hn::Add(sum[r], hn::Mul(s, codes[i][r])); });
      });
    } else {
      const float* sums = task_.sums + group;
      unrolled<kCount>([&](auto i) HWY_ATTR {
        const VF s = load_scales<kScales>(scales + i * next, factors, vector_);
        const VF b = hn::MulAdd(centre_, s, load_scales<kScales>(scales + i * next, factors, vector_ + kVectors));
        unrolled<kRows>([&](auto r) HWY_ATTR {
          sum[r] = hn::Add(sum[r], scaled(s, codes[i][r], b, hn::Set(DF(), sums[r * task_.sums_stride + i])));
        });
      });
    }
    unrolled<kRows>([&](auto r) HWY_ATTR { sum_[r] = sum[r]; });
  }

  // What lies ahead of `count` runs, in the order of memory: with steps of 16 columns that is not the order of use,
  // which the CPU would foresee.
  HWY_INLINE HWY_ATTR void prefetch(std::int64_t run, int count) const {
    const std::size_t bytes = task_.w->slab_bytes >> task_.w->log_slab_steps;
    const std::byte* at = base_ + quantized::kPrefetchBytes + static_cast<std::size_t>(run) * bytes;
    for (const std::byte* const end = at + static_cast<std::size_t>(count) * bytes; at < end; at += 64)
      __builtin_prefetch(at);
  }

  HWY_INLINE HWY_ATTR void close_block() {
    for (int r = 0; r < kRows; ++r) {
      tree_[r].add(sum_[r]);
      sum_[r] = hn::Zero(DF());
    }
  }

  const quantized::Task& task_;
  const std::byte* base_;
  const VF centre_;
  const int vector_;
  VF codes_[1][kRows];  // Q_g so far, where a group has several steps
  VF sum_[kRows];
  Tree tree_[kRows];
};

template <int kWidth, int kRun, int kChains, int kRows>
HWY_ATTR void panels(const quantized::Task& task, std::int64_t begin, std::int64_t end) {
  for (std::int64_t panel = begin; panel < end; ++panel)
    for (int v = 0; v < kVectors; ++v)
      PanelProduct<kWidth, kRun, kChains, kRows>(task, panel, v).compute(panel * kPanelRows + v * kLanes);
}

template <int kWidth, int kRun, int kChains>
HWY_ATTR void by_rows(const quantized::Task& task, std::int64_t begin, std::int64_t end) {
  const std::int64_t rows = quantized::decode_body_rows(kWidth, task.rows);
  const auto run = [&](auto body_rows) {
    if constexpr (quantized::has_decode_body(kWidth, body_rows()))
      if (rows == body_rows()) panels<kWidth, kRun, kChains, body_rows()>(task, begin, end);
  };
  run(std::integral_constant<int, 1>());
  run(std::integral_constant<int, 2>());
  run(std::integral_constant<int, 4>());
  run(std::integral_constant<int, 8>());
}

template <int kWidth, int kRun>
HWY_ATTR void by_chains(const quantized::Task& task, std::int64_t begin, std::int64_t end) {
  task.chains == 2 ? by_rows<kWidth, kRun, 2>(task, begin, end) : by_rows<kWidth, kRun, 1>(task, begin, end);
}

}  // namespace

HWY_ATTR void decode(const quantized::Task& task, std::int64_t begin, std::int64_t end) {
  const bool small = task.w->format.group == 16;
  switch (task.w->width) {
    case 2: return small ? by_chains<2, 16>(task, begin, end) : by_chains<2, 32>(task, begin, end);
    case 3: return small ? by_chains<3, 16>(task, begin, end) : by_chains<3, 32>(task, begin, end);
    case 4: return by_chains<4, 32>(task, begin, end);
    case 5: return by_chains<5, 32>(task, begin, end);
    case 6: return small ? by_chains<6, 16>(task, begin, end) : by_chains<6, 32>(task, begin, end);
    default: return by_chains<8, 32>(task, begin, end);
  }
}
#endif
}  // namespace eadem::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eadem::kernels::quantized {
constinit const PerTarget<Body> kDecode = [] {
  PerTarget<Body> bodies = EADEM_PER_TARGET(reference, decode);
#if defined(__x86_64__)
  bodies.avx512bf16 = &decode_pairs;
#endif
  return bodies;
}();
}  // namespace eadem::kernels::quantized
#endif
