// Adafactor and Muon against their formulas in FP64; every optimizer eager, compiled, on other targets and threads.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "eadem/base/parallel.h"
#include "eadem/kernels/target.h"
#include "eadem/train/adafactor.h"
#include "eadem/train/muon.h"
#include "eadem/transforms/compile.h"
#include "tests/support/bits.h"

namespace eadem::train {
namespace {

using eadem::testing::doubles_of;
using Doubles = std::vector<double>;

double rms(const Doubles& x) {
  double squares = 0;
  for (const double v : x) squares += v * v;
  return std::sqrt(squares / static_cast<double>(x.size()));
}

// Ten steps of `optimizer` from normal numbers along normal gradients, and beside them step(p, g, t) in double, which
// gives what is taken from p. Beyond the parameter's own last rounding, at most `relative` of all that was taken may be
// lost: what the moments' rounding to f32 moves.
template <class Optimizer, class Step>
void expect_formula(const Optimizer& optimizer, const Shape& shape, double relative, const Step& make_step) {
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
    auto step = make_step();
    Array w = normal(random_key(3), shape, dtype);
    auto state = optimizer.init(w);
    Doubles p = doubles_of(w), taken(p.size(), 0);
    for (int t = 1; t <= 10; ++t) {
      const Array g = normal(random_key(static_cast<std::uint64_t>(t) + 10), shape, dtype) * 0.25;
      std::tie(w, state) = optimizer.update(w, g, state);
      const Doubles u = step(p, doubles_of(g), t);
      for (std::size_t i = 0; i < p.size(); ++i) p[i] -= u[i], taken[i] += std::abs(u[i]);
    }
    EXPECT_EQ(w.dtype(), dtype);
    EXPECT_EQ(state.master.dtype(), dtype == DType::f64 ? DType::f64 : DType::f32);
    const double ulp = dtype == DType::f64   ? 0x1p-52
                       : dtype == DType::f32 ? 0x1p-23
                       : dtype == DType::f16 ? 0x1p-10
                                             : 0x1p-7;
    const Doubles got = doubles_of(w), master = doubles_of(state.master);
    for (std::size_t i = 0; i < p.size(); ++i) {
      ASSERT_NEAR(got[i], p[i], ulp / 2 * std::abs(p[i]) * 1.01 + relative * taken[i]) << name_of(dtype) << " " << i;
      // The master under a 16-bit parameter is an f32.
      ASSERT_NEAR(master[i], p[i], 0x1p-24 * std::abs(p[i]) * 1.01 + relative * taken[i]) << name_of(dtype) << " " << i;
    }
  }
}

// Adafactor as the paper has it, over [rows, columns] matrices `batch` times, or unfactored where columns is 0.
struct AdafactorFormula {
  Adafactor o;
  std::int64_t batch, rows, columns;
  Doubles row = {}, column = {}, v = {}, average = {};

  Doubles operator()(const Doubles& p, const Doubles& g, int t) {
    const double b = 1 - std::pow(t, -o.exponent), rate = std::min(1e-2, 1 / std::sqrt(t));
    const std::size_t n = p.size();
    Doubles u(n);
    const auto r = static_cast<std::size_t>(rows), c = static_cast<std::size_t>(columns);
    v.resize(n), average.resize(n), row.resize(static_cast<std::size_t>(batch) * r),
        column.resize(static_cast<std::size_t>(batch) * c);
    if (columns == 0) {
      for (std::size_t i = 0; i < n; ++i) {
        v[i] = b * v[i] + (1 - b) * (g[i] * g[i] + o.epsilon);
        u[i] = g[i] / std::sqrt(v[i]);
      }
    } else {
      for (std::size_t k = 0; k < static_cast<std::size_t>(batch); ++k) {
        const double* gk = &g[k * r * c];
        double total = 0;
        for (std::size_t i = 0; i < r; ++i) {
          double s = 0;
          for (std::size_t j = 0; j < c; ++j) s += gk[i * c + j] * gk[i * c + j] + o.epsilon;
          total += row[k * r + i] = b * row[k * r + i] + (1 - b) * s / static_cast<double>(c);
        }
        for (std::size_t j = 0; j < c; ++j) {
          double s = 0;
          for (std::size_t i = 0; i < r; ++i) s += gk[i * c + j] * gk[i * c + j] + o.epsilon;
          column[k * c + j] = b * column[k * c + j] + (1 - b) * s / static_cast<double>(r);
        }
        for (std::size_t i = 0; i < r; ++i)
          for (std::size_t j = 0; j < c; ++j)
            u[(k * r + i) * c + j] =
                gk[i * c + j] / std::sqrt(row[k * r + i] * column[k * c + j] / (total / static_cast<double>(r)));
      }
    }
    const double clip = std::max(1.0, rms(u) / o.clipping);
    const double scale = o.scale_by_parameter ? std::max(rms(p), o.least_scale) : 1;
    for (std::size_t i = 0; i < n; ++i) {
      u[i] *= rate * scale / clip;
      if (o.momentum != 0) u[i] = average[i] = o.momentum * average[i] + (1 - o.momentum) * u[i];
      u[i] += o.decay * p[i];
    }
    return u;
  }
};

TEST(Optimizers, Adafactor) {
  constexpr double kBound = 0x1p-20;  // ten roundings of each of three means, and of the average
  const auto check = [&](const Adafactor& o, const Shape& shape, std::int64_t batch, std::int64_t rows,
                         std::int64_t columns) {
    expect_formula(o, shape, kBound, [&] { return AdafactorFormula{o, batch, rows, columns}; });
  };
  const Adafactor small{.least_factored = 4};
  check({}, {40}, 1, 40, 0);
  check({}, {130, 12}, 1, 130, 0);  // too narrow to factor
  check({}, {128, 131}, 1, 128, 131);
  check(small, {5, 7}, 1, 5, 7);
  check(small, {7, 5}, 1, 7, 5);
  check(small, {6, 6}, 1, 6, 6);
  check(small, {3, 6, 5}, 3, 6, 5);  // the two longest axes
  check({.clipping = 0.5, .scale_by_parameter = false, .least_factored = 4, .momentum = 0.9, .decay = 1e-3}, {5, 7}, 1,
        5, 7);
  check({.momentum = 0.9, .decay = 1e-3}, {9}, 1, 9, 0);
}

TEST(Optimizers, AdafactorKeepsRowsAndColumnsOnly) {
  const Array w = normal(random_key(0), {128, 200}, DType::bf16);
  const auto state = Adafactor{}.init(w);
  EXPECT_EQ(state.moments[0].type(), (TensorType{DType::f32, {128}}));
  EXPECT_EQ(state.moments[1].type(), (TensorType{DType::f32, {200}}));
  EXPECT_EQ(Adafactor{.moment_dtype = DType::bf16}.init(w).moments[0].dtype(), DType::bf16);
  // A gradient of zero moves nothing and makes no NaN.
  const auto [same, next] = Adafactor{}.update(w, zeros({128, 200}), state);
  eadem::testing::expect_same(same, w);
  // Arrays of no elements and scalars are arrays like others.
  const std::pair<Array, Array> odd(zeros({0, 3}), full({}, 2));
  const auto after = Adafactor{}.update(odd, {zeros({0, 3}), full({}, 1)}, Adafactor{}.init(odd)).first;
  EXPECT_EQ(after.first.shape(), (Shape{0, 3}));
  EXPECT_NEAR(doubles_of(after.second)[0], 2 - 1e-2 * 2, 1e-6);
}

// Newton-Schulz in doubles, on x [rows, columns] with rows <= columns.
Doubles schulz(Doubles x, std::size_t rows, std::size_t columns) {
  const double norm = rms(x) * std::sqrt(static_cast<double>(x.size())) + 1e-7;
  for (double& v : x) v /= norm;
  const auto times = [](const Doubles& a, const Doubles& b, std::size_t n, std::size_t k, std::size_t m, bool turned) {
    Doubles y(n * m);
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < m; ++j)
        for (std::size_t l = 0; l < k; ++l) y[i * m + j] += a[i * k + l] * (turned ? b[j * k + l] : b[l * m + j]);
    return y;
  };
  for (int step = 0; step < 5; ++step) {
    const Doubles a = times(x, x, rows, columns, rows, true);
    Doubles b = times(a, a, rows, rows, rows, false);
    for (std::size_t i = 0; i < b.size(); ++i) b[i] = -4.7750 * a[i] + 2.0315 * b[i];
    const Doubles y = times(b, x, rows, rows, columns, false);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = 3.4445 * x[i] + y[i];
  }
  return x;
}

// Of the largest singular value, which is about 1; 18 of 64 such units were measured.
constexpr double kSchulzBound = 64 * 0x1p-24;

TEST(Optimizers, NewtonSchulz) {
  double worst = 0;
  for (const auto& [rows, columns] :
       {std::pair<std::int64_t, std::int64_t>{1, 1}, {4, 9}, {16, 16}, {24, 40}, {3, 300}}) {
    const Array x = normal(random_key(static_cast<std::uint64_t>(rows)), {rows, columns}) * 3.0;
    const Doubles got = doubles_of(newton_schulz(x));
    const Doubles want = schulz(doubles_of(x), static_cast<std::size_t>(rows), static_cast<std::size_t>(columns));
    for (std::size_t i = 0; i < got.size(); ++i) worst = std::max(worst, std::abs(got[i] - want[i]));
    if (rows != columns) eadem::testing::expect_same(newton_schulz(transpose(x)), transpose(newton_schulz(x)));
  }
  RecordProperty("worst", fmt::format("{:.2e}", worst));
  fmt::print("Newton-Schulz in f32: largest error {:.2e}, bound {:.2e}\n", worst, kSchulzBound);
  EXPECT_LT(worst, kSchulzBound);
  // Of an orthogonal matrix every singular value is the same, and ends near 1; nothing comes of nothing.
  const Doubles turned = doubles_of(newton_schulz(Array::from(std::vector<float>{0.6F, 0.8F, -0.8F, 0.6F}, {2, 2})));
  EXPECT_NEAR(std::hypot(turned[0], turned[1]), 0.95, 0.25);
  EXPECT_NEAR(turned[0] / turned[1], 0.75, 1e-5);
  for (const double v : doubles_of(newton_schulz(zeros({2, 3})))) EXPECT_EQ(v, 0);
  EXPECT_THROW(newton_schulz(zeros({2, 3, 4})), ShapeError);
  EXPECT_THROW(newton_schulz(zeros({2, 3}, DType::i32)), ShapeError);
}

TEST(Optimizers, Muon) {
  for (const bool nesterov : {true, false})
    for (const bool tall : {false, true}) {
      const std::size_t rows = tall ? 12 : 4, columns = tall ? 4 : 12;
      const Muon o{.rate = constant_schedule(0.02), .nesterov = nesterov, .decay = 0.1};
      const auto r = static_cast<std::int64_t>(rows), c = static_cast<std::int64_t>(columns);
      expect_formula(o, {r, c}, 2 * kSchulzBound, [&] {
        return [=, m = Doubles(rows * columns)](const Doubles& p, const Doubles& g, int) mutable {
          Doubles u(p.size());
          for (std::size_t i = 0; i < p.size(); ++i) {
            m[i] = 0.95 * m[i] + 0.05 * g[i];
            u[i] = nesterov ? 0.95 * m[i] + 0.05 * g[i] : m[i];
          }
          if (tall) {
            Doubles turned(u.size());
            for (std::size_t i = 0; i < rows; ++i)
              for (std::size_t j = 0; j < columns; ++j) turned[j * rows + i] = u[i * columns + j];
            const Doubles y = schulz(turned, columns, rows);
            for (std::size_t i = 0; i < rows; ++i)
              for (std::size_t j = 0; j < columns; ++j) u[i * columns + j] = y[j * rows + i];
          } else {
            u = schulz(u, rows, columns);
          }
          const double scale = tall ? 1 : std::sqrt(static_cast<double>(columns) / static_cast<double>(rows));
          for (std::size_t i = 0; i < u.size(); ++i) u[i] = 0.02 * (scale * u[i] + 0.1 * p[i]);
          return u;
        };
      });
    }
}

struct Model {
  Array embedding, w, bias, ids;
  static void fields(auto& m, auto f) { f("embedding", m.embedding), f("w", m.w), f("bias", m.bias), f("ids", m.ids); }
};

Model model_of(DType dtype) {
  return {normal(random_key(1), {5, 4}, dtype), normal(random_key(2), {4, 6}, dtype), normal(random_key(3), {6}, dtype),
          Array::from<std::int32_t>({1, 2, 3})};
}

// What is not a matrix, or was left out, takes AdamW's step, to the bit.
TEST(Optimizers, MuonLeavesTheOthersToAdamW) {
  const Model model = model_of(DType::bf16), gradient = model_of(DType::f32);
  const AdamW adam{.rate = constant_schedule(1e-2), .decay = 0.1};
  const Muon muon{.rate = constant_schedule(0.02), .others = adam, .chosen = [](const std::string& path) {
                    return path != "embedding";
                  }};
  Model a = model, b = model;
  auto state = muon.init(model);
  auto other = adam.init(model);
  EXPECT_EQ(state.moments[1].w.shape(), (Shape{0}));
  EXPECT_EQ(state.moments[1].embedding.shape(), (Shape{5, 4}));
  for (int i = 0; i < 3; ++i) {
    std::tie(a, state) = muon.update(a, gradient, state);
    std::tie(b, other) = adam.update(b, gradient, other);
  }
  eadem::testing::expect_same(a.embedding, b.embedding);
  eadem::testing::expect_same(a.bias, b.bias);
  eadem::testing::expect_same(a.ids, model.ids);
  EXPECT_FALSE(eadem::testing::same_bits({a.w}, {b.w}));
}

// Under 16-bit parameters all state is f32 unless asked otherwise; the bits are those of every form.
template <class Optimizer>
void expect_one_result(const Optimizer& optimizer) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const auto step = [&](const Model& m, const OptimizerState<Model>& s) {
      const auto [loss, gradient] = value_and_grad(
          [](const Model& x) { return mean(tanh(linear(take(x.embedding, x.ids, 0), transpose(x.w), x.bias))); })(m);
      return optimizer.update(m, clip_by_global_norm(gradient, 0.05), s);
    };
    const auto run = [&](const auto& f) {
      std::pair<Model, OptimizerState<Model>> all(model_of(dtype), optimizer.init(model_of(dtype)));
      for (int i = 0; i < 5; ++i) all = f(all.first, all.second);
      return all;
    };
    const auto want = run(step);
    for (const auto& tree : want.second.moments)
      for_each_leaf(tree, [&](const std::string& path, const Array& leaf) {
        EXPECT_EQ(leaf.dtype(), path == "ids" ? DType::i32 : DType::f32) << path;
      });
    eadem::testing::expect_same(run(compile(step)), want);
    const kernels::Target best = kernels::active_target();
    const int threads_before = threads();
    for (const kernels::Target target : kernels::available_targets())
      for (const int count : {1, 3}) {
        kernels::set_target(target);
        set_threads(count);
        eadem::testing::expect_same(run(step), want);
      }
    kernels::set_target(best);
    set_threads(threads_before);
  }
}

TEST(Optimizers, HaveTheSameBitsInEveryForm) {
  const Schedule rate = warmup_cosine_schedule(0.05, 0, 2, 10);
  expect_one_result(Sgd{.rate = rate, .momentum = 0.9, .nesterov = true});
  expect_one_result(AdamW{.rate = rate});
  expect_one_result(Lion{.rate = rate});
  expect_one_result(Adafactor{.least_factored = 4, .momentum = 0.9});
  expect_one_result(Muon{.rate = rate, .decay = 0.1});
}

}  // namespace
}  // namespace eadem::train
