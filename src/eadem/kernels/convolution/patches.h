#pragma once

#include <cstdint>
#include <vector>

#include "eadem/numerics/convolution.h"

namespace eadem::kernels {

/// The input's elements that each output of a convolution meets, as rows of a matrix, a block of rows at a time.
class Patches {
 public:
  /// x [N, extents.., C], any strides; the spatial extents of the kernel and of the output.
  Patches(const TensorView& x, const Shape& taps, const Shape& outs, const numerics::Convolution& c);

  /// Rows in all, N times the outputs; and the elements of a row in one group.
  std::int64_t rows() const { return x_.shape[0] * outs_.elements(); }
  std::int64_t terms() const { return taps_.elements() * channels_; }
  /// The first channel that each tap of a row meets; null for padding and holes.
  void places(std::int64_t row, const std::byte** to) const;
  /// Writes rows [first, first + count) as [groups, count, terms].
  void gather(std::int64_t first, std::int64_t count, std::byte* to) const;

 private:
  /// Of each axis, by tap: the byte offset of the element that a row meets, or kNowhere; until the thread's next call.
  /// Returns where the row's example begins.
  const std::byte* begin_row(std::int64_t row, const std::int64_t** places) const;
  void gather_row(std::int64_t row, std::int64_t group_stride, std::byte* to) const;
  void copy_channels(const std::byte* from, std::int64_t group_stride, std::byte* to) const;

  TensorView x_;
  Shape taps_, outs_;
  std::int64_t groups_, channels_, size_;
  numerics::Convolution convolution_;
  std::size_t taps_along_ = 0;      ///< the taps of every axis, added up
  std::vector<Shape> taps_before_;  ///< the taps without the last axis, in order
  bool runs_;                       ///< neighbouring taps of the last axis meet neighbouring memory
};

}  // namespace eadem::kernels
