#pragma once

#include "eadem/base/launch.h"
#include "eadem/kernels/tile.h"

namespace eadem {

/// Runs one row function over the last axis of operand 0. The results, and operands of its rank, have its leading
/// shape; other operands are vectors.
void run_rows(kernels::RowFn fn, const Launch& launch);

}  // namespace eadem
