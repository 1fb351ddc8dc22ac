#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "eadem/base/float16.h"

namespace eadem::kernels {

/// 16-bit floats to the floats of the same value, and back for floats that are values of the 16-bit type: both exact,
/// the payloads of NaN kept (a NaN that computation made is canonical already; select moves bits).
inline bfloat16 narrow_exact_bf16(float x) {
  return {static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(x) >> 16)};
}
inline float16 narrow_exact_f16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  if (x != x) return {static_cast<std::uint16_t>((bits >> 16 & 0x8000) | 0x7c00 | (bits >> 13 & 0x3ff))};
  return to_float16(x);
}
struct WidenFns {
  void (*widen_bf16)(const bfloat16* from, float* to, std::size_t count);
  void (*widen_f16)(const float16* from, float* to, std::size_t count);
  void (*narrow_bf16)(const float* from, bfloat16* to, std::size_t count);
  void (*narrow_f16)(const float* from, float16* to, std::size_t count);
};
/// Those of the active target.
const WidenFns& widen_fns();

}  // namespace eadem::kernels
