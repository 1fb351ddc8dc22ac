#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "eadem/numerics/rounding.h"

// 8-bit floats as codes in u8: E4M3 (no infinities, NaN 0x7f, up to 448) and E5M2 (IEEE's pattern, up to 57344).
// Source: OCP 8-bit Floating Point Specification, 2023. Both are exact in bf16.

namespace eadem::numerics {

enum class Float8 : std::uint8_t { e4m3, e5m2 };

struct E4M3 {
  static constexpr int significand = 3, bias = 7;
  static constexpr std::uint8_t largest = 0x7e, nan = 0x7f, overflow = 0x7f;
};
struct E5M2 {
  static constexpr int significand = 2, bias = 15;
  static constexpr std::uint8_t largest = 0x7b, nan = 0x7e, overflow = 0x7c;
};

/// 448 or 57344.
constexpr double largest_of(Float8 format) {
  return format == Float8::e4m3 ? 448 : 57344;
}

/// RN(x), ties to even. What rounds beyond the largest number, and infinity, becomes that number when `saturating`,
/// otherwise E4M3's NaN or E5M2's infinity. NaN gives the format's NaN, positive.
template <class Format, bool saturating>
struct ToFloat8 {
  template <FloatingElement T>
  constexpr std::uint8_t operator()(T x) const {
    if constexpr (Float16<T>) {
      return (*this)(to_float(x));
    } else {
      using Bits = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
      constexpr int digits = sizeof(T) == 8 ? 52 : 23, bias = sizeof(T) == 8 ? 1023 : 127;
      constexpr int drop = digits - Format::significand;
      constexpr auto infinity = static_cast<Bits>(Bits{2 * bias + 1} << digits);
      constexpr auto least_normal = static_cast<Bits>(Bits{bias - Format::bias + 1} << digits);
      // Adding 2^digits rounds to an integer, whose bits are then the lowest ones.
      constexpr T magic = static_cast<T>(Bits{1} << digits);
      constexpr T steps = static_cast<T>(Bits{1} << (Format::bias - 1 + Format::significand));

      const auto bits = std::bit_cast<Bits>(x);
      const auto sign_bit = static_cast<Bits>((bits >> (8 * sizeof(T) - 8)) & 0x80);
      const auto magnitude = static_cast<Bits>(bits & (~Bits{0} >> 1));
      const auto odd = static_cast<Bits>((magnitude >> drop) & 1);
      const auto rounded = static_cast<Bits>((magnitude + odd + ((Bits{1} << (drop - 1)) - 1)) >> drop);
      const auto normal = static_cast<Bits>(rounded - (Bits{bias - Format::bias} << Format::significand));
      const auto subnormal = static_cast<Bits>(std::bit_cast<Bits>(std::bit_cast<T>(magnitude) * steps + magic) -
                                               std::bit_cast<Bits>(magic));
      const Bits code = magnitude < least_normal ? subnormal : normal;
      const Bits finite = code > Format::largest ? Bits{saturating ? Format::largest : Format::overflow} : code;
      // E4M3's NaN has no sign here either when it stands for an overflow.
      const bool undefined = magnitude > infinity || finite == Format::nan;
      return static_cast<std::uint8_t>(undefined ? Bits{Format::nan} : (sign_bit | finite));
    }
  }
};

/// The number that a code stands for: exact; NaN is canonical.
template <class Format, FloatingElement To>
struct FromFloat8 {
  constexpr To operator()(std::uint8_t code) const {
    constexpr int shift = 23 - Format::significand;
    const std::uint32_t magnitude = code & 0x7fu, sign_bit = std::uint32_t{code & 0x80u} << 24;
    constexpr std::uint32_t rebias = std::uint32_t{127 - Format::bias} << 23;
    constexpr float unit = std::bit_cast<float>(std::uint32_t{127 - Format::bias + 1 - Format::significand} << 23);
    const auto subnormal =
        std::bit_cast<std::uint32_t>(static_cast<float>(static_cast<std::int32_t>(magnitude)) * unit);
    std::uint32_t bits = magnitude < (1u << Format::significand) ? subnormal : (magnitude << shift) + rebias;
    bits = magnitude > Format::largest ? 0x7f800000u : bits;
    bits |= sign_bit;
    constexpr std::uint32_t first_nan = Format::overflow == Format::nan ? Format::nan : Format::overflow + 1u;
    return round_to<To>(std::bit_cast<float>(magnitude >= first_nan ? 0x7fc00000u : bits));
  }
};

}  // namespace eadem::numerics
