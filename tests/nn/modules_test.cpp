// Modules against their formulas, their dtypes, their errors.

#include <gtest/gtest.h>

#include <cmath>

#include "eadem/nn/attention.h"
#include "eadem/nn/dropout.h"
#include "eadem/nn/sequential.h"
#include "tests/support/bits.h"

namespace eadem::nn {
namespace {

using eadem::testing::doubles_of;
using eadem::testing::expect_same;

constexpr DType kFloats[] = {DType::f64, DType::f32, DType::bf16, DType::f16};

TEST(Modules, DtypesAreHonoured) {
  for (const DType parameter : kFloats)
    for (const std::optional<DType> compute :
         {std::optional<DType>(), std::optional(DType::bf16), std::optional(DType::f32), std::optional(DType::f64)})
      for (const DType input : kFloats) {
        Rngs rngs(0);
        const Array x = normal(random_key(1), {2, 3, 8}, input);
        const DType want = compute.value_or(promote(input, parameter));
        const Linear dense(8, 5, rngs, {.dtype = compute, .param_dtype = parameter});
        const LinearGeneral general({8}, {2, 3}, rngs, {.dtype = compute, .param_dtype = parameter});
        const LayerNorm norm(8, rngs, {.dtype = compute, .param_dtype = parameter});
        const RMSNorm rms(8, rngs, {.dtype = compute, .param_dtype = parameter});
        const MultiHeadAttention attend(
            8, 4, rngs, {.kv_heads = 2, .normalize_qk = true, .dtype = compute, .param_dtype = parameter});
        const auto parameters = leaves(std::tuple(dense, general, norm, rms, attend));
        for (const Array& leaf : parameters) EXPECT_EQ(leaf.dtype(), parameter);
        EXPECT_EQ(parameters.size(), 2u + 2 + 2 + 1 + 10);
        EXPECT_EQ(dense(x).type(), (TensorType{want, {2, 3, 5}}));
        EXPECT_EQ(general(x).type(), (TensorType{want, {2, 3, 2, 3}}));
        EXPECT_EQ(norm(x).type(), (TensorType{want, {2, 3, 8}}));
        EXPECT_EQ(rms(x).type(), (TensorType{want, {2, 3, 8}}));
        EXPECT_EQ(attend(x).type(), (TensorType{want, {2, 3, 8}}));
        const Embed embed(7, 4, rngs, {.dtype = compute, .param_dtype = parameter});
        const Array tokens = Array::from<std::int32_t>({1, 6, 0});
        EXPECT_EQ(embed(tokens).type(), (TensorType{compute.value_or(parameter), {3, 4}}));
        EXPECT_EQ(embed.attend(slice_axis(x, -1, {0, 4})).type(), (TensorType{want, {2, 3, 7}}));
      }
}

TEST(Modules, LinearGeneralIsLinearOverJoinedAxes) {
  Rngs rngs(3);
  const LinearGeneral general({3, 4}, {5, 2}, rngs, {.bias_init = normal_init(1)}, {1, -1});
  const Array x = normal(random_key(4), {6, 3, 7, 4});
  const Array rows = reshape(transpose(x, {0, 2, 1, 3}), {6, 7, 12});
  const Array want = linear(rows, transpose(reshape(general.kernel, {12, 10})), reshape(*general.bias, {10}));
  expect_same(general(x), reshape(want, {6, 7, 5, 2}));
}

TEST(Modules, AttentionIsAttentionOfProjections) {
  Rngs rngs(5);
  const MultiHeadAttention attend(12, 4, rngs, {.kv_heads = 2});
  const Array x = normal(random_key(6), {2, 5, 12}), context = normal(random_key(7), {2, 9, 12});
  const Array mask = less(uniform(random_key(8), {2, 1, 5, 9}), Array::scalar(0.7, DType::f32));
  const auto heads_first = [](const Array& y) { return transpose(y, {0, 2, 1, 3}); };
  const Array y = attention(heads_first(attend.query(x)), heads_first(attend.key(context)),
                            heads_first(attend.value(context)), {.mask = mask});
  expect_same(attend(x, context, {.mask = mask}), attend.out(heads_first(y)));
  // Each row of the batch alone, and with more batch axes.
  const Array wide = reshape(x, {1, 2, 5, 12});
  expect_same(reshape(attend(wide, AttendOptions{.causal = true}), x.shape()),
              attend(x, AttendOptions{.causal = true}));
  const Array row = squeeze(slice_axis(x, 0, {1, 2}), 0);
  expect_same(attend(row), squeeze(slice_axis(attend(x), 0, {1, 2}), 0));
}

TEST(Modules, SequentialAndDropout) {
  Rngs rngs(9);
  const Linear first(4, 6, rngs), second(6, 2, rngs);
  const Sequential model(
      first, [](const Array& h) { return gelu(h); }, second);
  const Array x = normal(random_key(10), {3, 4});
  expect_same(model(x), second(gelu(first(x))));
  EXPECT_EQ(leaves(model).size(), 4u);

  const Dropout drop(0.25);
  const Array ones_row = ones({1000});
  Rngs streams({{"dropout", 1}});
  const Array kept = drop(ones_row, streams);
  double zeros_seen = 0;
  for (const double v : doubles_of(kept)) {
    EXPECT_TRUE(v == 0 || v == 1 / 0.75f) << v;
    zeros_seen += v == 0;
  }
  EXPECT_NEAR(zeros_seen, 250, 60);
  expect_same(drop(ones_row), ones_row);
  expect_same(kept, drop(ones_row, Rngs({{"dropout", 1}}).dropout()));
}

TEST(Modules, InitialisersHaveTheirVariances) {
  const Array key = random_key(11);
  const Shape shape{300, 200};
  const auto deviation = [&](const Initializer& init) {
    double sum = 0;
    for (const double v : doubles_of(init(key, shape, DType::f32))) sum += v * v;
    return std::sqrt(sum / 60000);
  };
  EXPECT_NEAR(deviation(lecun_normal()), std::sqrt(1.0 / 300), 1e-3);
  EXPECT_NEAR(deviation(he_uniform()), std::sqrt(2.0 / 300), 1e-3);
  EXPECT_NEAR(deviation(xavier_normal()), std::sqrt(1.0 / 250), 1e-3);
  EXPECT_NEAR(deviation(glorot_uniform()), std::sqrt(1.0 / 250), 1e-3);
  EXPECT_NEAR(deviation(normal_init(0.5)), 0.5, 1e-2);
  for (const DType dtype : kFloats)
    for (const double v : doubles_of(truncated_normal(key, -0.5, 0.25, {2000}, dtype))) {
      EXPECT_LT(-0.5, v);
      EXPECT_LT(v, 0.25);
    }
}

TEST(Modules, BadInputIsRefused) {
  Rngs rngs(0), named({{"params", 0}});
  EXPECT_THROW(Linear(0, 3, rngs), ValueError);
  EXPECT_THROW(LinearGeneral({2, 3}, {4}, rngs), ValueError);
  EXPECT_THROW(MultiHeadAttention(10, 3, rngs), ValueError);
  EXPECT_THROW(MultiHeadAttention(12, 4, rngs, {.kv_heads = 3}), ValueError);
  EXPECT_THROW(LayerNorm(0, rngs), ValueError);
  EXPECT_THROW(Dropout(1.5), ValueError);
  EXPECT_THROW(named.dropout(), ValueError);
  EXPECT_THROW(Rngs(Array::from<float>({1, 2})), TypeError);
  EXPECT_THROW(lecun_normal()(random_key(0), {3}, DType::f32), ShapeError);
  EXPECT_THROW(truncated_normal(random_key(0), 1, 1, {3}, DType::f32), ValueError);
  EXPECT_THROW(Linear(4, 3, rngs)(zeros({2, 5})), ShapeError);
  EXPECT_THROW(LinearGeneral({4, 2}, {3}, rngs, {}, {-2, -1})(zeros({2, 5, 2})), ShapeError);
  EXPECT_THROW(LinearGeneral({4}, {3}, rngs)(zeros({})), Error);
  EXPECT_THROW(LayerNorm(4, rngs)(zeros({2, 5})), ShapeError);
  EXPECT_THROW(Embed(4, 2, rngs)(Array::from<std::int32_t>({4})), ValueError);
}

}  // namespace
}  // namespace eadem::nn
