#include "eadem/kernels/reduce/geometry.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace eadem::kernels {
namespace {

void insert_sorted(LoopNest& nest, const Loop& loop) {
  nest.push_back(loop);
  for (int i = nest.size() - 1; i > 0 && std::abs(nest[i - 1].stride) < std::abs(nest[i].stride); --i) {
    std::swap(nest[i - 1], nest[i]);
  }
}

// Joins neighbouring loops that walk as one.
void merge(LoopNest& nest) {
  LoopNest merged;
  for (int i = 0; i < nest.size(); ++i) {
    const Loop& inner = nest[i];
    if (!merged.empty()) {
      Loop& outer = merged.back();
      if (outer.stride == inner.stride * inner.extent && outer.weight == inner.weight * inner.extent) {
        outer = {outer.extent * inner.extent, inner.stride, inner.weight};
        continue;
      }
    }
    merged.push_back(inner);
  }
  nest = merged;
}

}  // namespace

Geometry::Geometry(const TensorView& x, const Shape& axes, Order order) {
  std::int64_t kept_weight = 1, reduced_weight = 1;
  LoopNest reversed;
  for (int axis = x.shape.rank() - 1; axis >= 0; --axis) {
    const bool folded = std::find(axes.begin(), axes.end(), axis) != axes.end();
    const std::int64_t extent = x.shape[axis];
    std::int64_t stride = x.strides[axis];
    (folded ? count : outputs) *= extent;
    if (extent == 1) continue;
    if (!folded) {
      insert_sorted(kept, {extent, stride, kept_weight});
      kept_weight *= extent;
      continue;
    }
    const std::int64_t weight = reduced_weight;
    reduced_weight *= extent;
    if (order == Order::row_major) {
      if (stride != 0 || extent == 0) reversed.push_back({extent, stride, weight});
      continue;
    }
    if (stride == 0 && order != Order::free) {
      repeats *= extent;
      continue;
    }
    if (stride < 0) {
      origin += (extent - 1) * stride;
      stride = -stride;
    }
    insert_sorted(reduced, {extent, stride, 0});
  }
  for (int i = reversed.size() - 1; i >= 0; --i) reduced.push_back(reversed[i]);
  merge(kept);
  merge(reduced);
}

}  // namespace eadem::kernels
