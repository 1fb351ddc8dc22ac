#pragma once

#include <cstdint>

namespace eadem {

/// Bytes that the buffers alive now asked for (not what is borrowed or mapped, nor the rounding up, nor kept free
/// blocks), in all threads.
std::int64_t live_bytes();
/// The most that live_bytes was since the last reset_peak_bytes.
std::int64_t peak_bytes();
void reset_peak_bytes();

}  // namespace eadem
