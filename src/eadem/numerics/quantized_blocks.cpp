#include "eadem/numerics/quantized_blocks.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "eadem/base/error.h"
#include "eadem/numerics/rounding.h"

namespace eadem::numerics {
namespace {

using Byte = std::uint8_t;

// Where a decoder writes one block: its scales and biases, or the factors that these are products of.
struct Out {
  Byte* codes = nullptr;
  float *scales = nullptr, *biases = nullptr;
  float16 *scale_factor = nullptr, *bias_factor = nullptr;
  std::int8_t *scale_integers = nullptr, *bias_integers = nullptr;
};

float16 stored_half(const Byte* at) {
  std::uint16_t bits;
  std::memcpy(&bits, at, 2);  // GGUF is little-endian, and so are the CPUs that this runs on
  return {bits};
}
float half(const Byte* at) {
  return to_float(stored_half(at));
}
// The factor of biases has a minus sign.
float16 negated_half(const Byte* at) {
  return {static_cast<std::uint16_t>(stored_half(at).bits ^ 0x8000)};
}

std::uint32_t word(const Byte* at) {
  std::uint32_t bits;
  std::memcpy(&bits, at, 4);
  return bits;
}

// 32 columns from 16 bytes: the low nibbles come first, then the high ones.
void nibbles(const Byte* at, Byte* codes) {
  for (int i = 0; i < 16; ++i) {
    codes[i] = at[i] & 15;
    codes[i + 16] = at[i] >> 4;
  }
}

// The fifth bits of 32 columns, column k in bit k.
void fifth_bits(std::uint32_t bits, Byte* codes) {
  for (int k = 0; k < 32; ++k) codes[k] = static_cast<Byte>(codes[k] | ((bits >> k) & 1) << 4);
}

void q8_0(const Byte* block, Out out) {  // d f16, 32 signed bytes
  out.scales[0] = half(block);
  for (int k = 0; k < 32; ++k) out.codes[k] = block[2 + k] ^ 0x80;
}
void q4_0(const Byte* block, Out out) {  // d f16, 16 bytes of nibbles
  out.scales[0] = half(block);
  nibbles(block + 2, out.codes);
}
void q4_1(const Byte* block, Out out) {  // d f16, m f16, 16 bytes of nibbles
  out.scales[0] = half(block);
  out.biases[0] = half(block + 2);
  nibbles(block + 4, out.codes);
}
void q5_0(const Byte* block, Out out) {  // d f16, fifth bits u32, 16 bytes of nibbles
  out.scales[0] = half(block);
  nibbles(block + 6, out.codes);
  fifth_bits(word(block + 2), out.codes);
}
void q5_1(const Byte* block, Out out) {  // d f16, m f16, fifth bits u32, 16 bytes of nibbles
  out.scales[0] = half(block);
  out.biases[0] = half(block + 2);
  nibbles(block + 8, out.codes);
  fifth_bits(word(block + 4), out.codes);
}

// 256 columns of 2-bit codes in 64 bytes: of each 32 bytes first all lowest pairs of bits, then the next ones.
void pairs_of_bits(const Byte* at, Byte* codes) {
  for (int k = 0; k < 256; ++k) codes[k] = (at[k / 128 * 32 + k % 32] >> (k % 128 / 32 * 2)) & 3;
}

void q2_k(const Byte* block, Out out) {  // 16 bytes (scale, min) of nibbles, 64 bytes of codes, d f16, dmin f16
  *out.scale_factor = stored_half(block + 80);
  *out.bias_factor = negated_half(block + 82);
  for (int g = 0; g < 16; ++g) {
    out.scale_integers[g] = static_cast<std::int8_t>(block[g] & 15);
    out.bias_integers[g] = static_cast<std::int8_t>(block[g] >> 4);
  }
  pairs_of_bits(block + 16, out.codes);
}

void q3_k(const Byte* block, Out out) {  // 32 bytes of high bits, 64 of low codes, 12 of 6-bit scales, d f16
  const Byte* scales = block + 96;
  *out.scale_factor = stored_half(block + 108);
  for (int g = 0; g < 16; ++g) {
    const int low = (scales[g % 8] >> (g / 8 * 4)) & 15, high = (scales[8 + g % 4] >> (g / 4 * 2)) & 3;
    out.scale_integers[g] = static_cast<std::int8_t>((low | high << 4) - 32);
  }
  pairs_of_bits(block + 32, out.codes);
  for (int k = 0; k < 256; ++k) out.codes[k] = static_cast<Byte>(out.codes[k] | ((block[k % 32] >> (k / 32)) & 1) << 2);
}

// d f16, dmin f16, and the 6-bit scales and mins of eight groups in 12 bytes.
void scales_and_mins(const Byte* block, Out out) {
  *out.scale_factor = stored_half(block);
  *out.bias_factor = negated_half(block + 2);
  const Byte* at = block + 4;
  for (int g = 0; g < 8; ++g) {
    int scale, min;
    if (g < 4) {
      scale = at[g] & 63;
      min = at[g + 4] & 63;
    } else {
      scale = (at[g + 4] & 15) | (at[g - 4] >> 6) << 4;
      min = (at[g + 4] >> 4) | (at[g] >> 6) << 4;
    }
    out.scale_integers[g] = static_cast<std::int8_t>(scale);
    out.bias_integers[g] = static_cast<std::int8_t>(min);
  }
}

// 256 columns of nibbles in 128 bytes: of each 32 bytes first the low ones, then the high ones.
void long_nibbles(const Byte* at, Byte* codes) {
  for (int k = 0; k < 256; ++k) codes[k] = (at[k / 64 * 32 + k % 32] >> (k % 64 / 32 * 4)) & 15;
}

void q4_k(const Byte* block, Out out) {  // d f16, dmin f16, 12 bytes of scales and mins, 128 of nibbles
  scales_and_mins(block, out);
  long_nibbles(block + 16, out.codes);
}
void q5_k(const Byte* block,
          Out out) {  // d f16, dmin f16, 12 bytes of scales and mins, 32 of fifth bits, 128 of nibbles
  scales_and_mins(block, out);
  long_nibbles(block + 48, out.codes);
  for (int k = 0; k < 256; ++k)
    out.codes[k] = static_cast<Byte>(out.codes[k] | ((block[16 + k % 32] >> (k / 32)) & 1) << 4);
}

void q6_k(const Byte* block, Out out) {  // 128 bytes of nibbles, 64 of high pairs, 16 signed scales, d f16
  *out.scale_factor = stored_half(block + 208);
  for (int g = 0; g < 16; ++g) out.scale_integers[g] = static_cast<std::int8_t>(block[192 + g]);
  for (int k = 0; k < 256; ++k) {
    const int part = k / 128, within = k % 128;
    const int low = (block[part * 64 + within % 64] >> (within / 64 * 4)) & 15;
    const int high = (block[128 + part * 32 + within % 32] >> (within / 32 * 2)) & 3;
    out.codes[k] = static_cast<Byte>(low | high << 4);
  }
}

struct BlockInfo {
  std::string_view name;
  int columns, bytes;
  QuantizedFormat format;
  void (*decode)(const Byte*, Out);
};

constexpr std::array<BlockInfo, kBlockTypeCount> kBlocks{{
    {"q8_0", 32, 34, {8, 32, true, DType::f16}, q8_0},
    {"q4_0", 32, 18, {4, 32, true, DType::f16}, q4_0},
    {"q4_1", 32, 20, {4, 32, false, DType::f16}, q4_1},
    {"q5_0", 32, 22, {5, 32, true, DType::f16}, q5_0},
    {"q5_1", 32, 24, {5, 32, false, DType::f16}, q5_1},
    {"q2_k", 256, 84, {2, 16, false, DType::i8}, q2_k},
    {"q3_k", 256, 110, {3, 16, true, DType::i8}, q3_k},
    {"q4_k", 256, 144, {4, 32, false, DType::i8}, q4_k},
    {"q5_k", 256, 176, {5, 32, false, DType::i8}, q5_k},
    {"q6_k", 256, 210, {6, 16, true, DType::i8}, q6_k},
}};

// The products; none for the biases of a symmetric format.
void multiply(const ScaleFactors& factors, std::vector<float>& values) {
  const std::size_t groups = factors.of_blocks.empty() ? 1 : factors.of_groups.size() / factors.of_blocks.size();
  for (std::size_t g = 0; g < values.size(); ++g)
    values[g] = to_float(factors.of_blocks[g / groups]) * static_cast<float>(factors.of_groups[g]);
}

const BlockInfo& info_of(QuantizedType type) {
  return kBlocks[static_cast<std::size_t>(type)];
}

float load(const std::byte* at, DType dtype) {
  if (dtype == DType::f32) {
    float value;
    std::memcpy(&value, at, 4);
    return value;
  }
  std::uint16_t bits;
  std::memcpy(&bits, at, 2);
  return dtype == DType::bf16 ? to_float(bfloat16{bits}) : to_float(float16{bits});
}

float rounded_to(float value, DType dtype) {
  if (dtype == DType::f16) return to_float(to_float16(value));
  return dtype == DType::bf16 ? to_float(to_bfloat16(value)) : value;
}

}  // namespace

std::string_view name_of(QuantizedType type) {
  return type == QuantizedType::affine ? "affine" : info_of(type).name;
}

std::optional<QuantizedType> quantized_type_named(std::string_view name) {
  for (int i = 0; i <= kBlockTypeCount; ++i)
    if (name_of(static_cast<QuantizedType>(i)) == name) return static_cast<QuantizedType>(i);
  return std::nullopt;
}

const QuantizedFormat& format_of(QuantizedType block_type) {
  return info_of(block_type).format;
}
int block_columns(QuantizedType block_type) {
  return info_of(block_type).columns;
}
int block_bytes(QuantizedType block_type) {
  return info_of(block_type).bytes;
}

void QuantizedMatrix::read_row(std::int64_t row, QuantizedRow& out) const {
  const auto count = static_cast<std::size_t>(columns), groups = count / static_cast<std::size_t>(format.group);
  out.codes.resize(count);
  out.scales.resize(groups);
  out.biases.resize(format.symmetric ? 0 : groups);
  const auto* bytes = reinterpret_cast<const Byte*>(data + row * row_bytes);
  if (type != QuantizedType::affine) {
    const BlockInfo& info = info_of(type);
    const bool factored = format.scale_dtype == DType::i8;
    if (factored) {
      out.scale_factors.assign(count, groups);
      out.bias_factors.assign(count, groups);
    }
    for (std::int64_t block = 0; block < columns / info.columns; ++block) {
      const std::int64_t group = block * (info.columns / format.group);
      Out to;
      to.codes = out.codes.data() + block * info.columns;
      if (factored) {
        to.scale_factor = out.scale_factors.of_blocks.data() + block;
        to.bias_factor = out.bias_factors.of_blocks.data() + block;
        to.scale_integers = out.scale_factors.of_groups.data() + group;
        to.bias_integers = out.bias_factors.of_groups.data() + group;
      } else {
        to.scales = out.scales.data() + group;
        to.biases = out.biases.data() + (format.symmetric ? 0 : group);
      }
      info.decode(bytes + block * info.bytes, to);
    }
    if (factored) {
      multiply(out.scale_factors, out.scales);
      multiply(out.bias_factors, out.biases);
    }
    return;
  }
  // MLX packs codes without gaps from the lowest bit up, so a code may straddle two bytes.
  for (std::size_t k = 0; k < count; ++k) {
    const std::size_t bit = k * static_cast<std::size_t>(format.bits);
    const unsigned low = bytes[bit / 8],
                   high = bit % 8 + static_cast<std::size_t>(format.bits) > 8 ? bytes[bit / 8 + 1] : 0u;
    out.codes[k] = static_cast<Byte>(((low | high << 8) >> (bit % 8)) & ((1u << format.bits) - 1));
  }
  const std::int64_t size = static_cast<std::int64_t>(size_of(scale_storage));
  for (std::size_t g = 0; g < groups; ++g) {
    const std::int64_t at = (row * scale_row_elements + static_cast<std::int64_t>(g)) * size;
    out.scales[g] = load(scales + at, scale_storage);
    out.biases[g] = load(biases + at, scale_storage);
  }
}

QuantizedMatrix block_matrix(std::string_view name, QuantizedType block_type, std::int64_t rows, std::int64_t columns,
                             std::span<const std::byte> bytes) {
  if (block_type == QuantizedType::affine) fail<ValueError>("[{}] affine weights have no blocks", name);
  const BlockInfo& info = info_of(block_type);
  if (rows < 0 || columns < 0 || columns % info.columns != 0)
    fail<ShapeError>("[{}] {} needs columns in blocks of {}, got [{},{}]", name, info.name, info.columns, rows,
                     columns);
  const std::int64_t row_bytes = columns / info.columns * info.bytes;
  if (row_bytes != 0 && static_cast<std::uint64_t>(rows) != bytes.size() / static_cast<std::uint64_t>(row_bytes))
    fail<ShapeError>("[{}] {} [{},{}] has rows of {} bytes, got {} bytes in all", name, info.name, rows, columns,
                     row_bytes, bytes.size());
  if (row_bytes != 0 && bytes.size() % static_cast<std::uint64_t>(row_bytes) != 0)
    fail<ShapeError>("[{}] {} [{},{}] has rows of {} bytes, got a broken one: {} bytes in all", name, info.name, rows,
                     columns, row_bytes, bytes.size());
  return {.type = block_type,
          .format = info.format,
          .rows = rows,
          .columns = columns,
          .data = bytes.data(),
          .row_bytes = row_bytes};
}

QuantizedMatrix affine_matrix(std::string_view name, int bits, int group, std::int64_t rows, std::int64_t columns,
                              std::span<const std::byte> words, std::span<const std::byte> scales,
                              std::span<const std::byte> biases, DType scale_storage) {
  if (bits < 2 || bits > 8 || bits == 7)
    fail<ValueError>("[{}] affine codes have 2, 3, 4, 5, 6 or 8 bits, got {}", name, bits);
  if (group != 32 && group != 64 && group != 128)
    fail<ValueError>("[{}] affine groups are of 32, 64 or 128, got {}", name, group);
  if (scale_storage != DType::f32 && !is_16_bit_float(scale_storage))
    fail<TypeError>("[{}] affine scales are f32, bf16 or f16, got {}", name, scale_storage);
  if (rows < 0 || columns < 0 || columns % group != 0)
    fail<ShapeError>("[{}] affine needs columns in groups of {}, got [{},{}]", name, group, rows, columns);
  const std::int64_t groups = columns / group, row_bytes = columns / 8 * bits;
  const std::uint64_t scale_bytes = static_cast<std::uint64_t>(rows * groups) * size_of(scale_storage);
  if (words.size() != static_cast<std::uint64_t>(rows * row_bytes) || scales.size() != scale_bytes ||
      biases.size() != scale_bytes)
    fail<ShapeError>(
        "[{}] affine [{},{}] with {} bits and groups of {} needs {} bytes of codes and {} of scales and of "
        "biases, got {}, {} and {}",
        name, rows, columns, bits, group, rows * row_bytes, scale_bytes, words.size(), scales.size(), biases.size());
  return {.type = QuantizedType::affine,
          .format = {bits, group, false, scale_storage == DType::f16 ? DType::f16 : DType::f32},
          .rows = rows,
          .columns = columns,
          .data = words.data(),
          .row_bytes = row_bytes,
          .scales = scales.data(),
          .biases = biases.data(),
          .scale_storage = scale_storage,
          .scale_row_elements = groups};
}

void require_finite(std::string_view name, const QuantizedMatrix& matrix) {
  QuantizedRow row;
  for (std::int64_t r = 0; r < matrix.rows; ++r) {
    matrix.read_row(r, row);
    for (std::size_t g = 0; g < row.scales.size(); ++g)
      if (!std::isfinite(row.scales[g]) || (!matrix.format.symmetric && !std::isfinite(row.biases[g])))
        fail<ValueError>("[{}] {} row {}, columns {} to {}: scale {}{} must be finite", name, name_of(matrix.type), r,
                         static_cast<std::int64_t>(g) * matrix.format.group,
                         static_cast<std::int64_t>(g + 1) * matrix.format.group - 1, row.scales[g],
                         matrix.format.symmetric ? std::string() : fmt::format(" and bias {}", row.biases[g]));
  }
}

QuantizedRow affine_quantize_row(std::string_view name, std::span<const float> row, int bits, int group,
                                 DType scale_storage) {
  const auto size = static_cast<std::size_t>(group);
  if (row.size() % size != 0)
    fail<ShapeError>("[{}] affine needs columns in groups of {}, got {}", name, group, row.size());
  const float levels = static_cast<float>((1 << bits) - 1);
  QuantizedRow out;
  out.codes.resize(row.size());
  for (std::size_t start = 0; start < row.size(); start += size) {
    float low = row[start], high = row[start];
    for (std::size_t k = start; k < start + size; ++k) {
      if (!std::isfinite(row[k])) fail<ValueError>("[{}] column {} is {}: cannot be quantized", name, k, row[k]);
      low = std::fmin(low, row[k]);
      high = std::fmax(high, row[k]);
    }
    // The end of larger magnitude becomes the bias, and s is adjusted so that zero is a multiple of it (MLX's rule).
    const bool from_low = std::fabs(low) > std::fabs(high);
    const float range = high / levels - low / levels;  // high - low may overflow
    float scale = std::fmax(range, 1e-7f);
    if (!from_low) scale = -scale;
    const float edge = from_low ? low : high;
    const float steps = std::nearbyint(edge / scale);
    if (steps != 0) scale = edge / steps;
    float bias = steps == 0 ? 0.0f : edge;
    if (scale_storage == DType::f16 && (std::fabs(scale) > 65504.0f || std::fabs(bias) > 65504.0f))
      fail<ValueError>("[{}] columns {} to {}: scale {} and bias {} must be at most 65504 to fit f16", name, start,
                       start + size - 1, scale, bias);
    scale = rounded_to(scale, scale_storage);
    bias = rounded_to(bias, scale_storage);
    for (std::size_t k = start; k < start + size; ++k) {
      const float code = scale == 0 ? 0.0f : std::nearbyint((row[k] - bias) / scale);
      out.codes[k] = static_cast<Byte>(std::fmin(std::fmax(code, 0.0f), levels));
    }
    out.scales.push_back(scale);
    out.biases.push_back(bias);
  }
  return out;
}

}  // namespace eadem::numerics
