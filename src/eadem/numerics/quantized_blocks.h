#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "eadem/base/dtype.h"

// Quantized weights as they are stored, and as numerics.md section 7 sees them: w = s q + b over groups along a row.

namespace eadem::numerics {

/// How a row of quantized weights is stored. Those named q*_* are ggml's block types, as GGUF files hold them; affine
/// is MLX's: 32-bit words of codes beside arrays of scales and biases.
enum class QuantizedType : std::uint8_t { q8_0, q4_0, q4_1, q5_0, q5_1, q2_k, q3_k, q4_k, q5_k, q6_k, affine };
inline constexpr int kBlockTypeCount = 10;

/// The numbers that a stored form stands for: codes of `bits` bits, one scale and bias for `group` columns.
struct QuantizedFormat {
  int bits = 0;
  int group = 0;
  bool symmetric = false;          ///< b = -2^(bits-1) s exactly, so that the centred bias b' is zero and not computed
  DType scale_dtype = DType::f32;  ///< f16 where every s and b is exactly one; i8 where they have ScaleFactors
  friend bool operator==(const QuantizedFormat&, const QuantizedFormat&) = default;
};

/// "q4_1", "q6_k", ..., "affine".
std::string_view name_of(QuantizedType);
/// The type of that name, or nothing.
std::optional<QuantizedType> quantized_type_named(std::string_view);
/// The format of a block type (affine weights carry their own).
const QuantizedFormat& format_of(QuantizedType block_type);
/// Columns and bytes of one block of a block type; columns of a matrix are a multiple of the former.
int block_columns(QuantizedType block_type);
int block_bytes(QuantizedType block_type);

/// Columns of a block whose groups share a factor.
inline constexpr int kFactorColumns = 256;

/// The scales (or biases) of the K types as they are stored: those of a group are the product, exact in f32, of its
/// block's factor and its own integer.
struct ScaleFactors {
  std::vector<float16> of_blocks;
  std::vector<std::int8_t> of_groups;

  /// Zeros for a row of so many columns and groups.
  void assign(std::size_t columns, std::size_t groups) {
    of_blocks.assign(columns / kFactorColumns, float16{});
    of_groups.assign(groups, 0);
  }
};

/// One row, decoded: uncentred codes 0 <= q < 2^bits, and s and b of each group, exact in f32. `biases` is empty for
/// symmetric formats.
struct QuantizedRow {
  std::vector<std::uint8_t> codes;
  std::vector<float> scales, biases;
  ScaleFactors scale_factors, bias_factors;  ///< of formats with scales in i8; else their content has no meaning
};

/// A matrix [rows, columns] of quantized weights in memory that someone else owns.
struct QuantizedMatrix {
  QuantizedType type = QuantizedType::q4_0;
  QuantizedFormat format;
  std::int64_t rows = 0, columns = 0;
  const std::byte* data = nullptr;  ///< the first row's blocks, or its words of codes
  std::ptrdiff_t row_bytes = 0;     ///< from one row of `data` to the next

  // affine only: [rows, columns / group], rows `scale_row_elements` apart, in `scale_storage` (f32, bf16 or f16).
  const std::byte* scales = nullptr;
  const std::byte* biases = nullptr;
  DType scale_storage = DType::f32;
  std::ptrdiff_t scale_row_elements = 0;

  /// Decodes row `row` into `out`, whose vectors are resized.
  void read_row(std::int64_t row, QuantizedRow& out) const;
};

/// The matrix of ggml blocks that lies contiguously in `bytes`. Throws ShapeError when `columns` is not a multiple of
/// the block or `bytes` does not hold the matrix; the message begins with [`name`].
QuantizedMatrix block_matrix(std::string_view name, QuantizedType block_type, std::int64_t rows, std::int64_t columns,
                             std::span<const std::byte> bytes);

/// The MLX affine matrix: `words` [rows, columns * bits / 32] u32, scales and biases [rows, columns / group], all
/// contiguous. Throws ShapeError or ValueError for extents, bits (2..6, 8) or groups (32, 64, 128) that do not fit.
QuantizedMatrix affine_matrix(std::string_view name, int bits, int group, std::int64_t rows, std::int64_t columns,
                              std::span<const std::byte> words, std::span<const std::byte> scales,
                              std::span<const std::byte> biases, DType scale_storage);

/// Throws ValueError naming `name`, row and group when a scale or a bias is not finite.
void require_finite(std::string_view name, const QuantizedMatrix& matrix);

/// MLX's affine quantization of one row of `columns` finite values: codes, and for each group the f32 scale and bias.
/// Throws ValueError naming `name` and the group for NaN and infinity, and, when `scale_storage` is f16, for a scale or
/// a bias beyond 65504. Scales and biases are rounded to `scale_storage` before the codes are chosen.
QuantizedRow affine_quantize_row(std::string_view name, std::span<const float> row, int bits, int group,
                                 DType scale_storage);

}  // namespace eadem::numerics
