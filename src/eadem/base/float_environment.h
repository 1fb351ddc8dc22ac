#pragma once

#include <cstdint>

namespace eadem {

/// While it lives, the calling thread's floating-point arithmetic is that of docs/numerics.md: rounding to nearest,
/// subnormals kept, NaNs not replaced, nothing trapped. A host program may have set otherwise (-ffast-math does, at its
/// start); its settings come back at the end. Costs a read of the control register where nothing needs to change.
class FloatEnvironment {
 public:
  FloatEnvironment() : saved_(control()) {
    if (!is_ours(saved_)) set_control(kOurs);
  }
  ~FloatEnvironment() {
    if (!is_ours(saved_)) set_control(saved_);
  }
  FloatEnvironment(const FloatEnvironment&) = delete;
  FloatEnvironment& operator=(const FloatEnvironment&) = delete;

  /// For threads that run nothing but Eadem.
  static void keep() {
    if (!is_ours(control())) set_control(kOurs);
  }

 private:
#if defined(__x86_64__)
  // MXCSR: six sticky flags, which say nothing; DAZ; six masks; rounding; FTZ.
  using Control = unsigned;
  static constexpr Control kOurs = 0x1f80, kFlags = 0x3f;
  static Control control() {
    return __builtin_ia32_stmxcsr();
  }
  static void set_control(Control value) {
    __builtin_ia32_ldmxcsr(value);
  }
  static bool is_ours(Control value) {
    return (value & ~kFlags) == kOurs;
  }
#elif defined(__aarch64__)
  // FPCR: flush to zero, rounding, default NaN and traps are all off at zero.
  using Control = std::uint64_t;
  static constexpr Control kOurs = 0;
  static Control control() {
    Control value;
    __asm__ volatile("mrs %0, fpcr" : "=r"(value));
    return value;
  }
  static void set_control(Control value) {
    __asm__ volatile("msr fpcr, %0" : : "r"(value));
  }
  static bool is_ours(Control value) {
    return value == kOurs;
  }
#else
#error "Eadem knows the floating-point control of x86-64 and AArch64 only."
#endif

  const Control saved_;
};

}  // namespace eadem
