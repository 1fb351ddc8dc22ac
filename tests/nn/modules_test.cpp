// Modules against their formulas, their dtypes, their errors.

#include <gtest/gtest.h>

#include <cmath>

#include "eadem/nn/attention.h"
#include "eadem/nn/conv.h"
#include "eadem/nn/dropout.h"
#include "eadem/nn/einsum.h"
#include "eadem/nn/lora.h"
#include "eadem/nn/recurrent.h"
#include "eadem/nn/sequential.h"
#include "eadem/nn/stack.h"
#include "eadem/nn/weight.h"
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

TEST(Modules, DecodingIsTheCausalCall) {
  for (const DType dtype : kFloats) {
    Rngs rngs(21);
    MultiHeadAttention attend(12, 4, rngs, {.kv_heads = 2, .normalize_qk = true, .dtype = dtype});
    const Array x = normal(random_key(22), {2, 300, 12}, dtype);  // more than two blocks of keys
    const Array causal = attend(x, AttendOptions{.causal = true});
    attend.init_cache(x.shape(), dtype);
    for (std::int64_t t = 0; t < 300; ++t) {
      const Array token = attend.decode(slice_axis(x, 1, {t, t + 1}));
      if (t % 37 == 0 || t > 295) expect_same(token, slice_axis(causal, 1, {t, t + 1}));
    }
    EXPECT_EQ(attend.cache_index->item<std::int32_t>(), 300);
    EXPECT_THROW(attend.decode(slice_axis(x, 1, {0, 1})), ValueError);
  }
  // As one compiled scan that carries the module.
  Rngs rngs(23);
  MultiHeadAttention attend(8, 2, rngs);
  const Array x = normal(random_key(24), {2, 5, 8});
  const Array causal = attend(x, AttendOptions{.causal = true});
  attend.init_cache(x.shape());
  const auto step = [](const MultiHeadAttention& before, const Array& token) {
    MultiHeadAttention after = before;
    const Array y = after.decode(token);
    return std::pair(after, y);
  };
  const Array tokens = expand_dims(transpose(x, {1, 0, 2}), 2);
  const auto [last, ys] = scan(step, attend, tokens);
  expect_same(transpose(squeeze(ys, 2), {1, 0, 2}), causal);
  EXPECT_EQ(last.cache_index->item<std::int32_t>(), 5);
}

TEST(Modules, BatchNormMovesItsMoments) {
  Rngs rngs(31);
  BatchNorm norm(3, rngs, {.momentum = 0.75});
  const Array x = normal(random_key(32), {4, 5, 3}) * 2.0 + 1.0;
  const BatchNormResult want = batch_norm(x, ones({3}), zeros({3}));
  // As Flax: the loss gives the module back, with the moments that it moved; these get no gradient.
  const auto loss = [&](BatchNorm module) {
    const Array y = module(x);
    return std::pair(sum(y * y * x), module);
  };
  const auto [value, gradient] = value_and_grad_aux(loss)(norm);
  expect_same(gradient.mean, zeros({3}));
  expect_same(gradient.var, zeros({3}));
  EXPECT_NE(doubles_of(*gradient.scale), doubles_of(zeros({3})));
  const BatchNorm moved = value.second;
  for (std::size_t c = 0; c < 3; ++c) {
    EXPECT_EQ(moved.mean.data<float>()[c], static_cast<float>(0.25 * doubles_of(want.mean)[c]));
    EXPECT_EQ(moved.var.data<float>()[c], static_cast<float>(0.75 + 0.25 * doubles_of(want.variance)[c]));
  }
  expect_same(norm(x), want.y);
  expect_same(norm.mean, moved.mean);
  expect_same(norm(x, true), batch_norm_inference(x, norm.mean, norm.var, ones({3}), zeros({3})));
  const BatchNorm constant = norm;
  EXPECT_THROW(constant(x), ValueError);
  norm.use_running_average = true;
  const BatchNorm evaluated = norm;
  expect_same(evaluated(x), norm(x));
}

// Public report C46: a quantized base keeps its codes; an untrained adapter changes no bit; merging is undone exactly.
TEST(PublicReports, C46LowRankAdapters) {
  for (const DType dtype : kFloats) {
    Rngs rngs(41), same(41);
    LoRALinear adapted(64, 256, 4, rngs, {.dtype = dtype, .param_dtype = dtype}, {.scale = 2, .param_dtype = dtype});
    const Linear base(64, 256, same, {.dtype = dtype, .param_dtype = dtype});
    const Array x = normal(random_key(42), {5, 64}, dtype);
    expect_same(adapted.kernel, base.kernel);
    expect_same(adapted(x), base(x));  // B = 0
    expect_same(adapted.merged().kernel, base.kernel);
    adapted.lora.lora_b = normal(random_key(43), {4, 256}, dtype) * 1e-3;
    const Array before = adapted.kernel;
    const Linear merged = adapted.merged();
    expect_same(adapted.kernel, before);  // what stays is the base: nothing to undo
    const auto wide = [](const Array& a) { return convert(a, DType::f64); };
    const Array delta = matmul(wide(adapted.lora.lora_a), wide(adapted.lora.lora_b)) * 2.0;
    expect_same(merged.kernel, convert(wide(before) + delta, dtype));
    if (dtype == DType::f64 || dtype == DType::f32) {
      // Merged or beside, it is x (W + A B scale): both are near that in FP64.
      const auto want = doubles_of(matmul(wide(x), wide(before) + delta));
      for (const Array& y : {merged(x), adapted(x)})
        for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(doubles_of(y)[i], want[i], 2e-6);
    }
  }
  // W [64, 256] in [-1, 1] at 4 bits in groups of 64: y = deq(W) x + scale (x A) B, the codes as they are.
  const Array w = uniform(random_key(44), {64, 256}, DType::f32, -1, 1);
  std::vector<std::uint32_t> words(64 * 256 / 8);
  std::vector<float> scales, biases;
  for (std::size_t row = 0; row < 64; ++row) {
    const auto quantized =
        numerics::affine_quantize_row("w", w.data<float>().subspan(256 * row, 256), 4, 64, DType::f32);
    for (std::size_t k = 0; k < 256; ++k) words[32 * row + k / 8] |= std::uint32_t{quantized.codes[k]} << (4 * (k % 8));
    scales.insert(scales.end(), quantized.scales.begin(), quantized.scales.end());
    biases.insert(biases.end(), quantized.biases.begin(), quantized.biases.end());
  }
  const auto bytes = [](const auto& values) { return std::as_bytes(std::span(values)); };
  const Weight::Named named{
      "w", numerics::affine_matrix("w", 4, 64, 64, 256, bytes(words), bytes(scales), bytes(biases), DType::f32)};
  const Weight weight = Weight::quantized({&named, 1});
  Rngs rngs(45);
  LoRA lora(256, 4, 64, rngs, {.scale = 2});
  const Array x = normal(random_key(46), {3, 256}), base = linear(x, weight);
  expect_same(lora.over(base, x), base);
  // An adapter of at most a few thousandths beside steps of an eighth: all of it arrives.
  lora.lora_b = normal(random_key(47), {4, 64}) * 1e-4;
  const auto wide = [](const Array& a) { return convert(a, DType::f64); };
  const Array dequantized = wide(embed(weight, arange(64), DType::f32));
  const Array adapter = matmul(matmul(wide(x), wide(lora.lora_a)), wide(lora.lora_b)) * 2.0;
  const auto got = doubles_of(lora.over(base, x)), want = doubles_of(matmul(wide(x), transpose(dequantized)) + adapter);
  const auto alone = doubles_of(adapter);
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_NEAR(got[i], want[i], 1e-5);
    EXPECT_NEAR(got[i] - doubles_of(base)[i], alone[i], 2e-6);
  }
}

TEST(Modules, CellsUnderScanAreTheLoop) {
  Rngs rngs(51);
  const OptimizedLSTMCell lstm(4, 3, rngs);
  const GRUCell gru(4, 3, rngs, {.dtype = DType::bf16});
  const Array xs = normal(random_key(52), {6, 2, 4});
  const auto check = [&](const auto& cell, auto carry) {
    const auto [last, ys] = scan([&](const auto& c, const Array& x) { return cell(c, x); }, carry, xs);
    Arrays looped;
    for (std::int64_t t = 0; t < 6; ++t) {
      const auto [next, y] = cell(carry, squeeze(slice_axis(xs, 0, {t, t + 1}), 0));
      carry = next;
      looped.push_back(y);
    }
    expect_same(last, carry);
    expect_same(ys, stack(looped));
  };
  check(lstm, lstm.initialize_carry({2, 4}));
  check(gru, convert(gru.initialize_carry({2, 4}), DType::bf16));
}

TEST(Modules, OrthogonalKernels) {
  for (const Shape& shape : {Shape{5, 12}, Shape{12, 5}, Shape{2, 3, 6}, Shape{1, 1}}) {
    const Array kernel = orthogonal(2)(random_key(61), shape, DType::f64);
    const Array matrix = reshape(kernel, {shape.elements() / shape.back(), shape.back()});
    const bool tall = matrix.shape()[0] >= matrix.shape()[1];
    const Array gram = tall ? matmul(transpose(matrix), matrix) : matmul(matrix, transpose(matrix));
    const auto products = doubles_of(gram);
    const std::int64_t n = gram.shape()[0];
    for (std::int64_t i = 0; i < n * n; ++i)
      EXPECT_NEAR(products[static_cast<std::size_t>(i)], i / n == i % n ? 4 : 0, 1e-14);
  }
  // Key by key under vmap, as every initialiser.
  const Array keys = split_key(random_key(62), 2);
  const auto draw = [](const Array& key) { return orthogonal()(key, {4, 6}, DType::bf16); };
  const auto key = [&](std::int64_t i) { return squeeze(slice_axis(keys, 0, {i, i + 1}), 0); };
  expect_same(vmap(draw)(keys), stack(Arrays{draw(key(0)), draw(key(1))}));
}

// Modules in vectors are found wherever they lie, also in the copies that a scan of layers makes.
struct Tower {
  std::vector<Linear> blocks;
  Conv conv;
  Tower(Rngs& rngs) : conv(4, 4, {3}, rngs) {
    for (int i = 0; i < 2; ++i) blocks.emplace_back(4, 4, rngs);
  }
  Array operator()(const Array& x) const {
    Array y = conv(x);
    for (const Linear& block : blocks) y = block(y);
    return y;
  }
  static void fields(auto& m, auto f) { f("blocks", m.blocks), f("conv", m.conv); }
};
struct Deep {
  Stack<Tower> towers;
  Array operator()(const Array& x) const { return scan(towers, x); }
  static void fields(auto& m, auto f) { f("towers", m.towers); }
};
TEST(Modules, TabulateFindsModulesInVectors) {
  Rngs rngs(71);
  const Tower tower(rngs);
  const auto called = [](const ModuleTable& table) {
    std::vector<std::string> paths;
    for (const ModuleRow& row : table.rows)
      if (!row.outputs.empty() && row.path.find("blocks") != std::string::npos) paths.push_back(row.path);
    return paths;
  };
  EXPECT_EQ(called(tabulate(tower, zeros({2, 5, 4}))), (std::vector<std::string>{"blocks/0", "blocks/1"}));
  const Deep deep{vmap_init(3, rngs, [](Rngs& r) { return Tower(r); })};
  const ModuleTable table = tabulate(deep, zeros({2, 5, 4}));
  EXPECT_EQ(called(table), (std::vector<std::string>{"towers/layers/blocks/0", "towers/layers/blocks/1"}));
  EXPECT_EQ(table.parameters(), 3 * (2 * 20 + 3 * 16 + 4));
}

TEST(Modules, BadInputIsRefused) {
  Rngs rngs(0), named({{"params", 0}});
  EXPECT_THROW(Linear(0, 3, rngs), ValueError);
  EXPECT_THROW(Conv(4, 6, {}, rngs), ValueError);
  EXPECT_THROW(Conv(4, 6, {3, 0}, rngs), ValueError);
  EXPECT_THROW(Conv(4, 6, {3}, rngs, {.feature_group_count = 3}), ValueError);
  EXPECT_THROW(Conv(4, 6, {3, 3}, rngs, {.padding = ConvPadding::causal}), ValueError);
  EXPECT_THROW(Conv(4, 6, {3}, rngs)(zeros({2, 5, 3})), ShapeError);
  EXPECT_THROW(Conv(4, 6, {3, 3}, rngs)(zeros({5, 4})), ShapeError);
  EXPECT_THROW(Conv(4, 6, {3}, rngs, {.strides = {0}})(zeros({2, 5, 4})), ValueError);
  EXPECT_THROW(ConvTranspose(4, 6, {3}, rngs, {.padding = ConvPadding::reflect}), ValueError);
  EXPECT_THROW(ConvTranspose(4, 6, {3}, rngs)(zeros({2, 5, 3})), ShapeError);
  EXPECT_THROW(Einsum("ab,bc", {2, 3}, std::nullopt, rngs), ValueError);
  EXPECT_THROW(GroupNorm(6, 4, rngs), ValueError);
  EXPECT_THROW(GroupNorm(6, 3, rngs)(zeros({6})), ShapeError);
  EXPECT_THROW(BatchNorm(3, rngs, {.momentum = 2}), ValueError);
  EXPECT_THROW(BatchNorm(3, rngs, {.use_running_average = true})(zeros({4, 2})), ShapeError);
  EXPECT_THROW(LoRA(4, 0, 3, rngs), ValueError);
  EXPECT_THROW(LoRA(4, 2, 3, rngs)(zeros({5})), ShapeError);
  EXPECT_THROW(GRUCell(4, 2, rngs).initialize_carry({}), ShapeError);
  EXPECT_THROW(GRUCell(4, 2, rngs)(zeros({3}), zeros({4})), ShapeError);
  EXPECT_THROW(orthogonal()(random_key(0), {3}, DType::f32), ShapeError);
  MultiHeadAttention cacheless(8, 2, rngs);
  EXPECT_THROW(cacheless.decode(zeros({1, 8})), ValueError);
  cacheless.init_cache({3, 4, 8});
  EXPECT_THROW(cacheless.decode(zeros({3, 2, 8})), ShapeError);
  EXPECT_THROW(cacheless.init_cache({8}), ShapeError);
  EXPECT_THROW(cacheless.init_cache({3, 4, 8}, DType::i32), TypeError);
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
