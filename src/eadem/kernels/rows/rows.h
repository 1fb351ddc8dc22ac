#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "eadem/kernels/tile.h"
#include "eadem/numerics/rope.h"

// Row functions: each takes whole contiguous rows (tile.h) and is bit-equal to numerics/softmax.h, softmax_vjp.h,
// normalization.h and reduction.h. Everything inside is f64 in the row sum's order, or exact, so the vector width
// cannot be seen.

namespace eadem::kernels {

/// Of layer_norm, rms_norm and group_norm: added to the variance.
struct EpsilonAttribute {
  double epsilon = 1e-5;
};
/// Of cross_entropy_rows: the loss's dtype, that of x (when none is given, or x is f64) or f32.
struct ResultAttribute {
  std::optional<DType> result;
  DType of(DType x) const { return x == DType::f64 ? x : result.value_or(x); }
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
/// Operands y, dy.
RowFn softmax_vjp_rows(const Signature&);
/// Operands x, dy.
RowFn log_softmax_vjp_rows(const Signature&);
/// Operands x, dy [rows, 1].
RowFn logsumexp_vjp_rows(const Signature&);
/// Operands x and i64 labels [rows, 1]; to [rows].
RowFn cross_entropy_rows(const Signature&);
/// Operands x, labels [rows, 1], and dy [rows, 1] of the loss's dtype.
RowFn cross_entropy_vjp_rows(const Signature&);
/// Operands x, gamma, beta; these have the dtype of x or f32.
RowFn layer_norm_rows(const Signature&);
/// Operands x, gamma.
RowFn rms_norm_rows(const Signature&);
/// Operands x, gamma, dy: what reaches x.
RowFn layer_norm_vjp_rows(const Signature&);
RowFn rms_norm_vjp_rows(const Signature&);
/// Floats to their own dtype, integers and bool to i64 or u64.
RowFn cumsum_rows(const Signature&);
/// [rows, length] to values [rows, k] and i64 indices [rows, k].
RowFn top_k_rows(const Signature&);

/// Over views: x [N, C, ...] with gamma and beta [C] of any floating dtype; the result has x's dtype and any strides.
void group_norm(const TensorView& x, const TensorView& gamma, const TensorView& beta, std::int64_t groups,
                double epsilon, const TensorView& result);
/// Likewise, with dy of x's type; the result is contiguous.
void group_norm_vjp(const TensorView& x, const TensorView& gamma, const TensorView& dy, std::int64_t groups,
                    double epsilon, const TensorView& result);
/// x as [kept, rows, groups, channels, spatial]: each [channels, spatial] is normalised, `centered` or as by rms_norm.
struct GammaLayout {
  std::int64_t kept, rows, groups, channels, spatial;
  bool centered;
};
/// What reaches gamma: [kept, groups channels], contiguous, of x's dtype or f32; x and dy of one type and any strides.
void gamma_vjp(const TensorView& x, const TensorView& dy, const GammaLayout& layout, double epsilon,
               const TensorView& result);
/// Over any axes (ascending, in [0, rank)) to a contiguous result; integers and bool give f32.
void variance(const TensorView& x, const Shape& axes, double ddof, const TensorView& result);
/// Likewise; integers and bool give i64 or u64.
void prod(const TensorView& x, const Shape& axes, const TensorView& result);
/// x [..., D] rotated by positions [...] (i64, any strides) times frequencies (f64, contiguous, at most D / 2); the
/// result is contiguous.
void rope(const TensorView& x, const TensorView& positions, std::span<const double> frequencies,
          numerics::RopePairs pairs, const TensorView& result);

}  // namespace eadem::kernels
