#include "eadem/runtime/tiles.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "eadem/base/parallel.h"
#include "eadem/kernels/elementwise/widen.h"

namespace eadem {
namespace {

constexpr std::int64_t kTile = kernels::kTileElements;
constexpr std::size_t kMaxValues = kMaxChainOperands + kMaxChainSteps;
// Bytes moved that one thread should at least get, and from which on prefetching pays (beyond L2).
constexpr std::int64_t kGrainBytes = 32768, kPrefetchBytes = 1 << 20;

using Slot = std::byte[kTile * 8];

// An operand over the collapsed axes.
struct Operand {
  const std::byte* data;
  DType dtype;
  std::int64_t size;
  Shape strides;  // in elements
  bool constant;  // one element, broadcast everywhere
};

// A chain with its axes collapsed: extents of one dropped, neighbours merged wherever every operand allows it.
struct Plan {
  std::span<const TileStep> steps;
  std::span<const TensorView> results;
  std::vector<Shape> result_strides;  // over the collapsed axes; none where results are contiguous
  std::array<Operand, kMaxChainOperands> operands;
  std::size_t operand_count;
  Shape shape;  // at least one axis
  std::int64_t elements;
  std::int64_t inner;   // the last extent
  std::int64_t rows;    // how many of them; tiles lie inside a row unless `crossing`
  std::int64_t pieces;  // tiles of a row (crossing: of everything)
  std::int64_t piece;   // elements of such a tile
  bool crossing;        // rows shorter than a tile: tiles run across them
  bool by_column;       // an operand runs along another axis: rows innermost, so that cache lines are reused
  bool prefetch;
};

bool is_dense(const TensorView& x, const Shape& shape) {
  return x.shape == shape && is_contiguous(x);
}

void collapse(Plan& plan, const Launch& launch) {
  const Shape& full = launch.results[0].shape;
  bool dense = true;
  for (const TensorView& y : launch.results) dense = dense && is_contiguous(y);
  if (!dense) plan.result_strides.resize(launch.results.size());
  const std::size_t strided_results = plan.result_strides.size();
  for (const TensorView& x : launch.operands) dense = dense && is_dense(x, full);
  if (dense) {
    plan.shape = Shape{plan.elements};
    for (std::size_t k = 0; k < plan.operand_count; ++k) plan.operands[k].strides = Shape{1};
    return;
  }
  plan.shape = Shape();
  // Operands, then results if these are not contiguous.
  const std::size_t count = plan.operand_count + strided_results;
  const auto collapsed = [&](std::size_t k) -> Shape& {
    return k < plan.operand_count ? plan.operands[k].strides : plan.result_strides[k - plan.operand_count];
  };
  const auto stride_of = [&](std::size_t k, int axis) {
    return (k < plan.operand_count ? launch.operands[k] : launch.results[k - plan.operand_count]).strides[axis];
  };
  for (int axis = 0; axis < full.rank(); ++axis) {
    // The last axis of strided results stays, for tiles lie along it.
    if (full[axis] == 1 && (strided_results == 0 || axis + 1 < full.rank())) continue;
    bool merges = !plan.shape.empty();
    for (std::size_t k = 0; merges && k < count; ++k) merges = collapsed(k).back() == stride_of(k, axis) * full[axis];
    if (merges) {
      plan.shape.back() *= full[axis];
      for (std::size_t k = 0; k < count; ++k) collapsed(k).back() = stride_of(k, axis);
    } else {
      plan.shape.push_back(full[axis]);
      for (std::size_t k = 0; k < count; ++k) collapsed(k).push_back(stride_of(k, axis));
    }
  }
  if (!plan.shape.empty()) return;
  plan.shape.push_back(1);
  for (std::size_t k = 0; k < count; ++k) collapsed(k).push_back(1);
}

void make_plan(Plan& plan, std::span<const TileStep> steps, const Launch& launch) {
  plan.steps = steps;
  plan.results = launch.results;
  plan.operand_count = launch.operands.size();
  plan.elements = launch.results[0].elements();
  for (std::size_t k = 0; k < plan.operand_count; ++k) {
    const TensorView& x = launch.operands[k];
    plan.operands[k] = {x.data, x.dtype, static_cast<std::int64_t>(size_of(x.dtype)), Shape(), false};
  }
  collapse(plan, launch);
  const int last = plan.shape.rank() - 1;
  plan.inner = plan.shape[last];
  plan.by_column = false;
  for (std::size_t k = 0; k < plan.operand_count; ++k) {
    Operand& x = plan.operands[k];
    x.constant = std::all_of(x.strides.begin(), x.strides.end(), [](std::int64_t stride) { return stride == 0; });
    plan.by_column = plan.by_column || (x.strides[last] != 0 && x.strides[last] != 1);
  }
  plan.crossing = last > 0 && plan.inner < kTile && plan.result_strides.empty();
  plan.by_column = plan.by_column && last > 0 && !plan.crossing;
  const std::int64_t run = plan.crossing ? plan.elements : plan.inner;
  plan.rows = plan.crossing ? 1 : plan.elements / plan.inner;
  plan.pieces = (run + kTile - 1) / kTile;
  plan.piece = std::min(kTile, ((run + plan.pieces - 1) / plan.pieces + 15) / 16 * 16);
  plan.pieces = (run + plan.piece - 1) / plan.piece;
}

struct Range {
  std::int64_t begin, count;
};

Range tile_range(const Plan& plan, std::int64_t unit) {
  const std::int64_t row = plan.by_column ? unit % plan.rows : unit / plan.pieces;
  const std::int64_t piece = (plan.by_column ? unit / plan.rows : unit % plan.pieces) * plan.piece;
  const std::int64_t run = plan.crossing ? plan.elements : plan.inner;
  return {row * run + piece, std::min(plan.piece, run - piece)};
}

// Copies `count` elements `stride` apart to contiguous ones, 16-bit floats widened.
void gather(const std::byte* data, DType dtype, std::int64_t stride, std::int64_t count, std::byte* to,
            const kernels::WidenFns& widen) {
  const auto n = static_cast<std::size_t>(count);
  if (stride == 1 && dtype == DType::bf16)
    return widen.widen_bf16(reinterpret_cast<const bfloat16*>(data), reinterpret_cast<float*>(to), n);
  if (stride == 1 && dtype == DType::f16)
    return widen.widen_f16(reinterpret_cast<const float16*>(data), reinterpret_cast<float*>(to), n);
  const auto move = [&]<class T>(std::type_identity<T>, auto convert) {
    const T* from = reinterpret_cast<const T*>(data);
    auto* out = reinterpret_cast<decltype(convert(T{}))*>(to);
    if (stride == 0)
      std::fill_n(out, n, convert(*from));
    else
      for (std::int64_t i = 0; i < count; ++i) out[i] = convert(from[i * stride]);
  };
  constexpr auto same = [](auto x) { return x; };
  if (dtype == DType::bf16) return move(std::type_identity<bfloat16>(), [](bfloat16 x) { return to_float(x); });
  if (dtype == DType::f16) return move(std::type_identity<float16>(), [](float16 x) { return to_float(x); });
  if (stride == 1) return static_cast<void>(std::memcpy(to, data, n * size_of(dtype)));
  switch (size_of(dtype)) {
    case 1: return move(std::type_identity<std::uint8_t>(), same);
    case 2: return move(std::type_identity<std::uint16_t>(), same);
    case 4: return move(std::type_identity<std::uint32_t>(), same);
    default: return move(std::type_identity<std::uint64_t>(), same);
  }
}

// Elements [begin, begin + count) of an operand as a tile: in place where they lie so, else gathered into `slot`.
const std::byte* operand_tile(const Plan& plan, const Operand& x, Range range, std::byte* slot,
                              const kernels::WidenFns& widen) {
  const int last = plan.shape.rank() - 1;
  Shape index = plan.shape;
  std::int64_t rest = range.begin, offset = 0;
  for (int axis = last; axis >= 0; --axis) {
    index[axis] = axis == 0 ? rest : rest % plan.shape[axis];
    rest = axis == 0 ? 0 : rest / plan.shape[axis];
    offset += index[axis] * x.strides[axis];
  }
  const std::int64_t stride = x.strides[last], held = is_16_bit_float(x.dtype) ? 4 : x.size;
  for (std::int64_t done = 0;;) {
    const std::int64_t segment = std::min(range.count - done, plan.inner - index[last]);
    const std::byte* data = x.data + offset * x.size;
    if (segment == range.count && stride == 1 && !is_16_bit_float(x.dtype)) return data;
    gather(data, x.dtype, stride, segment, slot + done * held, widen);
    done += segment;
    if (done == range.count) return slot;
    // The next row's start.
    offset -= index[last] * stride;
    index[last] = 0;
    for (int axis = last - 1; axis >= 0; --axis) {
      offset += x.strides[axis];
      if (++index[axis] < plan.shape[axis]) break;
      offset -= index[axis] * x.strides[axis];
      index[axis] = 0;
    }
  }
}

// Where element `begin` of a result lies.
std::byte* result_place(const Plan& plan, std::size_t result, std::int64_t begin) {
  const TensorView& view = plan.results[result];
  std::int64_t offset = begin;
  if (!plan.result_strides.empty()) {
    offset = 0;
    for (int axis = plan.shape.rank() - 1; axis >= 0; begin /= plan.shape[axis--])
      offset += begin % plan.shape[axis] * plan.result_strides[result][axis];
  }
  return view.data + offset * static_cast<std::int64_t>(size_of(view.dtype));
}

void prefetch_lines(const std::byte* data, std::int64_t bytes) {
  for (std::int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(data + i, 0, 3);
}
void prefetch_lines_to_write(const std::byte* data, std::int64_t bytes) {
  for (std::int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(data + i, 1, 3);
}

// A step's share of what the next tile reads and writes: all at once, they would wait for a free miss buffer.
void prefetch(const Plan& plan, Range next, std::size_t step) {
  const auto steps = static_cast<std::int64_t>(plan.steps.size()), part = static_cast<std::int64_t>(step);
  const std::int64_t each = ((next.count + steps - 1) / steps + 31) / 32 * 32;  // whole lines
  const std::int64_t begin = next.begin + part * each, count = std::min(each, next.count - part * each);
  if (count <= 0) return;
  for (std::size_t k = 0; k < plan.operand_count; ++k) {
    const Operand& x = plan.operands[k];
    if (plan.shape.rank() == 1 && x.strides[0] == 1) prefetch_lines(x.data + begin * x.size, count * x.size);
  }
  for (std::size_t r = 0; r < plan.results.size(); ++r)
    prefetch_lines_to_write(result_place(plan, r, begin),
                            count * static_cast<std::int64_t>(size_of(plan.results[r].dtype)));
}

void run_units(const Plan& plan, std::int64_t first, std::int64_t end, const kernels::WidenFns& widen) {
  alignas(64) Slot slots[kMaxValues];
  std::array<const void*, kMaxValues> values;
  for (std::size_t k = 0; k < plan.operand_count; ++k) {
    values[k] = slots[k];
    const Operand& x = plan.operands[k];
    if (x.constant) gather(x.data, x.dtype, 0, std::min(plan.elements, plan.piece), slots[k], widen);
  }
  for (std::int64_t unit = first; unit < end; ++unit) {
    const Range range = tile_range(plan, unit);
    const bool prefetches = plan.prefetch && unit + 1 < end;
    const Range next = prefetches ? tile_range(plan, unit + 1) : Range{};
    for (std::size_t k = 0; k < plan.operand_count; ++k)
      if (!plan.operands[k].constant) values[k] = operand_tile(plan, plan.operands[k], range, slots[k], widen);
    for (std::size_t s = 0; s < plan.steps.size(); ++s) {
      if (prefetches) prefetch(plan, next, s);
      const TileStep& step = plan.steps[s];
      const std::size_t value = plan.operand_count + s;
      std::byte* const place =
          step.result < 0 ? nullptr : result_place(plan, static_cast<std::size_t>(step.result), range.begin);
      kernels::TileArgs args;
      for (std::size_t i = 0; i < step.value_count; ++i) args.in[i] = values[step.values[i]];
      args.out = place && !is_16_bit_float(step.dtype) ? place : slots[value];
      args.count = static_cast<std::size_t>(range.count);
      args.attributes = step.attributes;
      step.fn(args);
      values[value] = args.out;
      if (place && step.dtype == DType::bf16)
        widen.narrow_bf16(static_cast<const float*>(args.out), reinterpret_cast<bfloat16*>(place), args.count);
      if (place && step.dtype == DType::f16)
        widen.narrow_f16(static_cast<const float*>(args.out), reinterpret_cast<float16*>(place), args.count);
    }
  }
}

}  // namespace

void run_tiles(std::span<const TileStep> steps, const Launch& launch) {
  Plan plan;
  plan.elements = launch.results[0].elements();
  if (plan.elements == 0) return;
  make_plan(plan, steps, launch);
  std::int64_t bytes = 0;  // of an element everywhere
  for (std::size_t k = 0; k < plan.operand_count; ++k) bytes += plan.operands[k].constant ? 0 : plan.operands[k].size;
  for (const TensorView& result : launch.results) bytes += static_cast<std::int64_t>(size_of(result.dtype));
  plan.prefetch = bytes * plan.elements >= kPrefetchBytes;
  const kernels::WidenFns& widen = kernels::widen_fns();
  const std::int64_t units = plan.rows * plan.pieces;
  parallel_for(units, std::max<std::int64_t>(1, kGrainBytes / (bytes * plan.piece)),
               [&](std::int64_t first, std::int64_t end) { run_units(plan, first, end, widen); });
}

void run_tile(kernels::TileFn fn, const Launch& launch) {
  TileStep step{.fn = fn, .attributes = launch.attributes, .dtype = launch.results[0].dtype, .result = 0};
  step.value_count = static_cast<std::uint8_t>(launch.operands.size());
  for (std::uint8_t i = 0; i < step.value_count; ++i) step.values[i] = i;
  run_tiles({&step, 1}, launch);
}

}  // namespace eadem
