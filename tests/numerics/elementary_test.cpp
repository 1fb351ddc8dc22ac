// The elementary functions without an oracle: limits, public report C2, and digests that every machine must meet.

#include "eadem/numerics/elementary.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <string>

#include "eadem/numerics/double_double.h"

namespace eadem::numerics {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kMax = std::numeric_limits<float>::max();

#define EXPECT_SAME(a, b) EXPECT_TRUE(same_bits(a, b)) << (a) << " is not " << (b)

// Report C2: GELU and SiLU at the extremes.
TEST(Elementary, GatesAtTheExtremes) {
  for (const auto& gate :
       {+[](float x) { return gelu(x); }, +[](float x) { return gelu_tanh(x); }, +[](float x) { return silu(x); }}) {
    EXPECT_SAME(gate(kInf), kInf);
    EXPECT_SAME(gate(kMax), kMax);
    EXPECT_SAME(gate(-kInf), -0.0f);
    EXPECT_SAME(gate(-kMax), -0.0f);
    EXPECT_SAME(gate(1e30f), 1e30f);
    EXPECT_SAME(gate(-1e30f), -0.0f);
    EXPECT_SAME(gate(-0.0f), -0.0f);
  }
  EXPECT_NEAR(gelu(-5.0f) / -1.433257859e-6f, 1, 3e-7);
  EXPECT_NEAR(gelu(-13.24f) / -3.4125e-39f, 1, 1e-4);
  EXPECT_NEAR(gelu_tanh(-5.0f) / -2.291796e-7f, 1, 3e-7);
  EXPECT_SAME(gelu_tanh(-13.24f), -0.0f);
  EXPECT_NEAR(silu(-89.0f) / -1.9823536e-37f, 1, 3e-7);
  EXPECT_NEAR(silu_derivative(-89.0f) / -1.9600799e-37f, 1, 3e-7);
  for (const auto& slope :
       {+[](float x) { return gelu_derivative(x); }, +[](float x) { return gelu_tanh_derivative(x); },
        +[](float x) { return silu_derivative(x); }}) {
    for (const float x : {kInf, kMax, 1e30f}) EXPECT_SAME(slope(x), 1.0f);
    for (const float x : {-kInf, -kMax, -1e30f}) EXPECT_SAME(slope(x), -0.0f);
    EXPECT_SAME(slope(0.0f), 0.5f);
  }
}

// x/2 + c x^2 of a subnormal x is a tie but for its second term, which is beyond any f64 sum.
TEST(Elementary, GatesOfSubnormalsBreakTies) {
  for (std::uint32_t n = 1; n < 4000; n += 2) {
    const float x = static_cast<float>(n) * 0x1p-149f;
    for (const auto& gate :
         {+[](float v) { return gelu(v); }, +[](float v) { return gelu_tanh(v); }, +[](float v) { return silu(v); }}) {
      EXPECT_SAME(gate(x), static_cast<float>((n + 1) / 2) * 0x1p-149f);
      EXPECT_SAME(gate(-x), -static_cast<float>(n / 2) * 0x1p-149f);
    }
  }
}

TEST(Elementary, NanIsCanonicalAndComesFromOutsideTheDomain) {
  const float payload = std::bit_cast<float>(0xffc12345u);
  for (int i = 0; i < kFunctionCount; ++i) {
    visit(static_cast<Function>(i), [&](auto f) {
      EXPECT_SAME(f(payload), canonical_nan<float>());
      EXPECT_SAME(f(static_cast<double>(payload)), canonical_nan<double>());
      EXPECT_EQ(f(bfloat16{0xffff}).bits, 0x7fc0);
      EXPECT_EQ(f(float16{0xffff}).bits, 0x7e00);
    });
  }
  EXPECT_SAME(numerics::log(-1.0f), canonical_nan<float>());
  EXPECT_SAME(logit(1.5f), canonical_nan<float>());
  EXPECT_SAME(erfinv(-1.5f), canonical_nan<float>());
  EXPECT_SAME(numerics::acosh(0.5), canonical_nan<double>());
  EXPECT_SAME(numerics::sin(kInf), canonical_nan<float>());
  EXPECT_SAME(numerics::pow(-2.0f, 0.5f), canonical_nan<float>());
}

TEST(Elementary, PowAtTheEdges) {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_SAME(numerics::pow(nan, 0.0f), 1.0f);
  EXPECT_SAME(numerics::pow(1.0f, nan), 1.0f);
  EXPECT_SAME(numerics::pow(-0.0f, -3.0f), -kInf);
  EXPECT_SAME(numerics::pow(-0.0f, -2.0f), kInf);
  EXPECT_SAME(numerics::pow(-0.0f, 3.0f), -0.0f);
  EXPECT_SAME(numerics::pow(-kInf, 3.0f), -kInf);
  EXPECT_SAME(numerics::pow(-kInf, -3.0f), -0.0f);
  EXPECT_SAME(numerics::pow(-1.0f, kInf), 1.0f);
  EXPECT_SAME(numerics::pow(0.5f, -kInf), kInf);
  EXPECT_SAME(numerics::pow(-2.0f, 3.0f), -8.0f);
  EXPECT_SAME(numerics::pow(4097.0f, 2.0f), 16785408.0f);  // 16785409 is a tie
  EXPECT_SAME(numerics::pow(2.0f, -150.0f), 0.0f);         // a tie
  EXPECT_SAME(numerics::pow(10.0, 22.0), 1e22);
  EXPECT_SAME(numerics::atan2(-0.0f, -1.0f), -static_cast<float>(M_PI));
  EXPECT_SAME(numerics::atan2(-0.0f, 1.0f), -0.0f);
  EXPECT_SAME(numerics::hypot(3.0f, -4.0f), 5.0f);
  EXPECT_SAME(numerics::hypot(kInf, nan), kInf);
  EXPECT_SAME(numerics::hypot(1e200, 1e200), 1.4142135623730951e200);
}

TEST(Elementary, ExactValues) {
  for (int n = -149; n < 128; ++n) {
    EXPECT_SAME(numerics::exp2(static_cast<float>(n)), std::ldexp(1.0f, n));
    EXPECT_SAME(numerics::log2(std::ldexp(1.0f, n)), static_cast<float>(n));
    EXPECT_SAME(numerics::log2(std::ldexp(1.0, n)), static_cast<double>(n));
  }
  for (int n = 1; n < 200; ++n) EXPECT_SAME(numerics::cbrt(static_cast<double>(n) * n * n), static_cast<double>(n));
  double power = 1;
  for (int n = 0; n <= 22; ++n, power *= 10) EXPECT_SAME(numerics::log10(power), static_cast<double>(n));
  EXPECT_SAME(logit(0.5), 0.0);
  EXPECT_SAME(numerics::acos(1.0f), 0.0f);
  EXPECT_EQ(numerics::exp2(to_float16(-25.0)).bits, 0);  // a tie
}

TEST(DoubleDouble, RoundsOnceWhereHiAloneWouldErr) {
  const double tie = 1 + 0x1p-24;
  EXPECT_SAME(round_to<float>(DoubleDouble(tie, 0x1p-80)), 1 + 0x1p-23f);
  EXPECT_SAME(round_to<float>(DoubleDouble(tie, -0x1p-80)), 1.0f);
  EXPECT_SAME(round_to<float>(DoubleDouble(tie)), 1.0f);
  EXPECT_SAME(round_to<float>(DoubleDouble(-tie, -0x1p-80)), -1 - 0x1p-23f);
  EXPECT_EQ(round_to<bfloat16>(DoubleDouble(1 + 0x1p-8, 0x1p-70)).bits, 0x3f81);
}

std::uint64_t next_word(std::uint64_t& state) {
  state += 0x9e3779b97f4a7c15ULL;
  std::uint64_t z = state;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}
void add(std::uint64_t& digest, std::uint64_t value) {
  digest = (digest ^ value) * 0x100000001b3ULL;
}

// Results of every function in f64 and f32, on arguments of all sizes: the same on every machine and compiler.
std::uint64_t digest_of_all() {
  std::uint64_t state = 1, digest = 0xcbf29ce484222325ULL;
  const auto argument = [&] {
    const std::uint64_t w = next_word(state);
    const double m = 1 + static_cast<double>(w >> 12) * 0x1p-52;
    return std::ldexp(w & 1 ? -m : m, static_cast<int>(next_word(state) % 24) - 16);
  };
  for (int i = 0; i < kFunctionCount; ++i) {
    visit(static_cast<Function>(i), [&](auto f) {
      for (int n = 0; n < 2000; ++n) {
        const double x = n % 8 == 0 ? std::bit_cast<double>(next_word(state)) : argument();
        add(digest, std::bit_cast<std::uint64_t>(f(x)));
        const float y = n % 4 == 0 ? std::bit_cast<float>(static_cast<std::uint32_t>(next_word(state)))
                                   : static_cast<float>(argument());
        add(digest, std::bit_cast<std::uint32_t>(f(y)));
      }
    });
  }
  for (int n = 0; n < 4000; ++n) {
    const double x = argument(), y = argument();
    for (const double z : {numerics::pow(x, y), numerics::pow(std::fabs(x), y), numerics::atan2(x, y), hypot(x, y)}) {
      add(digest, std::bit_cast<std::uint64_t>(z));
    }
    const auto a = static_cast<float>(x), b = static_cast<float>(y);
    for (const float z : {numerics::pow(std::fabs(a), b), numerics::atan2(a, b), hypot(a, b)}) {
      add(digest, std::bit_cast<std::uint32_t>(z));
    }
  }
  return digest;
}

TEST(Elementary, DigestIsThatOfEveryMachine) {
  EXPECT_EQ(digest_of_all(), 0x38ff78bc007ac4d9ULL);
}

}  // namespace
}  // namespace eadem::numerics
