#pragma once

#include <cstdint>
#include <span>

#include "eadem/base/dtype.h"

namespace eadem::kernels {

/// Which updates go to which row: those of row r are sources[starts[r]] .. sources[starts[r + 1] - 1], ascending.
struct RowUpdates {
  std::span<const std::int64_t> starts, sources;
};

/// result [outer, rows, inner] = x plus, to each row, its updates out of [outer, count, inner]; all contiguous. Floats
/// are exact sums rounded once, in the bits of numerics::exact_sum; integers wrap.
void scatter_add(const std::byte* x, const std::byte* updates, const RowUpdates& rows, std::int64_t outer,
                 std::int64_t count, std::int64_t inner, DType dtype, std::byte* result);

}  // namespace eadem::kernels
