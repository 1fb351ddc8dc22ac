#include "eadem/numerics/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>

#include "tests/numerics/attention_testing.h"

namespace eadem::testing {
namespace {

using numerics::AttentionOptions;
using numerics::Causal;

std::vector<double> run(Problem& p) {
  numerics::attention(p.operands(), p.options);
  std::vector<double> y;
  for (std::int64_t i = 0; i < p.y.view.elements(); ++i) y.push_back(load(p.y.view, i));
  return y;
}

// q, k of zeros: every visible key weighs the same.
Problem uniform(DType dtype, std::int64_t lq, const std::vector<double>& values) {
  const auto lk = static_cast<std::int64_t>(values.size());
  Problem p;
  p.q = Tensor(dtype, {1, 1, lq, 1});
  p.k = Tensor(dtype, {1, 1, lk, 1});
  p.v = vector_of(dtype, values, {1, 1, lk, 1});
  p.y = Tensor(dtype, {1, 1, lq, 1});
  return p;
}

TEST(SplitExponential, IsWithinItsBound) {
  double worst = 0;
  Random random(1);
  for (int round = 0; round < 2000000; ++round) {
    // Every f32 |r| <= 0.34658 was checked once; here a stratified part of them, all binades evenly.
    const std::uint32_t bits = 0x33000000u + static_cast<std::uint32_t>(random() % (0x3eb17000u - 0x33000000u));
    const float r = std::bit_cast<float>(bits | (random() & 1 ? 0x80000000u : 0u));
    const auto [n, f] = numerics::split_exponential(r);
    ASSERT_EQ(n, 0);
    worst = std::max(worst, std::fabs(f / std::exp(static_cast<double>(r)) - 1));
  }
  RecordProperty("worst", std::to_string(worst));
  EXPECT_LE(worst, 6.24e-8);
  EXPECT_GT(worst, 5e-8);
}

TEST(SplitExponential, HoldsOverItsWholeRange) {
  Random random(2);
  std::uniform_real_distribution<double> magnitude(-3, 20);
  for (int round = 0; round < 200000; ++round) {
    const float s = static_cast<float>((random() & 1 ? -1 : 1) * std::exp2(magnitude(random)));
    const auto [n, f] = numerics::split_exponential(s);
    const double relative = std::log(static_cast<double>(f)) + n * std::log(2.0) - static_cast<double>(s);
    // n is rounded from an f32 product: for large s the reduced argument leaves +-0.3466 a little.
    const double bound = std::fabs(s) < 64 ? 8e-8 : 1.3e-7;
    ASSERT_NEAR(relative, 0, bound + std::fabs(static_cast<double>(s)) * 0x1p-51) << s;
  }
  for (const double s : {-1e9, 1e12, -1e15, -3.4028234663852886e38, 1e300, 1.7e308, -1.7e308}) {
    const auto wide = numerics::split_exponential(s);
    EXPECT_TRUE(wide.f >= 0.6 && wide.f <= 1.6) << s;
    const double n = std::clamp(s * 1.4426950408889634, -1.7976931348623157e308, 1.7976931348623157e308);
    EXPECT_LE(std::fabs(wide.n - n), 0.5) << s;
  }
  for (int round = 0; round < 100000; ++round) {
    const double s = (random() & 1 ? -1 : 1) * std::exp2(magnitude(random) / 2.5);
    const auto [n, f] = numerics::split_exponential(s);
    EXPECT_NEAR(std::ldexp(f, static_cast<int>(n)) / std::exp(s), 1, 5e-16) << s;
  }
}

TEST(Attention, IsNearFp64) {
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
    Random random(3);
    Problem p = random_problem(random, dtype, 1, 4, 2, 40, 300, 64);
    p.options.causal = Causal::lower_right;
    const std::vector<double> y = run(p), exact = plain_attention(p.operands(), p.options);
    double error = 0, ideal = 0, norm = 0;
    Tensor rounded(dtype, {1});
    for (std::size_t i = 0; i < y.size(); ++i) {
      store(rounded.view, 0, exact[i]);
      error += (y[i] - exact[i]) * (y[i] - exact[i]);
      ideal += (load(rounded.view, 0) - exact[i]) * (load(rounded.view, 0) - exact[i]);
      norm += exact[i] * exact[i];
    }
    const double relative = std::sqrt(error / norm), ratio = std::sqrt(error / ideal);
    fmt::print("{}: relative RMS error {:.2e}, R = {:.4f}\n", name_of(dtype), relative, ratio);
    if (is_16_bit_float(dtype))
      EXPECT_LT(ratio, 1.01);
    else
      EXPECT_LT(relative, dtype == DType::f32 ? 2.2e-7 : 1.1e-15);
  }
}

// C26: causal alignment when lengths differ.
TEST(Attention, CausalAlignmentHasAName) {
  Problem p = uniform(DType::f32, 2, {1, 2, 3, 4, 5});
  p.options.causal = Causal::lower_right;
  EXPECT_EQ(run(p), (std::vector<double>{2.5, 3}));
  p.options.causal = Causal::upper_left;
  EXPECT_EQ(run(p), (std::vector<double>{1, 1.5}));
  Problem more = uniform(DType::f32, 5, {1, 2});
  more.options.causal = Causal::lower_right;
  EXPECT_EQ(run(more), (std::vector<double>{0, 0, 0, 1, 1.5}));
  more.options.causal = Causal::upper_left;
  EXPECT_EQ(run(more), (std::vector<double>{1, 1.5, 1.5, 1.5, 1.5}));
}

// C28: a sliding window counts the query itself.
TEST(Attention, WindowCountsTheQuery) {
  Problem p = uniform(DType::f32, 5, {1, 2, 3, 4, 5});
  p.options = {.causal = Causal::lower_right, .window = 2};
  EXPECT_EQ(run(p), (std::vector<double>{1, 1.5, 2.5, 3.5, 4.5}));
  Random random(4);
  Problem q = random_problem(random, DType::bf16, 1, 1, 1, 37, 37, 16);
  q.options.causal = Causal::lower_right;
  const std::vector<double> plain = run(q);
  for (const std::int64_t window : {std::int64_t{37}, std::int64_t{38}, std::numeric_limits<std::int64_t>::max()}) {
    q.options.window = window;
    EXPECT_EQ(run(q), plain);
  }
}

// C28: decode with the cache trimmed to the window gives the bits of prefill: trimmed keys keep their count by `start`.
TEST(Attention, TrimmedCacheKeepsTheBits) {
  Random random(5);
  Problem p = random_problem(random, DType::f32, 1, 1, 1, 300, 300, 8);
  p.options.causal = Causal::lower_right;
  p.options.window = 140;
  const std::vector<double> whole = run(p);
  Problem last = random_problem(random, DType::f32, 1, 1, 1, 1, 140, 8);
  last.options = p.options;
  std::memcpy(last.q.view.data, p.q.view.as<float>() + 299 * 8, 8 * sizeof(float));
  std::memcpy(last.k.view.data, p.k.view.as<float>() + 160 * 8, 140 * 8 * sizeof(float));
  std::memcpy(last.v.view.data, p.v.view.as<float>() + 160 * 8, 140 * 8 * sizeof(float));
  last.start = vector_of(DType::i32, {-160});
  EXPECT_EQ(run(last), std::vector<double>(whole.end() - 8, whole.end()));
}

// Keys trimmed off the front cost nothing, however many: 2^30 chunks of them shift no subtree of those that follow.
TEST(Attention, AFarStartIsNotWalked) {
  Random random(15);
  Problem p = random_problem(random, DType::f32, 1, 1, 1, 2, 2500, 4);
  const std::vector<double> plain = run(p);
  p.start = vector_of(DType::i64, {-0x1p40});
  EXPECT_EQ(run(p), plain);
}

// C25: a fully masked row.
TEST(Attention, FullyMaskedRowIsZero) {
  for (const DType dtype : {DType::f16, DType::f32, DType::bf16, DType::f64}) {
    Random random(6);
    Problem p = random_problem(random, dtype, 1, 1, 1, 4, 4, 2);
    const std::vector<double> plain = run(p);
    p.mask = vector_of(DType::boolean, {1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1}, {1, 1, 4, 4});
    const std::vector<double> masked = run(p);
    for (int i = 0; i < 8; ++i) EXPECT_EQ(masked[i], i / 2 == 1 ? 0 : plain[i]);
    EXPECT_FALSE(std::signbit(masked[2]) || std::signbit(masked[3]));

    std::vector<double> fill(16, 0.0);
    for (int j = 4; j < 8; ++j) fill[j] = -INFINITY;
    p.mask = {};
    p.bias = vector_of(dtype, fill, {1, 1, 4, 4});
    EXPECT_EQ(run(p), masked);

    // A finite fill is not a mask: all keys weigh the same.
    const double lowest = dtype == DType::f16 ? -65504 : -3.3895313892515355e38;
    for (int j = 4; j < 8; ++j) fill[j] = lowest;
    p.bias = vector_of(dtype, fill, {1, 1, 4, 4});
    const std::vector<double> finite = run(p);
    if (dtype != DType::f16) {
      for (int d = 0; d < 2; ++d) {
        double mean = 0;
        for (int j = 0; j < 4; ++j) mean += load(p.v.view, 2 * j + d) / 4;
        EXPECT_NEAR(finite[2 + d], mean, 0x1p-8);
      }
    }
    for (const double y : finite) EXPECT_TRUE(std::isfinite(y));
  }
}

// C29: scores of f16 operands never leave f32.
TEST(Attention, ScoresOfF16DoNotOverflow) {
  Problem p;
  p.q = Tensor(DType::f16, {1, 1, 1, 64});
  p.k = Tensor(DType::f16, {1, 1, 2, 64});
  p.v = Tensor(DType::f16, {1, 1, 2, 64});
  p.y = Tensor(DType::f16, {1, 1, 1, 64});
  for (int d = 0; d < 64; ++d) {
    store(p.q.view, d, 80);
    store(p.k.view, d, 80);
    store(p.k.view, 64 + d, 79.5);
    store(p.v.view, d, 1);
    store(p.v.view, 64 + d, 2);
  }
  p.options.scale = numerics::attention_scale(DType::f16, 64);
  for (const double y : run(p)) EXPECT_EQ(y, 1);
}

// C29: a future key moves no bit of an earlier row; what lies behind a mask moves none at all, NaN and inf included.
TEST(Attention, InvisibleKeysMoveNothing) {
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32}) {
    Random random(7);
    Problem p = random_problem(random, dtype, 1, 2, 1, 140, 140, 5);
    p.options.causal = Causal::lower_right;
    p.mask = Tensor(DType::boolean, {1, 1, 1, 140});
    for (int j = 0; j < 140; ++j) store(p.mask.view, j, j != 3 && j != 131);
    run(p);
    const auto before = rows_of(p.y, 0, 0, 139);
    for (const double poison : {std::numeric_limits<double>::quiet_NaN(), static_cast<double>(INFINITY)})
      for (const int j : {3, 131, 139})
        for (int d = 0; d < 5; ++d) {
          store(p.k.view, 5 * j + d, poison);
          store(p.v.view, 5 * j + d, poison);
          run(p);
          ASSERT_EQ(rows_of(p.y, 0, 0, 139), before);
        }
    for (int d = 0; d < 5; ++d) EXPECT_TRUE(std::isnan(load(p.y.view, 139 * 5 + d)));
  }
}

TEST(Attention, LeftPaddingAndPlaceInTheBatchMoveNothing) {
  Random random(8);
  Problem alone = random_problem(random, DType::bf16, 1, 2, 1, 150, 150, 6);
  alone.options.causal = Causal::lower_right;
  run(alone);
  Problem padded = random_problem(random, DType::bf16, 2, 2, 1, 183, 183, 6);
  padded.options = alone.options;
  padded.start = vector_of(DType::i64, {7, 33});
  for (std::int64_t i = 0; i < 150; ++i)
    for (std::int64_t d = 0; d < 6; ++d) {
      for (std::int64_t h = 0; h < 2; ++h)
        store(padded.q.view, offset_of(padded.q.view, 1, h, 33 + i, d),
              load(alone.q.view, offset_of(alone.q.view, 0, h, i, d)));
      store(padded.k.view, offset_of(padded.k.view, 1, 0, 33 + i, d),
            load(alone.k.view, offset_of(alone.k.view, 0, 0, i, d)));
      store(padded.v.view, offset_of(padded.v.view, 1, 0, 33 + i, d),
            load(alone.v.view, offset_of(alone.v.view, 0, 0, i, d)));
    }
  run(padded);
  EXPECT_EQ(rows_of(padded.y, 1, 33, 183), rows_of(alone.y, 0, 0, 150));
  for (std::int64_t d = 0; d < 6; ++d) EXPECT_EQ(load(padded.y.view, offset_of(padded.y.view, 1, 0, 32, d)), 0);
}

TEST(Attention, SoftcapBoundsTheScores) {
  Random random(9);
  Problem p = random_problem(random, DType::f32, 1, 1, 1, 3, 20, 8);
  p.options.scale = 10;
  p.options.softcap = 5;
  const std::vector<double> y = run(p), exact = plain_attention(p.operands(), p.options);
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i], exact[i], 3e-6);
}

TEST(Attention, PagesHoldTheSameKeys) {
  for (const DType dtype : {DType::bf16, DType::f32}) {
    for (const std::int64_t d : {std::int64_t{5}, std::int64_t{8}}) {
      Random random(10);
      Problem dense = random_problem(random, dtype, 1, 4, 2, 3, 300, d);
      dense.options.causal = Causal::lower_right;
      run(dense);
      Problem paged;
      paged.options = dense.options;
      paged.q = std::move(dense.q);
      paged.y = Tensor(dtype, {1, 4, 3, d});
      paged.k = normal(random, dtype, numerics::key_page_shape(dtype, 6, 2, d), 1e30);
      paged.v = normal(random, dtype, numerics::value_page_shape(dtype, 6, 2, d), 1e30);
      paged.pages = vector_of(DType::i32, {4, 1, 2, -1}, {1, 4});
      paged.length = vector_of(DType::i32, {300});
      const Tensor position = vector_of(DType::i32, {0});
      numerics::append_to_pages({paged.k.view, dense.k.view, paged.pages.view, position.view, {}, false});
      numerics::append_to_pages({paged.v.view, dense.v.view, paged.pages.view, position.view, {}, true});
      run(paged);
      EXPECT_EQ(bytes_of(paged.y), bytes_of(dense.y));
    }
  }
}

}  // namespace
}  // namespace eadem::testing
