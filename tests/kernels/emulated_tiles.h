#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "eadem/base/float16.h"

namespace eadem::testing {

/// tdpbf16ps by its definition, subnormal operands and results flushed (Intel SDM): c[16][16] += a b for a [16 rows]
/// [32 k], rows `a_stride` elements apart, and b [16 pairs of k][16 columns][2], pairs `b_stride` elements apart.
inline void multiply_tiles(const std::uint16_t* a, std::ptrdiff_t a_stride, const std::uint16_t* b,
                           std::ptrdiff_t b_stride, float (*c)[16]) {
  const auto flushed = [](float x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x; };
  const auto operand = [&](std::uint16_t bits) { return flushed(to_float(bfloat16{bits})); };
  for (int m = 0; m < 16; ++m)
    for (int n = 0; n < 16; ++n) {
      float chain[2] = {0, 0};
      for (int k = 0; k < 32; ++k)
        chain[k % 2] =
            flushed(std::fma(operand(a[m * a_stride + k]), operand(b[k / 2 * b_stride + 2 * n + k % 2]), chain[k % 2]));
      c[m][n] = flushed(c[m][n] + flushed(chain[0] + chain[1]));
    }
}

}  // namespace eadem::testing
