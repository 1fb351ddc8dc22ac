#pragma once

#include "eadem/numerics/convolution.h"

// Convolutions whose groups have one input and one output channel: lanes lie along the channels, so that a tap is one
// FMA of neighbours, in the order of numerics/convolution.h.

namespace eadem::kernels {

/// Whether the fast form takes this: not on the scalar target; one channel a group on both sides, taps of one block,
/// neighbouring channels, a result of x's dtype or f32, lines that the cache holds.
bool depthwise_admits(const TensorView& x, const Shape& taps, const Shape& outs, const numerics::Convolution& c,
                      std::int64_t outputs, DType result);
/// As convolve; w is [taps, channels], contiguous.
void depthwise(const TensorView& x, const Shape& taps, const Shape& outs, const numerics::Convolution& c,
               const TensorView& w, const TensorView* bias, const TensorView& y);
/// As convolve_vjp_kernel; dy is [.., channels], contiguous, dw [taps, channels].
void depthwise_vjp_kernel(const TensorView& x, const Shape& taps, const Shape& outs, const numerics::Convolution& c,
                          const TensorView& dy, const TensorView& dw);

}  // namespace eadem::kernels
