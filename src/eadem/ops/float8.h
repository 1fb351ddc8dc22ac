#pragma once

#include "eadem/array/array.h"
#include "eadem/numerics/float8.h"

namespace eadem {

using numerics::Float8;

/// The codes, u8, of floats rounded to an 8-bit format, ties to even; numerics/float8.h has the formats. What is too
/// large becomes the largest number when `saturating`, otherwise E4M3's NaN or E5M2's infinity. Throws TypeError for
/// other dtypes. It has no derivative: a step everywhere.
Array to_float8(const Array& x, Float8 format, bool saturating = true);
/// The numbers that codes, u8, stand for, exactly, in any floating dtype. Throws TypeError otherwise.
Array from_float8(const Array& codes, Float8 format, DType dtype = DType::f32);

}  // namespace eadem
