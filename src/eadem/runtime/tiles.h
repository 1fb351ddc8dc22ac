#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "eadem/base/launch.h"
#include "eadem/kernels/tile.h"

namespace eadem {

/// Runs one elementwise tile function over strided operands of the result's shape (broadcast by stride 0). The result
/// is contiguous; its memory may be that of a contiguous operand of the same element size.
void run_tile(kernels::TileFn fn, const Launch& launch);

/// One step of a chain of tile functions that run tile by tile, their temporaries in L1 (16-bit ones held as float,
/// rounded): a tile function, the values that it reads, and where its result goes.
struct TileStep {
  kernels::TileFn fn = nullptr;
  const void* attributes = nullptr;
  /// Values are numbered: the launch's operands, then the results of the steps.
  std::array<std::uint8_t, 4> values{};
  std::uint8_t value_count = 0;
  /// Of its result.
  DType dtype = DType::f32;
  /// The launch's result that it is, or -1 for a temporary.
  std::int8_t result = -1;
};
inline constexpr std::size_t kMaxChainOperands = 8, kMaxChainSteps = 16;

/// Runs a chain of at most kMaxChainSteps steps on at most kMaxChainOperands operands, all of one shape; results may be
/// strided, their last axis adjacent. The bits are those of running the steps one after the other.
void run_tiles(std::span<const TileStep> steps, const Launch& launch);

}  // namespace eadem
