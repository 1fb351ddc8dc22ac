#pragma once

#include <string_view>

#include "eadem/ir/primitive.h"

// What the records of ops/ share: checks for infer, references by index, common samples.

namespace eadem::ops {

/// Calls f(index) for every index of the shape, row-major.
template <class F>
void for_each_index(const Shape& shape, F&& f) {
  Shape index = Shape::filled(shape.rank(), 0);
  for (std::int64_t i = shape.elements(); i > 0; --i) {
    f(static_cast<const Shape&>(index));
    for (int axis = shape.rank() - 1; axis >= 0 && ++index[axis] == shape[axis]; --axis) index[axis] = 0;
  }
}

/// The address of the element at `index` (as many as axes, each within its extent).
inline std::byte* element_at(const TensorView& view, const Shape& index) {
  std::int64_t offset = 0;
  for (int axis = 0; axis < view.shape.rank(); ++axis) offset += index[axis] * view.strides[axis];
  return view.data + offset * static_cast<std::int64_t>(size_of(view.dtype));
}

/// Copies one element of `dtype`, bits kept.
inline void move_element(DType dtype, const std::byte* from, std::byte* to) {
  __builtin_memcpy(to, from, size_of(dtype));
}

/// The reference of a View primitive: its window, element by element.
template <auto view>
void reference_of_view(const Launch& launch) {
  const std::optional<TensorView> found = view(launch);
  const TensorView &window = *found, &result = launch.results[0];
  for_each_index(result.shape, [&](const Shape& index) {
    move_element(result.dtype, element_at(window, index), element_at(result, index));
  });
}

/// Throws ShapeError unless `axis` is in [0, rank): attributes hold axes already normalised by the public functions.
inline void require_axis(std::string_view operation, std::int64_t axis, int rank) {
  if (axis < 0 || axis >= rank)
    fail<ShapeError>("[{}] axis {} is out of range for an array of rank {}", operation, axis, rank);
}

/// Throws unless the primitive got `count` operands: a program can be wrong, the public functions cannot.
inline void require_operands(std::string_view operation, const Signature& signature, std::size_t count) {
  if (signature.operands.size() != count)
    fail<ValueError>("[{}] takes {} operands, got {}", operation, count, signature.operands.size());
}

}  // namespace eadem::ops
