#pragma once

#include <cstddef>
#include <cstdint>

#include "eadem/base/launch.h"

namespace eadem::kernels {

/// Elements of a tile at most; tiles lie in L1.
inline constexpr std::size_t kTileElements = 512;

/// One contiguous tile of an elementwise primitive. bf16 and f16 elements are held as float (exact); a TileFn whose
/// result is 16-bit rounds to that dtype and stores the rounded value as float. All other dtypes are held as they are.
struct TileArgs {
  const void* in[4] = {};
  void* out = nullptr;
  std::size_t count = 0;  ///< 1..kTileElements; memory past it may be someone else's: bodies stay inside
  const void* attributes = nullptr;
};
using TileFn = void (*)(const TileArgs&);
/// Picks the tile function for these operand types and the active target.
using TilePick = TileFn (*)(const Signature&);

/// Rows [0, rows) of a row primitive: operand 0 is [rows, length], contiguous, and so are the other operands that have
/// rows (of any length) and the results, each in its own dtype; what remains are vectors shared by all rows (gamma).
struct RowArgs {
  const std::byte* in[4] = {};
  std::byte* out[2] = {};
  std::int64_t rows = 0, length = 0;
  const void* attributes = nullptr;
};
using RowFn = void (*)(const RowArgs&);
using RowPick = RowFn (*)(const Signature&);

}  // namespace eadem::kernels
