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

TEST(Einsum, EllipsisAndDiagonals) {
  const Array a = random(1, {2, 3, 4}), square = random(3, {4, 4});
  expect_equal(einsum("...ij,...jk->...ik", {random(4, {7, 2, 1, 3, 4}), random(5, {2, 6, 4, 5})}),
               matmul(random(4, {7, 2, 1, 3, 4}), random(5, {2, 6, 4, 5})));
  expect_equal(einsum("i...,i...", {a, a}), dot_general(a, a, {0}, {0}, {1, 2}, {1, 2}));
  expect_equal(einsum("...j,jk->...k", {a, random(6, {4, 5})}), matmul(a, random(6, {4, 5})));
  expect_equal(einsum("i...->...i", {a}), transpose(a, {1, 2, 0}));
  expect_equal(einsum("...k", {a}), a);
  expect_equal(einsum("...,...->...", {a, random(7, {4})}), a * random(7, {4}));
  expect_equal(einsum("i...j->i...j", {random(7, {3, 4})}), random(7, {3, 4}));  // "..." for no axis
  const Array diagonal = slice_axis(reshape(square, {16}), 0, {std::nullopt, std::nullopt, 5});
  expect_equal(einsum("ii->i", {square}), diagonal);
  expect_equal(einsum("ii", {square}), sum(diagonal));
  expect_equal(einsum("ii,i->i", {square, random(8, {4})}), diagonal * random(8, {4}));
  // i at axes 0 and 2 of three, and three times.
  const Array cube = random(9, {3, 3, 3});
  const auto at = [&](std::int64_t i, std::int64_t k) { return slice(cube, {{i, i + 1}, {k, k + 1}, {i, i + 1}}); };
  Arrays rows, corners;
  for (std::int64_t i = 0; i < 3; ++i) {
    for (std::int64_t k = 0; k < 3; ++k) rows.push_back(reshape(at(i, k), {1}));
    corners.push_back(reshape(at(i, i), {1}));
  }
  expect_equal(einsum("iki->ik", {cube}), reshape(concatenate(rows, 0), {3, 3}));
  expect_equal(einsum("iii->i", {cube}), concatenate(corners, 0));
}

TEST(Einsum, RefusesWhatItDoesNotMean) {
  const Array a = random(1, {3, 4});
  EXPECT_THROW(einsum("ij,jk->ik", {a}), ValueError);
  EXPECT_THROW(einsum("ii->i", {a}), ShapeError);
  EXPECT_THROW(einsum("i..j->ij", {random(1, {3, 4, 5, 6})}), ValueError);
  EXPECT_THROW(einsum("i...j...->ij", {random(1, {3, 4, 5, 6, 7})}), ValueError);
  EXPECT_THROW(einsum("ijk...->i", {a}), ShapeError);
  EXPECT_THROW(einsum(std::string_view("\1j->j", 5), {a}), ValueError);
  EXPECT_THROW(einsum("i...,i...->...", {random(1, {3, 4}), random(1, {3, 5})}), ShapeError);
  EXPECT_THROW(einsum("ij->ik", {a}), ValueError);
  EXPECT_THROW(einsum("i...->i", {a}), ValueError);
  EXPECT_THROW(einsum("ij->ii", {a}), ValueError);
  EXPECT_THROW(einsum("i->i", {a}), ShapeError);
  EXPECT_THROW(einsum("ij,ij->ij", {a, random(2, {3, 5})}), ShapeError);
  EXPECT_THROW(einsum("", std::span<const Array>()), ValueError);
}

}  // namespace
}  // namespace eadem
