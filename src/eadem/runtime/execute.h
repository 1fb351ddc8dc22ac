#pragma once

#include "eadem/ir/primitive.h"

namespace eadem {

/// Runs a primitive's fast form on checked operands; a View is materialised by copying.
void execute(const Primitive&, const Launch&);

/// Runs a primitive's definition (numerics/) on checked operands.
void execute_reference(const Primitive&, const Launch&);

}  // namespace eadem
