// The tile executor: layouts, broadcasting, lengths, threads, chains.
#include "eadem/runtime/tiles.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <random>
#include <vector>

#include "eadem/base/parallel.h"
#include "eadem/kernels/elementwise/elementwise.h"
#include "eadem/kernels/elementwise/widen.h"
#include "eadem/kernels/target.h"
#include "eadem/numerics/arithmetic.h"
#include "eadem/numerics/compare.h"

namespace eadem {
namespace {

struct Operand {
  std::vector<std::byte> memory;
  TensorView view;
};

// Random bits behind any strides; the data begins `offset` elements after an aligned address.
Operand random_operand(DType dtype, const Shape& shape, const Shape& strides, std::int64_t offset, std::uint64_t seed) {
  std::int64_t low = 0, high = 0;
  for (int axis = 0; axis < shape.rank(); ++axis)
    (strides[axis] < 0 ? low : high) += strides[axis] * std::max<std::int64_t>(shape[axis] - 1, 0);
  const auto size = static_cast<std::int64_t>(size_of(dtype));
  Operand x;
  x.memory.resize(static_cast<std::size_t>((high - low + 1 + offset) * size));
  std::mt19937_64 random(seed);
  for (std::byte& byte : x.memory) byte = static_cast<std::byte>(random());
  if (dtype == DType::boolean)
    for (std::byte& byte : x.memory) byte &= std::byte{1};
  x.view = {x.memory.data() + (offset - low) * size, dtype, shape, strides};
  return x;
}

template <class T>
T at(const TensorView& x, const Shape& index) {
  std::int64_t offset = 0;
  for (int axis = 0; axis < x.shape.rank(); ++axis) offset += index[axis] * x.strides[axis];
  return x.as<const T>()[offset];
}

template <class T, class Operation>
void check(const TensorView& a, const TensorView& b, kernels::TilePick pick) {
  const Shape& shape = a.shape;
  std::vector<T> out(static_cast<std::size_t>(shape.elements()) + 1, T{});
  const TensorView operands[2] = {a, b}, results[1] = {contiguous_view(out.data(), kDTypeOf<T>, shape)};
  const TensorType types[2] = {a.type(), b.type()};
  run_tile(pick(Signature{types}), Launch{operands, results});
  Shape index = Shape::filled(shape.rank(), 0);
  for (std::int64_t i = 0; i < shape.elements(); ++i) {
    const T want = Operation{}(at<T>(a, index), at<T>(b, index));
    ASSERT_EQ(std::memcmp(&out[static_cast<std::size_t>(i)], &want, sizeof want), 0) << i << " of " << shape.elements();
    for (int axis = shape.rank() - 1; axis >= 0 && ++index[axis] == shape[axis]; --axis) index[axis] = 0;
  }
  const T untouched{};
  ASSERT_EQ(std::memcmp(&out.back(), &untouched, sizeof untouched), 0) << "wrote past the end";
}

class Tiles : public ::testing::Test {
 protected:
  void TearDown() override {
    set_threads(1);
    kernels::set_target(kernels::available_targets().back());
  }
};

template <class T>
void check_layouts() {
  struct Layout {
    Shape shape, a, b;
  };
  const std::vector<Layout> layouts = {
      {{}, {}, {}},
      {{1, 1}, {7, 3}, {0, 0}},
      {{1500}, {1}, {0}},
      {{1500}, {-1}, {3}},
      {{5, 1300}, {1300, 1}, {1, 5}},       // transposed
      {{90, 601}, {1, 90}, {601, 1}},       // transposed, large
      {{40, 530}, {530, 1}, {0, 1}},        // a row for all
      {{40, 530}, {530, 1}, {1, 0}},        // a column for all
      {{33, 7, 5}, {35, 5, 1}, {0, 1, 0}},  // short rows, broadcast both ways
      {{6, 3, 4, 50}, {600, 200, 50, 1}, {0, 50, 150, -1}},
      {{3, 1, 600}, {1800, 99, 3}, {600, 0, 1}},
      {{2, 0, 3}, {3, 3, 1}, {0, 0, 1}},
  };
  for (const int count : {1, 2, 3, 7}) {
    set_threads(count);
    for (const Layout& layout : layouts) {
      const Operand a = random_operand(kDTypeOf<T>, layout.shape, layout.a, 1, 11);
      const Operand b = random_operand(kDTypeOf<T>, layout.shape, layout.b, 3, 12);
      check<T, numerics::Add>(a.view, b.view, kernels::add);
    }
  }
}
TEST_F(Tiles, EveryLayout) {
  for (const kernels::Target target : kernels::available_targets()) {
    kernels::set_target(target);
    check_layouts<float>();
    check_layouts<bfloat16>();
    check_layouts<float16>();
    check_layouts<double>();
    check_layouts<std::int8_t>();
    check_layouts<std::int16_t>();
  }
}

TEST_F(Tiles, LengthsAndOffsets) {
  for (std::int64_t length = 1; length <= 67; ++length)
    for (std::int64_t offset = 0; offset <= 17; ++offset) {
      const Operand a = random_operand(DType::f32, {length}, {1}, offset, 1);
      const Operand b = random_operand(DType::f32, {length}, {1}, 17 - offset, 2);
      check<float, numerics::Multiply>(a.view, b.view, kernels::multiply);
      const Operand c = random_operand(DType::bf16, {length}, {1}, offset, 1);
      const Operand d = random_operand(DType::bf16, {length}, {1}, 17 - offset, 2);
      check<bfloat16, numerics::Maximum>(c.view, d.view, kernels::maximum);
    }
}

// select moves bits, signalling NaN of the 16-bit types too.
template <class T>
void check_select() {
  const Shape shape{65536};
  Operand a = random_operand(kDTypeOf<T>, shape, {1}, 0, 1), b = random_operand(kDTypeOf<T>, shape, {-1}, 0, 2);
  for (std::size_t i = 0; i < 65536; ++i) a.view.as<T>()[i].bits = static_cast<std::uint16_t>(i);
  const Operand p = random_operand(DType::boolean, shape, {1}, 0, 3);
  std::vector<T> out(65536);
  const TensorView operands[3] = {p.view, a.view, b.view},
                   results[1] = {contiguous_view(out.data(), kDTypeOf<T>, shape)};
  const TensorType types[3] = {p.view.type(), a.view.type(), b.view.type()};
  run_tile(kernels::select(Signature{types}), Launch{operands, results});
  for (std::int64_t i = 0; i < 65536; ++i)
    ASSERT_EQ(out[static_cast<std::size_t>(i)].bits,
              (at<bool>(p.view, {i}) ? at<T>(a.view, {i}) : at<T>(b.view, {i})).bits);
}
TEST_F(Tiles, SelectMovesBits) {
  for (const kernels::Target target : kernels::available_targets()) {
    kernels::set_target(target);
    check_select<bfloat16>();
    check_select<float16>();
  }
}

TEST_F(Tiles, InPlace) {
  const Shape shape{3000};
  Operand a = random_operand(DType::f32, shape, {1}, 0, 1), b = random_operand(DType::f32, shape, {1}, 0, 2);
  std::vector<float> want;
  for (std::int64_t i = 0; i < 3000; ++i) want.push_back(numerics::add(at<float>(a.view, {i}), at<float>(b.view, {i})));
  const TensorView operands[2] = {a.view, b.view}, results[1] = {a.view};
  const TensorType types[2] = {a.view.type(), b.view.type()};
  set_threads(3);
  run_tile(kernels::add(Signature{types}), Launch{operands, results});
  EXPECT_EQ(std::memcmp(a.view.data, want.data(), 12000), 0);
}

// (a + b) * a, and a + b too, as one chain: the bits of the two steps one after the other.
template <class T>
void check_chain() {
  const Shape shape{9, 700};
  const Operand a = random_operand(kDTypeOf<T>, shape, {700, 1}, 1, 1),
                b = random_operand(kDTypeOf<T>, shape, {0, 1}, 0, 2);
  const TensorType types[2] = {a.view.type(), b.view.type()};
  const TileStep steps[2] = {
      {.fn = kernels::add(Signature{types}), .values = {0, 1}, .value_count = 2, .dtype = kDTypeOf<T>, .result = 1},
      {.fn = kernels::multiply(Signature{types}),
       .values = {2, 0},
       .value_count = 2,
       .dtype = kDTypeOf<T>,
       .result = 0}};
  std::vector<T> product(6300), sum(6300);
  const TensorView operands[2] = {a.view, b.view};
  const TensorView results[2] = {contiguous_view(product.data(), kDTypeOf<T>, shape),
                                 contiguous_view(sum.data(), kDTypeOf<T>, shape)};
  run_tiles(steps, Launch{operands, results});
  for (std::int64_t i = 0; i < 6300; ++i) {
    const T x = at<T>(a.view, {i / 700, i % 700}), y = at<T>(b.view, {i / 700, i % 700});
    const T s = numerics::add(x, y), p = numerics::multiply(s, x);
    ASSERT_EQ(std::memcmp(&sum[static_cast<std::size_t>(i)], &s, sizeof s), 0) << i;
    ASSERT_EQ(std::memcmp(&product[static_cast<std::size_t>(i)], &p, sizeof p), 0) << i;
  }
}
TEST_F(Tiles, Chain) {
  check_chain<float>();
  check_chain<bfloat16>();
  check_chain<float16>();
}

}  // namespace
}  // namespace eadem
