#include "eadem/kernels/rows/columns.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "eadem/base/parallel.h"
#include "eadem/kernels/target.h"
#include "eadem/numerics/rounding.h"
#include "eadem/numerics/row_sum.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "eadem/kernels/rows/columns.cpp"
#include "hwy/foreach_target.h"
// foreach_target comes first
#include "eadem/kernels/rows/rows-inl.h"
#include "hwy/highway.h"

// A row sum has 16 chains; here each is a row of `width` neighbouring columns, which lie in the lanes.

HWY_BEFORE_NAMESPACE();
namespace eadem::kernels::HWY_NAMESPACE {
#if EADEM_HWY_TARGET
namespace hn = hwy::HWY_NAMESPACE;

template <class T, bool squares>
void column_block(const T* x, std::int64_t stride, std::int64_t rows, std::int64_t width, const double* mean,
                  double* chains) {
  const hn::ScalableTag<double> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::fill_n(chains, numerics::kRowLanes * width, 0.0);
  for (std::int64_t row = 0; row < rows; ++row) {
    const T* from = x + row * stride;
    double* chain = chains + row % numerics::kRowLanes * width;
    std::int64_t c = 0;
    for (; c + lanes <= width; c += lanes) {
      const auto value = load_f64(d, from + c), sum = hn::LoadU(d, chain + c);
      if constexpr (squares) {
        const auto away = hn::Sub(value, hn::LoadU(d, mean + c));
        hn::StoreU(hn::MulAdd(away, away, sum), d, chain + c);
      } else {
        hn::StoreU(hn::Add(sum, value), d, chain + c);
      }
    }
    for (; c < width; ++c) {
      const double value = numerics::to_double(from[c]);
      chain[c] = squares ? std::fma(value - mean[c], value - mean[c], chain[c]) : chain[c] + value;
    }
  }
}

template <class T>
void column_sums(const T* x, std::int64_t stride, std::int64_t rows, std::int64_t width, const double* mean,
                 double* chains) {
  column_block<T, false>(x, stride, rows, width, mean, chains);
}
template <class T>
void column_squares(const T* x, std::int64_t stride, std::int64_t rows, std::int64_t width, const double* mean,
                    double* chains) {
  column_block<T, true>(x, stride, rows, width, mean, chains);
}

template <class T>
void map_rows(const T* x, std::int64_t rows, std::int64_t channels, const ColumnMap& map, T* y) {
  const hn::ScalableTag<double> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const double *mean = map.mean.data(), *scale = map.scale.data(), *gamma = map.gamma.data(), *beta = map.beta.data();
  for (std::int64_t row = 0; row < rows; ++row, x += channels, y += channels) {
    std::int64_t c = 0;
    for (; c + lanes <= channels; c += lanes) {
      const auto normalized = hn::Mul(hn::Sub(load_f64(d, x + c), hn::LoadU(d, mean + c)), hn::LoadU(d, scale + c));
      store_rounded(d, hn::MulAdd(normalized, hn::LoadU(d, gamma + c), hn::LoadU(d, beta + c)), y + c);
    }
    for (; c < channels; ++c)
      y[c] = numerics::round_to<T>(std::fma((numerics::to_double(x[c]) - mean[c]) * scale[c], gamma[c], beta[c]));
  }
}

#endif
}  // namespace eadem::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eadem::kernels {
namespace {

constexpr std::int64_t kWidth = 64;  // columns at a time: their chains stay in L1

template <class T, bool squares>
void scalar_block(const T* x, std::int64_t stride, std::int64_t rows, std::int64_t width, const double* mean,
                  double* chains) {
  std::fill_n(chains, numerics::kRowLanes * width, 0.0);
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t c = 0; c < width; ++c) {
      double& chain = chains[row % numerics::kRowLanes * width + c];
      const double value = numerics::to_double(x[row * stride + c]);
      chain = squares ? std::fma(value - mean[c], value - mean[c], chain) : chain + value;
    }
}

template <class T>
void scalar_sums(const T* x, std::int64_t stride, std::int64_t rows, std::int64_t width, const double* mean,
                 double* chains) {
  scalar_block<T, false>(x, stride, rows, width, mean, chains);
}
template <class T>
void scalar_squares(const T* x, std::int64_t stride, std::int64_t rows, std::int64_t width, const double* mean,
                    double* chains) {
  scalar_block<T, true>(x, stride, rows, width, mean, chains);
}

template <class T>
void scalar_map(const T* x, std::int64_t rows, std::int64_t channels, const ColumnMap& map, T* y) {
  for (std::int64_t i = 0; i < rows * channels; ++i) {
    const auto c = static_cast<std::size_t>(i % channels);
    y[i] = numerics::round_to<T>(
        std::fma((numerics::to_double(x[i]) - map.mean[c]) * map.scale[c], map.gamma[c], map.beta[c]));
  }
}

// The row sum of each column, over the number of rows.
template <class T, bool squares>
void column_means(const T* x, std::int64_t rows, std::int64_t channels, const double* mean, double* result) {
  const auto body = squares ? EADEM_PER_TARGET(scalar_squares<T>, column_squares<T>).pick()
                            : EADEM_PER_TARGET(scalar_sums<T>, column_sums<T>).pick();
  const std::int64_t blocks = (rows + numerics::kRowBlock - 1) / numerics::kRowBlock;
  const std::int64_t strips = (channels + kWidth - 1) / kWidth;
  std::vector<double> sums(static_cast<std::size_t>(std::max<std::int64_t>(blocks, 1) * channels));
  parallel_for(blocks * strips, 1, [&](std::int64_t begin, std::int64_t end) {
    alignas(64) double chains[numerics::kRowLanes * kWidth];
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t block = i / strips, first = i % strips * kWidth, width = std::min(kWidth, channels - first);
      const std::int64_t from = block * numerics::kRowBlock, count = std::min(rows - from, numerics::kRowBlock);
      body(x + from * channels + first, channels, count, width, mean ? mean + first : nullptr, chains);
      for (std::int64_t half = numerics::kRowLanes / 2; half > 0; half /= 2)
        for (std::int64_t k = 0; k < half * width; ++k) chains[k] += chains[k + half * width];
      std::copy_n(chains, width, sums.data() + block * channels + first);
    }
  });
  for (std::int64_t c = 0; c < channels; ++c) {
    const auto add = [](double a, double b) { return a + b; };
    numerics::BinaryTree<double, decltype(add)> tree(add);
    for (std::int64_t block = 0; block < blocks; ++block)
      tree.add(sums[static_cast<std::size_t>(block * channels + c)]);
    result[c] = (tree.empty() ? 0.0 : tree.result()) / static_cast<double>(rows);
  }
}

}  // namespace

void column_moments(const TensorView& x, std::span<double> mean, std::span<double> variance) {
  visit_floating(x.dtype, [&]<class T>(std::type_identity<T>) {
    column_means<T, false>(x.as<const T>(), x.shape[0], x.shape[1], nullptr, mean.data());
    column_means<T, true>(x.as<const T>(), x.shape[0], x.shape[1], mean.data(), variance.data());
  });
}

void normalize_columns(const TensorView& x, const ColumnMap& map, const TensorView& result) {
  const std::int64_t rows = x.shape[0], channels = x.shape[1];
  visit_floating(x.dtype, [&]<class T>(std::type_identity<T>) {
    const auto body = EADEM_PER_TARGET(scalar_map<T>, map_rows<T>).pick();
    parallel_for(rows, std::max<std::int64_t>(1, 8192 / std::max<std::int64_t>(1, channels)),
                 [&](std::int64_t begin, std::int64_t end) {
                   body(x.as<const T>() + begin * channels, end - begin, channels, map,
                        result.as<T>() + begin * channels);
                 });
  });
}

}  // namespace eadem::kernels
#endif
