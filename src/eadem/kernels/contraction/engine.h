#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "eadem/base/dtype.h"
#include "eadem/kernels/target.h"

// An engine computes tiles of one block (256 k) of a product from packed operands. All engines of a dtype have equal
// bits; they differ in instructions and in packed form. The driver (driver.h) does blocking, tree, threads and tails.

namespace eadem::kernels::contraction {

/// A matrix operand in memory: element (i, k) lies at data + (i * row + k * term) * size, i counting rows of a, or
/// columns of b.
struct Operand {
  const std::byte* data = nullptr;
  std::int64_t row = 0, term = 0;  ///< strides in elements
};

/// Where finished sums go: bias added, rounded once, canonical NaN.
struct Destination {
  std::byte* data = nullptr;
  std::int64_t row = 0, column = 0;  ///< strides in elements
  DType dtype = DType::f32;
  const std::byte* bias = nullptr;  ///< in the computing type (f32 or f64), or null
  std::int64_t bias_row = 0, bias_column = 0;
};

/// What a packed operand's block says about its values: the bits below the sign of its smallest non-zero element and of
/// its greatest, as bf16. Only engines that flush subnormals ask for it.
struct Magnitudes {
  std::uint16_t least = kNoMagnitude, greatest = 0;
  static constexpr std::uint16_t kNoMagnitude = 0x7fff;  ///< there is no smallest: all are zeros (or that NaN)
  void join(const Magnitudes& other) {
    least = std::min(least, other.least);
    greatest = std::max(greatest, other.greatest);
  }
};

/// Panels of a that are packed together where their rows are adjacent in memory.
inline constexpr std::int64_t kTogether = 4;

/// Functions and sizes of one engine. Sizes are of a whole block; shorter blocks use a prefix of that memory.
struct Engine {
  const char* name = "";
  Target target = Target::scalar;
  DType dtype = DType::f32;
  int rows = 0, columns = 0;             ///< of a tile at most; a packed panel of b has exactly `columns`
  std::size_t a_bytes = 0, b_bytes = 0;  ///< of the packed block of a panel of a (`rows` high), of b
  std::size_t a_step_bytes = 0;          ///< from step to step in a packed row of a; 0: not so packed
  std::size_t a_row_bytes = 0;           ///< from row to row of packed a whose terms lie as they are; 0: not so packed
  int group = 1;                         ///< blocks of k whose sums meet in the first-level cache: a power of two
  const void* form = nullptr;            ///< the tag of b's packed form

  /// Packs `count` rows of a, `terms` (at most 256) of each, starting at the operand's element (0, 0).
  Magnitudes (*pack_a)(const Operand&, int count, std::int64_t terms, void* out) = nullptr;
  /// Packs `terms` of kTogether whole panels of a whose rows are adjacent in memory (row == 1) to panels that lie
  /// `panel_bytes` apart, reading each line of memory once; null where pack_a has to do. The magnitudes are of all.
  Magnitudes (*pack_together)(const Operand&, std::int64_t terms, void* out, std::size_t panel_bytes) = nullptr;
  /// Packs `count` columns of b to panels that lie `panel_bytes` apart; engines that check write magnitudes[panel].
  void (*pack_b)(const Operand&, std::int64_t count, std::int64_t terms, void* out, std::size_t panel_bytes,
                 Magnitudes* magnitudes) = nullptr;
  /// The block sums of a tile, added to `left` if that is not null, to out[rows][columns] in f32 (f64); columns past
  /// `columns` may hold anything. left and out: 64-byte aligned.
  void (*tile)(const void* a, const void* b, int rows, int columns, std::int64_t terms, const void* left,
               void* out) = nullptr;
  /// As `tile`, for operands whose products may be subnormal; null if `tile` takes all.
  void (*tile_any)(const void* a, const void* b, int rows, int columns, std::int64_t terms, const void* left,
                   void* out) = nullptr;
  /// Copies the packed `bytes` times 2^shift, for values that this leaves normal; null if `tile` takes all.
  void (*scale)(const void* packed, std::size_t bytes, int shift, void* out) = nullptr;
  /// sums[i] = left[i] + sums[i] 2^-shift, without left if that is null; i below count, a multiple of 32.
  void (*unscale)(const void* left, void* sums, int shift, std::int64_t count) = nullptr;
  /// out[i] = left[i] + right[i], i below count (rounded up to what the tile's row holds).
  void (*add)(const void* left, const void* right, void* out, std::int64_t count) = nullptr;
  /// Finishes a tile of sums with row stride `stride`.
  void (*finish)(const void* sums, std::int64_t stride, int rows, int columns, const Destination&) = nullptr;
};

/// The engine of the widened-FMA body (f64, f32, bf16, f16) for a target; null on `scalar`.
const Engine* fma_engine(DType, Target);
/// bf16 with units that are pairs too: what vdpbf16ps multiplies, by widened FMA; null where AVX-512 is not compiled.
const Engine* pair_engine();
/// vdpbf16ps with (k, k + 2) pairs; null where it is not compiled.
const Engine* avx512bf16_engine();
/// tdpbf16ps; null where it is not compiled.
const Engine* amx_engine();

}  // namespace eadem::kernels::contraction
