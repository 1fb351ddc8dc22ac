#pragma once

#include <bit>
#include <concepts>
#include <limits>
#include <type_traits>

#include "eadem/numerics/arithmetic.h"

// Bitwise operations on integers and bool, and shifts on integers.

namespace eadem::numerics {

struct BitwiseAnd {
  template <std::integral T>
  constexpr T operator()(T a, T b) const {
    return static_cast<T>(a & b);
  }
};
struct BitwiseOr {
  template <std::integral T>
  constexpr T operator()(T a, T b) const {
    return static_cast<T>(a | b);
  }
};
struct BitwiseXor {
  template <std::integral T>
  constexpr T operator()(T a, T b) const {
    return static_cast<T>(a ^ b);
  }
};
/// Of bool: the logical not.
struct BitwiseNot {
  template <std::integral T>
  constexpr T operator()(T x) const {
    if constexpr (std::same_as<T, bool>)
      return static_cast<bool>(static_cast<unsigned char>(x) ^ 1);
    else
      return static_cast<T>(~x);
  }
};

/// Counts are read as unsigned; one of the width or more shifts every bit out.
struct ShiftLeft {
  template <IntegerElement T>
  constexpr T operator()(T x, T count) const {
    using U = std::make_unsigned_t<T>;
    constexpr unsigned width = std::numeric_limits<U>::digits;
    const bool inside = static_cast<U>(count) < width;
    const auto shifted = static_cast<Wrapping<T>>(x) << (static_cast<Wrapping<T>>(count) & (width - 1));
    return inside ? static_cast<T>(shifted) : T{0};
  }
};
struct ShiftRightLogical {
  template <IntegerElement T>
  constexpr T operator()(T x, T count) const {
    using U = std::make_unsigned_t<T>;
    constexpr unsigned width = std::numeric_limits<U>::digits;
    const bool inside = static_cast<U>(count) < width;
    const auto shifted = Wrapping<T>{static_cast<U>(x)} >> (static_cast<Wrapping<T>>(count) & (width - 1));
    return inside ? static_cast<T>(shifted) : T{0};
  }
};
/// Vacated bits, and all of them from a count of the width on, are copies of the sign; unsigned values have sign zero.
struct ShiftRightArithmetic {
  template <IntegerElement T>
  constexpr T operator()(T x, T count) const {
    if constexpr (std::unsigned_integral<T>) {
      return ShiftRightLogical{}(x, count);
    } else {
      using U = std::make_unsigned_t<T>;
      constexpr unsigned width = std::numeric_limits<U>::digits;
      const U steps = static_cast<U>(count) < width ? static_cast<U>(count) : static_cast<U>(width - 1);
      return static_cast<T>(x >> steps);
    }
  }
};

struct PopulationCount {
  template <IntegerElement T>
  constexpr T operator()(T x) const {
    return static_cast<T>(std::popcount(static_cast<std::make_unsigned_t<T>>(x)));
  }
};
/// The width for zero.
struct CountLeadingZeros {
  template <IntegerElement T>
  constexpr T operator()(T x) const {
    return static_cast<T>(std::countl_zero(static_cast<std::make_unsigned_t<T>>(x)));
  }
};

inline constexpr BitwiseAnd bitwise_and;
inline constexpr BitwiseOr bitwise_or;
inline constexpr BitwiseXor bitwise_xor;
inline constexpr BitwiseNot bitwise_not;
inline constexpr ShiftLeft shift_left;
inline constexpr ShiftRightLogical shift_right_logical;
inline constexpr ShiftRightArithmetic shift_right_arithmetic;
inline constexpr PopulationCount population_count;
inline constexpr CountLeadingZeros count_leading_zeros;

}  // namespace eadem::numerics
