#include "eadem/numerics/contraction.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace eadem::numerics {
namespace {

template <class T>
std::vector<T> normal(std::int64_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<double> distribution;
  std::vector<T> values(static_cast<std::size_t>(count));
  for (T& value : values) value = round_to<T>(distribution(generator));
  return values;
}

template <class T>
auto at(const std::vector<T>& values) {
  return [&values](std::int64_t k) { return widen(values[static_cast<std::size_t>(k)]); };
}

// The tree as numerics.md words it, by recursion.
float by_recursion(const std::vector<float>& blocks, std::size_t first, std::size_t count) {
  if (count == 1) return blocks[first];
  const std::size_t left = std::bit_floor(count - 1);
  return by_recursion(blocks, first, left) + by_recursion(blocks, first + left, count - left);
}

TEST(Contraction, TreeIsTheRecursion) {
  for (std::size_t count = 1; count <= 70; ++count) {
    const std::vector<float> blocks = normal<float>(static_cast<std::int64_t>(count), 1);
    BlockTree<float> tree;
    for (const float block : blocks) tree.add(block);
    EXPECT_TRUE(same_bits(tree.sum(), by_recursion(blocks, 0, count))) << count;
    EXPECT_EQ(tree.count(), static_cast<std::int64_t>(count));
  }
  EXPECT_EQ(BlockTree<float>().sum(), 0.0f);
}

TEST(Contraction, AlignedSubtreesAreNodes) {
  const std::vector<float> blocks = normal<float>(53, 2);
  BlockTree<float> one_by_one, by_eights;
  for (const float block : blocks) one_by_one.add(block);
  for (std::size_t first = 0; first < blocks.size(); first += 8) {
    BlockTree<float> part;
    for (std::size_t i = first; i < std::min(first + 8, blocks.size()); ++i) part.add(blocks[i]);
    by_eights.add_subtree(part.sum(), 3);
  }
  EXPECT_TRUE(same_bits(one_by_one.sum(), by_eights.sum()));
}

TEST(Contraction, TrailingZeroBlocksChangeNothing) {
  const std::vector<float> blocks = normal<float>(5, 3);
  BlockTree<float> tree;
  for (const float block : blocks) tree.add(block);
  const float want = tree.sum();
  for (int i = 0; i < 20; ++i) {
    tree.add(0.0f);
    EXPECT_TRUE(same_bits(tree.sum(), want));
  }
}

TEST(Contraction, OneStepOfFloatIsOneAscendingChain) {
  const std::vector<float> a = normal<float>(32, 4), b = normal<float>(32, 5);
  float v = 0;
  for (std::size_t k = 0; k < 32; ++k) v = std::fma(a[k], b[k], v);
  EXPECT_TRUE(same_bits(contract<float>(at(a), at(b), 32), v));
}

TEST(Contraction, OneStepOf16BitsIsTwoChains) {
  const std::vector<bfloat16> a = normal<bfloat16>(31, 6), b = normal<bfloat16>(31, 7);
  float chain[2] = {0, 0};
  for (std::size_t k = 0; k < 31; ++k) chain[k % 2] = std::fma(to_float(a[k]), to_float(b[k]), chain[k % 2]);
  EXPECT_TRUE(same_bits(contract<bfloat16>(at(a), at(b), 31), chain[0] + chain[1]));
}

TEST(Contraction, AbsentTermsAreZero) {
  std::vector<float> a = normal<float>(300, 8), b = normal<float>(300, 9);
  const float want = contract<float>(at(a), at(b), 300);
  a.resize(512, 0.0f), b.resize(512, 0.0f);
  EXPECT_TRUE(same_bits(contract<float>(at(a), at(b), 512), want));
}

TEST(Contraction, SumIsNeverMinusZero) {
  const float tiny = std::numeric_limits<float>::denorm_min();
  const std::vector<float> a{-tiny}, b{tiny};  // the exact product rounds to -0 inside the chain
  EXPECT_TRUE(same_bits(contract<float>(at(a), at(b), 1), 0.0f));
  EXPECT_TRUE(same_bits(contract<float>(at(a), at(b), 0), 0.0f));
}

TEST(Contraction, NanIsCanonical) {
  float a = std::bit_cast<float>(0xffc12345u), b = 1, c = 0;
  matmul(contiguous_view(&a, DType::f32, {1, 1}), contiguous_view(&b, DType::f32, {1, 1}),
         contiguous_view(&c, DType::f32, {1, 1}), nullptr);
  EXPECT_TRUE(same_bits(c, canonical_nan<float>()));
}

TEST(Contraction, NoTermsGiveTheBias) {
  float none = 0, bias[2] = {-0.0f, 3.0f}, c[2] = {7, 7};
  const TensorView bias_view = contiguous_view(bias, DType::f32, {2});
  matmul(contiguous_view(&none, DType::f32, {1, 0}), contiguous_view(&none, DType::f32, {0, 2}),
         contiguous_view(c, DType::f32, {1, 2}), &bias_view);
  EXPECT_TRUE(same_bits(c[0], 0.0f));
  EXPECT_EQ(c[1], 3.0f);
}

TEST(Contraction, BiasIsAddedBeforeTheOneRounding) {
  // 257 + 0.5 needs ten bits: rounding the product to bf16 first would give 256 + 0.5 -> 256.
  bfloat16 a[2] = {to_bfloat16(1.0f), to_bfloat16(256.0f)}, b[2] = {to_bfloat16(1.0f), to_bfloat16(1.0f)}, c[1];
  float bias = 0.5f;
  const TensorView bias_view = contiguous_view(&bias, DType::f32, {1});
  matmul(contiguous_view(a, DType::bf16, {1, 2}), contiguous_view(b, DType::bf16, {2, 1}),
         contiguous_view(c, DType::bf16, {1, 1}), &bias_view);
  EXPECT_EQ(to_float(c[0]), 258.0f);
}

TEST(Contraction, IntegersWrap) {
  std::int8_t a[3] = {100, 100, -128}, b[3] = {100, 3, -128}, c = 0;
  matmul(contiguous_view(a, DType::i8, {1, 3}), contiguous_view(b, DType::i8, {3, 1}),
         contiguous_view(&c, DType::i8, {1, 1}), nullptr);
  EXPECT_EQ(c, static_cast<std::int8_t>(static_cast<std::uint8_t>(100 * 100 + 300 + 128 * 128)));
  std::int64_t big = std::numeric_limits<std::int64_t>::min(), two = 2, sum = 1;
  matmul(contiguous_view(&big, DType::i64, {1, 1}), contiguous_view(&two, DType::i64, {1, 1}),
         contiguous_view(&sum, DType::i64, {1, 1}), nullptr);
  EXPECT_EQ(sum, 0);
}

TEST(Contraction, BatchesAndStridesOfZero) {
  std::vector<float> a = normal<float>(2 * 3 * 5, 10), b = normal<float>(5 * 4, 11), c(2 * 3 * 4), each(3 * 4);
  TensorView shared = contiguous_view(b.data(), DType::f32, {2, 5, 4});
  shared.strides = {0, 4, 1};
  matmul(contiguous_view(a.data(), DType::f32, {2, 3, 5}), shared, contiguous_view(c.data(), DType::f32, {2, 3, 4}),
         nullptr);
  for (std::size_t i = 0; i < 2; ++i) {
    matmul(contiguous_view(a.data() + i * 15, DType::f32, {3, 5}), contiguous_view(b.data(), DType::f32, {5, 4}),
           contiguous_view(each.data(), DType::f32, {3, 4}), nullptr);
    for (std::size_t j = 0; j < 12; ++j) EXPECT_TRUE(same_bits(c[i * 12 + j], each[j]));
  }
}

// Public report C22: a x + b x as a dot product of length 2 is one chain, which may keep what the elementwise form
// rounds away; numerics.md and docs/numerics.md say so.
TEST(Contraction, ReportC22) {
  const std::vector<float> a{1e20f, -1e20f}, b{1e10f, 1e10f};
  EXPECT_EQ(a[0] * b[0] + a[1] * b[1], 0.0f);
  const float dot = contract<float>(at(a), at(b), 2);
  EXPECT_TRUE(same_bits(dot, std::fma(a[1], b[1], a[0] * b[0])));
  EXPECT_NEAR(std::abs(dot), 4.993e21, 0.01e21);
  EXPECT_LE(std::abs(dot), 5e-9 * 2e30);
}

TEST(Contraction, AccuracyAtLongLengths) {
  double error = 0, size = 0;
  for (unsigned i = 0; i < 200; ++i) {
    const std::vector<float> a = normal<float>(4096, 100 + i), b = normal<float>(4096, 900 + i);
    double exact = 0;
    for (std::size_t k = 0; k < 4096; ++k) exact += static_cast<double>(a[k]) * b[k];
    const double difference = contract<float>(at(a), at(b), 4096) - exact;
    error += difference * difference, size += exact * exact;
  }
  EXPECT_LT(std::sqrt(error / size), 1.7e-7);  // numerics.md measures 1.2e-7; a plain chain has 1e-6
}

}  // namespace
}  // namespace eadem::numerics
