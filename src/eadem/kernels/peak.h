#pragma once

#include <cstddef>

namespace eadem::kernels {

/// f32 FLOP/s (a fused multiply-add is two) that all threads reach on independent chains in registers, the best of
/// several short runs.
double measure_fma_rate();

/// Bytes a second that all threads read from `bytes` of memory, the best of several passes.
double measure_read_bandwidth(std::size_t bytes);

}  // namespace eadem::kernels
