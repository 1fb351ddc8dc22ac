#include "eadem/numerics/reduction.h"

#include <gtest/gtest.h>

#include <cfenv>
#include <random>
#include <vector>

#include "eadem/numerics/exact_sum.h"
#include "eadem/numerics/normalization.h"
#include "eadem/numerics/rope.h"
#include "eadem/numerics/softmax.h"

namespace eadem::numerics {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

template <class T>
std::span<const T> span(const std::vector<T>& x) {
  return x;
}
template <class T>
std::vector<T> values(std::initializer_list<double> list) {
  std::vector<T> out;
  for (const double each : list) out.push_back(round_to<T>(each));
  return out;
}

TEST(ExactSum, OfTwoDoublesIsIeeeAddition) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 200000; ++i) {
    const double a = std::bit_cast<double>(random()),
                 b = std::bit_cast<double>(random() % 3 ? random()
                                                        : std::bit_cast<std::uint64_t>(-a) ^ (random() & 15));
    const double expected = a + b == 0 ? 0.0 : round_to<double>(a + b);
    EXPECT_TRUE(same_bits(exact_sum(span(std::vector<double>{a, b})), expected)) << a << " " << b;
    const auto c = static_cast<float>(a), d = static_cast<float>(b);
    const float narrow = c + d == 0 ? 0.0f : round_to<float>(c + d);
    EXPECT_TRUE(same_bits(exact_sum(span(std::vector<float>{c, d})), narrow)) << c << " " << d;
  }
}

TEST(ExactSum, SquareAndQuotientAreIeeeToo) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 100000; ++i) {
    const double a = std::bit_cast<double>(random());
    EXPECT_TRUE(same_bits((exact_sum_of_squares<double, double>(span(std::vector<double>{a}))),
                          a * a == 0 ? 0.0 + a * a : round_to<double>(a * a)))
        << a;
    ExactAccumulator sum;
    sum.add(a);
    const auto n = static_cast<std::int64_t>(random() % 1000 + 1);
    const double expected = round_to<double>(a / static_cast<double>(n));
    EXPECT_TRUE(same_bits(sum.quotient<double>(n), a == 0 ? 0.0 : expected)) << a << "/" << n;
    EXPECT_TRUE(same_bits(sum.sum<bfloat16>(), a == 0 ? bfloat16{} : to_bfloat16(a))) << a;
    EXPECT_TRUE(same_bits(sum.sum<float16>(), a == 0 ? float16{} : to_float16(a))) << a;
  }
}

// Sums of 24-bit integers at few exponents, by 128-bit integers: rounding to nearest even done on the integer.
TEST(ExactSum, AgreesWithIntegerArithmetic) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 3000; ++round) {
    std::vector<float> x(random() % 100);
    __int128 sum = 0;
    for (auto& each : x) {
      const auto significand = static_cast<std::int64_t>(random() % (1 << 25)) - (1 << 24);
      const int exponent = static_cast<int>(random() % 60);
      each = std::ldexp(static_cast<float>(significand), exponent - 149);
      sum += static_cast<__int128>(significand) << exponent;
    }
    const bool negative = sum < 0;
    auto magnitude = static_cast<unsigned __int128>(negative ? -sum : sum);
    int shift = 0;
    bool sticky = false, half = false;
    while (magnitude >> 24) {
      sticky |= half;
      half = magnitude & 1;
      magnitude >>= 1;
      ++shift;
    }
    if (half && (sticky || (magnitude & 1))) ++magnitude;
    const float expected = std::ldexp(static_cast<float>(static_cast<std::uint64_t>(magnitude)), shift - 149);
    EXPECT_TRUE(same_bits(exact_sum(span(x)), negative ? -expected : expected));
  }
}

TEST(ExactSum, SignsAndSpecialValues) {
  EXPECT_TRUE(same_bits(exact_sum(span(std::vector<float>{})), 0.0f));
  EXPECT_TRUE(same_bits(exact_sum(span(std::vector<float>{-0.0f, -0.0f})), 0.0f));
  EXPECT_TRUE(same_bits(exact_sum(span(std::vector<double>{1e308, 1e308, -1e308})), 1e308));
  EXPECT_EQ(exact_sum(span(std::vector<float>{3e38f, 3e38f})), kInf);
  EXPECT_EQ(exact_sum(span(std::vector<double>{-kInf, 1e308, 1e308, 1e308})), -kInf);
  EXPECT_TRUE(same_bits(exact_sum(span(std::vector<double>{kInf, -kInf})), canonical_nan<double>()));
  EXPECT_TRUE(same_bits(exact_sum(span(std::vector<double>{kInf, -NAN})), canonical_nan<double>()));
  EXPECT_TRUE(same_bits(exact_mean<double>(span(std::vector<double>{-5e-324, 0, 0})), -0.0));
  EXPECT_TRUE(same_bits(exact_mean<float>(span(std::vector<float>{})), canonical_nan<float>()));
  EXPECT_EQ(exact_sum(span(std::vector<double>{1e100, 1, -1e100})), 1);
  EXPECT_EQ(exact_mean<float>(span(std::vector<std::int64_t>{INT64_MAX, INT64_MAX, INT64_MIN, INT64_MIN, 0})), -0.4f);
  EXPECT_EQ(exact_mean<float>(span(std::vector<std::uint64_t>{UINT64_MAX, UINT64_MAX})), 0x1p64f);
}

TEST(ExactSum, MergedAccumulatorsHoldTheWholeSum) {
  std::mt19937_64 random(4);
  ExactAccumulator whole, left, right;
  for (int i = 0; i < 1000; ++i) {
    const double x =
        std::ldexp(static_cast<double>(static_cast<std::int64_t>(random())), static_cast<int>(random() % 1900) - 1050);
    whole.add(x);
    (i % 2 ? left : right).add(x);
  }
  left.add(right);
  EXPECT_TRUE(same_bits(left.sum<double>(), whole.sum<double>()));
}

// Public report C5: sums kept in the narrow type.
TEST(PublicReports, C5NarrowSums) {
  const std::vector<float16> ones(4096, to_float16(1.0)), large(4096, to_float16(60000.0));
  EXPECT_EQ(to_float(exact_sum(span(ones))), 4096);
  EXPECT_EQ(to_float(exact_mean<float16>(span(ones))), 1);
  EXPECT_EQ(to_float(exact_mean<float16>(span(large))), to_float(to_float16(60000.0)));
  const std::vector<bfloat16> halves(512, to_bfloat16(1.0f));
  EXPECT_EQ(to_float(exact_sum(span(halves))), 512);
  std::vector<bfloat16> y(512);
  cumsum(span(halves), std::span(y));
  EXPECT_EQ(to_float(y.back()), 512);
  softmax(span(halves), std::span(y));
  for (const auto each : y) EXPECT_EQ(to_float(each), 0x1p-9f);
}

// Public report C8: NaN in max and argmax, at every position of every length.
TEST(PublicReports, C8NanWins) {
  for (std::size_t length = 1; length <= 67; ++length) {
    for (std::size_t at = 0; at < length; ++at) {
      std::vector<float> x(length, 42);
      x[at] = -std::numeric_limits<float>::quiet_NaN();
      x[length - 1] = x[length - 1] == 42 ? 43 : x[length - 1];
      EXPECT_EQ(argmax(span(x)), at);
      EXPECT_EQ(argmin(span(x)), at);
      EXPECT_TRUE(same_bits(max(span(x)), canonical_nan<float>()));
      EXPECT_TRUE(same_bits(min(span(x)), canonical_nan<float>()));
    }
  }
  const auto zeros = values<double>({-0.0, 0.0, -0.0, 0.0});
  EXPECT_EQ(argmax(span(zeros)), 1);
  EXPECT_EQ(argmin(span(zeros)), 0);
}

TEST(Reduction, TopKRanksNanFirstThenLowestIndex) {
  const auto x = values<float>({3, NAN, -0.0, 0.0, 3, NAN, -kInf});
  std::vector<float> v(7);
  std::vector<std::int64_t> i(7);
  top_k(span(x), std::span(v), std::span(i));
  EXPECT_EQ(i, (std::vector<std::int64_t>{1, 5, 0, 4, 3, 2, 6}));
  EXPECT_TRUE(same_bits(v[0], canonical_nan<float>()));
}

TEST(Reduction, ProductsNeitherOverflowNorUnderflowInside) {
  EXPECT_EQ(prod(span(values<float>({1e38, 1e38, 1e-38, 1e-38}))),
            static_cast<float>(1e38f * 1.0 * 1e-38f * 1e38f * 1e-38f));
  EXPECT_EQ(prod(span(values<double>({0x1p1000, 0x1p1000, -0x1p-1000, 0x1p-990}))), -1024);
  EXPECT_EQ(prod(span(values<double>({0x1p-1074, 0x1p-1074, 0x1p1000, 0x1p1000}))), 0x1p-148);
  EXPECT_TRUE(same_bits(prod(span(values<double>({-0x1p-1074, 0.5}))), -0.0));
  EXPECT_TRUE(same_bits(prod(span(values<double>({-0x1p-1074, 0.75}))), -0x1p-1074));
  EXPECT_TRUE(same_bits(prod(span(values<float>({-0.0, 3}))), -0.0f));
  EXPECT_TRUE(same_bits(prod(span(values<float>({0, kInf}))), canonical_nan<float>()));
  EXPECT_EQ(prod(span(values<float>({-kInf, 3}))), -kInf);
  EXPECT_EQ(prod(span(std::vector<float>{})), 1);
  std::vector<double> x(10000);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = i % 2 ? 0x1.8p-700 : 0x1.5555555555555p699;
  EXPECT_NEAR(prod(span(x)), std::exp(5000 * std::log(1.5 * (4.0 / 3) / 2)), 1e-9);
}

TEST(Reduction, IntegersWrapInTheWideType) {
  EXPECT_EQ(integer_sum(span(std::vector<std::int8_t>(1000, -128))), -128000);
  EXPECT_EQ(integer_sum(span(std::vector<std::uint64_t>{UINT64_MAX, 2})), 1u);
  EXPECT_EQ(integer_prod(span(std::vector<std::int32_t>(40, -3))), 12157665459056928801ull);
}

TEST(RowSum, IsTheStatedOrder) {
  std::mt19937 random(5);
  std::vector<double> x(4096 * 3 + 5);
  for (auto& each : x) each = std::uniform_real_distribution<>(-1, 1)(random);
  const auto add = [&](double acc, std::int64_t i) { return acc + x[static_cast<std::size_t>(i)]; };
  const auto block = [&](std::size_t from, std::size_t to) {
    double c[16] = {};
    for (std::size_t i = from; i < to; ++i) c[i % 16] += x[i];
    double fold[8];
    for (int i = 0; i < 8; ++i) fold[i] = c[i] + c[i + 8];
    return ((fold[0] + fold[4]) + (fold[2] + fold[6])) + ((fold[1] + fold[5]) + (fold[3] + fold[7]));
  };
  const double expected = (block(0, 4096) + block(4096, 8192)) + (block(8192, 12288) + block(12288, x.size()));
  EXPECT_TRUE(same_bits(row_sum(static_cast<std::int64_t>(x.size()), add), expected));
  EXPECT_TRUE(same_bits(row_sum(0, add), 0.0));
}

// Public report C1: a large mean, a constant row, one element.
TEST(PublicReports, C1LayerNormWithALargeMean) {
  std::vector<float> a = {40000, 40001, 40002, 40003}, y(4);
  layer_norm(span(a), {}, {}, 1e-5, std::span(y));
  EXPECT_FLOAT_EQ(y[0], -1.34163542f);
  EXPECT_FLOAT_EQ(y[1], -0.44721181f);
  EXPECT_FLOAT_EQ(y[3], 1.34163542f);
  std::vector<float> b(16);
  for (int i = 0; i < 16; ++i) b[static_cast<std::size_t>(i)] = 10000.0f + static_cast<float>(i) * 1e-3f;
  y.resize(16);
  layer_norm(span(b), {}, {}, 1e-5, std::span(y));
  EXPECT_FLOAT_EQ(y[0], -1.33133335f);
  EXPECT_FLOAT_EQ(y[15], 1.33133335f);
  group_norm(span(b), 4, {}, {}, 1e-5, std::span(y));
  EXPECT_FLOAT_EQ(y[0], -1.33133335f);
  const std::vector<float> c(1000, 7.7f);
  y.resize(1000);
  layer_norm(span(c), {}, {}, 1e-5, std::span(y));
  for (const float each : y) EXPECT_EQ(each, 0);
  const std::vector<float> d = {-3};
  y.resize(1);
  const double weight[] = {1e10}, bias[] = {-1};
  layer_norm(span(d), weight, bias, 1e-5, std::span(y));
  EXPECT_EQ(y[0], -1);
}

// Public report C13: -inf in logsumexp.
TEST(PublicReports, C13LogSumExpOfMinusInfinity) {
  EXPECT_EQ(logsumexp(span(values<float>({-kInf, -kInf}))), -kInf);
  EXPECT_EQ(logsumexp(span(values<float>({-kInf, -1}))), -1);
  EXPECT_FLOAT_EQ(logsumexp(span(values<float>({-1, -1}))), -0.30685282f);
  EXPECT_EQ(logsumexp(span(values<float>({0, -kInf}))), 0);
  EXPECT_EQ(logsumexp(span(values<float>({0, kInf}))), kInf);
  EXPECT_EQ(logsumexp(span(std::vector<float>{})), -kInf);
  EXPECT_TRUE(same_bits(logsumexp(span(values<float>({NAN, kInf}))), canonical_nan<float>()));
}

TEST(Softmax, RowsWithoutAFiniteMaximumAreNan) {
  for (const auto& x : {values<float>({-kInf, -kInf}), values<float>({1, kInf}), values<float>({1, NAN})}) {
    std::vector<float> y(2), z(2);
    softmax(span(x), std::span(y));
    log_softmax(span(x), std::span(z));
    for (int i = 0; i < 2; ++i) {
      EXPECT_TRUE(same_bits(y[static_cast<std::size_t>(i)], canonical_nan<float>()));
      EXPECT_TRUE(same_bits(z[static_cast<std::size_t>(i)], canonical_nan<float>()));
    }
  }
  std::vector<float> y(3);
  softmax(span(values<float>({-kInf, 5, 5})), std::span(y));
  EXPECT_EQ(y, (std::vector<float>{0, .5f, .5f}));
}

TEST(Rope, RotatesPairsAndKeepsTheRest) {
  const auto x = values<float>({1, 2, 3, 4, 5});
  const double frequencies[] = {1, 0.25};
  std::vector<float> y(5), z(5);
  rope(span(x), 3, frequencies, RopePairs::half_split, std::span(y));
  EXPECT_FLOAT_EQ(y[0], static_cast<float>(1 * std::cos(3) - 3 * std::sin(3)));
  EXPECT_FLOAT_EQ(y[2], static_cast<float>(3 * std::cos(3) + 1 * std::sin(3)));
  EXPECT_FLOAT_EQ(y[1], static_cast<float>(2 * std::cos(.75) - 4 * std::sin(.75)));
  EXPECT_EQ(y[4], 5);
  const auto w = values<float>({1, 3, 2, 4, 5});
  rope(span(w), 3, frequencies, RopePairs::interleaved, std::span(z));
  EXPECT_EQ(z, (std::vector<float>{y[0], y[2], y[1], y[3], 5}));
  EXPECT_DOUBLE_EQ(rope_frequencies(10000, 8)[3], std::pow(10000, -0.75));
}

TEST(Variance, IsOfTheCentredRow) {
  EXPECT_EQ((variance<float, float>(span(values<float>({1e8, 1e8 + 8, 1e8 + 16})), 1)), 64);
  EXPECT_TRUE(same_bits((variance<float, float>(span(values<float>({1})), 1)), canonical_nan<float>()));
  EXPECT_EQ((variance<float, std::int8_t>(span(std::vector<std::int8_t>{1, 2, 3, 4}), 0)), 1.25f);
}

}  // namespace
}  // namespace eadem::numerics
