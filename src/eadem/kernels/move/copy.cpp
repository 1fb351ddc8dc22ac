#include "eadem/kernels/move/copy.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "eadem/base/parallel.h"

namespace eadem::kernels {
namespace {

struct Axis {
  std::int64_t extent, source, destination;  // strides in elements
};
struct Axes {
  Axis axis[kMaxRank];
  int rank = 0;
};

// Drops axes of extent one, orders the rest so that the destination is walked from far to near, and joins neighbours
// that one stride covers in both windows.
Axes collapse(const TensorView& source, const TensorView& destination) {
  Axes axes;
  for (int i = 0; i < source.shape.rank(); ++i)
    if (source.shape[i] != 1) axes.axis[axes.rank++] = {source.shape[i], source.strides[i], destination.strides[i]};
  std::stable_sort(axes.axis, axes.axis + axes.rank,
                   [](const Axis& a, const Axis& b) { return std::abs(a.destination) > std::abs(b.destination); });
  Axes joined;
  for (int i = 0; i < axes.rank; ++i) {
    const Axis& next = axes.axis[i];
    if (joined.rank > 0) {
      Axis& last = joined.axis[joined.rank - 1];
      if (last.source == next.source * next.extent && last.destination == next.destination * next.extent) {
        last = {last.extent * next.extent, next.source, next.destination};
        continue;
      }
    }
    joined.axis[joined.rank++] = next;
  }
  return joined;
}

template <class T>
void copy_line(const T* source, std::int64_t source_stride, T* destination, std::int64_t destination_stride,
               std::int64_t count) {
  if (source_stride == 1 && destination_stride == 1) {
    std::memcpy(destination, source, static_cast<std::size_t>(count) * sizeof(T));
  } else if (destination_stride == 1 && source_stride == 0) {
    std::fill(destination, destination + count, *source);
  } else {
    for (std::int64_t i = 0; i < count; ++i) destination[i * destination_stride] = source[i * source_stride];
  }
}

// A plane whose near axis is strided in the source but whose far axis is not (a transpose) goes in square blocks, so
// that each cache line of either side is used whole.
template <class T>
void copy_plane(const T* source, T* destination, const Axis& far, const Axis& near) {
  constexpr std::int64_t kBlock = 32;
  if (std::abs(near.source) <= std::abs(far.source) || far.extent < 2) {
    for (std::int64_t i = 0; i < far.extent; ++i)
      copy_line(source + i * far.source, near.source, destination + i * far.destination, near.destination, near.extent);
    return;
  }
  for (std::int64_t j = 0; j < near.extent; j += kBlock)
    for (std::int64_t i0 = 0; i0 < far.extent; i0 += kBlock)
      for (std::int64_t i = i0; i < std::min(i0 + kBlock, far.extent); ++i)
        copy_line(source + i * far.source + j * near.source, near.source,
                  destination + i * far.destination + j * near.destination, near.destination,
                  std::min(kBlock, near.extent - j));
}

template <class T>
void copy_elements(const TensorView& source, const TensorView& destination, Axes axes) {
  while (axes.rank < 2) {  // make a plane of everything
    std::copy_backward(axes.axis, axes.axis + axes.rank, axes.axis + axes.rank + 1);
    axes.axis[0] = {1, 0, 0};
    ++axes.rank;
  }
  Axis far = axes.axis[axes.rank - 2];
  const Axis near = axes.axis[axes.rank - 1];
  std::int64_t planes = 1;
  for (int i = 0; i < axes.rank - 2; ++i) planes *= axes.axis[i].extent;
  // Long lines alone in their plane are cut so that threads can share them.
  constexpr std::int64_t kLine = std::int64_t{1} << 16, kRows = 64;
  const std::int64_t strips = (far.extent + kRows - 1) / kRows, pieces = (near.extent + kLine - 1) / kLine;
  const std::int64_t work = std::min(far.extent, kRows) * std::min(near.extent, kLine);
  const std::int64_t grain = std::max<std::int64_t>(1, (std::int64_t{32} << 10) / std::max<std::int64_t>(work, 1));
  parallel_for(planes * strips * pieces, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t task = begin; task < end; ++task) {
      const std::int64_t piece = task % pieces, strip = task / pieces % strips;
      std::int64_t plane = task / pieces / strips, from = 0, to = 0;
      for (int i = axes.rank - 3; i >= 0; --i) {
        const std::int64_t index = plane % axes.axis[i].extent;
        plane /= axes.axis[i].extent;
        from += index * axes.axis[i].source;
        to += index * axes.axis[i].destination;
      }
      from += strip * kRows * far.source + piece * kLine * near.source;
      to += strip * kRows * far.destination + piece * kLine * near.destination;
      Axis rows = far, line = near;
      rows.extent = std::min(kRows, far.extent - strip * kRows);
      line.extent = std::min(kLine, near.extent - piece * kLine);
      copy_plane(source.as<const T>() + from, destination.as<T>() + to, rows, line);
    }
  });
}

}  // namespace

void copy(const TensorView& source, const TensorView& destination) {
  if (source.elements() == 0) return;
  const Axes axes = collapse(source, destination);
  switch (size_of(source.dtype)) {
    case 1: return copy_elements<std::uint8_t>(source, destination, axes);
    case 2: return copy_elements<std::uint16_t>(source, destination, axes);
    case 4: return copy_elements<std::uint32_t>(source, destination, axes);
    default: return copy_elements<std::uint64_t>(source, destination, axes);
  }
}

}  // namespace eadem::kernels
