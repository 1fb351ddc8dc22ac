#pragma once

#include <cstdint>

namespace eadem::testing {

/// Whether this thread's arithmetic loses subnormals now.
inline bool subnormals_flushed() {
  volatile float small = 0x1p-130F;
  volatile float half = 0.5F;
  return small * half == 0;
}

/// While it lives, this thread flushes subnormals to zero, takes them for zeros, and rounds upwards.
class HostileFloat {
 public:
#if defined(__x86_64__)
  HostileFloat() : saved_(__builtin_ia32_stmxcsr()) {
    __builtin_ia32_ldmxcsr(kHostile);
  }
  ~HostileFloat() {
    __builtin_ia32_ldmxcsr(static_cast<unsigned>(saved_));
  }
  bool in_force() const {
    return (__builtin_ia32_stmxcsr() & ~0x3fu) == kHostile;
  }

 private:
  static constexpr unsigned kHostile = 0x1f80 | 0x8000 | 0x0040 | 0x4000;  // FTZ, DAZ, rounding up
#elif defined(__aarch64__)
  HostileFloat() : saved_(control()) {
    set_control(kHostile);
  }
  ~HostileFloat() {
    set_control(saved_);
  }
  bool in_force() const {
    return control() == kHostile;
  }

 private:
  static constexpr std::uint64_t kHostile = (1u << 24) | (1u << 19) | (1u << 22);  // FZ, FZ16, rounding up
  static std::uint64_t control() {
    std::uint64_t value;
    __asm__ volatile("mrs %0, fpcr" : "=r"(value));
    return value;
  }
  static void set_control(std::uint64_t value) {
    __asm__ volatile("msr fpcr, %0" : : "r"(value));
  }
#endif
  const std::uint64_t saved_;
};

}  // namespace eadem::testing
