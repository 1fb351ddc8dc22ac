// Transformer Engine's modules against their formulas, and the table of their parameters.

#include "eadem/nn/te.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "eadem/audit/reproduce.h"
#include "tests/support/bits.h"

namespace eadem::nn::te {
namespace {

using eadem::testing::doubles_of;
using eadem::testing::expect_same;

TEST(Te, TheModelOfTheReport) {
  const audit::TeReport report = audit::reproduce_te_1451();
  EXPECT_TRUE(report.holds());
  const std::string text = report.table.text();
  EXPECT_NE(text.find("Total: 541,184 parameters, 1.1 MB"), std::string::npos) << text;
  for (const int width : {100, 60}) {
    std::istringstream lines(report.table.text(width));
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), static_cast<std::size_t>(width)) << line;
  }
  const auto json = nlohmann::json::parse(report.table.json());
  EXPECT_EQ(json["bytes"], 1082368);
  EXPECT_EQ(json["rows"][3]["path"], "layer2/qkv");
  EXPECT_EQ(json["rows"][3]["outputs"][0]["shape"], (std::vector<int>{8, 16, 3, 1024}));
  EXPECT_EQ(json["rows"][3]["parameters"].size(), 3u);
  // A table that lies about a dtype is noticed.
  audit::TeReport wrong = report;
  wrong.table.rows[1].parameters[0].dtype = "f32";
  EXPECT_FALSE(wrong.holds());
  wrong = report;
  wrong.modules.back().honoured = false;
  EXPECT_FALSE(wrong.holds());
}

TEST(Te, MultiHeadAttentionIsItsParts) {
  Rngs rngs(1);
  const MultiHeadAttention fused(12, 4, 3, rngs, {.use_bias = true, .scale_attn_logits = true});
  const Array x = normal(random_key(2), {2, 5, 12});
  const Array joined = (*fused.qkv)(x);
  const auto heads = [&](std::int64_t i) {
    return transpose(reshape(slice_axis(joined, 2, {i, i + 1}), {2, 5, 3, 4}), {0, 2, 1, 3});
  };
  const Array y = attention(heads(0), heads(1), heads(2), {.causal = Causal::lower_right});
  expect_same(fused(x), fused.out(reshape(transpose(y, {0, 2, 1, 3}), {2, 5, 12})));

  const MultiHeadAttention grouped(12, 4, 4, rngs, {.gqa_groups = 2, .causal = false});
  EXPECT_EQ(grouped.kv->kernel.shape(), (Shape{12, 2, 8}));
  EXPECT_EQ(grouped(x).shape(), x.shape());
  const MultiHeadAttention cross(12, 4, 3, rngs, {.causal = false, .cross = true});
  EXPECT_EQ(cross.attend(x, normal(random_key(3), {2, 7, 12})).shape(), x.shape());
  EXPECT_THROW(cross(x), ValueError);
  EXPECT_THROW(MultiHeadAttention(12, 4, 3, rngs, {.gqa_groups = 2}), ValueError);
}

TEST(Te, LayerNormMlpIsItsFormula) {
  Rngs rngs(4);
  const LayerNormMLP mlp(6, rngs, {.intermediate = 5, .activations = {Activation::gelu, Activation::linear}});
  const Array x = normal(random_key(5), {3, 6});
  const auto column = [&](std::int64_t i) {
    return matmul(layer_norm(x, mlp.norm->scale, *mlp.norm->ln_bias, 1e-6),
                  squeeze(slice_axis(mlp.wi_kernel, 1, {i, i + 1}), 1));
  };
  expect_same(mlp(x), matmul(gelu_tanh(column(0)) * column(1), mlp.wo_kernel));
  Rngs dropping(6);
  EXPECT_NE(eadem::testing::bytes_of(mlp(x, &dropping)), eadem::testing::bytes_of(mlp(x)));
  // A zero-centered gamma is one less than the plain one.
  const LayerNorm plain(6, rngs), centered(6, rngs, {.zero_centered_gamma = true});
  expect_same(plain(x), centered(x));
  EXPECT_THROW(LayerNorm(6, rngs, {.type = Norm::rmsnorm, .zero_centered_gamma = true}), ValueError);
}

TEST(Te, RelativePositionBucketsAreThoseOfT5) {
  Rngs rngs(7);
  RelativePositionBiases biases(1, rngs);
  biases.rel_embedding = reshape(arange(32, DType::f32), {1, 32});
  // By T5's formula with 32 buckets and distance 128: key - query to bucket.
  const std::pair<std::int64_t, double> known[] = {{0, 0},    {-1, 1},   {-7, 7},    {-8, 8},    {-12, 9}, {-16, 10},
                                                   {-31, 11}, {-64, 14}, {-127, 15}, {-199, 15}, {1, 17},  {40, 28}};
  const std::vector<double> table = doubles_of(biases(200, 200));
  for (const auto& [offset, bucket] : known) {
    const std::int64_t q = offset < 0 ? -offset : 0, k = offset < 0 ? 0 : offset;
    EXPECT_EQ(table[static_cast<std::size_t>(q * 200 + k)], bucket) << offset;
  }
  const std::vector<double> causal = doubles_of(biases(200, 200, false));
  EXPECT_EQ(causal[15 * 200], 15);
  EXPECT_EQ(causal[5], 0);
}

TEST(Te, TransformerLayers) {
  Rngs rngs(8);
  const Array x = normal(random_key(9), {2, 5, 8}, DType::bf16);
  const TransformerLayer encoder(8, rngs, {.mlp_hidden = 16, .heads = 2});
  EXPECT_EQ(encoder(x).type(), x.type());
  const TransformerLayer decoder(8, rngs, {.mlp_hidden = 16, .heads = 2, .decoder = true});
  EXPECT_EQ(decoder(x, normal(random_key(10), {2, 3, 8}, DType::bf16)).type(), x.type());
  EXPECT_THROW(decoder(x), ValueError);
  EXPECT_THROW(encoder(x, x), ValueError);
  EXPECT_THROW(TransformerLayer(9, rngs, {.heads = 2}), ValueError);
}

}  // namespace
}  // namespace eadem::nn::te
