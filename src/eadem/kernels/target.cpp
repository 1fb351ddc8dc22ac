#include "eadem/kernels/target.h"

#include <array>
#include <atomic>
#include <cstdlib>
#include <vector>

#include "eadem/base/error.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace eadem::kernels {
namespace {

constexpr std::array<std::string_view, kTargetCount> kNames{"scalar", "avx2", "avx512", "avx512bf16", "amx", "neon"};

#if defined(__x86_64__)
std::uint64_t enabled_state() {
  std::uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (std::uint64_t{high} << 32) | low;
}

// Linux hands out the tile registers only on request (ARCH_REQ_XCOMP_PERM for XFEATURE_XTILEDATA), and may refuse.
bool request_tiles() {
  return syscall(SYS_arch_prctl, 0x1023, 18) == 0;
}
#endif

std::vector<Target> detect() {
  std::vector<Target> found{Target::scalar};
#if defined(__x86_64__)
  unsigned a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d)) return found;
  const bool fma = c & (1u << 12), osxsave = c & (1u << 27), f16c = c & (1u << 29), avx = c & (1u << 28);
  if (!osxsave || !fma || !f16c || !avx) return found;
  const std::uint64_t state = enabled_state();
  if ((state & 0x6) != 0x6 || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return found;
  const bool avx2 = b & (1u << 5), bmi1 = b & (1u << 3), bmi2 = b & (1u << 8);
  if (!avx2 || !bmi1 || !bmi2) return found;
  found.push_back(Target::avx2);
  constexpr unsigned avx512 = (1u << 16) | (1u << 17) | (1u << 28) | (1u << 30) | (1u << 31);  // F DQ CD BW VL
  if ((state & 0xe6) != 0xe6 || (b & avx512) != avx512) return found;
  found.push_back(Target::avx512);
  const bool tile = d & (1u << 24), amx_bf16 = d & (1u << 22);
  unsigned a1, b1, c1, d1;
  if (!__get_cpuid_count(7, 1, &a1, &b1, &c1, &d1) || !(a1 & (1u << 5))) return found;
  found.push_back(Target::avx512bf16);
  if (tile && amx_bf16 && (state & 0x60000) == 0x60000 && request_tiles()) found.push_back(Target::amx);
#elif defined(__aarch64__)
  found.push_back(Target::neon);
#endif
  return found;
}

const std::vector<Target>& available() {
  static const std::vector<Target> found = detect();
  return found;
}

bool has(Target target) {
  for (const Target each : available())
    if (each == target) return true;
  return false;
}

void require(Target target, std::string_view who) {
  if (has(target)) return;
  std::string names;
  for (const Target each : available()) names += (names.empty() ? "" : " ") + std::string(name_of(each));
  fail<ValueError>("[{}] this CPU cannot run target {}; it has: {}", who, name_of(target), names);
}

Target initial() {
  const char* wanted = std::getenv("EADEM_TARGET");
  if (!wanted || !*wanted) return available().back();
  const std::optional<Target> target = target_named(wanted);
  if (!target)
    fail<ValueError>("[EADEM_TARGET] must be one of scalar avx2 avx512 avx512bf16 amx neon, got '{}'", wanted);
  require(*target, "EADEM_TARGET");
  return *target;
}

std::atomic<int> active{-1};
std::atomic<std::uint32_t> ran{0};

}  // namespace

std::string_view name_of(Target target) {
  return kNames[static_cast<std::size_t>(target)];
}

std::optional<Target> target_named(std::string_view name) {
  for (std::size_t i = 0; i < kNames.size(); ++i)
    if (kNames[i] == name) return static_cast<Target>(i);
  return std::nullopt;
}

std::span<const Target> available_targets() {
  return available();
}

Target active_target() {
  const int known = active.load(std::memory_order_relaxed);
  if (known >= 0) return static_cast<Target>(known);
  const Target target = initial();
  active.store(static_cast<int>(target), std::memory_order_relaxed);
  return target;
}

void set_target(Target target) {
  require(target, "set_target");
  active.store(static_cast<int>(target), std::memory_order_relaxed);
}

std::uint32_t targets_ran() {
  return ran.load(std::memory_order_relaxed);
}
void clear_targets_ran() {
  ran.store(0, std::memory_order_relaxed);
}
void record_ran(Target target) noexcept {
  const std::uint32_t bit = 1u << static_cast<int>(target);
  if (!(ran.load(std::memory_order_relaxed) & bit)) ran.fetch_or(bit, std::memory_order_relaxed);
}

}  // namespace eadem::kernels
