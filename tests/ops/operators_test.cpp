// Operators of arrays and of C++ numbers: what they compute, and in which dtype.

#include <gtest/gtest.h>

#include "eadem/ops/ops.h"
#include "eadem/transforms/compile.h"

namespace eadem {
namespace {

template <class T>
std::vector<T> values(const Array& x) {
  EXPECT_EQ(x.dtype(), kDTypeOf<T>);
  const auto data = contiguous(x).data<T>();
  return {data.begin(), data.end()};
}
// vector<bool> is no vector of bool.
std::vector<int> flags(const Array& x) {
  std::vector<int> all;
  for (const bool flag : contiguous(x).data<bool>()) all.push_back(flag);
  return all;
}

TEST(Operators, CompareToBool) {
  const Array x = Array::from({1.0f, 2.0f, NAN}), y = Array::from({2.0f, 2.0f, NAN});
  EXPECT_EQ(flags(x == y), (std::vector<int>{0, 1, 0}));
  EXPECT_EQ(flags(x != y), (std::vector<int>{1, 0, 1}));
  EXPECT_EQ(flags(x < y), (std::vector<int>{1, 0, 0}));
  EXPECT_EQ(flags(x <= 1), (std::vector<int>{1, 0, 0}));
  EXPECT_EQ(flags(1.5 < x), (std::vector<int>{0, 1, 0}));
  EXPECT_EQ(flags(x > 1), (std::vector<int>{0, 1, 0}));
  EXPECT_EQ(flags(x >= 2.0f), (std::vector<int>{0, 1, 0}));
  EXPECT_EQ(flags((x < 2) | (y == 2)), (std::vector<int>{1, 1, 0}));
  EXPECT_EQ(flags(~(x < 2) & (y == 2)), (std::vector<int>{0, 1, 0}));
}

TEST(Operators, BitsOfIntegers) {
  const Array x = Array::from({std::uint8_t{0b1100}, std::uint8_t{0b1010}});
  EXPECT_EQ(values<std::uint8_t>(x & 0b0110), (std::vector<std::uint8_t>{0b0100, 0b0010}));
  EXPECT_EQ(values<std::uint8_t>(1 | x), (std::vector<std::uint8_t>{0b1101, 0b1011}));
  EXPECT_EQ(values<std::uint8_t>(x ^ x), (std::vector<std::uint8_t>{0, 0}));
  EXPECT_EQ(values<std::uint8_t>(~x), (std::vector<std::uint8_t>{0xf3, 0xf5}));
  const std::int64_t large = (std::int64_t{1} << 53) + 1;  // no double
  EXPECT_EQ(values<std::int64_t>(Array::from({large}) - large), (std::vector<std::int64_t>{0}));
  const std::uint64_t mask = 0x0123456789abcdef;
  EXPECT_EQ(values<std::uint64_t>(Array::from({~std::uint64_t{0}}) & mask), (std::vector<std::uint64_t>{mask}));
}

TEST(Operators, AssignTheResult) {
  Array x = Array::from({1.0f, 2.0f});
  const Array before = x;
  x += 1;
  x *= before;
  x -= Array::scalar(1, DType::f32);
  x /= 0.5;
  EXPECT_EQ(values<float>(x), (std::vector<float>{2, 10}));
  EXPECT_EQ(values<float>(before), (std::vector<float>{1, 2}));
}

// JAX's weak types: jnp.arange(3) * 0.5 is float32, jnp.array([True]) + 1 is int32, bfloat16 + 0.1 is bfloat16.
TEST(Operators, NumbersTakeTheArraysDtypeWhereItCanBe) {
  const Array integers = arange(3, DType::i64), small = arange(3, DType::u8);
  EXPECT_EQ(values<float>(integers * 0.5), (std::vector<float>{0, 0.5f, 1}));
  EXPECT_EQ(values<std::int64_t>(integers * 2), (std::vector<std::int64_t>{0, 2, 4}));
  EXPECT_EQ(values<std::int32_t>((integers > 0) + 1), (std::vector<std::int32_t>{1, 2, 2}));
  EXPECT_EQ((small + 1).dtype(), DType::u8);
  EXPECT_EQ((convert(small, DType::bf16) + 0.1).dtype(), DType::bf16);
  EXPECT_EQ((convert(small, DType::f64) / 3).dtype(), DType::f64);
  EXPECT_THROW(small + 256, ValueError);
  EXPECT_THROW(small - -1, ValueError);
  EXPECT_THROW(integers + (1ULL << 63), ValueError);
  EXPECT_EQ((convert(small, DType::boolean) ^ true).dtype(), DType::boolean);
  EXPECT_EQ((small + true).dtype(), DType::u8);
}

TEST(Operators, NumbersOfACompiledFunctionAreAsEager) {
  const Array x = arange(3, DType::i64);
  const auto scaled = compile([](const Array& a, const auto& number) { return a * number; });
  EXPECT_EQ(values<float>(scaled(x, 0.5)), values<float>(x * 0.5));
  EXPECT_EQ(values<std::int64_t>(scaled(x, 3)), values<std::int64_t>(x * 3));
  const auto chosen = compile([](const Array& a, const auto& number) { return where(number < a, a, 0 * a); });
  EXPECT_EQ(values<std::int64_t>(chosen(x, 1)), (std::vector<std::int64_t>{0, 0, 2}));
}

}  // namespace
}  // namespace eadem
