#pragma once

#include "eadem/kernels/convolution/patches.h"

// Convolutions whose groups have one input and one output channel: lanes lie along the channels, so that a tap is one
// FMA of neighbours, in the order of numerics/convolution.h.

namespace eadem::kernels {

/// Whether the fast form takes this: one channel a group on both sides, taps of one step, neighbouring channels, a
/// result of x's dtype or f32.
bool depthwise_admits(const TensorView& x, std::int64_t taps, std::int64_t outputs, std::int64_t groups, DType result);
/// As convolve; w is [taps, channels], contiguous.
void depthwise(const Patches& patches, const TensorView& x, const TensorView& w, const TensorView* bias,
               const TensorView& y);
/// As convolve_vjp_kernel; dy is [rows, channels], contiguous, dw [taps, channels].
void depthwise_vjp_kernel(const Patches& patches, const TensorView& x, const TensorView& dy, const TensorView& dw);

}  // namespace eadem::kernels
