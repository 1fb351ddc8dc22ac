#pragma once

#include <cstdint>
#include <span>

#include "eadem/kernels/tile.h"
#include "eadem/numerics/rope.h"

// Row functions: each takes whole contiguous rows (tile.h) and is bit-equal to numerics/softmax.h, normalization.h and
// reduction.h. Everything inside is f64 in the row sum's order, or exact, so the vector width cannot be seen.

namespace eadem::kernels {

/// Of layer_norm, rms_norm and group_norm: added to the variance.
struct EpsilonAttribute {
  double epsilon = 1e-5;
};
/// Of cumsum_rows.
struct ReverseAttribute {
  bool reverse = false;
};

/// Of top_k_rows.
struct CountAttribute {
  std::int64_t k = 1;
};

/// Floats to their own dtype.
RowFn softmax_rows(const Signature&);
RowFn log_softmax_rows(const Signature&);
/// [rows, length] to [rows].
RowFn logsumexp_rows(const Signature&);
/// Operands x, gamma, beta; these have the dtype of x or f32.
RowFn layer_norm_rows(const Signature&);
/// Operands x, gamma.
RowFn rms_norm_rows(const Signature&);
/// Floats to their own dtype, integers and bool to i64 or u64.
RowFn cumsum_rows(const Signature&);
/// [rows, length] to values [rows, k] and i64 indices [rows, k].
RowFn top_k_rows(const Signature&);

/// Over views: x [N, C, ...] with gamma and beta [C] of any floating dtype; the result has x's dtype and any strides.
void group_norm(const TensorView& x, const TensorView& gamma, const TensorView& beta, std::int64_t groups,
                double epsilon, const TensorView& result);
/// Over any axes (ascending, in [0, rank)) to a contiguous result; integers and bool give f32.
void variance(const TensorView& x, const Shape& axes, double ddof, const TensorView& result);
/// Likewise; integers and bool give i64 or u64.
void prod(const TensorView& x, const Shape& axes, const TensorView& result);
/// x [..., D] rotated by positions [...] (i64, any strides) times frequencies (f64, contiguous, at most D / 2); the
/// result is contiguous.
void rope(const TensorView& x, const TensorView& positions, std::span<const double> frequencies,
          numerics::RopePairs pairs, const TensorView& result);

}  // namespace eadem::kernels
