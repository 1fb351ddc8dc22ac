#pragma once

#include "eadem/kernels/contraction/driver.h"

namespace eadem::kernels::contraction {

/// Rows of a at most of a product that reads b in place.
inline constexpr int kSkinnyRows = 8;

/// Whether the problem can read b in place: few rows, and columns adjacent in memory.
bool skinny_admits(const Engine&, const Problem&);

/// Runs such a problem; `engine` is the FMA engine of its dtype, whose sums and target it uses.
void multiply_in_place(const Engine& engine, const Problem&);

}  // namespace eadem::kernels::contraction
