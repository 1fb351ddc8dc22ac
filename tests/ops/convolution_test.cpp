#include "eadem/ops/convolution.h"

#include <gtest/gtest.h>

#include <cmath>

#include "eadem/base/allocations.h"
#include "eadem/base/parallel.h"
#include "eadem/kernels/target.h"
#include "eadem/transforms/transforms.h"
#include "tests/support/bits.h"

namespace eadem {
namespace {

using testing::doubles_of;
using testing::expect_same;

Array random(std::uint64_t seed, const Shape& shape, DType dtype = DType::f32) {
  return normal(random_key(seed), shape, dtype);
}

TEST(Convolution, OneTapIsAMatrixProduct) {
  const Array x = random(1, {2, 5, 6, 7}), w = random(2, {1, 1, 7, 3});
  expect_same(conv_general(x, w), reshape(matmul(reshape(x, {60, 7}), reshape(w, {7, 3})), {2, 5, 6, 3}));
}

TEST(Convolution, IsTheContractionOfPatches) {
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
    const Array x = random(3, {2, 9, 8, 40}, dtype), w = random(4, {3, 3, 40, 33}, dtype), b = random(5, {33}, dtype);
    const Array padded = pad(x, Array::scalar(0, dtype), {0, 1, 1, 0}, {0, 1, 1, 0});
    Arrays taps;
    for (std::int64_t i = 0; i < 3; ++i)
      for (std::int64_t j = 0; j < 3; ++j) taps.push_back(slice(padded, {{}, {i, i + 9}, {j, j + 8}}));
    const Array patches = reshape(stack(taps, 3), {2 * 9 * 8, 9 * 40});
    const Array want = linear(patches, transpose(reshape(w, {360, 33})), b);
    expect_same(conv_general(x, w, {.padding = Padding::same(), .bias = b}), reshape(want, {2, 9, 8, 33}));
  }
}

TEST(Convolution, PaddingIsZeroOnTheInputsSideOnly) {
  const Array x = ones({1, 3, 1});
  const Array w = reshape(Array::from<float>({HUGE_VALF, 1, 1}), {3, 1, 1});
  const auto same = doubles_of(conv_general(x, w, {.padding = Padding::same()}));
  EXPECT_TRUE(std::isnan(same[0]));  // 0 inf
  EXPECT_EQ(same[1], HUGE_VAL);
  EXPECT_EQ(doubles_of(conv_general(x, w)), (std::vector<double>{HUGE_VAL}));
  // An infinity in the input reaches the outputs whose windows hold it, and no other.
  const Array far = reshape(Array::from<float>({1, 1, 1, 1, HUGE_VALF}), {1, 5, 1});
  EXPECT_EQ(doubles_of(conv_general(far, ones({3, 1, 1}))), (std::vector<double>{3, 3, HUGE_VAL}));
}

// Holes of a dilated input are left out where that changes nothing: every target gives the definition's bits.
TEST(Convolution, HolesAreLeftOut) {
  struct Case {
    Shape x, w;
    ConvolutionArguments arguments;
  };
  const auto given = [](const Shape& low, const Shape& high) { return Padding::given(low, high); };
  const std::vector<Case> cases{
      {{2, 5, 6, 32}, {3, 3, 32, 35}, {.padding = given({1, 1}, {2, 2}), .lhs_dilation = {2, 2}, .flip = true}},
      {{1, 6, 5, 64}, {7, 7, 64, 3}, {.padding = given({3, 3}, {4, 4}), .lhs_dilation = {2, 2}, .flip = true}},
      {{1, 4, 5, 64},
       {3, 2, 32, 8},
       {.strides = {1, 3},
        .padding = given({0, -1}, {2, 3}),
        .lhs_dilation = {3, 2},
        .rhs_dilation = {1, 2},
        .groups = 2}},
      {{1, 7, 32}, {2, 32, 40}, {.strides = {2}, .padding = given({5}, {4}), .lhs_dilation = {4}}},  // no tap for some
      {{1, 3, 32}, {3, 32, 4}, {.padding = given({1}, {1}), .lhs_dilation = {100}}},  // too many residues
  };
  const kernels::Target before = kernels::active_target();
  for (const Case& each : cases)
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64})
      for (const bool finite : {true, false}) {
        const Array x = random(1, each.x, dtype), b = random(3, {each.w.back()}, dtype);
        Array w = random(2, each.w, dtype);
        if (!finite) w = where(greater(w, full({}, 3, dtype)), full(each.w, HUGE_VAL, dtype), w);
        ConvolutionArguments arguments = each.arguments;
        arguments.bias = b;
        kernels::set_target(kernels::Target::scalar);
        const Array want = conv_general(x, w, arguments);
        for (const kernels::Target target : kernels::available_targets())
          for (const int count : {1, 3}) {
            kernels::set_target(target);
            set_threads(count);
            expect_same(conv_general(x, w, arguments), want);
          }
        kernels::set_target(before);
      }
}

TEST(Convolution, EmptyShapesAndGroups) {
  EXPECT_EQ(conv_general(zeros({0, 5, 2}), zeros({3, 2, 4})).shape(), (Shape{0, 3, 4}));
  EXPECT_EQ(conv_general(zeros({2, 2, 2}), zeros({3, 2, 4})).shape(), (Shape{2, 0, 4}));
  // Nothing but padding: the bias alone.
  expect_same(conv_general(zeros({1, 0, 2}), ones({3, 2, 4}), {.padding = Padding::given({2}, {2}), .bias = ones({4})}),
              ones({1, 2, 4}));
  const Array x = random(6, {2, 6, 4}), w = random(7, {3, 2, 6});
  const Array both = conv_general(x, w, {.groups = 2});
  for (std::int64_t g = 0; g < 2; ++g)
    expect_same(slice_axis(both, -1, {3 * g, 3 * g + 3}),
                conv_general(slice_axis(x, -1, {2 * g, 2 * g + 2}), slice_axis(w, -1, {3 * g, 3 * g + 3})));
}

// The transpose: <conv(x), y> = <x, conv_transpose(y)>, which is also what reaches x.
TEST(Convolution, TransposeIsTheGradient) {
  const Array x = random(8, {2, 9, 3}, DType::f64), w = random(9, {3, 3, 5}, DType::f64);
  const ConvolutionArguments arguments{.strides = {2}, .padding = Padding::valid()};
  const Array y = conv_general(x, w, arguments), ct = random(10, y.shape(), DType::f64);
  const auto loss = [&](const Array& each) { return sum(conv_general(each, w, arguments) * ct); };
  const Array back = conv_transpose(ct, swap_axes(w, 1, 2), {2}, Padding::valid(), {}, {}, true);
  expect_same(back, grad(loss)(x));
}

// Larger than a block of patches, on any number of threads, any example alone.
TEST(Convolution, BlocksThreadsAndBatchesMoveNoBit) {
  const int before = threads();
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Array x = random(11, {3, 40, 41, 32}, dtype), w = random(12, {3, 3, 32, 48}, dtype);
    const ConvolutionArguments arguments{.padding = Padding::same()};
    const auto loss = [&](const Array& a, const Array& b) { return sum(conv_general(a, b, arguments)); };
    set_threads(1);
    const Array y = conv_general(x, w, arguments);
    const Array dw = grad<1>(loss)(x, w), dx = grad<0>(loss)(x, w);
    for (const int count : {2, 3, 7}) {
      set_threads(count);
      expect_same(conv_general(x, w, arguments), y);
      expect_same(grad<1>(loss)(x, w), dw);
      expect_same(grad<0>(loss)(x, w), dx);
    }
    for (std::int64_t n = 0; n < 3; ++n)
      expect_same(conv_general(slice_axis(x, 0, {n, n + 1}), w, arguments), slice_axis(y, 0, {n, n + 1}));
    const Array valid = slice_axis(conv_general(x, w), 1, {0, 2});
    {
      const ReferenceScope definition;
      expect_same(conv_general(slice_axis(x, 1, {0, 4}), w), valid);
    }
  }
  set_threads(before);
}

// Nothing is kept for every pair of an output and a tap: here they are 10^10.
TEST(Convolution, LongKernelsTakeLittleMemory) {
  const auto loss = [](const Array& w, const Array& x) { return sum(conv_general(x, w)); };
  const Array w = random(1, {100000, 1, 1}), x = full({1, 30000, 1}, 0.5);
  const std::int64_t before = live_bytes();
  reset_peak_bytes();
  expect_same(grad(loss)(w, zeros({0, 200000, 1})), zeros({100000, 1, 1}));
  expect_same(conv_general(x, ones({29991, 1, 1})), full({1, 10, 1}, 14995.5));
  EXPECT_LT(peak_bytes() - before, std::int64_t{16} << 20);
}

TEST(Convolution, BadInputIsRefused) {
  const Array x = zeros({2, 6, 4}), w = zeros({3, 4, 6});
  EXPECT_THROW(conv_general(x, zeros({3, 3, 4, 6})), ShapeError);
  EXPECT_THROW(conv_general(x, zeros({3, 5, 6})), ShapeError);
  EXPECT_THROW(conv_general(zeros({6, 4}), zeros({4, 6})), ShapeError);
  EXPECT_THROW(conv_general(x, zeros({0, 4, 6})), ShapeError);
  EXPECT_THROW(conv_general(x, w, {.groups = 3}), ShapeError);
  EXPECT_THROW(conv_general(x, w, {.groups = 0}), ShapeError);
  EXPECT_THROW(conv_general(x, w, {.strides = {0}}), ValueError);
  EXPECT_THROW(conv_general(x, w, {.strides = {1, 1}}), ValueError);
  EXPECT_THROW(conv_general(x, w, {.padding = Padding::given({1, 1}, {1})}), ValueError);
  EXPECT_THROW(conv_general(x, w, {.lhs_dilation = {-1}}), ValueError);
  EXPECT_THROW(conv_general(x, w, {.rhs_dilation = {std::int64_t{1} << 40}}), ValueError);
  EXPECT_THROW(conv_general(x, w, {.bias = zeros({5})}), ShapeError);
  EXPECT_THROW(conv_general(arange(48), w), ShapeError);
  EXPECT_THROW(conv_general(reshape(arange(48), {2, 6, 4}), reshape(arange(72), {3, 4, 6})), TypeError);
  EXPECT_THROW(conv_transpose(x, zeros({4, 6}), {2}), ShapeError);
  EXPECT_THROW(conv_transpose(x, w, {0}), ValueError);
}

}  // namespace
}  // namespace eadem
