#pragma once

#include "eadem/base/launch.h"
#include "eadem/kernels/tile.h"

namespace eadem {

/// Runs one elementwise tile function over strided operands of the result's shape (broadcast by stride 0).
void run_tile(kernels::TileFn fn, const Launch& launch) noexcept;

}  // namespace eadem
