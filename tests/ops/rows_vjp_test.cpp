// The derivatives of row composites against FP64: one rounding of the f64 value, nothing else; and their conventions.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "eadem/ops/catalog.h"
#include "eadem/ops/ops.h"
#include "eadem/transforms/transforms.h"
#include "tests/support/sample_data.h"

namespace eadem {
namespace {

using testing::Layout;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

Array array_of(const SampleOperand& operand, std::uint64_t seed) {
  const testing::Tensor tensor = testing::materialize(operand, seed, Layout::contiguous);
  Array result = Array::allocate(tensor.view.type());
  const std::vector<std::byte> bytes = testing::elements_of(tensor.view);
  std::copy(bytes.begin(), bytes.end(), result.view().data);
  return result;
}

// Applies `check(sample, result, result in f64)` to every narrow sample.
template <class F>
void for_samples(const Primitive& primitive, F check) {
  for (const testing::Sample& sample : testing::samples_of(primitive)) {
    if (sample.operands[0].dtype == DType::f64) continue;
    Arrays operands;
    for (std::size_t i = 0; i < sample.operands.size(); ++i) operands.push_back(array_of(sample.operands[i], 1000 + i));
    const Array got = apply_all(primitive, operands, sample.attributes.get())[0];
    const auto in_f64 = [&] {
      const ModeScope scope(Mode::f64);
      return apply_all(primitive, operands, sample.attributes.get())[0];
    };
    check(sample, got, in_f64());
  }
}

TEST(RowsVjp, OneRoundingOfTheF64Value) {
  for (const Primitive* primitive :
       {&prim::softmax_vjp, &prim::log_softmax_vjp, &prim::logsumexp_vjp, &prim::cross_entropy,
        &prim::cross_entropy_vjp, &prim::layer_norm_vjp, &prim::rms_norm_vjp, &prim::group_norm_vjp}) {
    for_samples(*primitive, [&](const testing::Sample&, const Array& got, const Array& exact) {
      EXPECT_EQ(testing::first_difference(got.view(), (convert(exact, got.dtype()) + 0.0).view()), "")
          << primitive->name;
    });
  }
}

// The addends are rounded to f32, so a sum is off by 2^-24 of their magnitudes, beside its own rounding.
TEST(RowsVjp, GammaIsWithinTheRoundingOfItsAddends) {
  for (const Primitive* primitive :
       {&prim::layer_norm_vjp_gamma, &prim::rms_norm_vjp_gamma, &prim::group_norm_vjp_gamma}) {
    std::int64_t compared = 0;
    for_samples(*primitive, [&](const testing::Sample& sample, const Array& got, const Array& exact) {
      const SampleOperand& x = sample.operands[0];
      if (x.fill != Fill::normal && x.fill != Fill::unit) return;
      const Array near = contiguous(convert(got, DType::f64));
      const double digits = got.dtype() == DType::f32 ? 24 : got.dtype() == DType::bf16 ? 8 : 11;
      // An addend of normal x and dy is below 2^6.
      const double addends = static_cast<double>(x.shape.elements()) * 0x1p-25 * 64;
      for (std::size_t i = 0; i < near.data<double>().size(); ++i) {
        const double want = contiguous(exact).data<double>()[i], value = near.data<double>()[i];
        if (!std::isfinite(want) || !std::isfinite(value)) continue;
        ++compared;
        EXPECT_LE(std::fabs(value - want), std::fabs(want) * std::exp2(-digits) + addends) << primitive->name;
      }
    });
    EXPECT_GT(compared, 40) << primitive->name;
  }
}

TEST(RowsVjp, Conventions) {
  const auto row = [](std::initializer_list<float> values) { return Array::from(values); };
  const auto gradient = [](auto f, const Array& x) { return contiguous(grad(f)(x)); };
  const auto lse = [](const Array& x) { return logsumexp(x, -1); };
  // A row of -inf has no derivative to speak of: +0.
  for (const float each : gradient(lse, row({-kInfinity, -kInfinity})).data<float>()) {
    EXPECT_EQ(each, 0);
    EXPECT_FALSE(std::signbit(each));
  }
  for (const float each : gradient(lse, row({kInfinity, 0})).data<float>()) EXPECT_TRUE(std::isnan(each));
  // A masked loss sends +0 back, whatever its row and label are.
  const Array logits = Array::from(std::vector<float>{1, 2, std::nanf(""), 4, 0, 1, 2, 3}, {2, 4});
  const Array labels = Array::from(std::vector<std::int64_t>{-100, 2}, {2});
  const Array kept = greater_equal(labels, zeros({2}, DType::i64));
  const auto loss = [&](const Array& x) { return sum(where(kept, cross_entropy(x, labels), zeros({2}))); };
  const Array g = gradient(loss, logits);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(g.data<float>()[static_cast<std::size_t>(i)], 0);
  double total = 0, norm = 0;
  for (int i = 0; i < 4; ++i) norm += std::exp(i - 3.0);
  for (int i = 0; i < 4; ++i) {
    const double want = std::exp(i - 3.0) / norm - (i == 2 ? 1 : 0),
                 got = g.data<float>()[static_cast<std::size_t>(4 + i)];
    EXPECT_NEAR(got, want, 1e-7);
    total += got;
  }
  EXPECT_NEAR(total, 0, 1e-7);
  EXPECT_TRUE(std::isnan(contiguous(cross_entropy(logits, labels)).data<float>()[0]));
}

TEST(CrossEntropy, RefusesWhatDoesNotFit) {
  const Array x = zeros({2, 3});
  EXPECT_THROW(cross_entropy(x, zeros({3}, DType::i64)), ShapeError);
  EXPECT_THROW(cross_entropy(x, zeros({2})), TypeError);
  EXPECT_THROW(cross_entropy(x, zeros({2}, DType::i64), DType::bf16), TypeError);
  EXPECT_THROW(cross_entropy(zeros({2, 3}, DType::i32), zeros({2}, DType::i64)), TypeError);
  EXPECT_EQ(cross_entropy(zeros({2, 3}, DType::bf16), zeros({2}, DType::i32), DType::f32).dtype(), DType::f32);
}

}  // namespace
}  // namespace eadem
