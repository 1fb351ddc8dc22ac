#pragma once

#include <cstdint>
#include <span>

#include "eadem/numerics/elementary.h"
#include "eadem/numerics/rounding.h"

// Random numbers, numerics.md section 8: every value is a pure function of (key, index). Keys, bits and uniforms are
// those of JAX with jax_threefry_partitionable, bit by bit.

namespace eadem::numerics {

/// A key, or one block of Threefry's output. JAX stores it as u32[2]: high, low.
struct Key {
  std::uint32_t high = 0, low = 0;
  friend bool operator==(const Key&, const Key&) = default;
};

/// The block cipher Threefry-2x32 with 20 rounds. Source: Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3,
/// 2011.
Key threefry2x32(Key key, Key counter);

/// jax.random.PRNGKey(seed).
constexpr Key random_key(std::uint64_t seed) {
  return {static_cast<std::uint32_t>(seed >> 32), static_cast<std::uint32_t>(seed)};
}

/// Block `index` of the key's stream; the i-th key of jax.random.split(key, n), whatever n is.
inline Key split(Key key, std::uint64_t index) {
  return threefry2x32(key, random_key(index));
}

/// jax.random.fold_in(key, data).
inline Key fold_in(Key key, std::uint32_t data) {
  return threefry2x32(key, {0, data});
}

/// Element `index` of jax.random.bits(key, shape, T) for T of u8, u16, u32, u64.
template <IntegerElement T>
T random_bits(Key key, std::uint64_t index) {
  const Key block = split(key, index);
  if constexpr (sizeof(T) == 8)
    return static_cast<T>(std::uint64_t{block.high} << 32 | block.low);
  else
    return static_cast<T>(block.high ^ block.low);
}

namespace detail {
// The widths from which JAX makes a float: how many random bits, and how many of them fill the significand.
template <FloatingElement T>
inline constexpr int kSignificand = std::same_as<T, double>     ? 52
                                    : std::same_as<T, float>    ? 23
                                    : std::same_as<T, bfloat16> ? 7
                                                                : 10;

// f in [0, 1): the leading bits as a fraction, exact in T.
template <FloatingElement T>
Wide<T> unit(Key key, std::uint64_t index) {
  constexpr int used = kSignificand<T>;
  if constexpr (std::same_as<T, double>)
    return static_cast<double>(random_bits<std::uint64_t>(key, index) >> (64 - used)) * 0x1p-52;
  else if constexpr (std::same_as<T, float>)
    return static_cast<float>(random_bits<std::uint32_t>(key, index) >> (32 - used)) * 0x1p-23f;
  else if constexpr (std::same_as<T, bfloat16>)
    return static_cast<float>(random_bits<std::uint8_t>(key, index) >> (8 - used)) * 0x1p-7f;
  else
    return static_cast<float>(random_bits<std::uint16_t>(key, index) >> (16 - used)) * 0x1p-10f;
}
}  // namespace detail

/// Element `index` of jax.random.uniform(key, shape, T, low, high): max(low, fma(f, high - low, low)); in the 16-bit
/// types product and sum are rounded, as JAX does. `high` itself is reached when the last rounding goes up.
template <FloatingElement T>
T uniform(Key key, std::uint64_t index, T low, T high) {
  const Wide<T> f = detail::unit<T>(key, index), least = widen(low), range = widen(round_to<T>(widen(high) - least));
  T value;
  if constexpr (Float16<T>)
    value = round_to<T>(widen(round_to<T>(f * range)) + least);
  else
    value = std::fma(f, range, least);
  return widen(value) > least ? value : low;
}

/// Element `index` of a standard normal: sqrt(2) erfinv(u) rounded once, u uniform in f32 on (-1, 1); 16-bit normals
/// are that f32, rounded. f64 starts from a uniform in f64.
template <FloatingElement T>
T normal(Key key, std::uint64_t index) {
  using U = Wide<T>;
  const U least = std::same_as<U, double> ? static_cast<U>(-1 + 0x1p-53) : static_cast<U>(-1 + 0x1p-24);
  return round_to<T>(sqrt2_erfinv(uniform<U>(key, index, least, U{1})));
}

/// A weighted draw over weight(0) .. weight(count - 1), given as doubles: the first i with w_i > 0 and
/// c_i > RN64(u c_n), c the ascending f64 chain of the weights; where rounding leaves none, the last i with w_i > 0. A
/// weight of zero is never drawn. -1 when a weight is negative or NaN, or their sum is zero or not finite. u in [0, 1).
template <class Weight>
std::int64_t categorical(std::int64_t count, const Weight& weight, double u) {
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const double w = weight(i);
    if (!(w >= 0)) return -1;
    sum += w;
  }
  if (!(sum > 0) || sum - sum != 0) return -1;
  const double threshold = u * sum;
  double c = 0;
  std::int64_t last = -1;
  for (std::int64_t i = 0; i < count; ++i) {
    const double w = weight(i);
    if (!(w > 0)) continue;
    c += w;
    last = i;
    if (c > threshold) break;
  }
  return last;
}
template <FloatingElement T>
std::int64_t categorical(std::span<const T> weights, double u) {
  return categorical(
      static_cast<std::int64_t>(weights.size()),
      [&](std::int64_t i) { return to_double(weights[static_cast<std::size_t>(i)]); }, u);
}

}  // namespace eadem::numerics
