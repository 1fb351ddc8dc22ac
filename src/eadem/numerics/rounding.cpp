#include "eadem/numerics/rounding.h"

namespace eadem::numerics {

// The definition leans on IEEE double and float with subnormals, rounded to nearest: refuse to build without.
static_assert(std::numeric_limits<double>::is_iec559 && std::numeric_limits<float>::is_iec559);
static_assert(to_bfloat16(1.0 + 0x1p-8 + 0x1p-40).bits == 0x3f81, "one rounding, not two");

}  // namespace eadem::numerics
