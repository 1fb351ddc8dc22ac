#pragma once

#include <string_view>

#include "eadem/array/array.h"
#include "eadem/ops/infer.h"

namespace eadem::ops {

/// A floating operand with at least one axis, which row primitives work along; throws TypeError or ShapeError.
void require_floating_rows(std::string_view operation, const TensorType& x);

/// The bool as a byte of 0 or 1 that sums and comparisons take it for.
template <class T>
using Number = std::conditional_t<std::is_same_v<T, bool>, std::uint8_t, T>;

/// The axes normalised, ascending; throws ShapeError for one out of range or given twice.
Shape normalize_axes(std::string_view operation, const Shape& axes, int rank);

/// The extents that a reduction over ascending axes leaves; throws ShapeError for axes that are not such.
Shape kept_axes(std::string_view operation, const TensorType& x, const Shape& axes);

/// A reduced value (a cotangent, an extreme) beside each element that it came from.
Array spread(const Array& reduced, const Shape& axes, const Shape& shape);

/// Runs `along_last` on x with `axis` moved to the end, and moves the results' last axis back.
template <class F>
Array along_axis(std::string_view operation, const Array& x, std::int64_t axis, F along_last);

/// x with its axis moved to the end, and the way back.
Array move_axis_last(const Array& x, int axis);
Array move_axis_back(const Array& x, int axis);

template <class F>
Array along_axis(std::string_view operation, const Array& x, std::int64_t axis, F along_last) {
  const int at = normalize_axis(operation, axis, x.rank());
  return move_axis_back(along_last(move_axis_last(x, at)), at);
}

}  // namespace eadem::ops
