#pragma once

#include "eadem/kernels/contraction/driver.h"

namespace eadem::kernels::contraction {

/// Runs a problem of integers (wrapping) or bool ("or" of "and"s), in parallel. Any order is exact here.
void multiply_integers(const Problem&);

}  // namespace eadem::kernels::contraction
