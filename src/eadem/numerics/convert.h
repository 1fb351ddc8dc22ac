#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "eadem/numerics/arithmetic.h"

// Conversion between any two dtypes: one rounding (never through a type in between that rounds too).

namespace eadem::numerics {

namespace detail {

// A double that rounds to any float of at most 11 significant bits as the integer itself does: from 2^53 on, bits that
// cannot matter are folded into a sticky one.
template <std::unsigned_integral U>
constexpr double to_double_sticky(U x) {
  if constexpr (sizeof(U) < 8) {
    return static_cast<double>(x);
  } else {
    const U folded = (x >> 11) | static_cast<U>((x & 2047) != 0);
    return x < (U{1} << 53) ? static_cast<double>(x) : static_cast<double>(folded) * 2048.0;
  }
}
template <std::signed_integral I>
constexpr double to_double_sticky(I x) {
  if constexpr (sizeof(I) < 8) {
    return static_cast<double>(x);
  } else {
    const double magnitude = to_double_sticky(static_cast<std::make_unsigned_t<I>>(Abs{}(x)));
    return x < 0 ? -magnitude : magnitude;
  }
}

// Truncates towards zero; what does not fit goes to the nearest bound, NaN to 0.
template <IntegerElement To, std::floating_point From>
constexpr To saturate(From x) {
  using Limits = std::numeric_limits<To>;
  constexpr From above = static_cast<From>(std::uint64_t{1} << (Limits::digits - 1)) * 2;  // MAX + 1, exact
  constexpr From below = std::signed_integral<To> ? -above : From{0};
  const bool inside = x >= below && x < above;
  const To truncated = static_cast<To>(inside ? x : From{0});
  return x >= above ? Limits::max() : (x < below ? Limits::min() : truncated);
}

}  // namespace detail

/// Float to integer saturates (NaN gives 0), integers wrap, to bool is x != 0, to float rounds once.
template <class To>
struct Convert {
  template <class From>
  constexpr To operator()(From x) const {
    if constexpr (Float16<From>) {
      return (*this)(to_float(x));
    } else if constexpr (std::same_as<To, bool>) {
      return x != From{0};
    } else if constexpr (std::floating_point<From>) {
      if constexpr (FloatingElement<To>)
        return round_to<To>(x);
      else
        return detail::saturate<To>(x);
    } else if constexpr (std::same_as<From, bool>) {
      return (*this)(static_cast<std::uint8_t>(x));
    } else {
      if constexpr (Float16<To>)
        return round_to<To>(detail::to_double_sticky(x));
      else
        return static_cast<To>(x);
    }
  }
};

template <class To>
inline constexpr Convert<To> convert{};

}  // namespace eadem::numerics
