#pragma once

#include <algorithm>
#include <vector>

#include "eadem/numerics/convolution.h"

namespace eadem::kernels {

/// The lines (along the last spatial axis) of an input that the taps of an output line meet, for a strip of channels:
/// widened, with zeros for padding and holes, so that a tap is an offset. Lines are kept while further output lines
/// may meet them.
template <class T, class W>
class PaddedLines {
 public:
  /// Widens `channels` channels of `count` places, `stride` elements apart, to places `to_stride` apart.
  using Fill = void (*)(const T* from, std::int64_t stride, std::int64_t count, std::int64_t channels, W* to,
                        std::int64_t to_stride);

  /// Elements that the lines of one strip take, as an estimate that does not overflow.
  static double memory(const Shape& taps, const Shape& outs, const numerics::Convolution& c, std::int64_t lanes) {
    double elements = static_cast<double>(width(taps, outs, c)) * static_cast<double>(lanes);
    for (int axis = 0; axis + 1 < taps.rank(); ++axis)
      elements *= static_cast<double>(numerics::dilated_extent(taps[axis], c.rhs_dilation[axis]));
    return elements;
  }

  /// Channels [first, first + channels) of x, whose channels are neighbours, in places of `lanes` elements.
  PaddedLines(const TensorView& x, const Shape& taps, const Shape& outs, const numerics::Convolution& c,
              std::int64_t first, std::int64_t channels, std::int64_t lanes, Fill fill)
      : x_(x), taps_(taps), outs_(outs), c_(c), first_(first), channels_(channels), lanes_(lanes), fill_(fill) {
    std::int64_t slots = 1, lines = 1;
    for (int axis = 0; axis + 1 < taps.rank(); ++axis) {
      slots *= numerics::dilated_extent(taps[axis], c.rhs_dilation[axis]);
      lines *= taps[axis];
    }
    width_ = width(taps, outs, c);
    held_.assign(static_cast<std::size_t>(slots), -1);
    memory_.assign(static_cast<std::size_t>((slots + 1) * width_ * lanes), W{0});  // the last line stays zero
    met_.resize(static_cast<std::size_t>(lines * taps.back()));
  }

  /// Elements between what a tap of neighbouring outputs meets.
  std::int64_t step() const { return c_.strides.back() * lanes_; }

  /// Where each tap of output `out` of a line lies; until the next call.
  const W* const* met(std::int64_t out_line, std::int64_t out = 0) {
    const int last = taps_.rank() - 1;
    const std::int64_t lines = static_cast<std::int64_t>(met_.size()) / taps_[last];
    for (std::int64_t i = 0; i < lines; ++i) {
      const W* line = line_of(out_line, i);
      for (std::int64_t t = 0; t < taps_[last]; ++t) {
        const std::int64_t along = c_.flip ? taps_[last] - 1 - t : t;
        met_[static_cast<std::size_t>(i * taps_[last] + t)] =
            line + (out * c_.strides[last] + along * c_.rhs_dilation[last]) * lanes_;
      }
    }
    return met_.data();
  }

 private:
  static std::int64_t width(const Shape& taps, const Shape& outs, const numerics::Convolution& c) {
    return (outs.back() - 1) * c.strides.back() + numerics::dilated_extent(taps.back(), c.rhs_dilation.back());
  }

  const W* line_of(std::int64_t out_line, std::int64_t tap_line) {
    std::int64_t offset = first_, input_line = 0, scale = 1, slot = 0, slots = 1;
    for (int axis = taps_.rank() - 2; axis >= 0; --axis) {
      const std::int64_t out = out_line % outs_[axis], tap = tap_line % taps_[axis];
      out_line /= outs_[axis], tap_line /= taps_[axis];
      const std::int64_t at = numerics::tap_place(c_, axis, out, tap, taps_[axis], x_.shape[axis + 1]);
      if (at < 0) return memory_.data() + static_cast<std::int64_t>(held_.size()) * width_ * lanes_;
      // Lines met at once lie within a window, so that they differ by this remainder.
      const std::int64_t window = numerics::dilated_extent(taps_[axis], c_.rhs_dilation[axis]);
      slot += at % window * slots, slots *= window;
      input_line += at * scale, scale *= x_.shape[axis + 1];
      offset += at * x_.strides[axis + 1];
    }
    input_line += out_line * scale;
    W* const line = memory_.data() + slot * width_ * lanes_;
    std::int64_t& held = held_[static_cast<std::size_t>(slot)];
    if (held == input_line) return line;
    held = input_line;
    // Place q lies in column q lhs_dilation + low; the columns of holes and padding stay zero.
    const int last = taps_.rank() - 1;
    const std::int64_t low = c_.low[last], holes = c_.lhs_dilation[last], extent = x_.shape[last + 1];
    const std::int64_t begin = low >= 0 ? 0 : (-low + holes - 1) / holes;
    const std::int64_t end = low >= width_ ? 0 : std::min(extent, (width_ - 1 - low) / holes + 1);
    if (begin < end)
      fill_(x_.as<const T>() + out_line * x_.strides[0] + offset + begin * x_.strides[last + 1], x_.strides[last + 1],
            end - begin, channels_, line + (begin * holes + low) * lanes_, holes * lanes_);
    return line;
  }

  const TensorView& x_;
  const Shape &taps_, &outs_;
  const numerics::Convolution& c_;
  std::int64_t first_, channels_, lanes_, width_;
  Fill fill_;
  std::vector<std::int64_t> held_;  ///< the input line in each slot
  std::vector<W> memory_;
  std::vector<const W*> met_;
};

}  // namespace eadem::kernels
