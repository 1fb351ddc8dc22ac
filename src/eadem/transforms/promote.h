#pragma once

#include "eadem/ir/program.h"

namespace eadem {

/// The FP64 referee of a program: every float is f64, conversions between floats are dropped, and records marked keep
/// (random bits, bitcasts) run as declared, their floats then converted. Sub-programs too. The inputs that were floats
/// are f64. The bits are those of `replay(program)` in Mode::f64.
Program promote(const Program& program);

/// The referee of the ratio R: every float operand is widened, the equation computed in f64, and its result rounded
/// once to the declared dtype. Inputs and outputs keep their types.
Program ideal(const Program& program);

}  // namespace eadem
