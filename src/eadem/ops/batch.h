#pragma once

#include "eadem/array/array.h"

// For rules where the batch of vmap joins an axis that operands have anyway.

namespace eadem::ops {

/// [batch, N, ...] as [batch N, ...].
Array merge_batch(const Array& x);
/// The way back, N being known.
Array split_batch(const Array& x, std::int64_t batch, std::int64_t n);

}  // namespace eadem::ops
