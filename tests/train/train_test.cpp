// Optimizers, losses and schedules against their formulas in FP64.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "eadem/nn/attention.h"
#include "eadem/nn/linear.h"
#include "eadem/nn/normalization.h"
#include "eadem/nn/sequential.h"
#include "eadem/nn/te_float8.h"
#include "eadem/train/adafactor.h"
#include "eadem/train/losses.h"
#include "eadem/train/muon.h"
#include "eadem/train/optimizers.h"
#include "eadem/transforms/compile.h"
#include "eadem/transforms/transforms.h"
#include "tests/support/bits.h"

namespace eadem::train {
namespace {

using eadem::testing::doubles_of;

struct Model {
  Array w, tokens;
  static void fields(auto& m, auto f) { f("w", m.w), f("tokens", m.tokens); }
};

constexpr DType kFloats[] = {DType::f64, DType::f32, DType::bf16, DType::f16};

double ulp(DType dtype) {
  return dtype == DType::f64 ? 0x1p-52 : dtype == DType::f32 ? 0x1p-23 : dtype == DType::f16 ? 0x1p-10 : 0x1p-7;
}

// Runs ten steps, and beside it `formula(p, g, m, v, t)` in double on each element.
template <class Optimizer, class Formula>
void expect_formula(const Optimizer& optimizer, const Formula& formula) {
  for (const DType dtype : kFloats) {
    Model model{normal(random_key(1), {20}, dtype), Array::from<std::int32_t>({1, 2})};
    auto state = optimizer.init(model);
    std::vector<double> p = doubles_of(model.w), m(20, 0), v(20, 0);
    for (int t = 1; t <= 10; ++t) {
      const Model gradient{normal(random_key(static_cast<std::uint64_t>(t)), {20}, dtype), zeros({2}, DType::i32)};
      const std::vector<double> g = doubles_of(gradient.w);
      std::tie(model, state) = optimizer.update(model, gradient, state);
      for (std::size_t i = 0; i < 20; ++i) formula(p[i], g[i], m[i], v[i], t);
    }
    EXPECT_EQ(model.w.dtype(), dtype);
    EXPECT_EQ(doubles_of(model.tokens), (std::vector<double>{1, 2}));
    EXPECT_EQ(state.step.template item<std::int64_t>(), 10);
    const std::vector<double> got = doubles_of(model.w);
    for (std::size_t i = 0; i < 20; ++i)
      EXPECT_NEAR(got[i], p[i], ulp(dtype) * std::abs(p[i]) + 1e-6 * (dtype == DType::f64 ? 1e-8 : 1))
          << name_of(dtype);
  }
}

TEST(Optimizers, Sgd) {
  for (const bool nesterov : {false, true})
    expect_formula(Sgd{.rate = constant_schedule(0.1), .momentum = 0.9, .nesterov = nesterov},
                   [=](double& p, double g, double& m, double&, int) {
                     m = 0.9 * m + g;
                     p -= 0.1 * (nesterov ? 0.9 * m + g : m);
                   });
  expect_formula(Sgd{.rate = linear_schedule(1, 0, 10)},
                 [](double& p, double g, double&, double&, int t) { p -= (1 - (t - 1) / 10.0) * g; });
}

TEST(Optimizers, AdamW) {
  for (const double decay : {0.0, 0.1})
    expect_formula(AdamW{.rate = constant_schedule(0.01), .decay = decay},
                   [=](double& p, double g, double& m, double& v, int t) {
                     m = 0.9 * m + 0.1 * g;
                     v = 0.999 * v + 0.001 * g * g;
                     const double mh = m / (1 - std::pow(0.9, t)), vh = v / (1 - std::pow(0.999, t));
                     p -= 0.01 * (mh / (std::sqrt(vh) + 1e-8) + decay * p);
                   });
}

TEST(Optimizers, Lion) {
  expect_formula(Lion{.rate = constant_schedule(0.01), .decay = 0.1}, [](double& p, double g, double& m, double&, int) {
    const double u = 0.9 * m + 0.1 * g;
    p -= 0.01 * ((u > 0) - (u < 0) + 0.1 * p);
    m = 0.99 * m + 0.01 * g;
  });
}

// Case C47 of the public reports: steps below half a unit in the last place, and a moment that must decay.
TEST(Optimizers, SmallStepsAreNotLost) {
  const auto after = [](DType dtype, double rate, double decay) {
    Array p = full({1}, 1, dtype);
    const AdamW optimizer{.rate = constant_schedule(rate), .decay = decay};
    auto state = optimizer.init(p);
    for (int i = 0; i < 1000; ++i) std::tie(p, state) = optimizer.update(p, zeros({1}, dtype), state);
    return std::pair(doubles_of(p)[0], doubles_of(state.master)[0]);
  };
  EXPECT_NEAR(after(DType::f32, 1e-4, 1e-4).first, 0.99999, 6e-8);
  const auto [p16, master] = after(DType::bf16, 1e-3, 0.1);
  EXPECT_NEAR(master, 0.90483, 5e-6);
  EXPECT_NEAR(p16, 0.90483, 0x1p-8);

  Array p = full({1}, 1, DType::bf16);
  const AdamW optimizer{.rate = constant_schedule(1e-3)};
  auto state = optimizer.init(p);
  std::tie(p, state) = optimizer.update(p, ones({1}, DType::bf16), state);
  for (int i = 0; i < 3000; ++i) std::tie(p, state) = optimizer.update(p, zeros({1}, DType::bf16), state);
  EXPECT_EQ(state.moments[1].dtype(), DType::f32);
  EXPECT_NEAR(doubles_of(state.moments[1])[0], 4.9712e-5, 1e-9);
}

TEST(Optimizers, NormsNeitherOverflowNorRound) {
  const std::pair<Array, Array> tree(Array::from<float>({3e19f, 0, 4e19f}), Array::from<std::int32_t>({7}));
  EXPECT_EQ(global_norm(tree).item<double>(), std::sqrt(double{3e19f} * 3e19f + double{4e19f} * 4e19f));
  const auto clipped = doubles_of(clip_by_global_norm(tree, 5).first);
  EXPECT_NEAR(clipped[0], 3, 1e-6);
  EXPECT_NEAR(clipped[2], 4, 1e-6);
  EXPECT_EQ(doubles_of(clip_by_global_norm(Array::from<float>({1, 2}), 5)), (std::vector<double>{1, 2}));
  EXPECT_THROW(clip_by_global_norm(Array::from<float>({1}), 0), ValueError);
}

TEST(Optimizers, NormsOfHugeAndTinyDoubles) {
  for (const double scale : {1e200, 1e-200}) {
    const std::pair<Array, Array> tree(Array::from<double>({3 * scale, 1}), Array::from<float>({0}));
    const double norm = scale > 1 ? 3e200 : 1;
    EXPECT_NEAR(global_norm(tree).item<double>() / norm, 1, 0x1p-51);
    const auto clipped = doubles_of(clip_by_global_norm(tree, 0.5).first);
    EXPECT_NEAR(clipped[0] / (3 * scale / norm), 0.5, 0x1p-50);
    EXPECT_NEAR(clipped[1] * norm, 0.5, 0x1p-50);
  }
  EXPECT_EQ(global_norm(Array::from<double>({3e-200, 4e-200})).item<double>(), 5e-200);
}

struct Normed {
  nn::BatchNorm norm;
  nn::Linear linear;
  static void fields(auto& m, auto f) { f("norm", m.norm), f("linear", m.linear); }
};

// Running moments follow the data under every optimizer, eager and compiled, and clipping does not see them.
TEST(Optimizers, LeaveStateToTheModel) {
  Rngs rngs(0);
  const Normed start{nn::BatchNorm(3, rngs, {.momentum = 0.5}), nn::Linear(3, 1, rngs)};
  const Array x = normal(random_key(1), {64, 3}) * 2.0 + 5.0, y = sum(x, {1}, true);
  const auto check = [&](const auto& optimizer) {
    const auto step = [&](const Normed& model, const OptimizerState<Normed>& state, const Array& input,
                          const Array& target) {
      const auto loss = [&](Normed m) {
        const Array error = m.linear(m.norm(input)) - target;
        return std::pair(mean(error * error), m);
      };
      const auto [value, gradient] = value_and_grad_aux(loss)(model);
      return optimizer.update(value.second, clip_by_global_norm(gradient, 1), state);
    };
    Normed model = start, other = start;
    auto state = optimizer.init(start), other_state = state;
    EXPECT_EQ(leaves(state.master.norm)[0].shape(), (Shape{0}));
    const auto compiled = compile(step);
    for (int i = 0; i < 40; ++i) {
      std::tie(model, state) = step(model, state, x, y);
      std::tie(other, other_state) = compiled(other, other_state, x, y);
    }
    const auto want = doubles_of(mean(x, {0})), got = doubles_of(model.norm.mean);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(got[i], want[i], 1e-5);
    EXPECT_GT(doubles_of(model.norm.var)[0], 2);
    EXPECT_NE(doubles_of(*model.norm.scale)[0], 1);
    EXPECT_NE(doubles_of(model.linear.kernel), doubles_of(start.linear.kernel));
    const Arrays a = leaves(model), b = leaves(other);
    for (std::size_t i = 0; i < a.size(); ++i) eadem::testing::expect_same(a[i], b[i]);
  };
  check(Sgd{.rate = constant_schedule(1e-3), .momentum = 0.9});
  check(AdamW{.rate = constant_schedule(1e-2), .decay = 0.1});
  check(Lion{.rate = constant_schedule(1e-3), .decay = 0.1});
  check(Adafactor{.decay = 0.1});
  check(Muon{.rate = constant_schedule(1e-2), .decay = 0.1});

  Normed gradient = start;
  gradient.norm.mean = full({3}, 1e6), gradient.norm.var = full({3}, 1e6);
  gradient.norm.scale = gradient.norm.bias = zeros({3});
  gradient.linear = with_leaves(gradient.linear, Arrays{full({3, 1}, 0.1), full({1}, 0.1)});
  const Normed clipped = clip_by_global_norm(gradient, 1);
  EXPECT_EQ(doubles_of(clipped.norm.mean), (std::vector<double>{1e6, 1e6, 1e6}));
  EXPECT_EQ(doubles_of(clipped.linear.kernel), doubles_of(gradient.linear.kernel));
}

TEST(Optimizers, KnowTheStateOfEveryModule) {
  Rngs rngs(0);
  const auto marked = [](const auto& model) {
    const std::vector<bool> marks = state_marks(model);
    std::vector<std::string> paths;
    std::size_t next = 0;
    for_each_leaf(model, [&](const std::string& path, const Array&) {
      if (marks.at(next++)) paths.push_back(path);
    });
    EXPECT_EQ(next, marks.size());
    return paths;
  };
  using Paths = std::vector<std::string>;
  nn::MultiHeadAttention attention(8, 2, rngs);
  EXPECT_EQ(marked(attention), Paths{});
  attention.init_cache({1, 4, 8});
  EXPECT_EQ(marked(attention), (Paths{"cached_key", "cached_value", "cache_index"}));
  std::map<std::string, std::vector<nn::BatchNorm>> map;
  map["a"].emplace_back(3, rngs);
  EXPECT_EQ(marked(std::pair(map, std::optional(nn::Linear(2, 2, rngs)))), (Paths{"0/a/0/mean", "0/a/0/var"}));
  EXPECT_EQ(marked(nn::te::DenseGeneral({32}, {32}, rngs, {.fp8 = nn::te::Float8Recipe{}})).size(), 6u);
}

// A step of training has the same bits eager and compiled, and lowers the loss.
TEST(Optimizers, StepsCompileToTheSameBits) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    Rngs rngs(0);
    const nn::Linear first(4, 8, rngs, {.param_dtype = dtype}), second(8, 2, rngs, {.param_dtype = dtype});
    using Pair = std::pair<nn::Linear, nn::Linear>;
    const Array x = normal(random_key(8), {16, 4}, dtype), y = sin(matmul(x, normal(random_key(9), {4, 2}, dtype)));
    const AdamW optimizer{.rate = warmup_cosine_schedule(0.05, 0, 3, 20)};
    const auto step = [&](const Pair& model, const OptimizerState<Pair>& state, const Array& input,
                          const Array& target) {
      const auto loss = [&](const Pair& m) {
        return sum(squared_error(m.second(tanh(m.first(input))), target)) / 32.0;
      };
      const auto [value, gradient] = value_and_grad(loss)(model);
      return std::pair(optimizer.update(model, clip_by_global_norm(gradient, 1), state), value);
    };
    const auto compiled = compile(step);
    Pair eager{first, second}, other = eager;
    auto state = optimizer.init(eager);
    auto other_state = state;
    double before = 0, after = 0;
    for (int i = 0; i < 20; ++i) {
      const auto a = step(eager, state, x, y);
      const auto b = compiled(other, other_state, x, y);
      eadem::testing::expect_same(a, b);
      std::tie(eager, state) = a.first;
      std::tie(other, other_state) = b.first;
      after = doubles_of(a.second)[0];
      if (i == 0) before = after;
    }
    EXPECT_LT(after, 0.5 * before) << name_of(dtype);
    EXPECT_EQ(compiled.programs(), 1u);
  }
}

TEST(Losses, AreTheirFormulas) {
  const Array x = normal(random_key(3), {4, 7}) * 3.0, t = normal(random_key(4), {4, 7});
  const std::vector<double> xs = doubles_of(x), ts = doubles_of(t), h = doubles_of(huber(x, t, 0.7));
  double squares = 0;
  for (std::size_t i = 0; i < 28; ++i) {
    const double d = xs[i] - ts[i], size = std::abs(d);
    squares += d * d;
    EXPECT_NEAR(h[i], size <= 0.7 ? d * d / 2 : 0.7 * (size - 0.35), 1e-6 * (1 + size));
  }
  EXPECT_NEAR(doubles_of(mean_squared_error(x, t))[0], squares / 28, 1e-5);
  const Array p = Array::from(std::vector<float>{0.5, 0.5, 0}, {1, 3});
  const Array q = log(Array::from(std::vector<float>{0.25, 0.75, 0}, {1, 3}));
  EXPECT_NEAR(doubles_of(kl_divergence(q, p))[0], 0.5 * std::log(2) + 0.5 * std::log(2.0 / 3), 1e-7);

  const Array labels = Array::from<std::int32_t>({0, 6, -100, 9});
  const std::vector<double> loss = doubles_of(train::cross_entropy(x, labels, {.smoothing = 0.1, .ignored = -100}));
  for (std::size_t row = 0; row < 2; ++row) {
    double total = 0, all = 0;
    for (std::size_t i = 0; i < 7; ++i) total += std::exp(xs[row * 7 + i]), all += xs[row * 7 + i];
    const double want = std::log(total) - 0.9 * xs[row * 7 + (row == 0 ? 0 : 6)] - 0.1 * all / 7;
    EXPECT_NEAR(loss[row], want, 1e-6 * std::abs(want));
  }
  EXPECT_EQ(loss[2], 0);
  // Without options it is the primitive, to the bit; and an ignored row sends nothing back.
  const Array sound = Array::from<std::int32_t>({0, 6, 3, 2});
  eadem::testing::expect_same(train::cross_entropy(x, sound), eadem::cross_entropy(x, sound));
  const Array slopes = grad([&](const Array& logits) {
    return sum(
        train::cross_entropy(logits, Array::from<std::int32_t>({0, 6, -100, 2}), {.smoothing = 0.1, .ignored = -100}));
  })(x);
  for (const double slope : doubles_of(slice_axis(slopes, 0, {2, 3}))) EXPECT_EQ(slope, 0);
  EXPECT_TRUE(std::isnan(loss[3]));
  EXPECT_THROW(train::cross_entropy(x, zeros({3}, DType::i32)), ShapeError);
  EXPECT_THROW(train::cross_entropy(x, zeros({4})), TypeError);
  EXPECT_THROW(huber(x, t, 0), ValueError);
}

TEST(Losses, HaveGradients) {
  const Array x = normal(random_key(5), {9}), t = normal(random_key(6), {9});
  const std::vector<double> xs = doubles_of(x), ts = doubles_of(t);
  const auto loss = [&](const Array& at) { return sum(huber(at, t, 0.5)); };
  const std::vector<double> g = doubles_of(grad(loss)(x));
  for (std::size_t i = 0; i < 9; ++i) EXPECT_NEAR(g[i], std::clamp(xs[i] - ts[i], -0.5, 0.5), 1e-6);
}

TEST(Schedules, AreTheirFormulas) {
  const auto at = [](const Schedule& schedule, std::int64_t step) {
    return schedule(full({}, static_cast<double>(step), DType::i64)).item<double>();
  };
  EXPECT_EQ(at(constant_schedule(0.3), 5), 0.3);
  EXPECT_EQ(at(linear_schedule(1, 0, 4), 1), 0.75);
  EXPECT_EQ(at(linear_schedule(1, 0, 4), 9), 0);
  EXPECT_NEAR(at(cosine_schedule(2, 1, 4), 2), 1.5, 1e-15);
  EXPECT_NEAR(at(exponential_schedule(2, 0.5, 3), 6), 0.5, 1e-15);
  const Schedule both = warmup_cosine_schedule(1, 0, 10, 30);
  EXPECT_EQ(at(both, 0), 0);
  EXPECT_EQ(at(both, 5), 0.5);
  EXPECT_EQ(at(both, 10), 1);
  EXPECT_NEAR(at(both, 20), 0.5, 1e-15);
  EXPECT_NEAR(at(both, 40), 0, 1e-15);
  EXPECT_THROW(warmup_cosine_schedule(1, 0, 10, 10), ValueError);
}

}  // namespace
}  // namespace eadem::train
