#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

// The Highway targets compiled here: AVX2 and AVX-512 on x86-64, NEON on AArch64. Highway also compiles the baseline of
// x86-64, which has no FMA; a body leaves itself out there: #if EADEM_HWY_TARGET ... #endif.
#define EADEM_HWY_TARGET (HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON)

namespace eadem::kernels {

/// Instruction sets, each including those before it on its architecture. `scalar` runs the definitions in numerics/.
enum class Target : std::uint8_t { scalar, avx2, avx512, avx512bf16, amx, neon };
inline constexpr int kTargetCount = 6;

/// "scalar", "avx2", "avx512", "avx512bf16", "amx", "neon": the names that EADEM_TARGET takes.
std::string_view name_of(Target);
std::optional<Target> target_named(std::string_view);

/// The targets that this CPU and operating system can run, weakest first; always begins with scalar.
std::span<const Target> available_targets();

/// The target that kernels run now: the one set, else the one of EADEM_TARGET, else the best available.
/// Throws ValueError when EADEM_TARGET names none, or one that this CPU lacks.
Target active_target();

/// Makes `target` the active one for the process; throws ValueError when this CPU lacks it.
void set_target(Target target);

/// Bit t is set once a kernel body compiled for target t has run since the last clear: the proof of a forced target.
std::uint32_t targets_ran();
void clear_targets_ran();
void record_ran(Target target) noexcept;

/// One function per target, null where a family has none of its own: pick() gives the best not above the active one.
template <class F>
struct PerTarget {
  F scalar = nullptr, avx2 = nullptr, avx512 = nullptr, avx512bf16 = nullptr, amx = nullptr, neon = nullptr;

  F pick(Target active) const {
    const F table[kTargetCount] = {scalar, avx2, avx512, avx512bf16, amx, neon};
    int t = static_cast<int>(active);
    if (active == Target::neon && !neon) t = 0;
    while (t > 0 && !table[t]) --t;
    record_ran(static_cast<Target>(t));
    return table[t];
  }
  F pick() const { return pick(active_target()); }
};

}  // namespace eadem::kernels

// The functions `name` of the namespaces that Highway made, as a PerTarget: EADEM_PER_TARGET(scalar_function, name).
#if defined(__aarch64__)
#define EADEM_PER_TARGET(reference, name)             \
  ::eadem::kernels::PerTarget<decltype(&reference)> { \
    .scalar = &reference, .neon = &N_NEON::name       \
  }
#else
#define EADEM_PER_TARGET(reference, name)                                \
  ::eadem::kernels::PerTarget<decltype(&reference)> {                    \
    .scalar = &reference, .avx2 = &N_AVX2::name, .avx512 = &N_AVX3::name \
  }
#endif
