#include "eadem/kernels/quantized/packed.h"

#include <algorithm>
#include <cstring>

#include "eadem/base/parallel.h"
#include "eadem/numerics/rounding.h"

namespace eadem::kernels {
namespace {

void store_scale(std::byte* at, std::int64_t index, DType dtype, float value) {
  if (dtype == DType::f16) {
    const float16 narrow = to_float16(value);  // exact, as the format says
    std::memcpy(at + index * 2, &narrow, 2);
  } else {
    std::memcpy(at + index * 4, &value, 4);
  }
}

float load_scale(const std::byte* at, std::int64_t index, DType dtype) {
  if (dtype == DType::f16) {
    float16 narrow;
    std::memcpy(&narrow, at + index * 2, 2);
    return to_float(narrow);
  }
  float value;
  std::memcpy(&value, at + index * 4, 4);
  return value;
}

void pack_row(const numerics::QuantizedRow& row, PackedQuantized& packed, std::int64_t panel, int lane) {
  std::byte* const base = packed.memory->data() + static_cast<std::size_t>(panel) * packed.panel_bytes;
  auto* words = reinterpret_cast<std::uint32_t*>(base) + lane;
  const int codes_of_word = 32 / packed.width;
  int shifts[8];
  for (int j = 0; j < codes_of_word; ++j) shifts[j] = code_position(packed.width, j) * packed.width;
  for (std::int64_t k = 0; k < packed.columns; k += codes_of_word) {
    std::uint32_t word = 0;
    for (int j = 0; j < codes_of_word; ++j)
      word |= std::uint32_t{row.codes[static_cast<std::size_t>(k + j)]} << shifts[j];
    words[k / codes_of_word * kPanelRows] = word;
  }
  const int parts = packed.format.symmetric ? 1 : 2;
  for (std::int64_t g = 0; g < packed.groups(); ++g) {
    const std::int64_t at = g * parts * kPanelRows + lane;
    store_scale(base + packed.code_bytes, at, packed.format.scale_dtype, row.scales[static_cast<std::size_t>(g)]);
    if (parts == 2)
      store_scale(base + packed.code_bytes, at + kPanelRows, packed.format.scale_dtype,
                  row.biases[static_cast<std::size_t>(g)]);
  }
}

}  // namespace

PackedQuantized pack(const numerics::QuantizedMatrix& matrix) {
  PackedQuantized packed{.format = matrix.format,
                         .rows = matrix.rows,
                         .columns = matrix.columns,
                         .width = matrix.format.bits <= 4 ? 4 : 8,
                         .memory = {}};
  const auto columns = static_cast<std::size_t>(matrix.columns), groups = static_cast<std::size_t>(packed.groups());
  packed.code_bytes = columns * static_cast<std::size_t>(packed.width * kPanelRows / 8);
  const std::size_t scale_bytes =
      groups * kPanelRows * size_of(matrix.format.scale_dtype) * (matrix.format.symmetric ? 1 : 2);
  packed.panel_bytes = (packed.code_bytes + scale_bytes + 63) / 64 * 64;
  packed.memory = Buffer::allocate(packed.bytes());
  parallel_for(packed.panels(), 1, [&](std::int64_t begin, std::int64_t end) {
    numerics::QuantizedRow row;
    for (std::int64_t panel = begin; panel < end; ++panel)
      for (int lane = 0; lane < kPanelRows; ++lane) {
        const std::int64_t r = panel * kPanelRows + lane;
        if (r < matrix.rows) {
          matrix.read_row(r, row);
        } else {
          row.codes.assign(columns, static_cast<std::uint8_t>(1 << (matrix.format.bits - 1)));
          row.scales.assign(groups, 0.0f);
          row.biases.assign(groups, 0.0f);
        }
        pack_row(row, packed, panel, lane);
      }
  });
  return packed;
}

void unpack_row(const PackedQuantized& packed, std::int64_t row, numerics::QuantizedRow& out) {
  const std::int64_t panel = row / kPanelRows, lane = row % kPanelRows;
  const int codes_of_word = 32 / packed.width;
  out.codes.resize(static_cast<std::size_t>(packed.columns));
  out.scales.resize(static_cast<std::size_t>(packed.groups()));
  out.biases.resize(packed.format.symmetric ? 0 : out.scales.size());
  const std::uint32_t* words = packed.words(panel) + lane;
  for (std::int64_t k = 0; k < packed.columns; ++k) {
    const std::uint32_t word = words[k / codes_of_word * kPanelRows];
    out.codes[static_cast<std::size_t>(k)] = static_cast<std::uint8_t>(
        (word >> (code_position(packed.width, k) * packed.width)) & ((1u << packed.width) - 1));
  }
  const int parts = packed.format.symmetric ? 1 : 2;
  for (std::size_t g = 0; g < out.scales.size(); ++g) {
    const std::int64_t at = static_cast<std::int64_t>(g) * parts * kPanelRows + lane;
    out.scales[g] = load_scale(packed.scales(panel), at, packed.format.scale_dtype);
    if (parts == 2) out.biases[g] = load_scale(packed.scales(panel), at + kPanelRows, packed.format.scale_dtype);
  }
}

}  // namespace eadem::kernels
