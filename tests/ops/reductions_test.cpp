#include <gtest/gtest.h>

#include <cmath>

#include "eadem/ops/ops.h"

namespace eadem {
namespace {

const Array kMatrix = Array::from(std::vector<float>{1, 2, 3, 4, 5, 6}, {2, 3});

template <class T>
std::vector<T> values(const Array& x) {
  const Array y = contiguous(x);
  return {y.data<T>().begin(), y.data<T>().end()};
}

TEST(Reductions, AxesMayBeNegativeAndKept) {
  EXPECT_EQ(values<float>(sum(kMatrix, {-1})), (std::vector<float>{6, 15}));
  EXPECT_EQ(values<float>(sum(kMatrix, {0})), (std::vector<float>{5, 7, 9}));
  EXPECT_EQ(sum(kMatrix, {1}, true).shape(), (Shape{2, 1}));
  EXPECT_EQ(sum(kMatrix, {1, 0}).item<float>(), 21);
  EXPECT_EQ(mean(kMatrix).item<float>(), 3.5f);
  EXPECT_EQ(variance(kMatrix, {0, 1}, 1).item<float>(), 3.5f);
  EXPECT_EQ(prod(kMatrix).item<float>(), 720);
  EXPECT_EQ(max(kMatrix, {0}).shape(), (Shape{3}));
  EXPECT_EQ(values<std::int64_t>(argmax(kMatrix, -1)), (std::vector<std::int64_t>{2, 2}));
  EXPECT_EQ(argmin(transpose(kMatrix)).item<std::int64_t>(), 0);
  EXPECT_EQ(argmax(transpose(kMatrix)).item<std::int64_t>(), 5);
  EXPECT_TRUE(all(kMatrix).item<bool>());
  EXPECT_EQ(sum(kMatrix, Shape{}).shape(), (Shape{2, 3}));
}

TEST(Reductions, BadArgumentsAreNamed) {
  const auto message = [](auto f) {
    try {
      f();
    } catch (const ShapeError& error) {
      return std::string(error.what());
    }
    return std::string("no ShapeError");
  };
  EXPECT_NE(message([] { sum(kMatrix, {2}); }).find("[sum]"), std::string::npos);
  EXPECT_EQ(message([] { max(kMatrix, {0, -2}); }), "[max] axis 0 is given twice");
  EXPECT_EQ(message([] {
              max(Array::from(std::vector<float>{}, {2, 0}), {1});
            }),
            "[max] has no value over no elements: axis 1 of f32[2,0] is empty");
  EXPECT_EQ(message([] { layer_norm(kMatrix, Array::from({1.f}), Array::from({1.f})); }),
            "[layer_norm] gamma must have shape [3] for x f32[2,3], got f32[1]");
  EXPECT_EQ(message([] { group_norm(kMatrix, Array::from({1.f}), Array::from({1.f}), 2); }),
            "[group_norm] the 3 channels of f32[2,3] do not divide into 2 groups");
  EXPECT_THROW(softmax(Array::from({1, 2})), TypeError);
  EXPECT_THROW(softmax(Array::scalar(1, DType::f32)), ShapeError);
  EXPECT_THROW(top_k(kMatrix, 4), ValueError);
  EXPECT_THROW(rope(kMatrix, Array::from<std::int64_t>({1, 2}), rope_frequencies(1e4, 4)), ShapeError);
  EXPECT_THROW(rope_frequencies(1e4, 3), ValueError);
}

TEST(Rows, AnyAxisGivesTheBitsOfTheLast) {
  std::vector<float> data(4 * 37 * 21);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = std::sin(static_cast<float>(i)) * 9;
  const Array x = Array::from(data, {4, 37, 21});
  const auto moved = [](const Array& y) { return values<float>(swap_axes(y, 1, 2)); };
  EXPECT_EQ(values<float>(softmax(x, 1)), moved(softmax(contiguous(swap_axes(x, 1, 2)))));
  EXPECT_EQ(values<float>(log_softmax(x, -2)), moved(log_softmax(contiguous(swap_axes(x, 1, 2)))));
  EXPECT_EQ(values<float>(cumsum(x, 1)), moved(cumsum(contiguous(swap_axes(x, 1, 2)), -1)));
  EXPECT_EQ(logsumexp(x, 1, true).shape(), (Shape{4, 1, 21}));
  EXPECT_EQ(values<float>(logsumexp(x, 0)), values<float>(logsumexp(contiguous(transpose(x, {1, 2, 0})), -1)));
  const auto [best, where] = top_k(x, 3, 1);
  EXPECT_EQ(best.shape(), (Shape{4, 3, 21}));
  EXPECT_EQ(values<std::int64_t>(slice_axis(where, 1, {0, 1})), values<std::int64_t>(argmax(x, 1)));
  EXPECT_EQ(values<float>(slice_axis(best, 1, {0, 1})), values<float>(max(x, {1})));
  // Channels first and last: the same groups, in the same order.
  const Array gamma = Array::from(std::vector<float>(21, 1.5f), {21}),
              beta = Array::from(std::vector<float>(21, 1), {21});
  const Array first = swap_axes(x, 1, 2);  // [4, 21, 37]
  EXPECT_EQ(values<float>(group_norm(x, gamma, beta, 7, 1e-5, -1)),
            values<float>(swap_axes(group_norm(first, gamma, beta, 7), 1, 2)));
}

// Public report C10: 2^31 + 8 elements by stride 0, and a slice beyond 2^31.
TEST(PublicReports, C10ExpandedView) {
  constexpr std::int64_t length = (std::int64_t{1} << 31) + 8;
  const Array ones = broadcast_to(Array::scalar(1, DType::i8), {length});
  EXPECT_EQ(sum(ones).item<std::int64_t>(), 2147483656);
  EXPECT_EQ(argmax(ones).item<std::int64_t>(), 0);
  const Array tail = slice_axis(ones, 0, {std::int64_t{1} << 31, std::nullopt});
  EXPECT_EQ(tail.shape(), (Shape{8}));
  EXPECT_EQ(sum(tail).item<std::int64_t>(), 8);
}

// Public report C1 through the public functions: a large mean, a constant row, one element with a huge weight.
TEST(PublicReports, C1Norms) {
  std::vector<float> b(16);
  for (std::size_t i = 0; i < 16; ++i) b[i] = 10000.0f + static_cast<float>(i) * 1e-3f;
  const auto y = values<float>(layer_norm(Array::from(b, {1, 16})));
  EXPECT_FLOAT_EQ(y.front(), -1.33133335f);
  EXPECT_FLOAT_EQ(y.back(), 1.33133335f);
  for (const float each : values<float>(layer_norm(Array::from(std::vector<float>(1000, 7.7f), {1000})))) {
    EXPECT_EQ(each, 0);
  }
  EXPECT_EQ(values<float>(layer_norm(Array::from({-3.f}), Array::from({1e10f}), Array::from({-1.f})))[0], -1);
}

TEST(Norm, NeitherOverflowsNorUnderflows) {
  const Array three_four = Array::from<double>({3, 4});
  for (const double scale : {1.0, 0x1p-1074, 0x1p-600, 0x1p600, 0x1p1020})
    EXPECT_EQ(norm(three_four * scale).item<double>(), 5 * scale) << scale;
  EXPECT_EQ(norm(Array::from<float>({3e38f, 1e38f})).item<float>(), 3.16227766e38f);
  EXPECT_EQ(norm(Array::from<float>({0x1p-149f})).item<float>(), 0x1p-149f);
  EXPECT_EQ(norm(Array::from<double>({1e308, HUGE_VAL})).item<double>(), HUGE_VAL);
  EXPECT_TRUE(std::isnan(norm(Array::from<double>({NAN, HUGE_VAL})).item<double>()));
  EXPECT_EQ(norm(full({100}, 1e307, DType::f64)).item<double>(), 1e308);
  EXPECT_EQ(norm(zeros({0})).item<float>(), 0);
  EXPECT_EQ(norm(ones({1000000}, DType::bf16)).item<bfloat16>().bits, to_bfloat16(1000.0).bits);
}

TEST(Norm, OrdersOfVectors) {
  EXPECT_EQ(values<float>(norm(kMatrix, {1}, 1)), (std::vector<float>{6, 15}));
  EXPECT_EQ(values<float>(norm(negate(kMatrix), {0}, HUGE_VAL)), (std::vector<float>{4, 5, 6}));
  EXPECT_EQ(values<float>(norm(negate(kMatrix), {0}, -HUGE_VAL, true)), (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(norm(kMatrix, {0}, -HUGE_VAL, true).shape(), (Shape{1, 3}));
  EXPECT_EQ(norm(kMatrix, {-1}, 2, true).shape(), (Shape{2, 1}));
  EXPECT_EQ(norm(Array::from<std::int32_t>({3, 4})).item<float>(), 5);
  EXPECT_THROW(norm(kMatrix, {0}, 3), ValueError);
  EXPECT_THROW(norm(kMatrix, {2}), ShapeError);
}

TEST(CumulativeExtremes, FollowTheOrderOfMax) {
  const Array x = Array::from<float>({-0.f, 0.f, -1, 2, 2, NAN, 3});
  const auto up = values<float>(cummax(x, 0)), down = values<float>(cummin(x, 0, true));
  EXPECT_TRUE(std::signbit(up[0]));
  EXPECT_FALSE(std::signbit(up[1]));
  EXPECT_EQ(up[2], 0);
  EXPECT_EQ(up[4], 2);
  EXPECT_TRUE(std::isnan(up[5]) && std::isnan(up[6]));
  EXPECT_EQ(down[6], 3);
  EXPECT_TRUE(std::isnan(down[5]) && std::isnan(down[0]));
  EXPECT_EQ(values<std::int64_t>(cummax(Array::from<std::int64_t>({1, 3, 2}), -1)),
            (std::vector<std::int64_t>{1, 3, 3}));
  EXPECT_THROW(cummax(Array::scalar(1, DType::f32), 0), ShapeError);
}

// Public report C1, for the norms over channels: a large mean, constant channels, one element, weights that dwarf it.
TEST(PublicReports, C1BatchNormWithALargeMean) {
  const auto normalized = [](const Array& column, double gamma, double beta) {
    const Array x = expand_dims(column, 1);
    return values<float>(batch_norm(x, full({1}, gamma), full({1}, beta)).y);
  };
  const auto large = normalized(Array::from<float>({40000, 40001, 40002, 40003}), 1, 0);
  EXPECT_EQ(large, (std::vector<float>{-1.34163542f, -0.44721181f, 0.44721181f, 1.34163542f}));
  std::vector<float> steps;
  for (int i = 0; i < 16; ++i) steps.push_back(10000.f + static_cast<float>(i) * 1e-3f);
  const auto small_steps = normalized(Array::from(steps, {16}), 1, 0);
  EXPECT_EQ(small_steps.front(), -1.33133335f);
  EXPECT_EQ(small_steps.back(), 1.33133335f);
  for (const float y : normalized(full({1000}, 7.7), 1, 0)) EXPECT_EQ(y, 0);
  EXPECT_EQ(normalized(Array::from<float>({-3}), 1e10, -1), (std::vector<float>{-1}));
}

TEST(BatchNorm, MomentsAndAnyChannelAxis) {
  const Array x = normal(random_key(3), {4, 6, 5, 3}), gamma = normal(random_key(4), {3}),
              beta = normal(random_key(5), {3});
  const BatchNormResult last = batch_norm(x, gamma, beta);
  EXPECT_EQ(values<float>(last.variance), values<float>(variance(x, {0, 1, 2})));
  const auto exact_mean = values<double>(mean(convert(x, DType::f64), {0, 1, 2}));
  for (std::size_t c = 0; c < 3; ++c)
    EXPECT_NEAR(values<float>(last.mean)[c], exact_mean[c], 0x1p-24 * 1.01 * std::fabs(exact_mean[c]));
  const BatchNormResult second = batch_norm(move_axis(x, -1, 1), gamma, beta, 1e-5, 1);
  EXPECT_EQ(values<float>(move_axis(second.y, 1, -1)), values<float>(last.y));
  // Inference with given moments is the formula, rounded once.
  const auto inferred = values<float>(batch_norm_inference(x, last.mean, last.variance, gamma, beta));
  const auto xs = values<float>(x);
  for (std::size_t i = 0; i < inferred.size(); ++i) {
    const auto of = [&](const Array& a) { return double{values<float>(a)[i % 3]}; };
    const double want = (xs[i] - of(last.mean)) / std::sqrt(of(last.variance) + 1e-5) * of(gamma) + of(beta);
    EXPECT_NEAR(inferred[i], want, 0x1p-24 * 1.01 * std::fabs(want) + 1e-15);
  }
  EXPECT_EQ(batch_norm(convert(x, DType::bf16), gamma, beta).mean.dtype(), DType::f32);
  EXPECT_THROW(batch_norm(gamma, gamma, beta), ShapeError);
  EXPECT_THROW(batch_norm(x, beta, zeros({4})), ShapeError);
  EXPECT_THROW(batch_norm(arange(6), gamma, beta), TypeError);
  EXPECT_THROW(batch_norm_inference(x, zeros({2}), last.variance, gamma, beta), ShapeError);
}

}  // namespace
}  // namespace eadem
