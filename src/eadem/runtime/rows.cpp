#include "eadem/runtime/rows.h"

#include <algorithm>

#include "eadem/base/parallel.h"
#include "eadem/kernels/move/copy.h"
#include "eadem/runtime/context.h"

namespace eadem {

void run_rows(kernels::RowFn fn, const Launch& launch) noexcept {
  Context context;
  kernels::RowArgs args;
  for (std::size_t i = 0; i < launch.operands.size(); ++i) {
    TensorView packed = launch.operands[i];
    if (!is_contiguous(packed)) {
      const std::size_t bytes = static_cast<std::size_t>(packed.elements()) * size_of(packed.dtype);
      packed = contiguous_view(context.scratch(bytes), packed.dtype, packed.shape);
      kernels::copy(launch.operands[i], packed);
    }
    args.in[i] = packed.data;
  }
  const TensorView& x = launch.operands[0];
  args.length = x.shape.back();
  args.attributes = launch.attributes;
  std::int64_t rows = 1;
  for (int i = 0; i + 1 < x.shape.rank(); ++i) rows *= x.shape[i];
  if (rows == 0) return;
  const auto bytes_of_row = [&](const TensorView& view) {
    return view.elements() / rows * static_cast<std::int64_t>(size_of(view.dtype));
  };
  parallel_for(rows, std::max<std::int64_t>(1, 8192 / std::max<std::int64_t>(1, args.length)),
               [&](std::int64_t begin, std::int64_t end) {
                 kernels::RowArgs part = args;
                 part.rows = end - begin;
                 part.in[0] += begin * bytes_of_row(x);
                 for (std::size_t i = 0; i < launch.results.size(); ++i)
                   part.out[i] = launch.results[i].data + begin * bytes_of_row(launch.results[i]);
                 fn(part);
               });
}

}  // namespace eadem
