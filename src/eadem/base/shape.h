#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>

#include "eadem/base/error.h"

namespace eadem {

/// Axes of an array at most; more is refused with a ShapeError.
inline constexpr int kMaxRank = 12;

/// A short sequence of 64-bit extents, strides or axes, held inline.
class Shape {
 public:
  constexpr Shape() = default;
  constexpr Shape(std::initializer_list<std::int64_t> extents)
      : Shape(std::span<const std::int64_t>(extents.begin(), extents.size())) {}
  constexpr explicit Shape(std::span<const std::int64_t> extents) {
    for (const std::int64_t extent : extents) push_back(extent);
  }
  /// `rank` copies of `extent`.
  static constexpr Shape filled(int rank, std::int64_t extent) {
    Shape shape;
    for (int i = 0; i < rank; ++i) shape.push_back(extent);
    return shape;
  }

  constexpr int rank() const { return rank_; }
  constexpr std::size_t size() const { return static_cast<std::size_t>(rank_); }
  constexpr bool empty() const { return rank_ == 0; }
  constexpr std::int64_t& operator[](int axis) { return extents_[static_cast<std::size_t>(axis)]; }
  constexpr std::int64_t operator[](int axis) const { return extents_[static_cast<std::size_t>(axis)]; }
  constexpr std::int64_t* begin() { return extents_.data(); }
  constexpr std::int64_t* end() { return extents_.data() + rank_; }
  constexpr const std::int64_t* begin() const { return extents_.data(); }
  constexpr const std::int64_t* end() const { return extents_.data() + rank_; }
  constexpr std::int64_t back() const { return extents_[static_cast<std::size_t>(rank_ - 1)]; }
  constexpr std::int64_t& back() { return extents_[static_cast<std::size_t>(rank_ - 1)]; }

  constexpr void push_back(std::int64_t extent) {
    if (rank_ == kMaxRank) fail<ShapeError>("[shape] arrays have at most {} axes", kMaxRank);
    extents_[static_cast<std::size_t>(rank_++)] = extent;
  }
  constexpr void pop_back() { --rank_; }
  constexpr void insert(int axis, std::int64_t extent) {
    push_back(extent);
    std::rotate(begin() + axis, end() - 1, end());
  }
  constexpr void erase(int axis) {
    std::rotate(begin() + axis, begin() + axis + 1, end());
    pop_back();
  }

  /// The number of elements: the product of the extents (1 for a scalar).
  constexpr std::int64_t elements() const {
    std::int64_t product = 1;
    for (const std::int64_t extent : *this) product *= extent;
    return product;
  }

  friend constexpr bool operator==(const Shape& a, const Shape& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  std::array<std::int64_t, kMaxRank> extents_{};
  int rank_ = 0;
};

/// Row-major strides, in elements.
constexpr Shape contiguous_strides(const Shape& shape) {
  Shape strides = shape;
  std::int64_t stride = 1;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    strides[axis] = stride;
    stride *= shape[axis];
  }
  return strides;
}

/// Maps a possibly negative axis to [0, rank); throws ShapeError naming the operation.
int normalize_axis(std::string_view operation, std::int64_t axis, int rank);

/// NumPy broadcasting of two shapes; throws ShapeError naming the operation.
Shape broadcast_shapes(std::string_view operation, const Shape&, const Shape&);

/// The number of elements, or a ShapeError when an extent is negative or the product does not fit 63 bits.
std::int64_t checked_elements(std::string_view operation, const Shape&);

}  // namespace eadem

/// Prints as [2,3,4].
template <>
struct fmt::formatter<eadem::Shape> {
  constexpr auto parse(fmt::format_parse_context& context) { return context.begin(); }
  fmt::appender format(const eadem::Shape& shape, fmt::format_context& context) const;
};
