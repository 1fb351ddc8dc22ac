#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>

#include "eadem/base/tensor_view.h"

// The definitions take spans; this brings strided operands to them, one output at a time.

namespace eadem::numerics {

/// The element offset of the linear (row-major) index over `extents`.
inline std::int64_t offset_of(std::int64_t index, const Shape& extents, const Shape& strides) {
  std::int64_t offset = 0;
  for (int axis = extents.rank() - 1; axis >= 0; --axis) {
    offset += index % extents[axis] * strides[axis];
    index /= extents[axis];
  }
  return offset;
}

/// A view's axes parted into those that a reduction keeps and those that it folds, both in their order.
struct ReductionAxes {
  Shape kept, kept_strides, reduced, reduced_strides;

  /// `axes` are the reduced ones, in [0, rank), each at most once.
  ReductionAxes(const TensorView& x, const Shape& axes) {
    for (int axis = 0; axis < x.shape.rank(); ++axis) {
      const bool folded = std::find(axes.begin(), axes.end(), axis) != axes.end();
      (folded ? reduced : kept).push_back(x.shape[axis]);
      (folded ? reduced_strides : kept_strides).push_back(x.strides[axis]);
    }
  }
};

/// Calls f(elements, output) for every output in row-major order over the kept axes, with the elements that it folds
/// in row-major order over the reduced axes.
template <class T, class F>
void for_each_reduction(const TensorView& x, const Shape& axes, F f) {
  const ReductionAxes parts(x, axes);
  const std::int64_t outputs = parts.kept.elements(), count = parts.reduced.elements();
  const auto row = std::make_unique<T[]>(static_cast<std::size_t>(count));
  for (std::int64_t output = 0; output < outputs; ++output) {
    const T* base = x.as<const T>() + offset_of(output, parts.kept, parts.kept_strides);
    for (std::int64_t i = 0; i < count; ++i) {
      row[static_cast<std::size_t>(i)] = base[offset_of(i, parts.reduced, parts.reduced_strides)];
    }
    f(std::span<const T>(row.get(), static_cast<std::size_t>(count)), output);
  }
}

}  // namespace eadem::numerics
