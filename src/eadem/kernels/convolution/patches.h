#pragma once

#include <cstdint>
#include <vector>

#include "eadem/numerics/convolution.h"

namespace eadem::kernels {

/// The input's elements that each output of a convolution meets, as rows of a matrix: made a part at a time, never all
/// at once. A *line* is what a row meets along the last spatial axis.
class Patches {
 public:
  /// x [N, extents.., C], any strides; the spatial extents of the kernel and of the output.
  Patches(const TensorView& x, const Shape& taps, const Shape& outs, const numerics::Convolution& c);

  /// Rows in all, N times the outputs; and the elements of a row in one group.
  std::int64_t rows() const { return x_.shape[0] * outs_.elements(); }
  std::int64_t terms() const { return taps_.elements() * channels_; }
  /// Writes the elements [term, term + terms) in `group` of rows [row, row + count), which begin row_bytes apart.
  void gather(std::int64_t group, std::int64_t row, std::int64_t count, std::int64_t term, std::int64_t terms,
              std::byte* to, std::int64_t row_bytes) const;

 private:
  /// Where the lines [first, first + count) of the rows of one output line begin; null for padding and holes.
  void find_lines(std::int64_t out_line, std::int64_t group, std::int64_t first, std::int64_t count,
                  const std::byte** lines) const;
  void gather_line(const std::byte* line, std::int64_t out, std::int64_t count, std::int64_t term, std::int64_t terms,
                   std::byte* to, std::int64_t row_bytes) const;
  void gather_run(const std::byte* line, std::int64_t offset, std::int64_t width, std::int64_t out, std::int64_t count,
                  std::int64_t term, std::int64_t terms, std::byte* to, std::int64_t row_bytes) const;
  void gather_tap(const std::byte* line, std::int64_t out, std::int64_t tap, std::int64_t channel, std::int64_t count,
                  std::byte* to) const;

  TensorView x_;
  Shape taps_, outs_;
  std::int64_t channels_, size_;
  numerics::Convolution convolution_;
  void (*copy_rows_)(const std::byte* from, std::int64_t from_bytes, std::int64_t count, std::int64_t bytes,
                     std::byte* to, std::int64_t to_bytes);
  std::vector<Shape> taps_before_;  ///< the taps without the last axis, in order: those of each line
  bool single_runs_;                ///< the channels of a tap are neighbours, and along a line there are no holes
  bool runs_;                       ///< neighbouring taps of a line meet neighbouring memory, too
};

}  // namespace eadem::kernels
