#pragma once

#include <span>

#include "eadem/base/tensor_view.h"

// Normalisation of columns (batch_norm): x [rows, channels] contiguous, everything a channel's own, bit-equal to
// numerics/normalization.h over each column.

namespace eadem::kernels {

/// The mean and the variance of each column, in f64, by the row sums of its elements.
void column_moments(const TensorView& x, std::span<double> mean, std::span<double> variance);

/// What the columns are taken to: RN(fma((x - mean) scale, gamma, beta)).
struct ColumnMap {
  std::span<const double> mean, scale, gamma, beta;
};
/// The result is contiguous, of x's type.
void normalize_columns(const TensorView& x, const ColumnMap& map, const TensorView& result);

}  // namespace eadem::kernels
