#pragma once

#include <cstddef>
#include <cstdint>

#include "eadem/base/buffer.h"
#include "eadem/numerics/quantized_blocks.h"

namespace eadem::kernels {

/// Rows of a panel: the lanes along N.
inline constexpr int kPanelRows = 16;

/// Quantized weights [rows, columns] in the one layout that all targets, prefill and decode read: panels of 16 rows
/// (the last one padded with zero weights), and in a panel first all codes, then the scales.
/// - Codes: 64-byte units of one 32-bit word a row; a word holds the 32 / width uncentred codes of consecutive columns,
///   in the order of code_position(), which puts columns k, k + 2 (and k + 1, k + 3) at equal places of the word's
///   halves, high half first: as vdpbf16ps takes its pairs.
/// - Scales: for each group 16 values of s, then, unless the format is symmetric, 16 of b, in format.scale_dtype.
struct PackedQuantized {
  numerics::QuantizedFormat format;
  std::int64_t rows = 0, columns = 0;
  int width = 4;  ///< bits of a stored code: 4, or 8 for codes of 5 bits and more
  std::size_t code_bytes = 0, panel_bytes = 0;
  BufferRef memory;

  std::int64_t panels() const { return (rows + kPanelRows - 1) / kPanelRows; }
  std::int64_t groups() const { return columns / format.group; }
  std::size_t bytes() const { return panel_bytes * static_cast<std::size_t>(panels()); }
  const std::uint32_t* words(std::int64_t panel) const {
    return reinterpret_cast<const std::uint32_t*>(memory->data() + static_cast<std::size_t>(panel) * panel_bytes);
  }
  const std::byte* scales(std::int64_t panel) const {
    return memory->data() + static_cast<std::size_t>(panel) * panel_bytes + code_bytes;
  }
};

/// Where in its word the code of column `k` lies, in units of `width` bits.
constexpr int code_position(int width, std::int64_t k) {
  constexpr int nibbles[8] = {4, 5, 0, 1, 6, 7, 2, 3}, bytes[4] = {2, 3, 0, 1};
  return width == 4 ? nibbles[k % 8] : bytes[k % 4];
}

/// Packs a matrix, on several threads. Throws std::bad_alloc.
PackedQuantized pack(const numerics::QuantizedMatrix& matrix);

/// Reads back one row.
void unpack_row(const PackedQuantized& packed, std::int64_t row, numerics::QuantizedRow& out);

}  // namespace eadem::kernels
