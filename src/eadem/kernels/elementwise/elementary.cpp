#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "eadem/kernels/elementwise/elementary.cpp"
#include "hwy/foreach_target.h"
// foreach_target comes first.
#include "eadem/kernels/elementwise/approximations-inl.h"
#include "eadem/kernels/elementwise/elementary_loop-inl.h"
#include "eadem/kernels/elementwise/loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace eadem::kernels::HWY_NAMESPACE {
#if EADEM_HWY_TARGET

// sqrt and 1/x are IEEE operations in the working type.
struct SquareRoot {
  template <std::floating_point T>
  T operator()(T x) const {
    return numerics::canonical(std::sqrt(x));
  }
};
struct Reciprocal {
  template <std::floating_point T>
  T operator()(T x) const {
    return numerics::canonical(1 / x);
  }
};
template <class Operation, class T>
void exact_loop(const TileArgs& args) {
  const auto* in = static_cast<const Held<T>*>(args.in[0]);
  auto* out = static_cast<Held<T>*>(args.out);
  EADEM_INDEPENDENT
  for (std::size_t i = 0; i < args.count; ++i) {
    if constexpr (Float16<T>)
      out[i] = hold<T>(Operation{}(in[i]));
    else
      out[i] = Operation{}(in[i]);
  }
}

// The tile function of f on T, or null where there is only the scalar one.
template <Function f, class T>
constexpr TileFn vector_loop() {
  using F = Approximation<f>;
  if constexpr (f == Function::sqrt)
    return &exact_loop<SquareRoot, T>;
  else if constexpr (f == Function::reciprocal)
    return &exact_loop<Reciprocal, T>;
  else if constexpr (F::kBits == 0 || std::same_as<T, double>)
    return nullptr;
  else if constexpr (Float16<T> && F::kFloatBits != 0)
    return &elementary_loop<T, f, F, float>;
  else
    return &elementary_loop<T, f, F, double>;
}

#endif
}  // namespace eadem::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <array>
#include <utility>

#include "eadem/kernels/elementwise/elementwise.h"

namespace eadem::kernels {
namespace {

using numerics::Function;
using numerics::Function2;

template <Function f, class T>
void scalar_loop(const TileArgs& args) {
  const auto* in = static_cast<const Held<T>*>(args.in[0]);
  for (std::size_t i = 0; i < args.count; ++i)
    static_cast<Held<T>*>(args.out)[i] = to_held<T>(numerics::Elementary<f>{}(from_held<T>(in[i])));
}
template <Function2 f, class T>
void scalar_loop_2(const TileArgs& args) {
  const auto *a = static_cast<const Held<T>*>(args.in[0]), *b = static_cast<const Held<T>*>(args.in[1]);
  for (std::size_t i = 0; i < args.count; ++i)
    static_cast<Held<T>*>(args.out)[i] = to_held<T>(numerics::Elementary2<f>{}(from_held<T>(a[i]), from_held<T>(b[i])));
}

template <Function f, class T>
constexpr PerTarget<TileFn> per_target_elementary() {
#if defined(__aarch64__)
  return {.scalar = &scalar_loop<f, T>, .neon = N_NEON::vector_loop<f, T>()};
#else
  return {.scalar = &scalar_loop<f, T>, .avx2 = N_AVX2::vector_loop<f, T>(), .avx512 = N_AVX3::vector_loop<f, T>()};
#endif
}

template <class T, int... f>
constexpr std::array<PerTarget<TileFn>, sizeof...(f)> table_of(std::integer_sequence<int, f...>) {
  return {per_target_elementary<static_cast<Function>(f), T>()...};
}
template <class T>
constexpr auto kTable = table_of<T>(std::make_integer_sequence<int, numerics::kFunctionCount>());

template <class T, int... f>
constexpr std::array<PerTarget<TileFn>, sizeof...(f)> table_of_2(std::integer_sequence<int, f...>) {
  return {PerTarget<TileFn>{.scalar = &scalar_loop_2<static_cast<Function2>(f), T>}...};
}
template <class T>
constexpr auto kTable2 = table_of_2<T>(std::make_integer_sequence<int, numerics::kFunction2Count>());

}  // namespace

TileFn elementary(Function function, DType dtype) {
  return visit_floating(
      dtype, [&]<class T>(std::type_identity<T>) { return kTable<T>[static_cast<std::size_t>(function)].pick(); });
}
TileFn elementary(Function2 function, DType dtype) {
  return visit_floating(
      dtype, [&]<class T>(std::type_identity<T>) { return kTable2<T>[static_cast<std::size_t>(function)].pick(); });
}

}  // namespace eadem::kernels
#endif
