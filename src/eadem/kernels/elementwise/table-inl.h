#pragma once

// Tables of tile functions over dtypes, made from the loops of loops-inl.h; to be included once, after foreach_target.

#include <array>
#include <concepts>
#include <tuple>
#include <type_traits>
#include <utility>

#include "eadem/kernels/elementwise/held.h"
#include "eadem/kernels/elementwise/loops-inl.h"
#include "eadem/kernels/target.h"
#include "eadem/kernels/tile.h"
#include "eadem/numerics/compare.h"
#include "eadem/numerics/integer.h"

namespace eadem::kernels {

/// What the scalar target runs: the operation of numerics/ on elements.
template <class Operation, class R, class... A>
void reference_loop(const TileArgs& args) {
  for (std::size_t i = 0; i < args.count; ++i) {
    const R result = [&]<std::size_t... k>(std::index_sequence<k...>) {
      return Operation{}(from_held<A>(static_cast<const Held<A>*>(args.in[k])[i])...);
    }
    (std::index_sequence_for<A...>{});
    static_cast<Held<R>*>(args.out)[i] = to_held<R>(result);
  }
}

template <class Operation, class R, class... A>
constexpr PerTarget<TileFn> per_target() {
#if defined(__aarch64__)
  return {.scalar = &reference_loop<Operation, R, A...>, .neon = &N_NEON::loop<Operation, R, A...>};
#else
  return {.scalar = &reference_loop<Operation, R, A...>,
          .avx2 = &N_AVX2::loop<Operation, R, A...>,
          .avx512 = &N_AVX3::loop<Operation, R, A...>};
#endif
}

/// Calls f with std::type_identity of each element type, in the order of DType, at compile time.
template <class F>
constexpr void for_each_element_type(F f) {
  [&]<class... T>(std::type_identity<std::tuple<T...>>) {
    (f(std::type_identity<T>{}), ...);
  }(std::type_identity<std::tuple<double, float, bfloat16, float16, std::int8_t, std::int16_t, std::int32_t,
                                  std::int64_t, std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t, bool>>{});
}

using TileTable = std::array<PerTarget<TileFn>, kDTypeCount>;

/// Whether an operation has the same bits on signed and unsigned integers, so that one loop serves both.
template <class Operation>
inline constexpr bool kSignless = false;

/// The element type whose loop serves T.
template <class Operation, class T>
consteval auto representative() {
  if constexpr (kSignless<Operation> && std::signed_integral<T>)
    return std::make_unsigned_t<T>{};
  else if constexpr (kSignless<Operation> && std::same_as<T, bool>)
    return std::uint8_t{};
  else
    return T{};
}

/// For every dtype T that Operation takes as its 1, 2 or 3 operands: its loop.
template <class Operation, int operands>
constexpr TileTable table_of() {
  TileTable table{};
  for_each_element_type([&]<class T>(std::type_identity<T>) {
    PerTarget<TileFn>& entry = table[static_cast<std::size_t>(kDTypeOf<T>)];
    if constexpr (operands == 1 && std::invocable<Operation, T>) {
      using A = decltype(representative<Operation, T>());
      entry = per_target<Operation, std::invoke_result_t<Operation, A>, A>();
    } else if constexpr (operands == 2 && std::invocable<Operation, T, T>) {
      using A = decltype(representative<Operation, T>());
      entry = per_target<Operation, std::invoke_result_t<Operation, A, A>, A, A>();
    } else if constexpr (operands == 3 && std::invocable<Operation, T, T, T>) {
      using A = decltype(representative<Operation, T>());
      entry = per_target<Operation, std::invoke_result_t<Operation, A, A, A>, A, A, A>();
    }
  });
  return table;
}

/// The function of `table` for the dtype of operand `which`.
inline TileFn pick_from(const TileTable& table, const Signature& signature, std::size_t which = 0) {
  return table[static_cast<std::size_t>(signature.operands[which].dtype)].pick();
}

}  // namespace eadem::kernels
