#include "eadem/numerics/random.h"

#include <gtest/gtest.h>

#include <cmath>

#include "eadem/base/error.h"
#include "eadem/ops/ops.h"

namespace eadem {
namespace {

// Facts of JAX 0.10.2, PRNGKey(42).
TEST(Random, KeysAreThoseOfJax) {
  const Array key = random_key(42);
  EXPECT_EQ(key.data<std::uint32_t>()[1], 42u);
  const Array keys = split_key(key, 3);
  EXPECT_EQ(keys.shape(), (Shape{3, 2}));
  EXPECT_EQ(keys.data<std::uint32_t>()[0], 1832780943u);
  EXPECT_EQ(keys.data<std::uint32_t>()[5], 255383827u);
  EXPECT_EQ(fold_in(key, 7).data<std::uint32_t>()[0], 2547012911u);
  EXPECT_EQ(fold_in(key, 7).data<std::uint32_t>()[1], 1371500959u);
}
TEST(Random, ElementsAreTheDefinition) {
  const Array key = random_key(9);
  const numerics::Key plain = numerics::random_key(9);
  EXPECT_EQ(random_bits(key, {2, 3}, DType::u16).data<std::uint16_t>()[4],
            numerics::random_bits<std::uint16_t>(plain, 4));
  EXPECT_EQ(uniform(key, {7}, DType::f64, -2, 3).data<double>()[5], numerics::uniform<double>(plain, 5, -2, 3));
  EXPECT_EQ(normal(key, {7}).data<float>()[6], numerics::normal<float>(plain, 6));
  // The first elements do not depend on how many there are.
  EXPECT_EQ(normal(key, {100}).data<float>()[6], normal(key, {7}).data<float>()[6]);
}
TEST(Random, CategoricalDrawsByRow) {
  const Array weights = Array::from<float>(std::vector<float>{0, 1, 0, .33f, 0, .67f, 1, -1, 1}, {3, 3});
  const Array drawn = categorical(weights, Array::from<double>({0.999, 0.5, 0.5}));
  EXPECT_EQ(drawn.data<std::int64_t>()[0], 1);
  EXPECT_EQ(drawn.data<std::int64_t>()[1], 2);
  EXPECT_EQ(drawn.data<std::int64_t>()[2], -1);
  EXPECT_EQ(categorical(weights, Array::from<double>({1.0, -0.1, NAN})).data<std::int64_t>()[0], -1);
}
// Facts of JAX 0.10.2, PRNGKey(42): jax.random.permutation(key, 10), bernoulli(key, 0.3, (16,)).
TEST(Random, OtherDrawsAreThoseOfJax) {
  const Array key = random_key(42);
  const std::int64_t order[] = {7, 4, 2, 5, 3, 6, 8, 9, 0, 1};
  const Array permuted = permutation(key, 10);
  for (std::size_t i = 0; i < 10; ++i) EXPECT_EQ(permuted.data<std::int64_t>()[i], order[i]);
  EXPECT_EQ(permutation(key, 0).shape(), (Shape{0}));
  EXPECT_EQ(permutation(key, 1).data<std::int64_t>()[0], 0);
  const Array drawn = bernoulli(key, 0.3, {16});
  for (std::size_t i = 0; i < 16; ++i) EXPECT_EQ(drawn.data<bool>()[i], i == 6);
}

TEST(Random, BadArgumentsAreRefused) {
  const Array key = random_key(1);
  EXPECT_THROW(random_bits(key, {2}, DType::f32), TypeError);
  EXPECT_THROW(uniform(key, {2}, DType::i32), TypeError);
  EXPECT_THROW(uniform(key, {2}, DType::f32, 1, 0), ValueError);
  EXPECT_THROW(uniform(key, {2}, DType::f32, -3e38, 3e38), ValueError);
  EXPECT_THROW(uniform(key, {2}, DType::f16, 0, 70000), ValueError);
  EXPECT_THROW(uniform(key, {2}, DType::f32, NAN, 1), ValueError);
  EXPECT_THROW(normal(key, {-1}), ShapeError);
  EXPECT_THROW(normal(Array::from<float>({1, 2}), {1}), TypeError);
  EXPECT_THROW(split_key(key, -1), ValueError);
  EXPECT_THROW(bernoulli(key, 1.5, {2}), ValueError);
  EXPECT_THROW(permutation(key, -1), ValueError);
  EXPECT_THROW(categorical(Array::scalar(1, DType::f32), Array::scalar(0, DType::f64)), ShapeError);
  EXPECT_THROW(categorical(Array::from<float>({1, 2}), Array::from<double>({0})), ShapeError);
  EXPECT_THROW(categorical(Array::from<float>({1, 2}), Array::scalar(0, DType::f32)), TypeError);
}

}  // namespace
}  // namespace eadem
