// f64 x, the referee's case: a panel's exact weights are rounded to f64 once, then contracted in the f64 order.
#include <algorithm>

#include "eadem/kernels/quantized/task.h"
#include "eadem/numerics/quantized.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "eadem/kernels/quantized/double.cpp"
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

using DD = hn::CappedTag<double, kPanelRows>;
using VD = hn::Vec<DD>;
inline constexpr int kDoubles = HWY_MAX_BYTES / 8 < kPanelRows ? HWY_MAX_BYTES / 8 : kPanelRows;
inline constexpr int kAbreast = 2;   // vectors side by side
inline constexpr int kTileRows = 4;  // rows of x side by side

// One tile: rows first.., lanes lane.. of the panel, whose weights are [columns][kPanelRows].
template <int kRows>
HWY_ATTR void multiply(const quantized::Task& task, const double* weights, std::int64_t first, std::int64_t panel,
                       int lane) {
  const DD dd;
  const std::int64_t columns = task.w->columns;
  // The binary counter of section 4.3, kept as memory: nodes[level] of each row and lane.
  double nodes[24][kRows][kAbreast * kDoubles];
  int depth = 0;
  std::uint32_t blocks = 0;
  const auto fold = [&]() HWY_ATTR {
    --depth;
    for (int r = 0; r < kRows; ++r)
      for (int i = 0; i < kAbreast * kDoubles; ++i)
        nodes[depth - 1][r][i] = nodes[depth - 1][r][i] + nodes[depth][r][i];
  };
  for (std::int64_t block = 0; block < columns; block += 256) {
    VD sum[kRows][kAbreast];
    for (auto& row : sum)
      for (VD& each : row) each = hn::Zero(dd);
    for (std::int64_t step = block; step < std::min(block + 256, columns); step += 32) {
      VD chain[kRows][kAbreast];
      unrolled<kRows * kAbreast>([&](auto i) HWY_ATTR { chain[i / kAbreast][i % kAbreast] = hn::Zero(dd); });
      for (std::int64_t k = step; k < std::min(step + 32, columns); ++k) {
        unrolled<kAbreast>([&](auto v) HWY_ATTR {
          const VD weight = hn::LoadU(dd, weights + k * kPanelRows + lane + v * kDoubles);
          unrolled<kRows>([&](auto r) HWY_ATTR {
            const double x = task.wide_x[(first + r) * task.x_stride + k];
            chain[r][v] = hn::MulAdd(hn::Set(dd, x), weight, chain[r][v]);
          });
        });
      }
      unrolled<kRows * kAbreast>([&](auto i) HWY_ATTR {
        sum[i / kAbreast][i % kAbreast] = hn::Add(sum[i / kAbreast][i % kAbreast], chain[i / kAbreast][i % kAbreast]);
      });
    }
    for (int r = 0; r < kRows; ++r)
      for (int v = 0; v < kAbreast; ++v) hn::StoreU(sum[r][v], dd, &nodes[depth][r][v * kDoubles]);
    ++depth;
    for (std::uint32_t count = blocks++; count & 1; count >>= 1) fold();
  }
  while (depth > 1) fold();
  for (int r = 0; r < kRows && first + r < task.rows; ++r)
    for (int i = 0; i < kAbreast * kDoubles; ++i) {
      const std::int64_t n = panel * kPanelRows + lane + i;
      if (n >= task.w->rows) break;
      const double value = (depth ? nodes[0][r][i] : 0.0) + (task.wide_bias ? task.wide_bias[n] : 0.0);
      visit_floating(task.y.dtype, [&]<class T>(std::type_identity<T>) {
        task.y.as<T>()[(first + r) * task.y.strides[0] + n * task.y.strides[1]] = numerics::round_to<T>(value);
      });
    }
}

}  // namespace

HWY_ATTR void wide(const quantized::Task& task, std::int64_t begin, std::int64_t end) {
  const PackedQuantized& w = *task.w;
  auto* weights = static_cast<double*>(quantized::scratch(0, static_cast<std::size_t>(w.columns * kPanelRows) * 8));
  auto* row = static_cast<double*>(quantized::scratch(3, static_cast<std::size_t>(w.columns) * 8));
  numerics::QuantizedRow codes;
  for (std::int64_t panel = begin; panel < end; ++panel) {
    for (int lane = 0; lane < kPanelRows; ++lane) {
      unpack_row(w, panel * kPanelRows + lane, codes);  // padded rows too
      numerics::dequantize_row(w.format, codes, row);
      for (std::int64_t k = 0; k < w.columns; ++k) weights[k * kPanelRows + lane] = row[k];
    }
    for (int lane = 0; lane < kPanelRows; lane += kAbreast * kDoubles) {
      std::int64_t first = 0;
      for (; first + kTileRows <= task.rows; first += kTileRows) multiply<kTileRows>(task, weights, first, panel, lane);
      for (; first < task.rows; ++first) multiply<1>(task, weights, first, panel, lane);
    }
  }
}
#endif
}  // namespace eadem::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eadem::kernels::quantized {
constinit const PerTarget<Body> kWide = EADEM_PER_TARGET(reference, wide);
}  // namespace eadem::kernels::quantized
#endif
