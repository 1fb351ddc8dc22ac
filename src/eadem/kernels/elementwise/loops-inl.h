// Per target: the loop of an elementwise operation over held values. The operation is numerics/' own body (or, for
// 16-bit results, held.h's), inlined here and run in this target's vectors by the compiler.

#if defined(EADEM_KERNELS_ELEMENTWISE_LOOPS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef EADEM_KERNELS_ELEMENTWISE_LOOPS_INL_H_
#undef EADEM_KERNELS_ELEMENTWISE_LOOPS_INL_H_
#else
#define EADEM_KERNELS_ELEMENTWISE_LOOPS_INL_H_
#endif

#include "eadem/kernels/elementwise/held.h"
#include "eadem/kernels/target.h"
#include "eadem/kernels/tile.h"
#include "hwy/highway.h"

// A tile's result is one of its operands or does not overlap them: no iteration depends on another.
#ifndef EADEM_INDEPENDENT
#if defined(__clang__)
#define EADEM_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
// Some operations (fmod, integer division) have no vector form; that is no news.
#pragma clang diagnostic ignored "-Wpass-failed"
#else
#define EADEM_INDEPENDENT _Pragma("GCC ivdep")
#endif
#endif

HWY_BEFORE_NAMESPACE();
namespace eadem::kernels::HWY_NAMESPACE {
#if EADEM_HWY_TARGET

template <class Operation, class R, class A0, class A1 = void, class A2 = void>
void loop(const TileArgs& args) {
  const std::size_t count = args.count;
  auto* out = static_cast<Held<R>*>(args.out);
  const auto* a = static_cast<const Held<A0>*>(args.in[0]);
  if constexpr (std::is_void_v<A1>) {
    EADEM_INDEPENDENT
    for (std::size_t i = 0; i < count; ++i) out[i] = OnHeld<Operation, R, A0>{}(a[i]);
  } else {
    const auto* b = static_cast<const Held<A1>*>(args.in[1]);
    if constexpr (std::is_void_v<A2>) {
      EADEM_INDEPENDENT
      for (std::size_t i = 0; i < count; ++i) out[i] = OnHeld<Operation, R, A0, A1>{}(a[i], b[i]);
    } else {
      const auto* c = static_cast<const Held<A2>*>(args.in[2]);
      EADEM_INDEPENDENT
      for (std::size_t i = 0; i < count; ++i) out[i] = OnHeld<Operation, R, A0, A1, A2>{}(a[i], b[i], c[i]);
    }
  }
}

#endif
}  // namespace eadem::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
