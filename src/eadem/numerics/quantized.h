#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "eadem/base/tensor_view.h"
#include "eadem/numerics/quantized_blocks.h"
#include "eadem/numerics/rounding.h"

// Products with quantized weights: numerics.md section 7.

namespace eadem::numerics {

/// RN_T of the exact s q + b (q uncentred); zero is +0.
template <FloatingElement T>
T dequantize(std::uint8_t q, float s, float b);

/// Dequantizes one decoded row into `out`.
template <FloatingElement T>
void dequantize_row(const QuantizedFormat& format, const QuantizedRow& row, T* out);

/// Q_g (codes centred by `centre`) or, with `codes` null, X_g: the group's steps of x times the codes (or ones),
/// ascending from +0. `stride` is in elements.
template <FloatingElement T>
float group_sum(const T* x, std::ptrdiff_t stride, const std::uint8_t* codes, int centre, int group);

/// The product of x, `row.codes.size()` elements `stride` apart, and one decoded row: in f32, or for double the f64
/// contraction with RN_f64 of the exact weights. Before any bias and rounding.
template <FloatingElement T>
Wide<T> quantized_dot(const T* x, std::ptrdiff_t stride, const QuantizedFormat& format, const QuantizedRow& row);

/// y [M,N] = x [M,K] w [N,K]^T (+ bias [N], in f32), rounded to y's dtype: the meaning of kernels::quantized_linear.
void quantized_linear(const TensorView& x, const QuantizedMatrix& w, const TensorView& y, const TensorView* bias);

}  // namespace eadem::numerics
