#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "eadem/base/parallel.h"
#include "eadem/kernels/move/copy.h"
#include "eadem/numerics/reduction_views.h"

namespace eadem::kernels {

/// Elements [begin, begin + n) of a view's axis.
inline TensorView part_of(TensorView view, int axis, std::int64_t begin, std::int64_t n) {
  view.data += begin * view.strides[axis] * static_cast<std::int64_t>(size_of(view.dtype));
  view.shape[axis] = n;
  return view;
}

/// Calls f(elements, output) for every output in row-major order over the kept axes, on several threads, with its
/// elements in row-major order over the reduced axes: in place where they are contiguous, else packed a block of
/// outputs at a time, so that columns are read by whole cache lines.
template <class T, class F>
void for_each_packed(const TensorView& x, const Shape& axes, F f) {
  const numerics::ReductionAxes parts(x, axes);
  const std::int64_t outputs = parts.kept.elements(), count = parts.reduced.elements();
  if (outputs == 0) return;
  const TensorView row{x.data, x.dtype, parts.reduced, parts.reduced_strides, nullptr};
  const bool in_place = is_contiguous(row);
  // A block runs along the last kept axis.
  const std::int64_t last = parts.kept.empty() ? 1 : parts.kept.back();
  const std::int64_t fitting = 131072 / static_cast<std::int64_t>(sizeof(T)) / std::max<std::int64_t>(1, count);
  const std::int64_t block = std::min(last, std::clamp<std::int64_t>(fitting, in_place ? 1 : 16, 512));
  const std::int64_t blocks = (last + block - 1) / block;
  const std::int64_t grain = std::max<std::int64_t>(1, 8192 / std::max<std::int64_t>(1, block * count));
  parallel_for(outputs / last * blocks, grain, [&](std::int64_t begin, std::int64_t end) {
    std::vector<T> packed;
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t start = i % blocks * block, rows = std::min(block, last - start);
      const std::int64_t first = i / blocks * last + start;
      TensorView window = row;
      window.data += numerics::offset_of(first, parts.kept, parts.kept_strides) * static_cast<std::int64_t>(sizeof(T));
      const std::int64_t step = parts.kept.empty() ? 0 : parts.kept_strides.back();
      const T* data = window.as<const T>();
      std::int64_t stride = step;
      if (!in_place) {
        window.shape.insert(0, rows);
        window.strides.insert(0, step);
        packed.resize(static_cast<std::size_t>(rows * count));
        copy(window, contiguous_view(packed.data(), x.dtype, window.shape));
        data = packed.data();
        stride = count;
      }
      for (std::int64_t k = 0; k < rows; ++k) {
        f(std::span<const T>(data + k * stride, static_cast<std::size_t>(count)), first + k);
      }
    }
  });
}

}  // namespace eadem::kernels
