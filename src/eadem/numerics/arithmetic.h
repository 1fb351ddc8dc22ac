#pragma once

#include <bit>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "eadem/numerics/rounding.h"

// numerics.md sections 1 and 2: arithmetic on elements. Each operation is a function object over every dtype that it
// takes. Floats follow IEEE in the working type with one rounding and return the canonical NaN; integers wrap.
// The bodies choose by selects, not branches, so that a compiler can run a loop of them in vectors.

namespace eadem::numerics {

/// x, or the canonical NaN where x is any NaN.
template <std::floating_point T>
constexpr T canonical(T x) {
  return x != x ? canonical_nan<T>() : x;
}

/// The unsigned type in which T's integer arithmetic wraps without undefined behaviour (never narrower than unsigned).
template <IntegerElement T>
using Wrapping = std::common_type_t<std::make_unsigned_t<T>, unsigned>;

/// The bits of a float or double, and the unsigned type that holds them.
template <std::floating_point T>
using BitsOf = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
template <std::floating_point T>
constexpr BitsOf<T> bits_of(T x) {
  return std::bit_cast<BitsOf<T>>(x);
}

namespace detail {

// a + b of doubles rounded to odd: where it is inexact, the last bit is one, so that a second rounding to at most 51
// bits is as if there had been only that one.
constexpr double add_to_odd(double a, double b) {
  const double sum = a + b;
  const double b_part = sum - a;
  const double error = (a - (sum - b_part)) + (b - b_part);  // TwoSum
  const std::uint64_t bits = bits_of(sum);
  const bool adjust = (error > 0 || error < 0) && (bits & 1) == 0;
  const std::uint64_t away = bits + 1, toward = bits - 1;
  const bool grows = (error > 0) == (sum > 0);
  return adjust ? std::bit_cast<double>(grows ? away : toward) : sum;
}

}  // namespace detail

/// An operation that 16-bit floats take through f32 and one more rounding, which is innocuous or exact.
template <class Operation>
struct ThroughFloat {
  template <Float16 T, class... Rest>
  constexpr T operator()(T first, Rest... rest) const {
    return round_to<T>(Operation{}(widen(first), widen(rest)...));
  }
};

struct Negate : ThroughFloat<Negate> {
  using ThroughFloat::operator();
  template <std::floating_point T>
  constexpr T operator()(T x) const {
    return canonical(-x);
  }
  template <IntegerElement T>
  constexpr T operator()(T x) const {
    return static_cast<T>(Wrapping<T>{0} - static_cast<Wrapping<T>>(x));
  }
};

struct Abs : ThroughFloat<Abs> {
  using ThroughFloat::operator();
  template <std::floating_point T>
  constexpr T operator()(T x) const {
    return canonical(std::bit_cast<T>(static_cast<BitsOf<T>>(bits_of(x) & (~BitsOf<T>{0} >> 1))));
  }
  template <IntegerElement T>
  constexpr T operator()(T x) const {
    return x < T{0} ? Negate{}(x) : x;
  }
};

/// -1, 0 or 1; of floats, a zero keeps its sign.
struct Sign : ThroughFloat<Sign> {
  using ThroughFloat::operator();
  template <std::floating_point T>
  constexpr T operator()(T x) const {
    const T one = x > 0 ? T{1} : T{-1};
    return x == 0 ? x : canonical(x != x ? x : one);
  }
  template <IntegerElement T>
  constexpr T operator()(T x) const {
    return static_cast<T>((x > T{0}) - (x < T{0}));
  }
};

struct Floor : ThroughFloat<Floor> {
  using ThroughFloat::operator();
  template <std::floating_point T>
  T operator()(T x) const {
    return canonical(std::floor(x));
  }
};
struct Ceil : ThroughFloat<Ceil> {
  using ThroughFloat::operator();
  template <std::floating_point T>
  T operator()(T x) const {
    return canonical(std::ceil(x));
  }
};
/// To the nearest integer, halves to even.
struct Round : ThroughFloat<Round> {
  using ThroughFloat::operator();
  template <std::floating_point T>
  T operator()(T x) const {
    return canonical(std::nearbyint(x));
  }
};
struct Trunc : ThroughFloat<Trunc> {
  using ThroughFloat::operator();
  template <std::floating_point T>
  T operator()(T x) const {
    return canonical(std::trunc(x));
  }
};

struct Add : ThroughFloat<Add> {
  using ThroughFloat::operator();
  template <std::floating_point T>
  constexpr T operator()(T a, T b) const {
    return canonical(a + b);
  }
  template <IntegerElement T>
  constexpr T operator()(T a, T b) const {
    return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
  }
};
struct Subtract : ThroughFloat<Subtract> {
  using ThroughFloat::operator();
  template <std::floating_point T>
  constexpr T operator()(T a, T b) const {
    return canonical(a - b);
  }
  template <IntegerElement T>
  constexpr T operator()(T a, T b) const {
    return static_cast<T>(static_cast<Wrapping<T>>(a) - static_cast<Wrapping<T>>(b));
  }
};
struct Multiply : ThroughFloat<Multiply> {
  using ThroughFloat::operator();
  template <std::floating_point T>
  constexpr T operator()(T a, T b) const {
    return canonical(a * b);
  }
  template <IntegerElement T>
  constexpr T operator()(T a, T b) const {
    return static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b));
  }
};
/// An operation on the way of a cotangent, its first operand: +0 where that is a zero, whatever the rest, and never -0
/// (numerics.md section 6).
template <class Operation>
struct Gated {
  template <FloatingElement T>
  constexpr T operator()(T cotangent, T factor) const {
    const T result = Operation{}(cotangent, factor);
    if constexpr (Float16<T>)
      return widen(cotangent) == 0 || widen(result) == 0 ? T{} : result;
    else
      return cotangent == 0 || result == 0 ? T{0} : result;
  }
};

/// Integers truncate as C does; x/0 has all bits set and MIN/-1 is MIN.
struct Divide : ThroughFloat<Divide> {
  using ThroughFloat::operator();
  template <std::floating_point T>
  constexpr T operator()(T a, T b) const {
    return canonical(a / b);
  }
  template <IntegerElement T>
  constexpr T operator()(T a, T b) const {
    if (b == T{0}) return static_cast<T>(~T{0});
    if (std::signed_integral<T> && b == static_cast<T>(-1)) return Negate{}(a);
    return static_cast<T>(a / b);
  }
};

using GatedMultiply = Gated<Multiply>;
using GatedDivide = Gated<Divide>;

/// a * b + c, rounded once.
struct Fma {
  template <std::floating_point T>
  T operator()(T a, T b, T c) const {
    return canonical(std::fma(a, b, c));
  }
  /// The product is exact in double and the sum is rounded to odd, so that the only rounding is the last.
  template <Float16 T>
  constexpr T operator()(T a, T b, T c) const {
    return round_to<T>(detail::add_to_odd(to_double(a) * to_double(b), to_double(c)));
  }
  template <IntegerElement T>
  constexpr T operator()(T a, T b, T c) const {
    return Add{}(Multiply{}(a, b), c);
  }
};

/// C's fmod and %: the sign of a. Of integers a fmod 0 = a.
struct Fmod : ThroughFloat<Fmod> {
  using ThroughFloat::operator();
  template <std::floating_point T>
  T operator()(T a, T b) const {
    return canonical(std::fmod(a, b));
  }
  template <IntegerElement T>
  constexpr T operator()(T a, T b) const {
    if (b == T{0}) return a;
    if (std::signed_integral<T> && b == static_cast<T>(-1)) return T{0};
    return static_cast<T>(a % b);
  }
};
/// Python's and NumPy's %: the sign of b, also when the result is zero. Of integers a % 0 = a.
struct Remainder : ThroughFloat<Remainder> {
  using ThroughFloat::operator();
  template <std::floating_point T>
  T operator()(T a, T b) const {
    const T rest = std::fmod(a, b);
    if (rest == 0) return std::copysign(T{0}, b);
    return canonical((rest < 0) != (b < 0) ? rest + b : rest);
  }
  template <IntegerElement T>
  constexpr T operator()(T a, T b) const {
    const T rest = Fmod{}(a, b);
    return rest != T{0} && (rest < T{0}) != (b < T{0}) ? Add{}(rest, b) : rest;
  }
};

/// NaN propagates; -0 < +0.
struct Maximum : ThroughFloat<Maximum> {
  using ThroughFloat::operator();
  template <std::floating_point T>
  constexpr T operator()(T a, T b) const {
    // Equal values differ at most in the sign of zero.
    const T equal = std::bit_cast<T>(static_cast<BitsOf<T>>(bits_of(a) & bits_of(b)));
    const T larger = a == b ? equal : (a > b ? a : b);
    return static_cast<int>(a != a) | static_cast<int>(b != b) ? canonical_nan<T>() : larger;
  }
  template <std::integral T>
  constexpr T operator()(T a, T b) const {
    return a > b ? a : b;
  }
};
struct Minimum : ThroughFloat<Minimum> {
  using ThroughFloat::operator();
  template <std::floating_point T>
  constexpr T operator()(T a, T b) const {
    const T equal = std::bit_cast<T>(static_cast<BitsOf<T>>(bits_of(a) | bits_of(b)));
    const T smaller = a == b ? equal : (a < b ? a : b);
    return static_cast<int>(a != a) | static_cast<int>(b != b) ? canonical_nan<T>() : smaller;
  }
  template <std::integral T>
  constexpr T operator()(T a, T b) const {
    return a < b ? a : b;
  }
};
/// minimum(maximum(x, low), high).
struct Clamp {
  template <class T>
  constexpr T operator()(T low, T x, T high) const {
    return Minimum{}(Maximum{}(x, low), high);
  }
};

/// maximum(x, 0): NaN propagates, -0 becomes +0.
struct Relu {
  template <class T>
  constexpr T operator()(T x) const {
    return Maximum{}(x, T{});
  }
};

inline constexpr Negate negate;
inline constexpr Abs abs;
inline constexpr Sign sign;
inline constexpr Floor floor;
inline constexpr Ceil ceil;
inline constexpr Round round;
inline constexpr Trunc trunc;
inline constexpr Add add;
inline constexpr Subtract subtract;
inline constexpr Multiply multiply;
inline constexpr Divide divide;
inline constexpr Fma fma;
inline constexpr Fmod fmod;
inline constexpr Remainder remainder;
inline constexpr Maximum maximum;
inline constexpr Minimum minimum;
inline constexpr Clamp clamp;
inline constexpr Relu relu;

}  // namespace eadem::numerics
