#include <gtest/gtest.h>

#include <vector>

#include "eadem/ops/ops.h"

namespace eadem {
namespace {

Array numbers(const Shape& shape, float start = 1) {
  std::vector<float> values(static_cast<std::size_t>(shape.elements()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = start + static_cast<float>(i);
  return Array::from(values, shape);
}

std::vector<float> values_of(const Array& x) {
  const Array flat = contiguous(x);
  const auto data = flat.data<float>();
  return {data.begin(), data.end()};
}

template <class E, class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const E& error) {
    return error.what();
  }
  return "no such error";
}

TEST(Matmul, Matrices) {
  const Array c = matmul(numbers({2, 3}), numbers({3, 2}));
  EXPECT_EQ(c.shape(), (Shape{2, 2}));
  EXPECT_EQ(values_of(c), (std::vector<float>{22, 28, 49, 64}));
}

TEST(Matmul, VectorsLoseTheirAxis) {
  EXPECT_EQ(matmul(numbers({3}), numbers({3})).item<float>(), 14.0f);
  EXPECT_EQ(values_of(matmul(numbers({3}), numbers({3, 2}))), (std::vector<float>{22, 28}));
  EXPECT_EQ(values_of(matmul(numbers({2, 3}), numbers({3}))), (std::vector<float>{14, 32}));
  EXPECT_EQ(matmul(numbers({5, 2, 3}), numbers({3})).shape(), (Shape{5, 2}));
}

TEST(Matmul, BatchesBroadcast) {
  EXPECT_EQ(matmul(numbers({4, 1, 2, 3}), numbers({5, 3, 2})).shape(), (Shape{4, 5, 2, 2}));
}

TEST(Matmul, DtypesPromote) {
  EXPECT_EQ(matmul(convert(numbers({2, 3}), DType::bf16), numbers({3, 2})).dtype(), DType::f32);
}

TEST(Matmul, Errors) {
  EXPECT_EQ(message_of<ShapeError>([] {
              matmul(numbers({2, 3}), numbers({4, 5}));
            }),
            "[matmul] contracted sizes differ: lhs f32[2,3] axis 1 is 3, rhs f32[4,5] axis 0 is 4");
  EXPECT_THROW(matmul(numbers({}), numbers({1})), ShapeError);
  EXPECT_THROW(matmul(numbers({2, 2, 3}), numbers({3, 3, 2})), ShapeError);
}

TEST(DotGeneral, ContractsAndBatches) {
  // einsum("bik,bjk->bij")
  const Array c = dot_general(numbers({2, 1, 3}), numbers({2, 2, 3}), {2}, {-1}, {0}, {0});
  EXPECT_EQ(c.shape(), (Shape{2, 1, 2}));
  EXPECT_EQ(values_of(c), (std::vector<float>{14, 32, 122, 167}));
}

TEST(DotGeneral, PreferredDtype) {
  const Array x = convert(numbers({1, 3}, 255), DType::bf16);
  EXPECT_EQ(dot_general(x, x, {1}, {1}, {}, {}, DType::f32).item<float>(), 255.0f * 255 + 256 * 256 + 256 * 256);
  EXPECT_THROW(dot_general(iota(DType::i8, {3}, 0), iota(DType::i8, {3}, 0), {0}, {0}, {}, {}, DType::i32), TypeError);
}

TEST(DotGeneral, Errors) {
  EXPECT_EQ(message_of<ShapeError>([] {
              dot_general(numbers({2, 3}), numbers({4, 5}), {1}, {0});
            }),
            "[dot_general] contracted sizes differ: lhs f32[2,3] axis 1 is 3, rhs f32[4,5] axis 0 is 4");
  EXPECT_THROW(dot_general(numbers({2, 3}), numbers({3, 2}), {1}, {}), ValueError);
  EXPECT_THROW(dot_general(numbers({2, 3}), numbers({3, 2}), {1, 1}, {0, 0}), ValueError);
  EXPECT_THROW(dot_general(numbers({2, 3}), numbers({3, 2}), {2}, {0}), ShapeError);
}

TEST(Linear, AddsTheBiasBeforeTheOneRounding) {
  const Array x = convert(Array::from(std::vector<float>{1, 256}, {2}), DType::bf16);
  const Array w = convert(Array::from(std::vector<float>{1, 1}, {1, 2}), DType::bf16);
  // 257 + 0.5 is 258 in bf16; 257 rounded first is 256, and stays it.
  EXPECT_EQ(convert(linear(x, w, Array::from({0.5f})), DType::f32).item<float>(), 258.0f);
}

TEST(Linear, Errors) {
  EXPECT_THROW(linear(numbers({2, 3}), numbers({4, 2})), ShapeError);
  EXPECT_THROW(linear(numbers({2, 3}), numbers({4, 3}), numbers({3})), ShapeError);
  EXPECT_THROW(linear(iota(DType::i32, {3}, 0), iota(DType::i32, {2, 3}, 0)), TypeError);
}

}  // namespace
}  // namespace eadem
