#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "eadem/base/tensor_view.h"

namespace eadem::kernels {

/// One loop of a reduction: strides in elements; `weight` is what a step adds to the output index (a kept axis) or to
/// the row-major index over the reduced axes (a reduced one).
struct Loop {
  std::int64_t extent = 1, stride = 0, weight = 0;
};

/// A nest of loops, outermost first, innermost last.
class LoopNest {
 public:
  void push_back(const Loop& loop) { loops_[static_cast<std::size_t>(size_++)] = loop; }
  void pop_back() { --size_; }
  int size() const { return size_; }
  bool empty() const { return size_ == 0; }
  Loop& operator[](int i) { return loops_[static_cast<std::size_t>(i)]; }
  const Loop& operator[](int i) const { return loops_[static_cast<std::size_t>(i)]; }
  Loop& back() { return (*this)[size_ - 1]; }
  const Loop& back() const { return (*this)[size_ - 1]; }
  std::int64_t steps() const {
    std::int64_t product = 1;
    for (int i = 0; i < size_; ++i) product *= (*this)[i].extent;
    return product;
  }
  /// Where the step of that number is: its offset in elements and its weight.
  struct Place {
    std::int64_t offset = 0, weight = 0;
  };
  Place at(std::int64_t step) const {
    Place place;
    for (int i = size_ - 1; i >= 0; --i) {
      const Loop& loop = (*this)[i];
      const std::int64_t coordinate = step % loop.extent;
      step /= loop.extent;
      place.offset += coordinate * loop.stride;
      place.weight += coordinate * loop.weight;
    }
    return place;
  }

 private:
  std::array<Loop, kMaxRank> loops_{};
  int size_ = 0;
};

/// What may be changed about the order of the reduced elements.
enum class Order : std::uint8_t {
  row_major,   ///< nothing: the elements keep their order; an axis of stride 0 is walked once (its first element wins)
  free,        ///< any order, every element once
  idempotent,  ///< any order, and equal elements (axes of stride 0) once
  counted,     ///< any order, and equal elements once: the result is for 1/repeats of them
};

/// A reduction as loop nests: axes of extent 1 dropped, the rest sorted (where allowed) and merged.
struct Geometry {
  std::int64_t origin = 0;  ///< offset of the first element, in elements (negative strides are flipped)
  LoopNest kept, reduced;
  std::int64_t outputs = 1, count = 1;  ///< count: elements per output, repeats included
  std::int64_t repeats = 1;

  Geometry(const TensorView& x, const Shape& axes, Order order);
};

/// Copies n elements `stride` apart to contiguous memory.
template <class T>
void gather(const T* from, std::int64_t stride, std::int64_t n, T* to) {
  for (std::int64_t i = 0; i < n; ++i) to[i] = from[i * stride];
}

}  // namespace eadem::kernels
