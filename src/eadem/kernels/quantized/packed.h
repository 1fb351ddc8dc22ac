#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "eadem/base/buffer.h"
#include "eadem/numerics/quantized_blocks.h"

namespace eadem::kernels {

/// Rows of a panel: the lanes along N.
inline constexpr int kPanelRows = 16;

/// Columns of a slab, see PackedQuantized.
inline constexpr int kSlabColumns = 128;

/// Bits of a code in its word; those of the widths 3, 5 and 6 above these are in the plane.
constexpr int low_bits(int width) {
  return width == 8 ? 8 : width >= 4 ? 4 : 2;
}

/// Quantized weights [rows, columns] in the one layout that all targets, prefill and decode read: panels of 16 rows
/// (the last one padded with zero weights), a panel being a sequence of slabs of 128 columns (the last one perhaps
/// fewer), each cut into steps: a group's 16 columns, or 32. Decode reads all of it in one ascending stream.
/// - Codes of a slab: 64-byte units of one 32-bit word a row, word j of each of its steps, then word j + 1 of each. A
///   word holds the uncentred codes of consecutive columns in fields of 2, 4 or 8 bits. Of widths 3, 5 and 6 those are
///   the low 2 or 4 bits, and words of the bits above them, the plane, follow those of the slab. places_of() tells
///   where; it puts columns k, k + 2 (and k + 1, k + 3) at equal places of the word's halves, high half first: as
///   vdpbf16ps takes its pairs.
/// - Scales of a slab, after its codes: for each of its groups 16 values of s, then, unless the format is symmetric, 16
///   of b, in format.scale_dtype. Where that is i8 they are integers, and 16 factors in f16 for s, then 16 for b,
///   follow. A slab is padded to 64 bytes.
struct PackedQuantized {
  numerics::QuantizedFormat format;
  std::int64_t rows = 0, columns = 0;
  BufferRef memory;

  // What follows from the format and the columns, see layout().
  int width = 4;           ///< bits of a stored code: 2, 3, 4, 5, 6 or 8
  int step = 32;           ///< columns of a step
  int log_steps = 0;       ///< log2 of the steps of a group
  int log_slab_steps = 2;  ///< log2 of the steps of a slab
  std::size_t step_bytes = 0, group_scale_bytes = 0, slab_bytes = 0, panel_bytes = 0;

  std::int64_t panels() const { return (rows + kPanelRows - 1) / kPanelRows; }
  std::int64_t groups() const { return columns / format.group; }
  std::int64_t steps() const { return columns / step; }
  std::size_t bytes() const { return panel_bytes * static_cast<std::size_t>(panels()); }
  const std::byte* panel(std::int64_t p) const { return memory->data() + static_cast<std::size_t>(p) * panel_bytes; }

  /// The slab that holds step `s` of the panel at `base`, its steps, and the place of `s` among them.
  const std::byte* slab(const std::byte* base, std::int64_t s) const {
    return base + static_cast<std::size_t>(s >> log_slab_steps) * slab_bytes;
  }
  int slab_steps(std::int64_t s) const {
    const std::int64_t left = steps() - (s >> log_slab_steps << log_slab_steps), most = 1 << log_slab_steps;
    return static_cast<int>(left < most ? left : most);
  }
  std::int64_t step_of_slab(std::int64_t s) const { return s & ((1 << log_slab_steps) - 1); }

  /// Word 0 of step `s` of the panel at `base`, [16]; the next word is slab_steps(s) * 16 further.
  const std::uint32_t* words(const std::byte* base, std::int64_t s) const {
    return reinterpret_cast<const std::uint32_t*>(slab(base, s)) + step_of_slab(s) * kPanelRows;
  }
  /// Word 0 of the plane of step `s`, [16], of widths 3, 5 and 6. Two steps of 16 columns of 3 bits share one: the odd
  /// one's bits are plane_shift(s) further.
  const std::uint32_t* plane(const std::byte* base, std::int64_t s) const {
    const int low_words = step * low_bits(width) / 32;
    const std::int64_t at = step_of_slab(s) >> (shares_plane() ? 1 : 0);
    return reinterpret_cast<const std::uint32_t*>(slab(base, s)) + (low_words * slab_steps(s) + at) * kPanelRows;
  }
  int plane_shift(std::int64_t s) const { return shares_plane() ? static_cast<int>(s & 1) * 2 : 0; }
  bool shares_plane() const { return width == 3 && step == 16; }

  /// The scales of group `g` of the panel at `base`.
  const std::byte* scales(const std::byte* base, std::int64_t g) const {
    const std::int64_t s = g << log_steps;
    return slab(base, s) + static_cast<std::size_t>(slab_steps(s)) * step_bytes +
           static_cast<std::size_t>(step_of_slab(s) >> log_steps) * group_scale_bytes;
  }
  /// The factors of the integers that are the scales of group `g`.
  const std::byte* factors(const std::byte* base, std::int64_t g) const {
    const std::int64_t s = g << log_steps;
    const auto count = static_cast<std::size_t>(slab_steps(s));
    return slab(base, s) + count * step_bytes + (count >> log_steps) * group_scale_bytes;
  }
};

/// The layout of such a matrix, without memory. Throws ValueError for a format that has none: codes of 2..8 bits,
/// groups of 32, 64 or 128, or of 16 for 2, 3, 5 and 6 bits, scales in f16, f32 or i8; ShapeError when the columns are
/// no multiple of the group, or, with groups of 16 or scales in i8, of 256.
PackedQuantized layout(const numerics::QuantizedFormat& format, std::int64_t rows, std::int64_t columns);

/// Where the code of column `k` of a step lies: in bits shift.. of its word, and for widths 3, 5 and 6 its high bits in
/// bits plane_shift.. of a word of the plane.
struct CodePlaces {
  int word, shift, plane_word = 0, plane_shift = 0;
};
constexpr CodePlaces places_of(int width, int k) {
  const int low = low_bits(width), columns = 32 / low, word = k / columns, high = width - low;
  const int pair = k % columns / 4 * 2 + k % 2, half = k % 4 < 2 ? 16 : 0;
  if (high == 0) return {word, half + pair * low};
  // Two fields of the word make a larger one, of twice the bits: there the high bits of several words follow one
  // another, those of the even fields and the odd.
  const int words = low / high;
  return {word, half + pair * low, word / words, half + pair / 2 * 2 * low + high * (2 * (word % words) + pair % 2)};
}

/// Packs matrices of one format and width, one below the other, on several threads. Throws ShapeError when they differ,
/// std::bad_alloc.
PackedQuantized pack(std::span<const numerics::QuantizedMatrix> parts);
inline PackedQuantized pack(const numerics::QuantizedMatrix& matrix) {
  return pack({&matrix, 1});
}

/// Reads back one row.
void unpack_row(const PackedQuantized& packed, std::int64_t row, numerics::QuantizedRow& out);

}  // namespace eadem::kernels
