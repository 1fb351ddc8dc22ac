#pragma once

#include <cstdint>
#include <optional>

#include "eadem/base/tensor_view.h"

// Convolutions, numerics.md section 4: contractions over (taps, input channels), the channels fastest; padding and the
// holes of a dilated input are +0 on the input's side only.

namespace eadem::numerics {

/// How a kernel moves over an input [N, extents.., C]; every shape has an entry for each spatial axis.
struct Convolution {
  Shape strides, low, high;          ///< steps of the kernel; padding at both ends, negative to crop
  Shape lhs_dilation, rhs_dilation;  ///< 1 + the holes between neighbours of the input, and of the kernel
  std::int64_t groups = 1;           ///< input channels and output channels in as many groups, each its own product
  bool flip = false;                 ///< the kernel's taps lie in reverse order
  std::optional<DType> result = {};  ///< default: the operands'
};

/// An extent with holes.
constexpr std::int64_t dilated_extent(std::int64_t extent, std::int64_t dilation) {
  return extent == 0 ? 0 : (extent - 1) * dilation + 1;
}

/// The output's extent along an axis.
constexpr std::int64_t convolved_extent(const Convolution& c, int axis, std::int64_t input, std::int64_t kernel) {
  const std::int64_t padded = dilated_extent(input, c.lhs_dilation[axis]) + c.low[axis] + c.high[axis];
  const std::int64_t window = dilated_extent(kernel, c.rhs_dilation[axis]);
  return padded < window ? 0 : (padded - window) / c.strides[axis] + 1;
}

/// Where on an axis of the input output `out` meets tap `tap` of `taps`; -1 for padding and holes.
constexpr std::int64_t tap_place(const Convolution& c, int axis, std::int64_t out, std::int64_t tap, std::int64_t taps,
                                 std::int64_t input) {
  const std::int64_t along = c.flip ? taps - 1 - tap : tap;
  const std::int64_t at = out * c.strides[axis] - c.low[axis] + along * c.rhs_dilation[axis];
  if (at < 0 || at % c.lhs_dilation[axis] != 0) return -1;
  return at / c.lhs_dilation[axis] < input ? at / c.lhs_dilation[axis] : -1;
}

/// y[n, o.., g C' + c'] = sum over (taps.., c) of x[n, places.., g C + c] w[taps.., c, g C' + c'] (+ bias), rounded
/// once to y's dtype. x [N, extents.., groups C] and w [taps.., C, groups C'] of one floating dtype; bias [groups C']
/// or null.
void convolve(const TensorView& x, const TensorView& w, const TensorView* bias, const Convolution& c,
              const TensorView& y);

/// What a cotangent dy of y sends to the kernel: dw[taps.., c, g C' + c'] = sum over (n, o..) of x[n, places.., g C +
/// c] dy[n, o.., g C' + c'], rounded once to dw's dtype.
void convolve_vjp_kernel(const TensorView& x, const TensorView& dy, const Convolution& c, const TensorView& dw);

}  // namespace eadem::numerics
