#include "eadem/kernels/quantized/packed.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

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

void pack_row(const numerics::QuantizedRow& row, const PackedQuantized& packed, std::int64_t panel, int lane) {
  // The memory is this function's to write; readers see it as const.
  auto* const base = const_cast<std::byte*>(packed.panel(panel));
  CodePlaces places[32];
  for (int k = 0; k < packed.step; ++k) places[k] = places_of(packed.width, packed.step, k);
  const int words_of_step = packed.step * packed.width / 32;
  const std::uint8_t* codes = row.codes.data();
  for (std::int64_t s = 0; s < packed.steps(); ++s, codes += packed.step) {
    std::uint32_t step[8] = {};
    for (int k = 0; k < packed.step; ++k) {
      const std::uint32_t code = codes[k], low = packed.width == 8 ? code : code & 15;
      step[places[k].word] |= low << places[k].shift;
      if (low != code) step[places[k].high_word] |= code >> 4 << places[k].high_shift;
    }
    auto* words = const_cast<std::uint32_t*>(packed.words(base, s)) + lane;
    for (int i = 0; i < words_of_step; ++i) words[i * packed.quad_steps(s) * kPanelRows] = step[i];
  }
  for (std::int64_t g = 0; g < packed.groups(); ++g) {
    auto* at = const_cast<std::byte*>(packed.scales(base, g));
    store_scale(at, lane, packed.format.scale_dtype, row.scales[static_cast<std::size_t>(g)]);
    if (!packed.format.symmetric)
      store_scale(at, lane + kPanelRows, packed.format.scale_dtype, row.biases[static_cast<std::size_t>(g)]);
  }
}

// Huge pages let decode read a third faster, but one matrix seldom fills one. So matrices share chunks; a chunk goes
// when the last of its matrices does.
BufferRef allocate_in_chunk(std::size_t bytes) {
  constexpr std::size_t kChunk = std::size_t{16} << 20;
  struct Chunk {
    BufferRef memory;
    std::size_t used = kChunk;
  };
  static std::mutex mutex;
  static std::weak_ptr<Chunk> current;
  if (bytes > kChunk / 2) return Buffer::allocate(bytes);
  const std::lock_guard lock(mutex);
  std::shared_ptr<Chunk> chunk = current.lock();
  if (!chunk || chunk->used + bytes > kChunk) {
    chunk = std::make_shared<Chunk>(Chunk{Buffer::allocate(kChunk), 0});
    current = chunk;
  }
  std::byte* data = chunk->memory->data() + chunk->used;
  chunk->used += (bytes + 63) / 64 * 64;
  return Buffer::borrow(data, bytes, chunk);
}

}  // namespace

PackedQuantized layout(const numerics::QuantizedFormat& format, std::int64_t rows, std::int64_t columns) {
  const int group = format.group;
  if (format.bits < 2 || format.bits > 8 || (group != 16 && group != 32 && group != 64 && group != 128) ||
      (format.scale_dtype != DType::f16 && format.scale_dtype != DType::f32))
    fail<ValueError>("[quantized] codes of {} bits in groups of {} with {} scales cannot be packed", format.bits, group,
                     format.scale_dtype);
  if (rows < 0 || columns < 0 || columns % (group == 16 ? 256 : group) != 0)
    fail<ShapeError>("[quantized] groups of {} need columns in multiples of {}, got [{},{}]", group,
                     group == 16 ? 256 : group, rows, columns);
  PackedQuantized packed{.format = format, .rows = rows, .columns = columns, .memory = {}};
  packed.step = std::min(group, 32);
  packed.width = format.bits <= 4                        ? 4
                 : format.bits == 5 && packed.step == 32 ? 5  // the fifth bits of 32 codes are a word
                 : format.bits <= 6                      ? 6
                                                         : 8;
  packed.log_steps = std::countr_zero(static_cast<unsigned>(group / packed.step));
  packed.step_bytes = static_cast<std::size_t>(packed.step * packed.width / 8 * kPanelRows);
  packed.group_scale_bytes = kPanelRows * size_of(format.scale_dtype) * (format.symmetric ? 1 : 2);
  const auto bytes_of = [&](std::size_t steps) {
    return (steps * packed.step_bytes + (steps >> packed.log_steps) * packed.group_scale_bytes + 63) / 64 * 64;
  };
  const auto steps = static_cast<std::size_t>(packed.steps());
  packed.quad_bytes = bytes_of(kQuadSteps);
  packed.panel_bytes = steps / kQuadSteps * packed.quad_bytes + bytes_of(steps % kQuadSteps);
  return packed;
}

PackedQuantized pack(std::span<const numerics::QuantizedMatrix> parts) {
  if (parts.empty()) fail<ShapeError>("[quantized] there is no matrix to pack");
  std::vector<std::int64_t> ends;  // of each part's rows
  std::int64_t rows = 0;
  for (const numerics::QuantizedMatrix& part : parts) {
    if (part.format != parts[0].format || part.columns != parts[0].columns)
      fail<ShapeError>("[quantized] matrices packed together must have one format and width, got {} and {} columns",
                       parts[0].columns, part.columns);
    ends.push_back(rows += part.rows);
  }
  PackedQuantized packed = layout(parts[0].format, rows, parts[0].columns);
  const auto columns = static_cast<std::size_t>(packed.columns), groups = static_cast<std::size_t>(packed.groups());
  packed.memory = allocate_in_chunk(packed.bytes());
  parallel_for(packed.panels(), 1, [&](std::int64_t begin, std::int64_t end) {
    numerics::QuantizedRow row;
    for (std::int64_t panel = begin; panel < end; ++panel)
      for (int lane = 0; lane < kPanelRows; ++lane) {
        const std::int64_t r = panel * kPanelRows + lane;
        if (r < rows) {
          const auto part = static_cast<std::size_t>(std::upper_bound(ends.begin(), ends.end(), r) - ends.begin());
          parts[part].read_row(r - (ends[part] - parts[part].rows), row);
        } else {
          row.codes.assign(columns, static_cast<std::uint8_t>(1 << (packed.format.bits - 1)));
          row.scales.assign(groups, 0.0f);
          row.biases.assign(groups, 0.0f);
        }
        pack_row(row, packed, panel, lane);
      }
  });
  return packed;
}

void unpack_row(const PackedQuantized& packed, std::int64_t row, numerics::QuantizedRow& out) {
  const std::byte* base = packed.panel(row / kPanelRows);
  const std::int64_t lane = row % kPanelRows;
  out.codes.resize(static_cast<std::size_t>(packed.columns));
  out.scales.resize(static_cast<std::size_t>(packed.groups()));
  out.biases.resize(packed.format.symmetric ? 0 : out.scales.size());
  CodePlaces places[32];
  for (int k = 0; k < packed.step; ++k) places[k] = places_of(packed.width, packed.step, k);
  const std::uint32_t low = packed.width == 8 ? 255 : 15, high = (1u << packed.width) / 16 - 1;
  std::uint8_t* codes = out.codes.data();
  for (std::int64_t s = 0; s < packed.steps(); ++s) {
    const std::uint32_t* words = packed.words(base, s) + lane;
    const std::ptrdiff_t next = packed.quad_steps(s) * kPanelRows;
    for (int k = 0; k < packed.step; ++k, ++codes) {
      std::uint32_t code = words[places[k].word * next] >> places[k].shift & low;
      if (packed.width == 5 || packed.width == 6)
        code |= (words[places[k].high_word * next] >> places[k].high_shift & high) << 4;
      *codes = static_cast<std::uint8_t>(code);
    }
  }
  for (std::size_t g = 0; g < out.scales.size(); ++g) {
    const std::byte* at = packed.scales(base, static_cast<std::int64_t>(g));
    out.scales[g] = load_scale(at, lane, packed.format.scale_dtype);
    if (!packed.format.symmetric) out.biases[g] = load_scale(at, lane + kPanelRows, packed.format.scale_dtype);
  }
}

}  // namespace eadem::kernels
