#pragma once

#include <cstdint>

#include "eadem/kernels/contraction/engine.h"
#include "eadem/kernels/contraction/scaling.h"
#include "eadem/numerics/contraction.h"

// AMX: tdpbf16ps adds one bf16 step (32 k, even and odd chains) to a block's sums, which is the order of numerics.md as
// it stands. A tile of C is 2 x 2 registers of 16 x 16. What uses the instruction is one function, so that tests can
// run all the rest of the engine on CPUs without AMX, with the instruction's definition in its place.

namespace eadem::kernels::contraction {

/// Rows of 64 bytes of one tile register, and its 16-bit elements.
inline constexpr int kTileRows = 16;
inline constexpr std::int64_t kTileElements16 = kTileRows * 32;

/// The sums of `steps` steps, from +0, to out[32][32]. Packed a: [step][2][16 rows][32 k]; packed b:
/// [step][2][16 pairs][16 columns][2 k]. Only the registers that rows and columns need are computed.
using AmxBlock = void (*)(const std::uint16_t* a, const std::uint16_t* b, std::int64_t steps, bool two_rows,
                          bool two_columns, float* out);

Magnitudes amx_pack_a(const Operand&, int count, std::int64_t terms, void* out);
void amx_pack_b(const Operand&, std::int64_t count, std::int64_t terms, void* out, std::size_t panel_bytes,
                Magnitudes* magnitudes);
/// The same sums from the same packed operands by widened FMA, subnormals kept. (x86-64 with AVX-512 only.)
void amx_tile_any(const void* a, const void* b, int rows, int columns, std::int64_t terms, const void* left, void* out);

template <AmxBlock block>
void amx_tile(const void* a, const void* b, int rows, int columns, std::int64_t terms, const void* left, void* out) {
  auto* sums = static_cast<float*>(out);
  const auto* before = static_cast<const float*>(left);
  block(static_cast<const std::uint16_t*>(a), static_cast<const std::uint16_t*>(b),
        (terms + numerics::kStepTerms - 1) / numerics::kStepTerms, rows > kTileRows, columns > kTileRows, sums);
  for (int i = 0; before && i < rows * 2 * kTileRows; ++i) sums[i] = before[i] + sums[i];
}

/// The engine around a block function; add and finish are the AVX-512 ones.
template <AmxBlock block>
Engine make_amx_engine() {
  static constexpr char form = 0;
  Engine e = *pair_engine();
  e.name = "amx", e.target = Target::amx, e.form = &form;
  e.rows = e.columns = 2 * kTileRows;
  e.a_step_bytes = 0;  // a row of packed tiles is not one run
  e.a_bytes = e.b_bytes =
      static_cast<std::size_t>(numerics::kBlockTerms / numerics::kStepTerms * 2 * kTileElements16) * 2;
  e.pack_a = &amx_pack_a, e.pack_b = &amx_pack_b;
  e.tile = &amx_tile<block>, e.tile_any = &amx_tile_any;
  e.scale = &scale_bf16, e.unscale = &unscale_sums;
  return e;
}

}  // namespace eadem::kernels::contraction
