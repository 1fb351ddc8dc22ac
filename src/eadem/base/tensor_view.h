#pragma once

#include <cstddef>
#include <cstdint>

#include "eadem/base/dtype.h"
#include "eadem/base/shape.h"

namespace eadem {

class Buffer;

/// A dtype and a shape.
struct TensorType {
  DType dtype = DType::f32;
  Shape shape;
  friend bool operator==(const TensorType&, const TensorType&) = default;
};

/// A strided window on memory that someone else owns; strides are in elements and may be zero or negative.
struct TensorView {
  std::byte* data = nullptr;  ///< the element at index zero of every axis
  DType dtype = DType::f32;
  Shape shape;
  Shape strides;
  const Buffer* buffer = nullptr;  ///< whose memory it is, where packed forms may be kept; null if nobody's

  TensorType type() const { return {dtype, shape}; }
  std::int64_t elements() const { return shape.elements(); }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data);
  }
};

/// A view on contiguous memory of the given type.
inline TensorView contiguous_view(void* data, DType dtype, const Shape& shape) {
  return {static_cast<std::byte*>(data), dtype, shape, contiguous_strides(shape)};
}

/// Whether elements lie in row-major order without gaps (axes of extent one are free).
inline bool is_contiguous(const TensorView& view) {
  std::int64_t stride = 1;
  for (int axis = view.shape.rank() - 1; axis >= 0; --axis) {
    if (view.shape[axis] == 0) return true;
    if (view.shape[axis] != 1 && view.strides[axis] != stride) return false;
    stride *= view.shape[axis];
  }
  return true;
}

}  // namespace eadem

/// Prints as f32[2,3].
template <>
struct fmt::formatter<eadem::TensorType> {
  constexpr auto parse(fmt::format_parse_context& context) { return context.begin(); }
  auto format(const eadem::TensorType& type, fmt::format_context& context) const {
    return fmt::format_to(context.out(), "{}{}", type.dtype, type.shape);
  }
};
