#pragma once

#include "eadem/ir/primitive.h"

namespace eadem {

/// Runs a primitive's fast form on checked operands; a View is materialised by copying. The calling thread's floating
/// environment does not matter. Throws std::bad_alloc, and ValueError for an EADEM_TARGET that cannot be.
void execute(const Primitive&, const Launch&);

/// Runs a primitive's definition (numerics/) on checked operands.
void execute_reference(const Primitive&, const Launch&);

}  // namespace eadem
