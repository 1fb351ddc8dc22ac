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
template <int kWidth, int kChains, int kRows>
class PanelProduct {
 public:
  HWY_INLINE HWY_ATTR PanelProduct(const quantized::Task& task, std::int64_t panel, int vector)
      : task_(task),
        words_(task.w->words(panel) + vector * kLanes),
        scales_(task.w->scales(panel)),
        centre_(hn::Set(DF(), static_cast<float>(1 << (task.w->format.bits - 1)))),
        run_(std::min(task.w->format.group, 32)),
        run_mask_(task.w->format.group / run_ - 1),
        vector_(vector) {}

  HWY_INLINE HWY_ATTR void compute(std::int64_t n) {
    const std::int64_t runs = task_.w->columns / run_;
    for (int r = 0; r < kRows; ++r) sum_[r] = hn::Zero(DF());
    constexpr int kAbreast = std::max(1, 8 / (kRows * kChains));
    std::int64_t run = 0;
    for (; run + kAbreast <= runs; run += kAbreast) several<kAbreast>(run);
    rest<kAbreast / 2>(run, runs);
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
    constexpr int kCodes = 32 / kWidth;
    const std::ptrdiff_t words_of_run = run_ / kCodes * kPanelRows;
    const std::uint32_t* words = words_ + run * words_of_run;
    const float* x = task_.x + run * run_;
    VF chain[kRows][kAbreast][kChains];
    unrolled<kRows>([&](auto r) HWY_ATTR {
      unrolled<kAbreast>(
          [&](auto a) HWY_ATTR { unrolled<kChains>([&](auto c) HWY_ATTR { chain[r][a][c] = hn::Zero(DF()); }); });
    });
    for (int k = 0; k < run_; k += kCodes, words += kPanelRows, x += kCodes) {
      unrolled<kAbreast>([&](auto a) HWY_ATTR {
        const VU word = hn::Load(DU(), words + a * words_of_run);
        const VU high = hn::ShiftRight<16>(word);
        unrolled<kCodes>([&](auto j) HWY_ATTR {
          const VF code = centred_code<kWidth, j>(word, high, centre_);
          unrolled<kRows>([&](auto r) HWY_ATTR {
            VF& into = chain[r][a][kChains == 2 ? j % 2 : 0];
            into = hn::MulAdd(hn::Set(DF(), x[r * task_.x_stride + a * run_ + j]), code, into);
          });
        });
      });
    }
    unrolled<kAbreast>([&](auto a) HWY_ATTR {
      unrolled<kRows>([&](auto r) HWY_ATTR {
        const VF step = kChains == 2 ? hn::Add(chain[r][a][0], chain[r][a][kChains - 1]) : chain[r][a][0];
        codes_[r] = ((run + a) & run_mask_) == 0 ? step : hn::Add(codes_[r], step);
      });
      if (((run + a + 1) & run_mask_) == 0) close_group((run + a) >> std::popcount(run_mask_));
    });
  }

  HWY_INLINE HWY_ATTR void close_group(std::int64_t group) {
    const numerics::QuantizedFormat& format = task_.w->format;
    const bool half = format.scale_dtype == DType::f16;
    const std::ptrdiff_t bytes = kPanelRows * (half ? 2 : 4);
    if (format.symmetric) {
      const VF s = load_scales(scales_ + group * bytes, half, vector_);
      unrolled<kRows>([&](auto r) HWY_ATTR { sum_[r] = hn::Add(sum_[r], hn::Mul(s, codes_[r])); });
    } else {
      const VF s = load_scales(scales_ + 2 * group * bytes, half, vector_);
      const VF b = hn::MulAdd(centre_, s, load_scales(scales_ + (2 * group + 1) * bytes, half, vector_));
      unrolled<kRows>([&](auto r) HWY_ATTR {
        sum_[r] = hn::Add(sum_[r], scaled(s, codes_[r], b, hn::Set(DF(), task_.sums[r * task_.sums_stride + group])));
      });
    }
    if ((group + 1) * format.group % 256 == 0) close_block();
  }

  HWY_INLINE HWY_ATTR void close_block() {
    for (int r = 0; r < kRows; ++r) {
      tree_[r].add(sum_[r]);
      sum_[r] = hn::Zero(DF());
    }
  }

  const quantized::Task& task_;
  const std::uint32_t* words_;
  const std::byte* scales_;
  const VF centre_;
  const int run_;
  const unsigned run_mask_;  // runs of a group, less one
  const int vector_;
  VF codes_[kRows], sum_[kRows];
  Tree tree_[kRows];
};

template <int kWidth, int kChains, int kRows>
HWY_ATTR void panels(const quantized::Task& task, std::int64_t begin, std::int64_t end) {
  for (std::int64_t panel = begin; panel < end; ++panel)
    for (int v = 0; v < kVectors; ++v)
      PanelProduct<kWidth, kChains, kRows>(task, panel, v).compute(panel * kPanelRows + v * kLanes);
}

template <int kWidth, int kChains>
HWY_ATTR void by_rows(const quantized::Task& task, std::int64_t begin, std::int64_t end) {
  if (task.rows == 1) return panels<kWidth, kChains, 1>(task, begin, end);
  if (task.rows == 2) return panels<kWidth, kChains, 2>(task, begin, end);
  if (task.rows <= 4) return panels<kWidth, kChains, 4>(task, begin, end);
  panels<kWidth, kChains, 8>(task, begin, end);
}

}  // namespace

HWY_ATTR void decode(const quantized::Task& task, std::int64_t begin, std::int64_t end) {
  if (task.w->width == 4) return task.chains == 2 ? by_rows<4, 2>(task, begin, end) : by_rows<4, 1>(task, begin, end);
  task.chains == 2 ? by_rows<8, 2>(task, begin, end) : by_rows<8, 1>(task, begin, end);
}
#endif
}  // namespace eadem::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eadem::kernels::quantized {
const PerTarget<Body> kDecode = EADEM_PER_TARGET(reference, decode);
}  // namespace eadem::kernels::quantized
#endif
