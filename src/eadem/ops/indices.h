#pragma once

#include <string_view>

#include "eadem/array/array.h"

namespace eadem::ops {

/// Contiguous i64 indices of the same shape from an integer array; throws TypeError for other dtypes and ValueError
/// for a u64 beyond i64.
Array as_indices(std::string_view operation, const Array& indices);

}  // namespace eadem::ops
