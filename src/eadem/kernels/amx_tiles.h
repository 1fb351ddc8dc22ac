#pragma once

#include <atomic>
#include <cstdint>

namespace eadem::kernels {

/// One call of a kernel that multiplies by AMX tiles; to be held by the thread that calls parallel_for. Threads
/// configure their tile registers at their first use within the call (configure_tiles), for between calls other code of
/// the process may have left them in any state; at the end the caller's own registers are released, as it must not
/// carry 8 KiB of state through the program's other work.
class TileCall {
 public:
  TileCall() { calls.fetch_add(1, std::memory_order_relaxed); }
  ~TileCall();
  TileCall(const TileCall&) = delete;
  TileCall& operator=(const TileCall&) = delete;

  /// Within a TileCall: makes registers 0..7 of this thread 16 rows of 64 bytes, unless it has done so in this call.
  static void configure_tiles() {
    const std::uint64_t call = calls.load(std::memory_order_relaxed);
    if (configured_in != call) load(call);
  }

 private:
  static void load(std::uint64_t call);
  static inline std::atomic<std::uint64_t> calls{0};  // begun in this process
  static thread_local constinit std::uint64_t configured_in;
};

}  // namespace eadem::kernels
