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

template <class T>
void store(std::byte* at, std::int64_t index, T value) {
  std::memcpy(at + index * static_cast<std::int64_t>(sizeof value), &value, sizeof value);
}

template <class T>
T load(const std::byte* at, std::int64_t index) {
  T value;
  std::memcpy(&value, at + index * static_cast<std::int64_t>(sizeof value), sizeof value);
  return value;
}

// The memory is this file's to write; readers see it as const.
template <class T>
T* writable(const T* at) {
  return const_cast<T*>(at);
}

void pack_codes(const numerics::QuantizedRow& row, const PackedQuantized& packed, const std::byte* base, int lane) {
  CodePlaces places[32];
  for (int k = 0; k < packed.step; ++k) places[k] = places_of(packed.width, k);
  const int low_width = low_bits(packed.width), low_mask = (1 << low_width) - 1;
  const int words_of_step = packed.step * low_width / 32;
  const int planes_of_step = (packed.step * (packed.width - low_width) + 31) / 32;
  const std::uint8_t* codes = row.codes.data();
  for (std::int64_t s = 0; s < packed.steps(); ++s, codes += packed.step) {
    std::uint32_t low[8] = {}, high[2] = {};
    for (int k = 0; k < packed.step; ++k) {
      low[places[k].word] |= static_cast<std::uint32_t>(codes[k] & low_mask) << places[k].shift;
      high[places[k].plane_word] |= static_cast<std::uint32_t>(codes[k] >> low_width) << places[k].plane_shift;
    }
    const std::ptrdiff_t next = packed.slab_steps(s) * kPanelRows;
    std::uint32_t* words = writable(packed.words(base, s)) + lane;
    for (int i = 0; i < words_of_step; ++i) words[i * next] = low[i];
    if (planes_of_step == 0) continue;
    std::uint32_t* plane = writable(packed.plane(base, s)) + lane;
    const int shift = packed.plane_shift(s);
    for (int i = 0; i < planes_of_step; ++i) plane[i * next] = (shift ? plane[i * next] : 0) | high[i] << shift;
  }
}

void pack_scales(const numerics::QuantizedRow& row, const PackedQuantized& packed, const std::byte* base, int lane) {
  const DType dtype = packed.format.scale_dtype;
  const auto put = [&](std::size_t g, std::int64_t index, const std::vector<float>& values,
                       const numerics::ScaleFactors& factors) {
    const auto group = static_cast<std::int64_t>(g);
    std::byte* at = writable(packed.scales(base, group));
    if (dtype == DType::f32) return store(at, index, values[g]);
    if (dtype == DType::f16) return store(at, index, to_float16(values[g]));  // exact, as the format says
    const std::size_t block = g * static_cast<std::size_t>(packed.format.group) / numerics::kFactorColumns;
    store(at, index, factors.of_groups[g]);
    store(writable(packed.factors(base, group)), index, factors.of_blocks[block]);
  };
  for (std::size_t g = 0; g < static_cast<std::size_t>(packed.groups()); ++g) {
    put(g, lane, row.scales, row.scale_factors);
    if (!packed.format.symmetric) put(g, lane + kPanelRows, row.biases, row.bias_factors);
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
  const bool small = group == 16 && (format.bits <= 3 || format.bits == 5 || format.bits == 6);  // what decode reads
  if (format.bits < 2 || format.bits > 8 || (!small && group != 32 && group != 64 && group != 128) ||
      (format.scale_dtype != DType::f16 && format.scale_dtype != DType::f32 && format.scale_dtype != DType::i8))
    fail<ValueError>("[quantized] codes of {} bits in groups of {} with {} scales cannot be packed", format.bits, group,
                     format.scale_dtype);
  const bool factored = format.scale_dtype == DType::i8;
  const int multiple = group == 16 || factored ? numerics::kFactorColumns : group;
  if (rows < 0 || columns < 0 || columns % multiple != 0)
    fail<ShapeError>("[quantized] groups of {} need columns in multiples of {}, got [{},{}]", group, multiple, rows,
                     columns);
  PackedQuantized packed{.format = format, .rows = rows, .columns = columns, .memory = {}};
  packed.step = std::min(group, 32);
  packed.width = format.bits == 5 && packed.step == 16 ? 6  // the fifth bits of 32 codes are a word
                 : format.bits == 7                    ? 8
                                                       : format.bits;
  packed.log_steps = std::countr_zero(static_cast<unsigned>(group / packed.step));
  packed.log_slab_steps = std::countr_zero(static_cast<unsigned>(kSlabColumns / packed.step));
  packed.step_bytes = static_cast<std::size_t>(packed.step * packed.width * kPanelRows / 8);
  const std::size_t kinds = format.symmetric ? 1 : 2;  // s, and b
  packed.group_scale_bytes = kPanelRows * size_of(format.scale_dtype) * kinds;
  const std::size_t factor_bytes = factored ? kPanelRows * sizeof(float16) * kinds : 0;
  const auto bytes_of = [&](std::size_t steps) {
    return (steps * packed.step_bytes + (steps >> packed.log_steps) * packed.group_scale_bytes + factor_bytes + 63) /
           64 * 64;
  };
  const auto steps = static_cast<std::size_t>(packed.steps());
  const std::size_t slab_steps = std::size_t{1} << packed.log_slab_steps, rest = steps % slab_steps;
  packed.slab_bytes = bytes_of(slab_steps);
  packed.panel_bytes = steps / slab_steps * packed.slab_bytes + (rest ? bytes_of(rest) : 0);
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
          row.scale_factors.assign(columns, groups);
          row.bias_factors.assign(columns, groups);
        }
        pack_codes(row, packed, packed.panel(panel), lane);
        pack_scales(row, packed, packed.panel(panel), lane);
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
  for (int k = 0; k < packed.step; ++k) places[k] = places_of(packed.width, k);
  const int low_width = low_bits(packed.width);
  const std::uint32_t low = (1u << low_width) - 1, high = (1u << (packed.width - low_width)) - 1;
  std::uint8_t* codes = out.codes.data();
  for (std::int64_t s = 0; s < packed.steps(); ++s) {
    const std::uint32_t* words = packed.words(base, s) + lane;
    const std::ptrdiff_t next = packed.slab_steps(s) * kPanelRows;
    for (int k = 0; k < packed.step; ++k)
      codes[k] = static_cast<std::uint8_t>(words[places[k].word * next] >> places[k].shift & low);
    if (high) {
      const std::uint32_t* plane = packed.plane(base, s) + lane;
      for (int k = 0; k < packed.step; ++k) {
        const std::uint32_t above = plane[places[k].plane_word * next] >> packed.plane_shift(s);
        codes[k] = static_cast<std::uint8_t>(codes[k] | (above >> places[k].plane_shift & high) << low_width);
      }
    }
    codes += packed.step;
  }
  const auto value = [&](std::int64_t group, std::int64_t index) {
    const std::byte* at = packed.scales(base, group);
    if (packed.format.scale_dtype == DType::f32) return load<float>(at, index);
    if (packed.format.scale_dtype == DType::f16) return to_float(load<float16>(at, index));
    return to_float(load<float16>(packed.factors(base, group), index)) *
           static_cast<float>(load<std::int8_t>(at, index));
  };
  for (std::size_t g = 0; g < out.scales.size(); ++g) {
    out.scales[g] = value(static_cast<std::int64_t>(g), lane);
    if (!packed.format.symmetric) out.biases[g] = value(static_cast<std::int64_t>(g), lane + kPanelRows);
  }
}

}  // namespace eadem::kernels
