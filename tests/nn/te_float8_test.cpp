#include "eadem/nn/te_float8.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

#include "../support/bits.h"
#include "eadem/array/state.h"
#include "eadem/base/error.h"
#include "eadem/nn/stack.h"
#include "eadem/nn/tabulate.h"
#include "eadem/ops/ops.h"
#include "eadem/transforms/compile.h"
#include "eadem/transforms/transforms.h"

namespace eadem::nn::te {
namespace {

using testing::doubles_of;

double scalar_of(const Array& x) {
  return doubles_of(x).at(0);
}
Array drawn(std::uint64_t seed, const Shape& shape, DType dtype, double scale = 1) {
  return convert(normal(random_key(seed), shape) * scale, dtype);
}

// What the 8-bit operands stand for, multiplied in f64.
std::vector<double> exact_product(const Array& a, const Array& b) {
  return doubles_of(matmul(convert(a, DType::f64), convert(b, DType::f64)));
}

void expect_close(const Array& got, const std::vector<double>& want, double relative) {
  double largest = 0;
  for (const double x : want) largest = std::max(largest, std::fabs(x));
  const std::vector<double> values = doubles_of(got);
  ASSERT_EQ(values.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(values[i], want[i], relative * largest) << i;
}

// A product of operands rounded to `digits` and 4 significant bits against the unrounded one: each factor is off by
// half a unit, 2^-digits of it at most; numbers below the format's normal ones lose a little more, which 2^-7 covers.
void expect_rounded_product(const Array& got, const Array& a, const Array& b) {
  const double relative = 0x1p-3 + 0x1p-7;
  const std::vector<double> want = exact_product(a, b), terms = exact_product(abs(a), abs(b)), values = doubles_of(got);
  ASSERT_EQ(values.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(values[i], want[i], relative * terms[i]) << i;
}

constexpr Float8Scaling kScalings[] = {Float8Scaling::delayed, Float8Scaling::current, Float8Scaling::block};

Float8Recipe recipe_of(Float8Scaling scaling) {
  Float8Recipe recipe;
  recipe.scaling = scaling;
  recipe.history = 3;
  return recipe;
}
DenseGeneral dense(Float8Scaling scaling, DType dtype = DType::f32) {
  Rngs rngs(0);
  DenseGeneralOptions options;
  options.dtype = dtype, options.fp8 = recipe_of(scaling);
  return {{70}, {48}, rngs, options};
}

// What a tensor's codes stand for, in f64: [m, n] of x with blocks along n.
Array coded(Float8Scaling scaling, const Array& x, Float8 format, const Float8Scale& state) {
  if (scaling == Float8Scaling::block) return dequantize_float8(quantize_float8_blocks(x), DType::f64);
  return dequantize_float8(
      scaling == Float8Scaling::current ? quantize_float8(x, format) : quantize_float8(x, format, state.scale),
      DType::f64);
}

TEST(Float8Dense, TheProductIsThatOfTheCodesInF32) {
  for (const Float8Scaling scaling : kScalings)
    for (const DType dtype : {DType::f32, DType::bf16}) {
      const DenseGeneral layer = dense(scaling);
      const Array x = drawn(1, {2, 9, 70}, dtype, 3);
      const Array y = layer(x);
      EXPECT_EQ(y.shape(), Shape({2, 9, 48}));
      EXPECT_EQ(y.dtype(), dtype);
      const Array matrix = reshape(x, {18, 70}), w = convert(layer.kernel, dtype);
      const Float8State& state = layer.fp8_state->state;
      expect_close(reshape(y, {18, 48}),
                   exact_product(coded(scaling, matrix, Float8::e4m3, state.x),
                                 transpose(coded(scaling, transpose(w), Float8::e4m3, state.kernel))),
                   dtype == DType::f32 ? 1e-6 : 0x1p-8);
      // (Delayed scaling's first step has scale 1, in which the kernel's small values lose more.)
      if (scaling != Float8Scaling::delayed) expect_rounded_product(reshape(y, {18, 48}), matrix, w);
    }
}

TEST(Float8Dense, GradientsAreProductsOfCodes) {
  const Array x = drawn(1, {18, 70}, DType::f32), g = drawn(2, {18, 48}, DType::f32, 1e-3);
  for (const Float8Scaling scaling : kScalings)
    for (const bool hybrid : {true, false}) {
      DenseGeneral layer = dense(scaling);
      layer.fp8_state->recipe.hybrid = hybrid;
      const auto loss = [&](const std::pair<DenseGeneral, Array>& in) { return sum(in.first(in.second) * g); };
      const auto gradient = value_and_grad(loss)(std::pair(layer, x)).second;
      const Array w = layer.kernel;
      const Float8State& state = layer.fp8_state->state;
      const Float8 format = hybrid ? Float8::e5m2 : Float8::e4m3;
      expect_close(gradient.second,
                   exact_product(coded(scaling, g, format, state.grad),
                                 transpose(coded(scaling, w, Float8::e4m3, state.kernel))),
                   1e-6);
      expect_close(gradient.first.kernel,
                   exact_product(coded(scaling, transpose(x), Float8::e4m3, state.x),
                                 transpose(coded(scaling, transpose(g), format, state.grad))),
                   1e-6);
    }
}

TEST(Float8Dense, DelayedScalingFollowsTheHistory) {
  DenseGeneral layer = dense(Float8Scaling::delayed);
  std::vector<double> history(3, 0.0);
  double scale = 1;
  for (int step = 0; step < 5; ++step) {
    const Array x = drawn(static_cast<std::uint64_t>(step), {6, 70}, DType::f32, step == 1 ? 40 : step + 1);
    const auto loss = [&](const DenseGeneral& m) { return sum(m(x)); };
    const DenseGeneral gradient = value_and_grad(loss)(layer).second;
    EXPECT_EQ(scalar_of(layer.fp8_state->state.x.scale), scale) << step;
    double amax = 0;
    for (const double each : doubles_of(x)) amax = std::max(amax, std::fabs(each));
    history.insert(history.begin(), amax);
    history.pop_back();
    EXPECT_EQ(doubles_of(gradient.fp8_state->state.x.amax_history), history) << step;
    scale = static_cast<double>(448.0f / static_cast<float>(*std::max_element(history.begin(), history.end())));
    EXPECT_EQ(scalar_of(gradient.fp8_state->state.x.scale), scale) << step;
    EXPECT_EQ(scalar_of(gradient.fp8_state->state.grad.scale), 57344) << "of cotangents that are all 1, in E5M2";
    layer = with_float8_state(layer, gradient);
  }
  // By now the scales fit: the product is near the unrounded one.
  const Array x = drawn(9, {6, 70}, DType::f32);
  expect_rounded_product(layer(x), x, layer.kernel);
  // A step that does not reach the product, or gives it no rows, leaves its state.
  for (const bool reached : {false, true}) {
    const auto loss = [&](const DenseGeneral& m) {
      return reached ? sum(m(zeros({0, 70}))) + sum(m.kernel) : sum(m.kernel);
    };
    const DenseGeneral kept = with_float8_state(layer, grad(loss)(layer));
    EXPECT_EQ(scalar_of(kept.fp8_state->state.x.scale), scale);
    EXPECT_EQ(doubles_of(kept.fp8_state->state.x.amax_history), history);
    EXPECT_EQ(scalar_of(kept.fp8_state->state.grad.scale), 57344);
  }
}

// A layer that a step applies to each of xs, in whatever way: its next state is by hand that of the largest magnitudes.
TEST(Float8Dense, AStepThatAppliesALayerTwiceKeepsTheLargestMagnitudes) {
  using Loss = std::function<Array(const DenseGeneral&, const Array&)>;  // of xs [n, 6, 70]
  const auto one = [](const Array& xs, std::int64_t i) { return squeeze(slice_axis(xs, 0, {i, i + 1}), 0); };
  const std::pair<const char*, Loss> ways[] = {
      {"one after the other",
       [&](const DenseGeneral& m, const Array& xs) { return sum(m(one(xs, 0))) * 3.0 + sum(m(one(xs, 1))); }},
      {"a scan",
       [](const DenseGeneral& m, const Array& xs) {
         const auto factors = Array::from<float>({3, 1}, {2});
         return sum(scan(
                        [&](const Array& total, const std::pair<Array, Array>& x) {
                          return std::pair(total + sum(m(x.first)) * x.second, std::tuple<>());
                        },
                        zeros({}), std::pair(xs, factors))
                        .first);
       }},
      {"vmap",
       [](const DenseGeneral& m, const Array& xs) {
         const auto factors = Array::from<float>({3, 1}, {2});
         return sum(vmap([](const DenseGeneral& l, const Array& x) { return sum(l(x)); }, {std::nullopt, 0})(m, xs) *
                    factors);
       }},
      {"remat",
       [&](const DenseGeneral& m, const Array& xs) {
         const auto f = remat([](const DenseGeneral& l, const Array& x) { return sum(l(x)); });
         return f(m, one(xs, 0)) * 3.0 + f(m, one(xs, 1));
       }},
  };
  for (const Float8Scaling scaling : kScalings)
    for (const bool most_recent : {false, true})
      for (const auto& way : ways) {
        SCOPED_TRACE(way.first);
        DenseGeneral layer = dense(scaling);
        layer.fp8_state->recipe.most_recent = most_recent;
        const Float8Recipe& recipe = layer.fp8_state->recipe;
        // The larger one second, first; one of zeros; one of infinities, whose magnitude tells nothing.
        const std::pair<double, double> sizes[] = {{1, 40}, {7, 2}, {0, 0}, {0, 0.25}, {INFINITY, 1}, {1, 3}};
        std::uint64_t step = 0;
        for (const auto& [first, second] : sizes) {
          SCOPED_TRACE(step);
          const Array xs = stack(std::vector<Array>{abs(drawn(++step, {6, 70}, DType::f32)) * first,
                                                    abs(drawn(step + 100, {6, 70}, DType::f32)) * second});
          const auto gradient = [&](const DenseGeneral& m, const Array& x) {
            return grad([&](const DenseGeneral& l) { return way.second(l, x); })(m);
          };
          const DenseGeneral got = with_float8_state(layer, gradient(layer, xs));
          testing::expect_same(with_float8_state(layer, compile(gradient)(layer, xs)), got);
          Float8State want = layer.fp8_state->state;
          if (scaling == Float8Scaling::delayed)
            want = {after_step(want.x, max(abs(xs)), Float8::e4m3, recipe),
                    after_step(want.kernel, max(abs(layer.kernel)), Float8::e4m3, recipe),
                    after_step(want.grad, Array::scalar(3.0, DType::f32), Float8::e5m2, recipe)};
          testing::expect_same(got.fp8_state->state, want);
          layer.fp8_state->state = want;
        }
      }
}

TEST(Float8Dense, ScalesOfNothingAndOfInfinity) {
  const Float8Scale before{Array::scalar(7.0, DType::f32), zeros({2})};
  const Float8Recipe recipe;
  const auto next = [&](double amax, int margin = 0) {
    Float8Recipe r = recipe;
    r.margin = margin;
    return scalar_of(after_step(before, Array::scalar(amax, DType::f32), Float8::e4m3, r).scale);
  };
  EXPECT_EQ(next(0), 7);
  EXPECT_EQ(next(INFINITY), 7);
  EXPECT_EQ(next(NAN), 7);
  EXPECT_EQ(next(448, 2), 0.25);
  EXPECT_EQ(next(0x1p-140), static_cast<double>(std::numeric_limits<float>::max()));
}

TEST(Float8Blocks, PowersOfTwoRoundedUp) {
  std::vector<float> values(70, 1.0f);
  values[3] = 448, values[40] = -448.00003f, values[66] = 0x1p-20f;
  for (int i = 64; i < 70; ++i)
    if (i != 66) values[static_cast<std::size_t>(i)] = 0;
  const Float8Tensor q = quantize_float8_blocks(Array::from<float>(values, {70}));
  EXPECT_EQ(doubles_of(q.scales), (std::vector<double>{127, 128, 127 - 28}));
  EXPECT_EQ(q.codes.shape(), Shape({70}));
  const std::vector<double> back = doubles_of(dequantize_float8(q));
  EXPECT_EQ(back[3], 448);
  EXPECT_EQ(back[40], -448);
  EXPECT_EQ(back[66], 0x1p-20);
  EXPECT_EQ(back[64], 0);
  const Float8Tensor none = quantize_float8_blocks(zeros({2, 5}));
  EXPECT_EQ(doubles_of(none.scales), (std::vector<double>{127, 127}));
}

TEST(Float8Dense, CompiledAndEagerAreTheSame) {
  for (const Float8Scaling scaling : kScalings) {
    const DenseGeneral layer = dense(scaling, DType::bf16);
    const Array x = drawn(1, {5, 70}, DType::bf16);
    const auto step = value_and_grad(
        [](const std::pair<DenseGeneral, Array>& in) { return sum(convert(in.first(in.second), DType::f32)); });
    const auto eager = step(std::pair(layer, x)), compiled = compile(step)(std::pair(layer, x));
    testing::expect_same(eager, compiled);
  }
}

// ---- The recipe in the other modules

// A dense layer with the module's own kernel, as a matrix, and state.
DenseGeneral same_dense(const Array& kernel, const std::optional<Array>& bias, const Float8Product& product) {
  Rngs rngs(0);
  const std::int64_t in = kernel.shape()[0], out = kernel.elements() / in;
  DenseGeneral layer({in}, {out}, rngs);
  layer.kernel = reshape(kernel, {in, out});
  if (bias) layer.bias = reshape(*bias, {out});
  layer.fp8_state = product;
  return layer;
}

TEST(Float8Modules, ANormAndADenseLayerMultiplyCodes) {
  for (const Float8Scaling scaling : kScalings) {
    Rngs rngs(0);
    LayerNormDenseGeneralOptions options;
    options.dense.fp8 = recipe_of(scaling);
    const LayerNormDenseGeneral layer(70, {2, 24}, rngs, options);
    const Array x = drawn(1, {3, 6, 70}, DType::f32, 5), g = drawn(2, {3, 6, 2, 24}, DType::f32, 1e-3);
    const auto loss = [&](const std::pair<LayerNormDenseGeneral, Array>& in) { return sum(in.first(in.second) * g); };
    const auto gradient = value_and_grad(loss)(std::pair(layer, x)).second;
    const Float8State& state = layer.dense.fp8_state->state;
    const Array normed = reshape((*layer.norm)(x), {18, 70}), w = reshape(layer.dense.kernel, {70, 48});
    expect_close(reshape(layer(x), {18, 48}),
                 exact_product(coded(scaling, normed, Float8::e4m3, state.x),
                               transpose(coded(scaling, transpose(w), Float8::e4m3, state.kernel))),
                 1e-6);
    expect_close(reshape(gradient.first.dense.kernel, {70, 48}),
                 exact_product(coded(scaling, transpose(normed), Float8::e4m3, state.x),
                               transpose(coded(scaling, transpose(reshape(g, {18, 48})), Float8::e5m2, state.grad))),
                 1e-6);
  }
}

TEST(Float8Modules, AnMlpIsItsPartsForwardAndBackward) {
  for (const Float8Scaling scaling : kScalings)
    for (const DType dtype : {DType::f32, DType::bf16}) {
      Rngs rngs(0);
      LayerNormMLPOptions options;
      options.intermediate = 40, options.use_bias = true, options.dropout = 0, options.fp8 = recipe_of(scaling);
      options.activations = {Activation::gelu, Activation::linear};
      const LayerNormMLP mlp(70, rngs, options);
      const DenseGeneral wi = same_dense(mlp.wi_kernel, mlp.wi_bias, *mlp.wi_fp8_state);
      const DenseGeneral wo = same_dense(mlp.wo_kernel, mlp.wo_bias, *mlp.wo_fp8_state);
      const Array x = drawn(1, {3, 6, 70}, dtype), g = drawn(2, {3, 6, 70}, dtype);
      const auto whole = [&](const std::pair<LayerNormMLP, Array>& in) { return sum(in.first(in.second) * g); };
      const auto parts = [&](const std::tuple<LayerNorm, DenseGeneral, DenseGeneral, Array>& in) {
        const auto& [norm, first, second, rows] = in;
        const Array h = first(norm(rows));
        return sum(second(gelu_tanh(slice_axis(h, -1, {0, 40})) * slice_axis(h, -1, {40, 80})) * g);
      };
      const auto [loss, gradient] = value_and_grad(whole)(std::pair(mlp, x));
      const auto [want, expected] = value_and_grad(parts)(std::tuple(*mlp.norm, wi, wo, x));
      testing::expect_same(loss, want);
      testing::expect_same(gradient.second, std::get<3>(expected));
      testing::expect_same(*gradient.first.norm, std::get<0>(expected));
      testing::expect_same(reshape(gradient.first.wi_kernel, {70, 80}), std::get<1>(expected).kernel);
      testing::expect_same(gradient.first.wo_kernel, std::get<2>(expected).kernel);
      testing::expect_same(gradient.first.wi_fp8_state->state, std::get<1>(expected).fp8_state->state);
      testing::expect_same(gradient.first.wo_fp8_state->state, std::get<2>(expected).fp8_state->state);
    }
}

TEST(Float8Modules, EveryProjectionOfALayerKeepsItsOwnHistory) {
  Rngs rngs(0);
  TransformerLayerOptions options;
  options.mlp_hidden = 48, options.heads = 4, options.decoder = true, options.hidden_dropout = 0;
  options.fp8 = recipe_of(Float8Scaling::delayed);
  const TransformerLayer layer(32, rngs, options);
  const Array x = drawn(1, {2, 5, 32}, DType::f32), encoded = drawn(2, {2, 7, 32}, DType::f32);
  const auto loss = [&](const TransformerLayer& m) { return sum(m(x, encoded)); };
  const TransformerLayer gradient = value_and_grad(loss)(layer).second;
  // qkv and out; query, kv and out; wi and wo: of each the operand, the kernel and the cotangent.
  int histories = 0;
  for_each_leaf(gradient, [&](const std::string& path, const Array& leaf) {
    if (!path.ends_with("amax_history")) return;
    const std::vector<double> history = doubles_of(leaf);
    ASSERT_EQ(history.size(), 3u) << path;
    EXPECT_GT(history[0], 0) << path;
    EXPECT_EQ(history[1], 0) << path;
    ++histories;
  });
  EXPECT_EQ(histories, 7 * 3);
  const Array normed = (*layer.attention.qkv->norm)(x);
  EXPECT_EQ(doubles_of(gradient.attention.qkv->dense.fp8_state->state.x.amax_history)[0], scalar_of(max(abs(normed))));
  EXPECT_EQ(doubles_of(gradient.encoder_decoder_attention->kv->fp8_state->state.x.amax_history)[0],
            scalar_of(max(abs(encoded))));

  // After it the scales fit, and the layer is near the one without a recipe.
  const TransformerLayer next = with_float8_state(layer, gradient);
  TransformerLayerOptions plain_options = options;
  plain_options.fp8 = {};
  Rngs same_rngs(0);
  const TransformerLayer plain(32, same_rngs, plain_options);
  const std::vector<double> got = doubles_of(next(x, encoded)), want = doubles_of(plain(x, encoded));
  double error = 0, size = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    error += (got[i] - want[i]) * (got[i] - want[i]);
    size += want[i] * want[i];
  }
  EXPECT_GT(error, 0);
  EXPECT_LT(std::sqrt(error / size), 0.06);  // two roundings to 4 bits of each of seven products, added to x

  std::size_t state = 0;
  for (const bool mark : state_marks(layer)) state += mark;
  EXPECT_EQ(state, 7u * 3 * 2) << "a scale and a history each";
  EXPECT_EQ(leaves(plain).size() + state, leaves(layer).size());
}

// Layers made together and run by scan keep a state each: those of the loop, to the bit.
TEST(Float8Modules, LayersUnderScanKeepAStateEach) {
  constexpr std::int64_t kLayers = 4;  // not as many as a history has steps
  DenseGeneralOptions options;
  options.fp8 = recipe_of(Float8Scaling::delayed);
  Rngs rngs(0);
  Stack<DenseGeneral> layers = vmap_init(kLayers, rngs, [&](Rngs& r) { return DenseGeneral({16}, {16}, r, options); });
  std::vector<DenseGeneral> apart;
  for (std::int64_t i = 0; i < kLayers; ++i) apart.push_back(layers[i]);
  const Array x = drawn(1, {5, 16}, DType::f32, 3);
  for (int step = 0; step < 3; ++step) {
    layers = with_float8_state(layers, grad([&](const Stack<DenseGeneral>& all) { return sum(scan(all, x)); })(layers));
    apart = with_float8_state(apart, grad([&](const std::vector<DenseGeneral>& all) {
                                Array h = x;
                                for (const DenseGeneral& layer : all) h = layer(h);
                                return sum(h);
                              })(apart));
    for (std::int64_t i = 0; i < kLayers; ++i)
      testing::expect_same(layers[i].fp8_state->state, apart[static_cast<std::size_t>(i)].fp8_state->state);
  }
}

TEST(Float8Modules, TheTableShowsTheState) {
  Rngs rngs(0);
  LayerNormMLPOptions options;
  options.intermediate = 48, options.fp8 = recipe_of(Float8Scaling::delayed);
  const std::string table = tabulate(LayerNormMLP(32, rngs, options), zeros({2, 32})).text(200);
  EXPECT_NE(table.find("wi_fp8_state"), std::string::npos) << table;
  EXPECT_NE(table.find("wo_fp8_state"), std::string::npos) << table;
}

TEST(Float8Dense, RefusesWhatDoesNotFit) {
  const DenseGeneral layer = dense(Float8Scaling::current);
  EXPECT_THROW(layer(zeros({2, 71})), ShapeError);
  Rngs rngs(0);
  DenseGeneralOptions options{.fp8 = Float8Recipe{.history = 0}};
  EXPECT_THROW(DenseGeneral({4}, {4}, rngs, options), ValueError);
  EXPECT_THROW(quantize_float8(zeros({2}), Float8::e4m3, zeros({1})), TypeError);
}

}  // namespace
}  // namespace eadem::nn::te
