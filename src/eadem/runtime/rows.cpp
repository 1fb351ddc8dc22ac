#include "eadem/runtime/rows.h"

#include <algorithm>

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

}  // namespace

void run_rows(kernels::RowFn fn, const Launch& launch) {
  const TensorView& x = launch.operands[0];
  kernels::RowArgs args;
  args.length = x.shape.back();
  args.attributes = launch.attributes;
  Context context;
  for (std::size_t i = 1; i < launch.operands.size(); ++i) {
    TensorView vector = launch.operands[i];
    if (!is_contiguous(vector)) {
      const std::size_t bytes = static_cast<std::size_t>(vector.elements()) * size_of(vector.dtype);
      vector = contiguous_view(context.scratch(bytes), vector.dtype, vector.shape);
      kernels::copy(launch.operands[i], vector);
    }
    args.in[i] = vector.data;
  }

  Shape outer = x.shape, outer_strides = x.strides;
  outer.pop_back();
  outer_strides.pop_back();
  const std::int64_t rows = outer.elements();
  if (rows == 0) return;
  const std::int64_t bytes = row_bytes(x, rows);
  const auto results_at = [&](kernels::RowArgs& part, std::int64_t row) {
    for (std::size_t i = 0; i < launch.results.size(); ++i) {
      part.out[i] = launch.results[i].data + row * row_bytes(launch.results[i], rows);
    }
  };
  const std::int64_t grain = std::max<std::int64_t>(1, 8192 / std::max<std::int64_t>(1, args.length));
  if (is_contiguous(x)) {
    parallel_for(rows, grain, [&](std::int64_t begin, std::int64_t end) {
      kernels::RowArgs part = args;
      part.rows = end - begin;
      part.in[0] = x.data + begin * bytes;
      results_at(part, begin);
      fn(part);
    });
    return;
  }
  // Otherwise rows are packed, a block along the last outer axis at a time: columns are read by whole cache lines.
  const std::int64_t last = outer.empty() ? 1 : outer.back();
  const std::int64_t block =
      std::min(last, std::clamp<std::int64_t>(kBlockBytes / std::max<std::int64_t>(1, bytes), 16, 512));
  const std::int64_t blocks = (last + block - 1) / block;
  parallel_for(
      rows / last * blocks, std::max<std::int64_t>(1, grain / block), [&](std::int64_t begin, std::int64_t end) {
        static thread_local Scratch memory;
        std::byte* const packed = memory.take(static_cast<std::size_t>(block * bytes));
        for (std::int64_t i = begin; i < end; ++i) {
          const std::int64_t start = i % blocks * block, first = i / blocks * last + start;
          kernels::RowArgs part = args;
          part.rows = std::min(block, last - start);
          const TensorView window{
              x.data + numerics::offset_of(first, outer, outer_strides) * static_cast<std::int64_t>(size_of(x.dtype)),
              x.dtype, Shape{part.rows, args.length}, Shape{outer.empty() ? 0 : outer_strides.back(), x.strides.back()},
              x.buffer};
          kernels::copy(window, contiguous_view(packed, x.dtype, window.shape));
          part.in[0] = packed;
          results_at(part, first);
          fn(part);
        }
      });
}

}  // namespace eadem
