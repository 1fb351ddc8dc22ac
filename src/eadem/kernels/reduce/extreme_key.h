#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "eadem/base/dtype.h"
#include "eadem/numerics/rounding.h"

namespace eadem::kernels {

/// max and min compare in the order of numerics.md section 1; any and all are the largest and the smallest magnitude.
enum class Extreme : std::uint8_t { max, min, any, all };

template <std::size_t bytes>
using SignedBits = std::conditional_t<
    bytes == 8, std::int64_t,
    std::conditional_t<bytes == 4, std::int32_t, std::conditional_t<bytes == 2, std::int16_t, std::int8_t>>>;

/// Integers that order as the elements do: the fold is an integer maximum or minimum, and cannot depend on its order.
template <class T, Extreme extreme>
struct ExtremeKey {
  using Element = T;
  static constexpr Extreme kExtreme = extreme;
  static constexpr bool kMagnitude = extreme == Extreme::any || extreme == Extreme::all;
  static constexpr bool kLargest = extreme == Extreme::max || extreme == Extreme::any;
  static constexpr bool kFloat = FloatingElement<T>;
  using Type = std::conditional_t<kMagnitude, std::make_unsigned_t<SignedBits<sizeof(T)>>,
                                  std::conditional_t<kFloat, SignedBits<sizeof(T)>, T>>;
  using Limits = std::numeric_limits<Type>;
  using Bits = SignedBits<sizeof(T)>;

  /// The key below (for min, above) all others: the fold of nothing.
  static constexpr Type kIdentity = kLargest ? Limits::min() : Limits::max();
  /// The key of every NaN, which wins.
  static constexpr Type kNan = kLargest ? Limits::max() : Limits::min();

  static constexpr Bits kMagnitudeMask = std::numeric_limits<Bits>::max();
  static constexpr Bits infinity() {
    if constexpr (std::is_same_v<T, double>)
      return 0x7ff0000000000000;
    else if constexpr (std::is_same_v<T, float>)
      return 0x7f800000;
    else if constexpr (std::is_same_v<T, bfloat16>)
      return 0x7f80;
    else
      return 0x7c00;
  }

  static Type of(T x) {
    const auto bits = std::bit_cast<Bits>(x);
    if constexpr (kMagnitude) {
      return static_cast<Type>(kFloat ? bits & kMagnitudeMask : bits);
    } else if constexpr (kFloat) {
      if ((bits & kMagnitudeMask) > infinity()) return kNan;
      return static_cast<Type>(bits < 0 ? bits ^ kMagnitudeMask : bits);
    } else {
      return x;
    }
  }
  /// The element of a key (max and min only): the inverse of `of`, and the canonical NaN.
  static T element(Type key) {
    if constexpr (kFloat) {
      if (key == kNan) return numerics::canonical_nan<T>();
      return std::bit_cast<T>(static_cast<Bits>(key < 0 ? key ^ kMagnitudeMask : key));
    } else {
      return key;
    }
  }
  static Type pick(Type a, Type b) { return kLargest ? (a > b ? a : b) : (a < b ? a : b); }
  /// Whether a wins against b, not merely ties.
  static bool beats(Type a, Type b) { return kLargest ? a > b : a < b; }
};

/// The loops: rows are contiguous; columns are `width` neighbours in each of `rows` rows, `stride` elements apart.
template <class Key>
struct ExtremeBodies {
  using T = typename Key::Element;
  using K = typename Key::Type;
  K (*row)(const T* x, std::int64_t n);
  /// keys[c] = the better of keys[c] and those of column c.
  void (*columns)(const T* x, std::int64_t stride, std::int64_t rows, std::int64_t width, K* keys);
};

}  // namespace eadem::kernels
