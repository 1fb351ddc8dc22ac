#pragma once

#include <optional>
#include <span>
#include <vector>

#include "eadem/array/array.h"

// The public operations. Axes may be negative; shapes broadcast as NumPy's where an operation says so; every bad
// argument throws ShapeError, TypeError or ValueError that names the operation, what it needs and what it got.

namespace eadem {

namespace ops {
/// Axes, already normalised.
struct AxesAttribute {
  Shape axes;
  static constexpr auto fields() { return std::tuple(field("axes", &AxesAttribute::axes)); }
};
struct AxisAttribute {
  std::int64_t axis = 0;
  static constexpr auto fields() { return std::tuple(field("axis", &AxisAttribute::axis)); }
};
}  // namespace ops

// ---- Data movement: bits are kept. ----

/// The same elements, row-major, under another shape; one extent may be -1.
Array reshape(const Array& x, const Shape& shape);
/// Permutes the axes: axis i of the result is axis axes[i] of x.
Array transpose(const Array& x, const Shape& axes);
/// Reverses the order of the axes.
Array transpose(const Array& x);
/// Exchanges two axes.
Array swap_axes(const Array& x, std::int64_t a, std::int64_t b);
/// Repeats along new leading axes and axes of extent one.
Array broadcast_to(const Array& x, const Shape& shape);
/// Inserts an axis of extent one.
Array expand_dims(const Array& x, std::int64_t axis);
/// Removes an axis of extent one.
Array squeeze(const Array& x, std::int64_t axis);
/// A range of one axis as Python's start:stop:step: absent and negative bounds, any step but zero.
struct Slice {
  std::optional<std::int64_t> start = std::nullopt, stop = std::nullopt;
  std::int64_t step = 1;
};
/// x[ranges...], a range an axis from the first; axes without one are kept whole.
Array slice(const Array& x, std::span<const Slice> ranges);
inline Array slice(const Array& x, std::initializer_list<Slice> ranges) {
  return slice(x, std::span<const Slice>(ranges.begin(), ranges.size()));
}
/// One axis' range.
Array slice_axis(const Array& x, std::int64_t axis, Slice range);
/// Reverses the order along the axes.
Array reverse(const Array& x, const Shape& axes);
/// x itself when its elements lie row-major without gaps, else a copy that does.
Array contiguous(const Array& x);
/// A copy in fresh memory.
Array copy(const Array& x);
/// Joins arrays of one dtype along an axis; all other extents must agree.
Array concatenate(std::span<const Array> arrays, std::int64_t axis);
/// Joins arrays of equal type along a new axis.
Array stack(std::span<const Array> arrays, std::int64_t axis = 0);
/// Pads each axis with `value` (a scalar of x's dtype): low and high at the ends (negative crops), interior between.
Array pad(const Array& x, const Array& value, const Shape& low, const Shape& high, const Shape& interior = {});
/// A window of `size` at `start` (an integer array [rank]), clamped into x as XLA does.
Array dynamic_slice(const Array& x, const Array& start, const Shape& size);
/// x with `update` written at `start` (an integer array [rank]), clamped into x as XLA does.
Array dynamic_update_slice(const Array& x, const Array& update, const Array& start);
/// x's slices along `axis` at integer `indices` (any shape); negative ones count from the end. Throws ValueError for
/// an index out of range.
Array take(const Array& x, const Array& indices, std::int64_t axis);
/// 0, 1, 2, ... along `axis` of an array of this type.
Array iota(DType dtype, const Shape& shape, std::int64_t axis);
/// The numbers 0 .. count-1.
Array arange(std::int64_t count, DType dtype = DType::i64);
/// Keeps the lower triangle of the last two axes, up to diagonal k; zero elsewhere.
Array tril(const Array& x, std::int64_t k = 0);
/// Keeps the upper triangle of the last two axes, from diagonal k; zero elsewhere.
Array triu(const Array& x, std::int64_t k = 0);

}  // namespace eadem
