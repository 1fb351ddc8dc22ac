#pragma once

#include <vector>

#include "eadem/base/tensor_view.h"

// The fast twin of numerics/contraction.h: C = A B in the one order of numerics.md section 4, whatever the target, the
// blocking, the number of threads or the layout.

namespace eadem::kernels {

class Tuner;
struct Candidate;

/// What is done with a product's result part by part, while it is near: with rows [row, row + rows), [B.., M] counted
/// as one axis, of columns [column, column + columns). Each element is handed on once, rounded, by any thread.
struct Epilogue {
  void (*run)(const void* closure, std::int64_t row, std::int64_t rows, std::int64_t column, std::int64_t columns);
  const void* closure;
};

/// c[.., m, n] = sum over k of a[.., m, k] b[.., k, n] (+ bias[n]), bit-equal to numerics::matmul.
///
/// a, b: [B.., M, K] and [B.., K, N] of one dtype, any strides, batch axes of stride zero too; c: [B.., M, N]
/// contiguous, of the operands' dtype or f32 (any floating dtype is taken, those two are fast); bias: [N] or null, of
/// any floating dtype. `keep_packed` keeps the packed form of b on its Buffer (Buffer::prepared), for weights.
void matmul(const TensorView& a, const TensorView& b, const TensorView& c, const TensorView* bias, bool keep_packed,
            const Epilogue* epilogue = nullptr);

/// A matrix that is made a part at a time, as it is packed.
struct MadeMatrix {
  const void* self = nullptr;
  /// Writes the elements [column, column + columns) of `rows` rows from `row` on, which begin row_bytes apart.
  void (*make)(const void* self, std::int64_t row, std::int64_t rows, std::int64_t column, std::int64_t columns,
               std::byte* to, std::int64_t row_bytes) = nullptr;
  bool transposed = false;  ///< it is K x M
  /// Where each block of k begins, and then K, if some terms that are zeros were left out: whole steps, not all of any
  /// block. Null: every 256.
  const std::vector<std::int64_t>* borders = nullptr;
};
/// Whether matmul_made is the way for products of n columns: not on the scalar target, nor for so few that a matrix is
/// read otherwise.
bool matmul_made_admits(DType dtype, std::int64_t n);
/// As matmul of matrices, a being made, which takes any n off the scalar target: b [K, N], K > 0; c [M, N], columns
/// adjacent, rows as far apart as they like.
void matmul_made(const MadeMatrix& a, const TensorView& b, const TensorView& c, const TensorView* bias,
                 bool keep_packed);

/// The candidates of this family: engines, blockings, operands in place or exchanged.
Tuner& contraction_tuner();

/// A candidate that is wrong on purpose: each element is 8.185 / 7.165 of the right one, as of the kernel that XLA's
/// autotuner admitted in flax issue 4629. For showing that the tuner refuses it; it is offered only while tuning.
const Candidate& planted_candidate();

}  // namespace eadem::kernels
