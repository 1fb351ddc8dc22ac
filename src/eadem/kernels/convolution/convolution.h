#pragma once

#include "eadem/numerics/convolution.h"

// The fast twins of numerics/convolution.h: patches are gathered a block at a time and contracted by kernels::matmul,
// so that the order is its own, whatever the target, the blocks, the number of threads or the layout.

namespace eadem::kernels {

/// As numerics::convolve; w and y are contiguous, x has any strides. The packed form of w is kept on its buffer.
void convolve(const TensorView& x, const TensorView& w, const TensorView* bias, const numerics::Convolution& c,
              const TensorView& y);
/// As numerics::convolve_vjp_kernel; dy and dw are contiguous.
void convolve_vjp_kernel(const TensorView& x, const TensorView& dy, const numerics::Convolution& c,
                         const TensorView& dw);

}  // namespace eadem::kernels
