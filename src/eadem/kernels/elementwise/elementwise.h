#pragma once

#include "eadem/kernels/tile.h"
#include "eadem/numerics/elementary.h"

// The tile functions of elementwise primitives: one for each operation, dtype and target, bit-equal to numerics/.
// All operands have the dtype of the first unless it is said otherwise; a dtype that the operation does not take (which
// the caller has refused) gives null. Bodies read and write elements [0, count) only, and may run in place: the result
// may be an operand of the same held size, but must not overlap one otherwise.

namespace eadem::kernels {

// Arithmetic: floats and integers; arithmetic.h has the meaning.
TileFn negate(const Signature&);
TileFn abs(const Signature&);
TileFn sign(const Signature&);
TileFn add(const Signature&);
TileFn subtract(const Signature&);
TileFn multiply(const Signature&);
TileFn gated_multiply(const Signature&);
TileFn gated_divide(const Signature&);
TileFn divide(const Signature&);
TileFn fmod(const Signature&);
TileFn remainder(const Signature&);
TileFn maximum(const Signature&);
TileFn minimum(const Signature&);
TileFn fma(const Signature&);
TileFn clamp(const Signature&);
TileFn relu(const Signature&);

// Rounding to integral values: floats.
TileFn floor(const Signature&);
TileFn ceil(const Signature&);
TileFn round(const Signature&);
TileFn trunc(const Signature&);

// Comparisons of two operands of any dtype, and tests of floats: the result is bool.
TileFn equal(const Signature&);
TileFn not_equal(const Signature&);
TileFn less(const Signature&);
TileFn less_equal(const Signature&);
TileFn greater(const Signature&);
TileFn greater_equal(const Signature&);
TileFn is_nan(const Signature&);
TileFn is_finite(const Signature&);
TileFn is_inf(const Signature&);

// Integers; bitwise_* bool too.
TileFn bitwise_and(const Signature&);
TileFn bitwise_or(const Signature&);
TileFn bitwise_xor(const Signature&);
TileFn shift_left(const Signature&);
TileFn shift_right_logical(const Signature&);
TileFn shift_right_arithmetic(const Signature&);
TileFn bitwise_not(const Signature&);
TileFn population_count(const Signature&);
TileFn count_leading_zeros(const Signature&);

/// operands[0] (bool) ? operands[1] : operands[2], of any one dtype.
TileFn select(const Signature&);

/// Conversion between any two dtypes.
TileFn convert(DType from, DType to);

/// The elementary functions, for f64, f32, bf16 and f16.
TileFn elementary(numerics::Function, DType);
TileFn elementary(numerics::Function2, DType);

}  // namespace eadem::kernels
