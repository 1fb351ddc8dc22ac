#pragma once

#include <cstdint>
#include <span>

#include "eadem/base/tensor_view.h"
#include "eadem/kernels/quantized/packed.h"

namespace eadem::kernels {

class Tuner;

/// y [M,N] = x [M,K] w [N,K]^T (+ bias [N]): the bits of numerics::quantized_linear, for every M.
/// x: f32, bf16, f16 (or f64: the f64 contraction with the exact weights); y and bias: any floating dtype; all may be
/// strided. With w = s q + b in groups of g columns, c = q - 2^(bits-1) and b' = fma(2^(bits-1), s, b):
/// y = tree over 256 k of ascending t_g = fma(s, sum x c, RN(b' sum x)).
void quantized_linear(const TensorView& x, const PackedQuantized& w, const TensorView& y, const TensorView* bias);

/// out [ids.size(), K] = the rows `ids` of w, dequantized: RN of the exact s q + b to out's dtype. Ids must be in
/// range.
void dequantize_rows(const PackedQuantized& w, std::span<const std::int64_t> ids, const TensorView& out);

/// The candidates of this family: instructions, codes unpacked in registers or to strips, other tasks.
Tuner& quantized_tuner();

}  // namespace eadem::kernels
