#pragma once

#include "eadem/numerics/attention.h"
#include "eadem/numerics/attention_vjp.h"

// The fast twin of numerics/attention.h, bit for bit, whatever the target, the number of threads, the layout, the
// split into prefill chunks or the place in a batch.
//
// Queries of one key head (all heads of its group together) form tiles of rows. Keys are packed, block by block, so
// that vector lanes run over keys for the scores and over the head's elements for p v: once for all tiles, or, when one
// tile has all the rows (decode), by the tile itself, which then shares out the chunks of keys over the threads.

namespace eadem::kernels {

/// As numerics::attention, or with residuals as attention_saving. y must not overlap an operand.
void attention(const numerics::AttentionOperands&, const numerics::AttentionOptions&,
               const numerics::AttentionResiduals* residuals = nullptr);

/// As numerics::attention_vjp.
void attention_vjp(const numerics::AttentionOperands&, const numerics::AttentionOptions&, const TensorView& dy,
                   const numerics::AttentionResiduals&, const numerics::AttentionCotangents&);

/// As numerics::append_to_pages. No two rows may name the same slot of a page.
void append_to_pages(const numerics::PageAppend&);

}  // namespace eadem::kernels
