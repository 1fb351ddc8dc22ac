#pragma once

#include "eadem/base/tensor_view.h"

namespace eadem::ops {

/// Whether one stride takes each row (last axis) of x to the next, so that x is one matrix.
inline bool joins_rows(const TensorView& x) {
  for (int axis = 0; axis + 2 < x.shape.rank(); ++axis)
    if (x.shape[axis] != 1 && x.strides[axis] != x.strides[axis + 1] * x.shape[axis + 1]) return false;
  return true;
}

/// x [.., K], whose rows are joined, as [M, K]; a vector is one row.
inline TensorView as_matrix(TensorView x) {
  const int rank = x.shape.rank();
  const Shape leading(std::span(x.shape.begin(), x.shape.size() - 1));
  x.strides = {rank >= 2 ? x.strides[rank - 2] : 0, x.strides.back()};
  x.shape = {leading.elements(), x.shape.back()};
  return x;
}

}  // namespace eadem::ops
