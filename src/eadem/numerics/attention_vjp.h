#pragma once

#include "eadem/numerics/attention.h"

// The reverse derivative of attention over dense keys (numerics.md section 5). Per query and visible key:
//   p = RN(ptilde RN(1 / l)), ptilde = f 2^(n - m) as in attention.h, but with the final m and l
//   dP = the contraction of dy and v over the head; delta = the contraction of dy and o in the f32 order
//   ds = RN(p RN(dP - delta)): what reaches s; NaN for a row that attention made NaN
//   dt = ds, with softcap RN(ds tanh'(RN(t / c))): what reaches t, the score that enters the softcap
//   dq_i = RN_T(scale sum over k = j - start of dt k_j)
//   dk_j = RN_T(scale sum over k = (i - first) G + h of dt q_i),  dv_j = RN_T(sum over the same k of p dy_i)
// A key that the query does not see is an absent term. The scale is multiplied in f64 (exactly but for f64), so that
// there is one rounding; no result is -0. h is the head in its group; first = max(0, start - position) counts the
// queries before the sequence's own first key where the alignment is causal, so that left padding moves no bit; a
// negative start counts as 0. bf16: p and dt by split contraction, 128 k a block of 256: RN(x) and then RN(x - RN(x));
// f16: the f32 order on widened values.

namespace eadem::numerics {

/// What attention keeps for its derivative; contiguous.
struct AttentionResiduals {
  TensorView maximum;  ///< f64 [B, H, Lq]: the integer m, which f32 may not hold (read by rint); 0 where NaN, -inf: no
                       ///< visible key
  TensorView sum;      ///< f32 (f64) [B, H, Lq]: l; NaN for a NaN row, +0 without a visible key
  TensorView output;   ///< f32 (f64) [B, H, Lq, D]: o, y before its rounding to a narrower dtype
};

/// attention that fills the residuals too.
void attention_saving(const AttentionOperands&, const AttentionOptions&, const AttentionResiduals&);

/// Cotangents; contiguous, views without data are not asked for.
struct AttentionCotangents {
  TensorView q, k, v;  ///< of the operands' types
  TensorView scores;   ///< f32 (f64) [B, H, Lq, Lk]: ds, +0 for invisible keys
};

/// The definition. `x.y` is not read; pages are not taken. dy: [B, H, Lq, D] of q's dtype.
void attention_vjp(const AttentionOperands& x, const AttentionOptions&, const TensorView& dy,
                   const AttentionResiduals& saved, const AttentionCotangents& out);

/// How many queries of batch row b stand before its first key.
std::int64_t queries_before_start(const AttentionOperands&, const AttentionOptions&, std::int64_t b);

}  // namespace eadem::numerics
