#pragma once

#include <algorithm>
#include <string_view>

#include "eadem/array/array.h"

// What take and scatter share: how they read indices, and how a batch of index sets becomes one.

namespace eadem::ops {

/// The row that an index names: negative ones count from the end; what is still outside is clamped (the public
/// functions refuse it before, where they can).
inline std::int64_t row_of(std::int64_t index, std::int64_t extent) {
  return std::clamp<std::int64_t>(index < 0 ? index + extent : index, 0, extent - 1);
}

/// Integer indices as i64; throws ValueError for one outside axis `axis` of x, unless they are traced.
Array indices_in_range(std::string_view operation, const Array& indices, const Array& x, int axis);

/// x [batch, A.., n, C..], n being axis `axis` without the batch, as [A.., batch n, C..].
Array side_by_side(const Array& x, std::int64_t axis);
/// Its inverse, to [batch, A.., n, C..].
Array apart(const Array& x, std::int64_t axis, std::int64_t batch, std::int64_t n);
/// Indices [batch, I..] into n rows each, as indices into batch n rows.
Array indices_side_by_side(const Array& indices, std::int64_t n);

}  // namespace eadem::ops
