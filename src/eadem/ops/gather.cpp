#include "eadem/ops/gather.h"

#include "eadem/ops/indices.h"
#include "eadem/ops/ops.h"

namespace eadem::ops {

Array indices_in_range(std::string_view operation, const Array& indices, const Array& x, int axis) {
  const Array wide = as_indices(operation, indices);
  if (wide.traced()) return wide;
  for (const std::int64_t index : wide.data<std::int64_t>())
    if (index < -x.shape()[axis] || index >= x.shape()[axis])
      fail<ValueError>("[{}] index {} is out of range for axis {} of {}", operation, index, axis, x.type());
  return wide;
}

Array side_by_side(const Array& x, std::int64_t axis) {
  const Array moved = move_axis(x, 0, axis);
  const int at = static_cast<int>(axis);
  Shape shape = moved.shape();
  shape[at] *= shape[at + 1];
  shape.erase(at + 1);
  return reshape(moved, shape);
}

Array apart(const Array& x, std::int64_t axis, std::int64_t batch, std::int64_t n) {
  const int at = static_cast<int>(axis);
  Shape shape = x.shape();
  shape[at] = n;
  shape.insert(at, batch);
  return move_axis(reshape(x, shape), axis, 0);
}

Array indices_side_by_side(const Array& indices, std::int64_t n) {
  const auto number = [&](std::int64_t value) {
    return broadcast_to(Array::from(std::span<const std::int64_t>(&value, 1), {}), indices.shape());
  };
  const Array from_start = where(less(indices, number(0)), indices + number(n), indices);
  const Array inside = clamp(from_start, number(0), number(n - 1));
  return inside + iota(DType::i64, indices.shape(), 0) * number(n);
}

}  // namespace eadem::ops
