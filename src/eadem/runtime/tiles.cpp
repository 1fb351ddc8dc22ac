#include "eadem/runtime/tiles.h"

#include <algorithm>

#include "eadem/base/parallel.h"
#include "eadem/numerics/rounding.h"

namespace eadem {
namespace {

// Copies elements [begin, begin + count) of the row-major order into `tile`, 16-bit floats widened.
void load(const TensorView& x, std::int64_t begin, std::int64_t count, void* tile) {
  const Shape strides = contiguous_strides(x.shape);
  visit(x.dtype, [&]<class T>(std::type_identity<T>) {
    for (std::int64_t i = 0; i < count; ++i) {
      std::int64_t offset = 0;
      for (int axis = 0; axis < x.shape.rank(); ++axis)
        offset += (begin + i) / strides[axis] % x.shape[axis] * x.strides[axis];
      if constexpr (Float16<T>)
        static_cast<float*>(tile)[i] = to_float(x.as<const T>()[offset]);
      else
        static_cast<T*>(tile)[i] = x.as<const T>()[offset];
    }
  });
}

void store(const void* tile, std::int64_t count, const TensorView& result, std::int64_t begin) {
  visit(result.dtype, [&]<class T>(std::type_identity<T>) {
    if constexpr (Float16<T>) {
      for (std::int64_t i = 0; i < count; ++i)
        result.as<T>()[begin + i] = numerics::round_to<T>(static_cast<const float*>(tile)[i]);
    } else {
      std::copy_n(static_cast<const T*>(tile), count, result.as<T>() + begin);
    }
  });
}

}  // namespace

void run_tile(kernels::TileFn fn, const Launch& launch) noexcept {
  constexpr std::int64_t kTile = kernels::kTileElements;
  const TensorView& result = launch.results[0];
  const std::int64_t count = result.elements();
  parallel_for((count + kTile - 1) / kTile, 16, [&](std::int64_t first, std::int64_t last) {
    alignas(64) std::byte buffers[5][kTile * 8];
    for (std::int64_t tile = first; tile < last; ++tile) {
      kernels::TileArgs args;
      const std::int64_t begin = tile * kTile, size = std::min(kTile, count - begin);
      for (std::size_t i = 0; i < launch.operands.size(); ++i) {
        load(launch.operands[i], begin, size, buffers[i]);
        args.in[i] = buffers[i];
      }
      args.out = buffers[4];
      args.count = static_cast<std::size_t>(size);
      args.attributes = launch.attributes;
      fn(args);
      store(buffers[4], size, result, begin);
    }
  });
}

}  // namespace eadem
