#pragma once

#include "eadem/base/dtype.h"
#include "eadem/kernels/tile.h"
#include "eadem/numerics/float8.h"

namespace eadem::kernels {

/// Floats to codes, codes to floats: numerics/float8.h.
TileFn to_float8(DType from, numerics::Float8 format, bool saturating);
TileFn from_float8(numerics::Float8 format, DType to);

}  // namespace eadem::kernels
