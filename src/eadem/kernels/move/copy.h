#pragma once

#include "eadem/base/tensor_view.h"

namespace eadem::kernels {

/// Copies elements of equal dtype and shape between strided windows, which must not overlap; bits are kept.
void copy(const TensorView& source, const TensorView& destination);

}  // namespace eadem::kernels
