// The scalar meaning of arithmetic, conversion, comparison and bits (numerics.md sections 1 and 2).
#include "eadem/numerics/arithmetic.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "eadem/numerics/compare.h"
#include "eadem/numerics/convert.h"
#include "eadem/numerics/integer.h"

namespace eadem::numerics {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInf = std::numeric_limits<double>::infinity();

#define EADEM_EXPECT_BITS(got, want) EXPECT_TRUE(same_bits(got, want)) << #got

// Public report C4: fmod and remainder.
TEST(Arithmetic, FmodAndRemainder) {
  EADEM_EXPECT_BITS(fmod(1e308, 0.5), 0.0);
  EADEM_EXPECT_BITS(remainder(std::numeric_limits<float>::max(), -0x1p-149f), -0.0f);
  EADEM_EXPECT_BITS(remainder(-7.0, 3.0), 2.0);
  EADEM_EXPECT_BITS(remainder(7.0f, -3.0f), -2.0f);
  EADEM_EXPECT_BITS(remainder(-6.0, 3.0), 0.0);
  EADEM_EXPECT_BITS(remainder(-1.0, kInf), kInf);
  EADEM_EXPECT_BITS(remainder(1.0, 0.0), kNan);
  EADEM_EXPECT_BITS(fmod(-7.0, 3.0), -1.0);
  EADEM_EXPECT_BITS(fmod(-6.0, 3.0), -0.0);
  EXPECT_EQ(remainder(-7, 3), 2);
  EXPECT_EQ(remainder(7, -3), -2);
  EXPECT_EQ(fmod(-7, 3), -1);
  EXPECT_EQ(fmod(7, 0), 7);
  EXPECT_EQ(remainder(7, 0), 7);
  EXPECT_EQ(fmod(INT64_MIN, int64_t{-1}), 0);
}

TEST(Arithmetic, MaximumMinimumClamp) {
  EADEM_EXPECT_BITS(maximum(-0.0, 0.0), 0.0);
  EADEM_EXPECT_BITS(maximum(0.0f, -0.0f), 0.0f);
  EADEM_EXPECT_BITS(minimum(0.0, -0.0), -0.0);
  EADEM_EXPECT_BITS(maximum(-0.0, -0.0), -0.0);
  EADEM_EXPECT_BITS(maximum(-kNan, 1.0), kNan);
  EADEM_EXPECT_BITS(minimum(1.0, -kNan), kNan);
  EADEM_EXPECT_BITS(minimum(kInf, -1.0), -1.0);
  EADEM_EXPECT_BITS(clamp(0.0, -0.0, 1.0), 0.0);
  EADEM_EXPECT_BITS(clamp(2.0, 5.0, 1.0), 1.0);
  EADEM_EXPECT_BITS(clamp(0.0, kNan, 1.0), kNan);
  EXPECT_EQ(clamp(-1, 7, 3), 3);
}

TEST(Arithmetic, NanIsCanonical) {
  EADEM_EXPECT_BITS(subtract(kInf, kInf), kNan);  // x86 itself gives the negative one
  EADEM_EXPECT_BITS(negate(kNan), kNan);
  EADEM_EXPECT_BITS(abs(std::bit_cast<float>(0xffc12345u)), canonical_nan<float>());
  EADEM_EXPECT_BITS(negate(bfloat16{0x7fc1}), (bfloat16{0x7fc0}));
  EADEM_EXPECT_BITS(floor(float16{0xfe00}), (float16{0x7e00}));
  EADEM_EXPECT_BITS(sign(-kNan), kNan);
  EADEM_EXPECT_BITS(select(true, bfloat16{0xffc1}, bfloat16{0}), (bfloat16{0xffc1}));  // moves bits
}

TEST(Arithmetic, SignAndRounding) {
  EADEM_EXPECT_BITS(sign(-0.0), -0.0);
  EADEM_EXPECT_BITS(sign(-kInf), -1.0);
  EXPECT_EQ(sign(std::uint8_t{200}), 1);
  EADEM_EXPECT_BITS(round(2.5), 2.0);
  EADEM_EXPECT_BITS(round(-0.5f), -0.0f);
  EADEM_EXPECT_BITS(round(3.5f), 4.0f);
  EADEM_EXPECT_BITS(ceil(-0.25), -0.0);
  EADEM_EXPECT_BITS(trunc(-1.75f), -1.0f);
  EADEM_EXPECT_BITS(floor(-0.25), -1.0);
}

TEST(Arithmetic, IntegersWrap) {
  EXPECT_EQ(add(INT32_MAX, 1), INT32_MIN);
  EXPECT_EQ(multiply(std::int16_t{-32768}, std::int16_t{-1}), -32768);
  EXPECT_EQ(multiply(std::uint16_t{65535}, std::uint16_t{65535}), 1);
  EXPECT_EQ(negate(INT64_MIN), INT64_MIN);
  EXPECT_EQ(numerics::abs(std::int8_t{-128}), -128);
  EXPECT_EQ(divide(5, 0), -1);
  EXPECT_EQ(divide(5u, 0u), 0xffffffffu);
  EXPECT_EQ(divide(std::int8_t{-128}, std::int8_t{-1}), -128);
  EXPECT_EQ(divide(-7, 2), -3);
}

TEST(Bits, Shifts) {
  EXPECT_EQ(shift_left(1, 31), INT32_MIN);
  EXPECT_EQ(shift_left(1, 32), 0);
  EXPECT_EQ(shift_left(1, -1), 0);
  EXPECT_EQ(shift_right_arithmetic(-8, 1), -4);
  EXPECT_EQ(shift_right_arithmetic(-8, 64), -1);
  EXPECT_EQ(shift_right_arithmetic(8, -1), 0);
  EXPECT_EQ(shift_right_logical(std::int8_t{-1}, std::int8_t{4}), 15);
  EXPECT_EQ(shift_right_arithmetic(std::uint8_t{0x80}, std::uint8_t{7}), 1);
  EXPECT_EQ(shift_right_logical(std::uint64_t{1} << 63, std::uint64_t{64}), 0u);
  EXPECT_EQ(bitwise_not(true), false);
  EXPECT_EQ(bitwise_not(std::uint8_t{1}), 254);
  EXPECT_EQ(population_count(std::int8_t{-1}), 8);
  EXPECT_EQ(count_leading_zeros(std::int16_t{0}), 16);
}

// Public report C7: rounding to bf16, once.
TEST(Convert, ToBfloat16) {
  EXPECT_EQ(convert<bfloat16>(std::bit_cast<float>(0x3E89CCD5u)).bits, 0x3E8A);
  EXPECT_EQ(convert<bfloat16>(16842753).bits, 0x4B81);
  EXPECT_EQ(convert<bfloat16>(std::int64_t{16842753}).bits, 0x4B81);
  EXPECT_EQ(convert<bfloat16>(1 + 0x1p-8 + 0x1p-40).bits, 0x3F81);
  EXPECT_EQ(convert<bfloat16>(std::bit_cast<float>(0x7F800001u)).bits, 0x7FC0);
  EXPECT_EQ(convert<bfloat16>(std::bit_cast<float>(0x7F7FFFFFu)).bits, 0x7F80);
  // 1.0625^2 = 1 + 2^-3 + 2^-8 is a tie, which goes down to even; 2^-40 more must go up, but is lost in f32.
  const bfloat16 x = convert<bfloat16>(1.0625f);
  EXPECT_EQ(fma(x, x, convert<bfloat16>(0x1p-40f)).bits, 0x3F91);
  EXPECT_EQ(fma(x, x, convert<bfloat16>(-0x1p-40f)).bits, 0x3F90);
  EXPECT_EQ(fma(x, x, bfloat16{0}).bits, 0x3F90);
}

// All f16 and bf16 midpoints that an int64 can hold, from below and above: against exact integer reasoning.
template <class T>
void check_int64(int significand) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 200000; ++i) {
    const auto x = static_cast<std::int64_t>(random() >> (1 + random() % 63));
    const std::uint64_t magnitude = static_cast<std::uint64_t>(x);
    const int width = static_cast<int>(std::bit_width(magnitude)), drop = width - significand - 1;
    std::uint64_t rounded = magnitude;
    if (drop > 0) {
      const std::uint64_t unit = std::uint64_t{1} << drop, low = magnitude & (unit - 1);
      rounded = magnitude - low;
      if (low > unit / 2 || (low == unit / 2 && (rounded & unit))) rounded += unit;
    }
    const float want = to_float(round_to<T>(static_cast<double>(rounded)));
    ASSERT_EQ(to_float(convert<T>(x)), want) << x;
    ASSERT_EQ(to_float(convert<T>(-x)), -want) << x;
    ASSERT_EQ(to_float(convert<T>(magnitude)), want) << x;
  }
}
TEST(Convert, Int64RoundsOnce) {
  check_int64<bfloat16>(7);
  check_int64<float16>(10);
  EXPECT_EQ(convert<float16>((std::int64_t{1} << 53) + 1).bits, 0x7C00);
  EXPECT_EQ(convert<bfloat16>(INT64_MIN).bits, 0xDF00);
}

TEST(Convert, FloatToIntegerSaturates) {
  EXPECT_EQ(convert<std::int32_t>(kNan), 0);
  EXPECT_EQ(convert<std::int32_t>(1e10f), INT32_MAX);
  EXPECT_EQ(convert<std::int32_t>(-kInf), INT32_MIN);
  EXPECT_EQ(convert<std::int32_t>(2147483647.9), INT32_MAX);
  EXPECT_EQ(convert<std::int32_t>(-2147483648.9), INT32_MIN);
  EXPECT_EQ(convert<std::uint8_t>(-0.9f), 0);
  EXPECT_EQ(convert<std::uint8_t>(255.9f), 255);
  EXPECT_EQ(convert<std::int8_t>(-128.9f), -128);
  EXPECT_EQ(convert<std::uint64_t>(0x1p64), UINT64_MAX);
  EXPECT_EQ(convert<std::int64_t>(0x1p63f), INT64_MAX);
  EXPECT_EQ(convert<std::int64_t>(float16{0x7c00}), INT64_MAX);
  EXPECT_EQ(convert<std::int16_t>(70000), 4464);
  EXPECT_EQ(convert<bool>(kNan), true);
  EXPECT_EQ(convert<bool>(-0.0f), false);
  EXPECT_EQ(convert<bool>(256), true);
  EXPECT_EQ(convert<float>(true), 1.0f);
}

TEST(Compare, FloatsByValue) {
  EXPECT_TRUE(equal(bfloat16{0x8000}, bfloat16{0}));
  EXPECT_FALSE(equal(kNan, kNan));
  EXPECT_TRUE(not_equal(float16{0x7e00}, float16{0x7e00}));
  EXPECT_FALSE(less_equal(kNan, 1.0));
  EXPECT_TRUE(less(float16{0xc000}, float16{0x3c00}));
  EXPECT_TRUE(is_inf(bfloat16{0xff80}));
  EXPECT_FALSE(is_finite(kNan));
  EXPECT_TRUE(is_nan(float16{0xfe01}));
}

}  // namespace
}  // namespace eadem::numerics
