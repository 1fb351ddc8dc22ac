#include "eadem/numerics/exact_sum.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace eadem::numerics {
namespace {

constexpr std::int64_t kCarryEvery = std::int64_t{1} << 29;  // each addition moves a limb by less than 2^32

// Significand bits with the hidden one, and the exponent of the smallest subnormal.
template <class T>
struct Format;
template <>
struct Format<double> {
  static constexpr int precision = 53, lowest = -1074;
};
template <>
struct Format<float> {
  static constexpr int precision = 24, lowest = -149;
};
template <>
struct Format<bfloat16> {
  static constexpr int precision = 8, lowest = -133;
};
template <>
struct Format<float16> {
  static constexpr int precision = 11, lowest = -24;
};

}  // namespace

void ExactAccumulator::add_at(std::uint64_t magnitude, int position, bool negative) {
  const auto wide = static_cast<unsigned __int128>(magnitude) << (position & 31);
  for (int i = 0; i < 3; ++i) {
    const auto piece = static_cast<std::int64_t>(static_cast<std::uint32_t>(wide >> (32 * i)));
    limbs_[static_cast<std::size_t>(position / 32 + i)] += negative ? -piece : piece;
  }
  if (++pending_ >= kCarryEvery) carry();
}

// Brings all limbs but the highest to [0, 2^32); the highest holds the sign.
void ExactAccumulator::carry() {
  for (std::size_t i = 0; i + 1 < kLimbs; ++i) {
    limbs_[i + 1] += limbs_[i] >> 32;
    limbs_[i] &= 0xffffffff;
  }
  pending_ = 0;
}

void ExactAccumulator::add(double x) {
  const auto raw = std::bit_cast<std::uint64_t>(x);
  const bool negative = (raw >> 63) != 0;
  const int exponent = static_cast<int>((raw >> 52) & 2047);
  const std::uint64_t fraction = raw & 0xfffffffffffffULL;
  if (exponent == 2047) {
    if (fraction)
      nan_ = true;
    else
      (negative ? negative_infinity_ : positive_infinity_) = true;
    return;
  }
  const std::uint64_t significand = exponent ? fraction | 0x10000000000000ULL : fraction;
  add_at(significand, std::max(exponent, 1) - 1075 - kLowest, negative);
}

void ExactAccumulator::add_square(double x) {
  const auto raw = std::bit_cast<std::uint64_t>(x);
  const int exponent = static_cast<int>((raw >> 52) & 2047);
  const std::uint64_t fraction = raw & 0xfffffffffffffULL;
  if (exponent == 2047) {
    (fraction ? nan_ : positive_infinity_) = true;
    return;
  }
  const std::uint64_t significand = exponent ? fraction | 0x10000000000000ULL : fraction;
  const auto square = static_cast<unsigned __int128>(significand) * significand;
  const int position = 2 * (std::max(exponent, 1) - 1075) - kLowest;
  add_at(static_cast<std::uint64_t>(square), position, false);
  add_at(static_cast<std::uint64_t>(square >> 64), position + 64, false);
}

void ExactAccumulator::add_scaled(double x, int exponent) {
  const auto raw = std::bit_cast<std::uint64_t>(x);
  const int field = static_cast<int>((raw >> 52) & 2047);
  const std::uint64_t fraction = raw & 0xfffffffffffffULL;
  add_at(field ? fraction | 0x10000000000000ULL : fraction, std::max(field, 1) - 1075 - kLowest + exponent, raw >> 63);
}

void ExactAccumulator::add(const ExactAccumulator& other) {
  ExactAccumulator theirs = other;
  theirs.carry();
  carry();
  for (std::size_t i = 0; i < kLimbs; ++i) limbs_[i] += theirs.limbs_[i];
  pending_ = 1;
  nan_ |= theirs.nan_;
  positive_infinity_ |= theirs.positive_infinity_;
  negative_infinity_ |= theirs.negative_infinity_;
}

template <FloatingElement T>
T ExactAccumulator::quotient(std::int64_t count) const {
  if (nan_ || (positive_infinity_ && negative_infinity_)) return canonical_nan<T>();
  if (positive_infinity_ || negative_infinity_) {
    return round_to<T>(positive_infinity_ ? HUGE_VAL : -HUGE_VAL);
  }
  // The magnitude as limbs in [0, 2^32), divided by count; what lies below the lowest limb is only non-zero or zero.
  ExactAccumulator number = *this;
  number.carry();
  auto& limbs = number.limbs_;
  const bool negative = limbs[kLimbs - 1] < 0;
  if (negative) {
    for (auto& limb : limbs) limb = -limb;
    number.carry();
  }
  unsigned __int128 remainder = 0;
  for (std::size_t i = kLimbs; i-- > 0;) {
    const unsigned __int128 dividend = (remainder << 32) + static_cast<std::uint64_t>(limbs[i]);
    limbs[i] = static_cast<std::int64_t>(dividend / static_cast<std::uint64_t>(count));
    remainder = dividend % static_cast<std::uint64_t>(count);
  }
  int top = kLimbs - 1;
  while (top >= 0 && limbs[static_cast<std::size_t>(top)] == 0) --top;
  if (top < 0) return round_to<T>(remainder ? std::copysign(0.0, negative ? -1.0 : 1.0) : 0.0);

  // The exponent of the leading bit, and the position (from 2^kLowest) of the last bit that T keeps.
  const int leading =
      32 * top + static_cast<int>(std::bit_width(static_cast<std::uint64_t>(limbs[static_cast<std::size_t>(top)]))) - 1;
  if (leading + kLowest > 1023) return round_to<T>(negative ? -HUGE_VAL : HUGE_VAL);
  const int last = std::max(leading - (Format<T>::precision - 1), Format<T>::lowest - kLowest);
  const auto bit = [&](int position) -> std::uint64_t {
    return (limbs[static_cast<std::size_t>(position / 32)] >> (position % 32)) & 1;
  };
  std::uint64_t kept = 0;
  for (int i = std::max(leading, last); i >= last; --i) kept = 2 * kept + bit(i);
  bool sticky = remainder != 0;
  for (int i = 0; i < last - 1 && !sticky; ++i) sticky = bit(i) != 0;
  if (bit(last - 1) && (sticky || (kept & 1))) ++kept;
  const double rounded = std::ldexp(static_cast<double>(kept), last + kLowest);
  return round_to<T>(negative ? -rounded : rounded);
}

template double ExactAccumulator::quotient<double>(std::int64_t) const;
template float ExactAccumulator::quotient<float>(std::int64_t) const;
template bfloat16 ExactAccumulator::quotient<bfloat16>(std::int64_t) const;
template float16 ExactAccumulator::quotient<float16>(std::int64_t) const;

}  // namespace eadem::numerics
