#include "eadem/runtime/rows.h"

#include <algorithm>
#include <vector>

#include "eadem/base/memory.h"
#include "eadem/base/parallel.h"
#include "eadem/kernels/move/copy.h"
#include "eadem/numerics/reduction_views.h"
#include "eadem/runtime/context.h"

namespace eadem {
namespace {

constexpr std::int64_t kBlockBytes = 131072;  // of packed rows: they stay in L2 between packing and use

std::int64_t row_bytes(const TensorView& view, std::int64_t rows) {
  return view.elements() / rows * static_cast<std::int64_t>(size_of(view.dtype));
}

// Bytes of a row so that operands packed one after the other stay aligned.
std::int64_t padded(std::int64_t bytes) {
  return (bytes + 63) / 64 * 64;
}

// An operand that has rows of its own.
struct RowOperand {
  std::size_t number;
  const TensorView* view;
  std::int64_t bytes;  // of a row
  bool packed;         // whether rows must be packed first
};

}  // namespace

void run_rows(kernels::RowFn fn, const Launch& launch) {
  const TensorView& x = launch.operands[0];
  kernels::RowArgs args;
  args.length = x.shape.back();
  args.attributes = launch.attributes;
  Shape outer = x.shape;
  outer.pop_back();
  const std::int64_t rows = outer.elements();
  if (rows == 0) return;

  Context context;
  std::vector<RowOperand> row_operands;
  bool packs = false;
  for (std::size_t i = 0; i < launch.operands.size(); ++i) {
    const TensorView& operand = launch.operands[i];
    const std::int64_t bytes = row_bytes(operand, rows);
    if (operand.shape.rank() == x.shape.rank()) {
      row_operands.push_back({i, &operand, bytes, !is_contiguous(operand)});
      packs = packs || row_operands.back().packed;
      continue;
    }
    TensorView vector = operand;
    if (!is_contiguous(vector)) {
      const std::size_t size = static_cast<std::size_t>(vector.elements()) * size_of(vector.dtype);
      vector = contiguous_view(context.scratch(size), vector.dtype, vector.shape);
      kernels::copy(operand, vector);
    }
    args.in[i] = vector.data;
  }

  const std::int64_t grain = std::max<std::int64_t>(1, 8192 / std::max<std::int64_t>(1, args.length));
  const auto place = [&](kernels::RowArgs& part, std::int64_t row) {
    for (const RowOperand& each : row_operands)
      if (!each.packed) part.in[each.number] = each.view->data + row * each.bytes;
    for (std::size_t i = 0; i < launch.results.size(); ++i)
      part.out[i] = launch.results[i].data + row * row_bytes(launch.results[i], rows);
  };
  if (!packs) {
    parallel_for(rows, grain, [&](std::int64_t begin, std::int64_t end) {
      kernels::RowArgs part = args;
      part.rows = end - begin;
      place(part, begin);
      fn(part);
    });
    return;
  }
  // Otherwise rows are packed, a block along the last outer axis at a time: columns are read by whole cache lines.
  const std::int64_t last = outer.empty() ? 1 : outer.back();
  const std::int64_t block =
      std::min(last, std::clamp<std::int64_t>(kBlockBytes / std::max<std::int64_t>(1, row_operands[0].bytes), 16, 512));
  const std::int64_t blocks = (last + block - 1) / block;
  parallel_for(
      rows / last * blocks, std::max<std::int64_t>(1, grain / block), [&](std::int64_t begin, std::int64_t end) {
        static thread_local Scratch memory;
        std::int64_t of_row = 0;
        for (const RowOperand& each : row_operands) of_row += each.packed ? padded(each.bytes) : 0;
        std::byte* const packed = memory.take(static_cast<std::size_t>(block * of_row));
        for (std::int64_t i = begin; i < end; ++i) {
          const std::int64_t start = i % blocks * block, first = i / blocks * last + start;
          kernels::RowArgs part = args;
          part.rows = std::min(block, last - start);
          place(part, first);
          std::byte* to = packed;
          for (const RowOperand& each : row_operands) {
            if (!each.packed) continue;
            const TensorView& view = *each.view;
            Shape strides = view.strides;
            strides.pop_back();
            const std::int64_t offset = numerics::offset_of(first, outer, strides);
            const TensorView window{view.data + offset * static_cast<std::int64_t>(size_of(view.dtype)), view.dtype,
                                    Shape{part.rows, view.shape.back()},
                                    Shape{outer.empty() ? 0 : strides.back(), view.strides.back()}, view.buffer};
            kernels::copy(window, contiguous_view(to, view.dtype, window.shape));
            part.in[each.number] = to;
            to += block * padded(each.bytes);
          }
          fn(part);
        }
      });
}

}  // namespace eadem
