// Modules against Flax's own: how it names and draws their parameters, and what it computes from them in f64
// (tests/nn/data/make_flax_modules.py).

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "eadem/array/state.h"
#include "eadem/nn/attention.h"
#include "eadem/nn/conv.h"
#include "eadem/nn/einsum.h"
#include "eadem/nn/lora.h"
#include "eadem/nn/recurrent.h"
#include "tests/support/bits.h"

namespace eadem::nn {
namespace {

using eadem::testing::doubles_of;
using nlohmann::json;

const json& cases() {
  static const json all = [] {
    std::ifstream file(EADEM_SOURCE_DIR "/tests/nn/data/flax_modules.json");
    return json::parse(file)["cases"];
  }();
  return all;
}

Array array_of(const json& numbers, DType dtype) {
  Shape shape;
  for (const std::int64_t extent : numbers["shape"]) shape.push_back(extent);
  return convert(Array::from(numbers["data"].get<std::vector<double>>(), shape), dtype);
}

void expect_near(const Array& got, const json& numbers, double tolerance, const std::string& what) {
  const Array want = array_of(numbers, DType::f64);
  ASSERT_EQ(got.shape(), want.shape()) << what;
  const auto a = doubles_of(got), b = doubles_of(want);
  for (std::size_t i = 0; i < a.size(); ++i)
    ASSERT_NEAR(a[i], b[i], tolerance * std::max(1.0, std::abs(b[i]))) << what << " " << i;
}

// The module's parameters are named and drawn as Flax's, but for its normal numbers; with Flax's own, call(module, x)
// gives Flax's results.
template <class M, class Call>
void check(const std::string& name, M module, Call call, double tolerance = 1e-13) {
  const json& stored = cases()[name];
  const std::vector<bool> state = state_marks(module);
  std::size_t seen = 0, next = 0;
  for_each_leaf(module, [&](const std::string& path, Array& leaf) {
    if (state[next++]) return;
    ASSERT_TRUE(stored["parameters"].contains(path)) << name << " " << path;
    ++seen;
    expect_near(leaf, stored["parameters"][path], 2e-5, name + " " + path);
    leaf = array_of(stored["parameters"][path], leaf.dtype());
  });
  EXPECT_EQ(seen, stored["parameters"].size()) << name;
  const Arrays results = leaves(call(module, array_of(stored["x"], DType::f64)));
  ASSERT_EQ(results.size(), stored["y"].size()) << name;
  for (std::size_t i = 0; i < results.size(); ++i) {
    EXPECT_EQ(results[i].dtype(), DType::f64) << name;
    expect_near(results[i], stored["y"][i], tolerance, name);
  }
  std::size_t kept = next = 0;
  for_each_leaf(module, [&](const std::string& path, Array& leaf) {
    if (!state[next++] || !stored["state"].contains(path)) return;  // Flax's cache is laid out otherwise
    ++kept;
    expect_near(leaf, stored["state"][path], 0x1p-22, name + " " + path);
  });
  EXPECT_EQ(kept, stored["state"].size()) << name;
}
template <class M>
void check(const std::string& name, const M& module) {
  check(name, module, [](M& m, const Array& x) { return m(x); });
}

constexpr auto kF64 = DType::f64;
// A fresh Rngs(0), to be drawn from in one full expression.
struct Seeded {
  Rngs rngs{0};
  operator Rngs&() { return rngs; }  // NOLINT: stands for it
};

TEST(FlaxModules, Convolutions) {
  const Initializer bias = normal_init(0.5);
  check("conv1d", Conv(4, 6, {3}, Seeded(), {.strides = {2}, .dtype = kF64, .bias_init = bias}));
  check("conv_causal",
        Conv(4, 6, {3}, Seeded(),
             {.padding = ConvPadding::causal, .kernel_dilation = {2}, .dtype = kF64, .bias_init = bias}));
  check("conv_groups", Conv(4, 6, {3, 2}, Seeded(),
                            {.strides = {1, 2},
                             .padding = ConvPadding::valid,
                             .kernel_dilation = {2, 1},
                             .feature_group_count = 2,
                             .dtype = kF64,
                             .bias_init = bias}));
  check("conv_circular",
        Conv(4, 3, {3, 4}, Seeded(), {.padding = ConvPadding::circular, .dtype = kF64, .bias_init = bias}));
  check("conv_reflect",
        Conv(4, 3, {4, 3}, Seeded(), {.padding = ConvPadding::reflect, .use_bias = false, .dtype = kF64}));
  check("conv_given", Conv(4, 3, {3, 3}, Seeded(),
                           {.padding = ConvPadding::given,
                            .low = {2, 1},
                            .high = {0, 3},
                            .input_dilation = {2, 1},
                            .dtype = kF64,
                            .bias_init = bias}));
}

TEST(FlaxModules, TransposedConvolutions) {
  const Initializer bias = normal_init(0.5);
  check("conv_transpose", ConvTranspose(4, 3, {3, 4}, Seeded(), {.strides = {2, 3}, .dtype = kF64, .bias_init = bias}));
  check("conv_transpose_valid", ConvTranspose(4, 3, {2, 5}, Seeded(),
                                              {.strides = {3, 2},
                                               .padding = ConvPadding::valid,
                                               .kernel_dilation = {2, 1},
                                               .dtype = kF64,
                                               .bias_init = bias}));
  check("conv_transpose_kernel",
        ConvTranspose(4, 3, {3, 3}, Seeded(),
                      {.strides = {2, 2}, .transpose_kernel = true, .dtype = kF64, .bias_init = bias}));
  check("conv_transpose_circular",
        ConvTranspose(4, 3, {5, 4}, Seeded(),
                      {.strides = {2, 3}, .padding = ConvPadding::circular, .dtype = kF64, .bias_init = bias}));
}

TEST(FlaxModules, EinsumAndNorms) {
  const Initializer draw = normal_init(0.5);
  check("einsum", Einsum("...d,dnh->...nh", {4, 3, 5}, Shape{3, 5}, Seeded(), {.dtype = kF64, .bias_init = draw}));
  check("group_norm", GroupNorm(4, 2, Seeded(), {.dtype = kF64, .scale_init = draw, .bias_init = draw}));
  check("batch_norm", BatchNorm(4, Seeded(), {.momentum = 0.9, .dtype = kF64, .scale_init = draw, .bias_init = draw}));
  check("batch_norm_running",
        BatchNorm(4, Seeded(), {.use_running_average = true, .dtype = kF64, .scale_init = draw, .bias_init = draw}));
}

TEST(FlaxModules, LowRankAdapters) {
  const Initializer draw = normal_init(0.5);
  check("lora", LoRA(4, 2, 3, Seeded(), {.dtype = kF64, .b_initializer = draw}));
  check("lora_linear",
        LoRALinear(4, 3, 2, Seeded(), {.dtype = kF64, .bias_init = draw}, {.dtype = kF64, .b_initializer = draw}));
}

template <class Cell>
auto three_steps(Cell& cell, const Array& x) {
  auto carry = map_leaves([](const Array& leaf) { return convert(leaf, DType::f64); },
                          cell.initialize_carry({x.shape()[0], x.shape()[2]}));
  for (std::int64_t t = 0; t < 3; ++t) carry = cell(carry, squeeze(slice_axis(x, 1, {t, t + 1}), 1)).first;
  return carry;
}
TEST(FlaxModules, RecurrentCells) {
  const RecurrentOptions options{.dtype = kF64, .bias_init = normal_init(0.5)};
  check("lstm", LSTMCell(4, 5, Seeded(), options), [](LSTMCell& m, const Array& x) { return three_steps(m, x); });
  check("optimized_lstm", OptimizedLSTMCell(4, 5, Seeded(), options),
        [](OptimizedLSTMCell& m, const Array& x) { return three_steps(m, x); });
  check("gru", GRUCell(4, 5, Seeded(), options), [](GRUCell& m, const Array& x) { return three_steps(m, x); });
}

TEST(FlaxModules, DecodingByTheCache) {
  const MultiHeadAttention attend(4, 2, Seeded(), {.normalize_qk = true, .dtype = kF64, .bias_init = normal_init(0.5)});
  check(
      "decode", attend,
      [](MultiHeadAttention& m, const Array& x) {
        m.init_cache(x.shape(), kF64);
        Arrays tokens;
        for (std::int64_t t = 0; t < x.shape()[1]; ++t) tokens.push_back(m.decode(slice_axis(x, 1, {t, t + 1})));
        return concatenate(tokens, 1);
      },
      1e-6);  // Flax computes scores in f32, whatever the dtype
}

}  // namespace
}  // namespace eadem::nn
