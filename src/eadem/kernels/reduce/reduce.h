#pragma once

#include "eadem/base/tensor_view.h"

// Reductions over any set of axes of any strided view, bit-equal to numerics/exact_sum.h and numerics/reduction.h.
//
// sum and mean are exact (numerics.md section 3), so order is free: elements are added in f64 in whatever order memory
// likes, with a bound on the error; only where the bound straddles a rounding border are the elements read again, by
// TwoSum, and at last by the integer accumulator. max, min, any, all, argmax and argmin are integer comparisons of keys
// in the order of section 1. prod, variance, cumsum and top_k are in kernels/rows: their order is the row's.

namespace eadem::kernels {

/// Each takes x, the reduced axes (ascending, in [0, rank)) and a contiguous result over the kept axes in their order.
/// sum: integers and bool give i64 or u64, floats their own dtype.
void sum(const TensorView& x, const Shape& axes, const TensorView& result);
/// mean: floats give their own dtype, integers and bool f32.
void mean(const TensorView& x, const Shape& axes, const TensorView& result);
/// max and min give x's dtype; the reduced axes must not be empty of elements.
void max(const TensorView& x, const Shape& axes, const TensorView& result);
void min(const TensorView& x, const Shape& axes, const TensorView& result);
/// norm: the square root of the exact sum of squares (numerics/norm.h), of floats to their own dtype.
void norm(const TensorView& x, const Shape& axes, const TensorView& result);
/// any and all give bool.
void any(const TensorView& x, const Shape& axes, const TensorView& result);
void all(const TensorView& x, const Shape& axes, const TensorView& result);
/// argmax and argmin give i64: the row-major index over the reduced axes, which must not be empty of elements.
void argmax(const TensorView& x, const Shape& axes, const TensorView& result);
void argmin(const TensorView& x, const Shape& axes, const TensorView& result);

}  // namespace eadem::kernels
