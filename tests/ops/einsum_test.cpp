#include <gtest/gtest.h>

#include <cmath>

#include "eadem/base/error.h"
#include "eadem/ops/ops.h"

namespace eadem {
namespace {

Array random(std::uint64_t seed, const Shape& shape, DType dtype = DType::f64) {
  return normal(random_key(seed), shape, dtype);
}

void expect_equal(const Array& got, const Array& expected) {
  ASSERT_EQ(got.type(), expected.type());
  const Array x = contiguous(got), y = contiguous(expected);
  for (std::size_t i = 0; i < x.data<double>().size(); ++i) EXPECT_EQ(x.data<double>()[i], y.data<double>()[i]) << i;
}

TEST(Einsum, IsTheOperationItNames) {
  const Array a = random(1, {3, 4}), b = random(2, {4, 5}), v = random(3, {4}), batch = random(4, {2, 3, 4});
  expect_equal(einsum("ij,jk->ik", {a, b}), matmul(a, b));
  expect_equal(einsum("ij,jk", {a, b}), matmul(a, b));
  expect_equal(einsum("ij,jk->ki", {a, b}), transpose(matmul(a, b)));
  expect_equal(einsum("ba, a -> b", {a, v}), matmul(a, v));
  expect_equal(einsum("bij,jk->bik", {batch, b}), matmul(batch, b));
  expect_equal(einsum("ij->ji", {a}), transpose(a));
  expect_equal(einsum("ij->j", {a}), sum(a, {0}));
  expect_equal(einsum("ij->", {a}), sum(a));
  expect_equal(einsum("i,j->ij", {v, v}), expand_dims(v, 1) * v);
  expect_equal(einsum("ij,ij->ij", {a, a}), a * a);
  // A label of one operand alone is summed before the product; three operands go from left to right.
  expect_equal(einsum("ij,jk->k", {a, b}), matmul(sum(a, {0}), b));
  expect_equal(einsum("ij,jk,lk->il", {a, b, random(5, {6, 5})}), matmul(matmul(a, b), transpose(random(5, {6, 5}))));
}

TEST(Einsum, RefusesWhatItDoesNotMean) {
  const Array a = random(1, {3, 4});
  EXPECT_THROW(einsum("ij,jk->ik", {a}), ValueError);
  EXPECT_THROW(einsum("ii->i", {random(1, {3, 3})}), ValueError);
  EXPECT_THROW(einsum("ij->ik", {a}), ValueError);
  EXPECT_THROW(einsum("i...->i", {a}), ValueError);
  EXPECT_THROW(einsum("ij->ii", {a}), ValueError);
  EXPECT_THROW(einsum("i->i", {a}), ShapeError);
  EXPECT_THROW(einsum("ij,ij->ij", {a, random(2, {3, 5})}), ShapeError);
  EXPECT_THROW(einsum("", std::span<const Array>()), ValueError);
}

}  // namespace
}  // namespace eadem
