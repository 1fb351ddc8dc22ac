#pragma once

#include <bit>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "eadem/numerics/arithmetic.h"
#include "eadem/numerics/compare.h"
#include "eadem/numerics/convert.h"

// How tiles hold elements: 16-bit floats as the float of the same value, all others as they are. The rounding below
// gives what numerics::round_to gives, held, but chooses by selects only, so that loops of it run in vectors.

namespace eadem::kernels {

/// What a tile holds for an element of type T.
template <class T>
using Held = std::conditional_t<Float16<T>, float, T>;

/// The element that a held value stands for, and back.
template <class T>
constexpr T from_held(Held<T> x) {
  if constexpr (Float16<T>)
    return numerics::round_to<T>(x);
  else
    return x;
}
template <class T>
constexpr Held<T> to_held(T x) {
  if constexpr (Float16<T>)
    return to_float(x);
  else
    return x;
}

namespace detail {
constexpr double power_of_two(int exponent) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52);
}
}  // namespace detail

/// The 16-bit float T nearest to x (ties to even; NaN canonical), held.
template <Float16 T, std::floating_point W>
constexpr float hold(W x) {
  constexpr bool brain = std::same_as<T, bfloat16>;
  constexpr int significand = brain ? 7 : 10, min_exponent = brain ? -126 : -14, width = std::numeric_limits<W>::digits;
  using U = numerics::BitsOf<W>;
  const U bits = numerics::bits_of(x);
  const U sign = bits & ~(~U{0} >> 1);
  constexpr int dropped = width - 1 - significand;
  constexpr U unit = U{1} << dropped;
  W rounded = std::bit_cast<W>(static_cast<U>((bits + (unit / 2 - 1) + ((bits >> dropped) & 1)) & ~(unit - 1)));
  // Below the normal numbers T has the fixed unit 2^(min_exponent - significand), which is that of this anchor too.
  // A bf16 and a float have the same exponents, and so the same integer rounding, subnormals included.
  if constexpr (!(brain && width == 24)) {
    constexpr W anchor = static_cast<W>(1.5 * detail::power_of_two(min_exponent - significand + width - 1));
    constexpr W smallest = static_cast<W>(brain ? 0x1p-126 : 0x1p-14);
    const W magnitude = std::bit_cast<W>(static_cast<U>(bits ^ sign));
    const W small = std::bit_cast<W>(static_cast<U>(numerics::bits_of((magnitude + anchor) - anchor) | sign));
    rounded = magnitude < smallest ? small : rounded;
  }
  float result;
  if constexpr (brain) {
    // From a double: above the largest bf16 the conversion makes infinity; else it is exact.
    result = static_cast<float>(rounded);
  } else {
    const W infinite = std::bit_cast<W>(static_cast<U>(numerics::bits_of(std::numeric_limits<W>::infinity()) | sign));
    const W magnitude = std::bit_cast<W>(static_cast<U>(numerics::bits_of(rounded) ^ sign));
    result = static_cast<float>(magnitude >= W{65536} ? infinite : rounded);
  }
  return x != x ? numerics::canonical_nan<float>() : result;
}

/// Whether held 16-bit results of an operation in float still need their rounding; all others are exact there.
template <class Operation>
inline constexpr bool kRounds = false;
template <>
inline constexpr bool kRounds<numerics::Add> = true;
template <>
inline constexpr bool kRounds<numerics::Subtract> = true;
template <>
inline constexpr bool kRounds<numerics::Multiply> = true;
template <>
inline constexpr bool kRounds<numerics::Divide> = true;
template <>
inline constexpr bool kRounds<numerics::Remainder> = true;

/// Operation on elements A... with result R, on held values.
template <class Operation, class R, class... A>
struct OnHeld {
  constexpr Held<R> operator()(Held<A>... x) const {
    if constexpr (kRounds<Operation> && Float16<R>)
      return hold<R>(Operation{}(x...));
    else
      return Operation{}(x...);
  }
};
template <Float16 R>
struct OnHeld<numerics::Fma, R, R, R, R> {
  constexpr float operator()(double a, double b, double c) const {
    return hold<R>(numerics::detail::add_to_odd(a * b, c));
  }
};
/// The gate comes after the rounding, which may make a zero. Selects only, as compilers do not vectorise "or".
template <class Operation, FloatingElement R>
struct OnHeld<numerics::Gated<Operation>, R, R, R> {
  constexpr Held<R> operator()(Held<R> cotangent, Held<R> factor) const {
    Held<R> result = Operation{}(cotangent, factor);
    if constexpr (Float16<R>) result = hold<R>(result);
    result = result + Held<R>{0};  // -0 + +0 = +0
    return cotangent == 0 ? 0 : result;
  }
};
template <Float16 R, class A>
struct OnHeld<numerics::Convert<R>, R, A> {
  constexpr float operator()(Held<A> x) const {
    if constexpr (std::floating_point<Held<A>>)
      return hold<R>(x);
    else if constexpr (sizeof(A) < 4)
      return hold<R>(static_cast<float>(x));
    else
      return hold<R>(numerics::detail::to_double_sticky(x));
  }
};
/// By masks: compilers do not vectorise a choice between two loads.
template <std::unsigned_integral R>
struct OnHeld<numerics::Select, R, bool, R, R> {
  constexpr R operator()(bool predicate, R a, R b) const {
    const R mask = static_cast<R>(R{0} - static_cast<R>(predicate));
    return static_cast<R>(b ^ ((a ^ b) & mask));
  }
};

}  // namespace eadem::kernels
