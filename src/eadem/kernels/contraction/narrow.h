#pragma once

#include "eadem/kernels/contraction/driver.h"

namespace eadem::kernels::contraction {

/// Columns of b at most of a product that reads a in place.
inline constexpr int kNarrowColumns = 8;

/// Whether the problem can read a in place: few columns, and the terms of a row adjacent in memory.
bool narrow_admits(const Problem&);

/// Runs such a problem; `engine` is the FMA engine of its dtype, whose sums and target it uses.
void multiply_narrow(const Engine& engine, const Problem&);

}  // namespace eadem::kernels::contraction
