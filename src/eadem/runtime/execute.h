#pragma once

#include "eadem/ir/primitive.h"
#include "eadem/kernels/contraction/contraction.h"

namespace eadem {

/// Runs a primitive's fast form on checked operands; a View is materialised by copying. The calling thread's floating
/// environment does not matter. `epilogue`: for a kernel that hands its result's parts on. Throws std::bad_alloc, and
/// ValueError for an EADEM_TARGET that cannot be.
void execute(const Primitive&, const Launch&, const kernels::Epilogue* epilogue = nullptr);

/// Runs a primitive's definition (numerics/) on checked operands.
void execute_reference(const Primitive&, const Launch&);

}  // namespace eadem
