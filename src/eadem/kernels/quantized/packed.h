#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "eadem/base/buffer.h"
#include "eadem/numerics/quantized_blocks.h"

namespace eadem::kernels {

/// Rows of a panel: the lanes along N.
inline constexpr int kPanelRows = 16;

/// Steps of a quad, see PackedQuantized.
inline constexpr int kQuadSteps = 4;

/// Quantized weights [rows, columns] in the one layout that all targets, prefill and decode read: panels of 16 rows
/// (the last one padded with zero weights), a panel being a sequence of quads, a quad 4 steps of columns (the last one
/// perhaps fewer). A step is a group's 16 columns, or 32. Decode reads all of it in one ascending stream.
/// - Codes of a quad: 64-byte units of one 32-bit word a row, word j of each of its steps, then word j + 1 of each. A
///   word holds the 32 / width uncentred codes of consecutive columns, or, of widths 5 and 6, first words of the low
///   four bits, then words of the bits above these. places_of() tells where; it puts columns k, k + 2 (and k + 1, k +
///   3) at equal places of the word's halves, high half first: as vdpbf16ps takes its pairs.
/// - Scales of a quad, after its codes: for each of its groups 16 values of s, then, unless the format is symmetric, 16
///   of b, in format.scale_dtype. A quad is padded to 64 bytes.
struct PackedQuantized {
  numerics::QuantizedFormat format;
  std::int64_t rows = 0, columns = 0;
  BufferRef memory;

  // What follows from the format and the columns, see layout().
  int width = 4;      ///< bits of a stored code: 4, 5, 6 or 8
  int step = 32;      ///< columns of a step
  int log_steps = 0;  ///< log2 of the steps of a group
  std::size_t step_bytes = 0, group_scale_bytes = 0, quad_bytes = 0, panel_bytes = 0;

  std::int64_t panels() const { return (rows + kPanelRows - 1) / kPanelRows; }
  std::int64_t groups() const { return columns / format.group; }
  std::int64_t steps() const { return columns / step; }
  std::size_t bytes() const { return panel_bytes * static_cast<std::size_t>(panels()); }
  const std::byte* panel(std::int64_t p) const { return memory->data() + static_cast<std::size_t>(p) * panel_bytes; }

  /// Steps of the quad that holds step `s`.
  int quad_steps(std::int64_t s) const {
    const std::int64_t left = steps() - (s & -kQuadSteps);
    return left < kQuadSteps ? static_cast<int>(left) : kQuadSteps;
  }
  /// Word 0 of step `s` of the panel at `base`, [16]; the next word is quad_steps(s) * 16 further.
  const std::uint32_t* words(const std::byte* base, std::int64_t s) const {
    return reinterpret_cast<const std::uint32_t*>(base + static_cast<std::size_t>(s / kQuadSteps) * quad_bytes) +
           s % kQuadSteps * kPanelRows;
  }
  /// The scales of group `g` of the panel at `base`.
  const std::byte* scales(const std::byte* base, std::int64_t g) const {
    const std::int64_t s = g << log_steps;
    return base + static_cast<std::size_t>(s / kQuadSteps) * quad_bytes +
           static_cast<std::size_t>(quad_steps(s)) * step_bytes +
           static_cast<std::size_t>(s % kQuadSteps >> log_steps) * group_scale_bytes;
  }
};

/// The layout of such a matrix, without memory. Throws ValueError for a format that has none: codes of 2..8 bits,
/// groups of 16 (columns then come in blocks of 256), 32, 64 or 128; ShapeError when the columns are no multiple of the
/// group.
PackedQuantized layout(const numerics::QuantizedFormat& format, std::int64_t rows, std::int64_t columns);

/// Where the code of column `k` of a step lies: in bits shift.. of its word, and for widths 5 and 6 the bits above the
/// fourth in bits high_shift.. of high_word.
struct CodePlaces {
  int word, shift, high_word = 0, high_shift = 0;
};
constexpr CodePlaces places_of(int width, int step, int k) {
  constexpr int nibbles[8] = {4, 5, 0, 1, 6, 7, 2, 3}, bytes[4] = {2, 3, 0, 1};
  if (width == 8) return {k / 4, bytes[k % 4] * 8};
  const int word = k / 8, nibble = nibbles[k % 8];
  if (width == 4) return {word, nibble * 4};
  // The byte of the low four bits, too: there the high ones of several words follow one another, even nibbles and odd.
  const int bits = width - 4, words = 4 / bits;
  return {word, nibble * 4, step / 8 + word / words, nibble / 2 * 8 + bits * (2 * (word % words) + nibble % 2)};
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
