#pragma once

#include <cstdint>

#include "eadem/base/dtype.h"
#include "eadem/numerics/random.h"

namespace eadem::kernels {

// Fast twins of numerics/random.h: element i of the result is the definition's element i of the key's stream. The
// output is contiguous; several threads.

/// `type` is u8, u16, u32 or u64.
void random_bits(numerics::Key key, DType type, void* out, std::int64_t count);
/// `type` is floating; low and high are first rounded to it.
void random_uniform(numerics::Key key, DType type, double low, double high, void* out, std::int64_t count);
void random_normal(numerics::Key key, DType type, void* out, std::int64_t count);

}  // namespace eadem::kernels
