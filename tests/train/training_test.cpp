// Micro-batches, checkpoints and loss curves.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "eadem/base/parallel.h"
#include "eadem/kernels/target.h"
#include "eadem/train/accumulate.h"
#include "eadem/train/checkpoint.h"
#include "eadem/train/curve.h"
#include "eadem/train/optimizers.h"
#include "eadem/transforms/compile.h"
#include "tests/support/bits.h"
#include "tests/support/temporary_folder.h"

namespace eadem::train {
namespace {

using eadem::testing::doubles_of;
using eadem::testing::expect_same;

struct Net {
  Array first, second, gain;
  static void fields(auto& m, auto f) { f("first", m.first), f("second", m.second), f("gain", m.gain); }
  Array operator()(const Array& x) const { return matmul(tanh(matmul(x, first)) * gain, second); }
};

Net net_of(DType dtype = DType::f32) {
  return {normal(random_key(1), {6, 8}, dtype), normal(random_key(2), {8, 3}, dtype), ones({8}, dtype)};
}
Array loss_of(const Net& net, const Array& x, const Array& y) {
  const Array d = net(x) - y;
  return mean(d * d);
}

// The mean of k gradients as the documentation says, in plain floats.
TEST(Accumulate, IsTheTreeOverMicroBatches) {
  for (const std::int64_t k : {1, 2, 3, 5, 7, 8}) {
    const Array x = normal(random_key(8), {k * 4, 6}), y = normal(random_key(9), {k * 4, 3});
    std::vector<std::vector<float>> parts;
    const auto each = value_and_grad(loss_of);
    for (std::int64_t i = 0; i < k; ++i) {
      const auto rows = [&](const Array& all) { return slice_axis(all, 0, {4 * i, 4 * i + 4}); };
      const auto [loss, gradient] = each(net_of(), rows(x), rows(y));
      std::vector<float>& all = parts.emplace_back();
      for (const Array& leaf : {gradient.first, gradient.second, gradient.gain, loss})
        for (const double v : doubles_of(leaf)) all.push_back(static_cast<float>(v));
    }
    const auto tree = [&](const auto& self, std::size_t from, std::size_t n, std::size_t at) -> float {
      if (n == 1) return parts[from][at];
      std::size_t p = 1;
      while (2 * p < n) p *= 2;
      return self(self, from, p, at) + self(self, from + p, n - p, at);
    };
    const auto [loss, gradient] = accumulate(each, k)(net_of(), x, y);
    std::size_t at = 0;
    for (const Array& leaf : {gradient.first, gradient.second, gradient.gain, loss})
      for (const double v : doubles_of(leaf)) {
        const float sum = tree(tree, 0, static_cast<std::size_t>(k), at++);
        ASSERT_EQ(static_cast<float>(v), sum / static_cast<float>(k)) << k << " at " << at;
      }
  }
}

TEST(Accumulate, HasTheSameBitsInEveryForm) {
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16}) {
    const Array x = normal(random_key(8), {12, 6}, dtype), y = normal(random_key(9), {12, 3}, dtype);
    const auto f = accumulate(value_and_grad(loss_of), 3);
    const auto want = f(net_of(dtype), x, y);
    EXPECT_EQ(want.second.first.dtype(), dtype == DType::f64 ? DType::f64 : DType::f32);
    expect_same(compile(f)(net_of(dtype), x, y), want);
    const kernels::Target best = kernels::active_target();
    const int before = threads();
    for (const kernels::Target target : kernels::available_targets())
      for (const int count : {1, 3}) {
        kernels::set_target(target);
        set_threads(count);
        expect_same(f(net_of(dtype), x, y), want);
      }
    kernels::set_target(best);
    set_threads(before);
  }
}

// The contract for matrices: where a micro-batch is a subtree of the products' tree, how many there are is not seen.
TEST(Accumulate, SplitsOfMatricesAreNotSeen) {
  constexpr std::int64_t kRows = 4096;
  const Array x = normal(random_key(8), {kRows, 6}), y = normal(random_key(9), {kRows, 3});
  const auto each = value_and_grad(loss_of);
  const auto [loss, whole] = each(net_of(), x, y);
  // The loss and the gain, a vector, are sums over rows, whose splits differ in the last bits: each is near FP64.
  const auto wide = [](const Array& a) { return convert(a, DType::f64); };
  const auto [exact_loss, exact] = each(map_leaves(wide, net_of()), wide(x), wide(y));
  const auto expect_exact = [&, exact_loss = exact_loss, exact = exact](const Array& value, const Array& gain) {
    EXPECT_NEAR(doubles_of(value)[0], doubles_of(exact_loss)[0], 1e-6 * doubles_of(exact_loss)[0]);
    const auto got = doubles_of(gain), want = doubles_of(exact.gain);
    for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-6);
  };
  expect_exact(loss, whole.gain);
  for (const std::int64_t k : {2, 4, 16}) {
    const auto [mean_loss, gradient] = accumulate(each, k)(net_of(), x, y);
    expect_same(gradient.first, whole.first);
    expect_same(gradient.second, whole.second);
    expect_exact(mean_loss, gradient.gain);
  }
}

TEST(Accumulate, RefusesUnequalParts) {
  const auto each = value_and_grad(loss_of);
  EXPECT_THROW(accumulate(each, 0), ValueError);
  EXPECT_THROW(accumulate(each, 3)(net_of(), zeros({4, 6}), zeros({4, 3})), ShapeError);
  EXPECT_THROW(accumulate([](const Array& w, const Array& x) { return std::pair(w * x, w); }, 2)(zeros({}), zeros({})),
               ShapeError);
  // Integers of a model are not summed.
  const std::pair<Array, Array> model(ones({2}), Array::from<std::int32_t>({1, 2}));
  const auto f = value_and_grad([](const std::pair<Array, Array>& m, const Array& x) { return sum(m.first * x); });
  const auto gradient = accumulate(f, 2)(model, Array::from(std::vector<float>{1, 2, 5, 4}, {2, 2})).second;
  EXPECT_EQ(doubles_of(gradient.first), (std::vector<double>{3, 3}));
  EXPECT_EQ(gradient.second.dtype(), DType::i32);
}

// Micro-batches of a layer in 8 bits: the largest magnitude of all, and not a mean of next states.
TEST(Accumulate, JoinsFloat8States) {
  Rngs rngs(0);
  nn::te::DenseGeneralOptions options;
  options.fp8 = nn::te::Float8Recipe{.history = 3};
  nn::te::DenseGeneral apart({8}, {4}, rngs, options), whole = apart;
  const auto step = value_and_grad([](const nn::te::DenseGeneral& m, const Array& x) { return sum(m(x)); });
  for (std::uint64_t i = 0; i < 5; ++i) {
    const Array x = normal(random_key(i), {6, 8}) * (i == 2 ? 0.0 : 5.0 - static_cast<double>(i));
    apart = nn::te::with_float8_state(apart, accumulate(step, 3)(apart, x).second);
    whole = nn::te::with_float8_state(whole, step(whole, x).second);
    expect_same(apart.fp8_state->state, whole.fp8_state->state);
  }
}

// Case C47 of the public reports: training that was stopped goes on to the bits of training that was not.
TEST(Checkpoint, ResumesToTheSameBits) {
  const eadem::testing::TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "at3.safetensors";
  const Array x = normal(random_key(8), {16, 6}), y = normal(random_key(9), {16, 3});
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const AdamW optimizer{.rate = warmup_cosine_schedule(1e-2, 0, 2, 8)};
    std::pair<Net, OptimizerState<Net>> all(net_of(dtype), optimizer.init(net_of(dtype))), resumed = all;
    const auto step = [&](const auto& at) {
      return optimizer.update(at.first, grad(loss_of)(at.first, x, y), at.second);
    };
    for (int i = 0; i < 8; ++i) {
      if (i == 3) save(path, all);
      all = step(all);
    }
    resumed = load(path, resumed);
    EXPECT_EQ(resumed.second.step.item<std::int64_t>(), 3);
    for (int i = 3; i < 8; ++i) resumed = step(resumed);
    expect_same(resumed, all);
    EXPECT_EQ(sha256(resumed), sha256(all));
  }
}

TEST(Checkpoint, RefusesOthers) {
  const eadem::testing::TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "net.safetensors";
  save(path, net_of());
  EXPECT_THROW(load(path, net_of(DType::bf16)), FileError);
  EXPECT_THROW(load(path, std::pair(net_of(), net_of())), FileError);
  EXPECT_THROW(load(path, std::tuple(zeros({6, 8}), zeros({8, 3}), zeros({8}))), FileError);  // other names
  EXPECT_THROW(load(folder.path() / "none", net_of()), FileError);
  EXPECT_THROW(save(folder.path() / "no" / "folder", net_of()), FileError);
  // Views, scalars and empty arrays are saved as they read.
  const std::tuple odd(transpose(normal(random_key(1), {2, 3})), full({}, 7, DType::i64), zeros({0, 4}));
  save(path, odd);
  expect_same(load(path, odd), odd);
}

TEST(Checkpoint, DigestsSeeNamesTypesAndBits) {
  const std::string digest = sha256(net_of());
  EXPECT_EQ(digest.size(), 64U);
  EXPECT_EQ(digest, sha256(net_of()));
  Net other = net_of();
  other.gain = other.gain * -1.0;
  EXPECT_NE(digest, sha256(other));
  EXPECT_NE(sha256(zeros({4})), sha256(zeros({2, 2})));
  EXPECT_NE(sha256(zeros({4})), sha256(zeros({4}, DType::i32)));
  EXPECT_NE(sha256(std::pair(zeros({1}), ones({1}))), sha256(std::pair(ones({1}), zeros({1}))));
}

TEST(Curve, DrawsAxesNamesAndPoints) {
  const std::vector<Curve> curves{{"seen", {0, 50, 100}, {4, 3, 2.5}}, {"held <out>", {50, 100}, {3.5, NAN}}};
  const std::string svg = chart_svg("Loss & more", "step", "nats", curves);
  for (const char* part :
       {"<svg xmlns=\"http://www.w3.org/2000/svg\"", ">Loss &amp; more</text>", ">step</text>", ">nats</text>",
        ">seen</text>", ">held &lt;out&gt;</text>", ">100</text>", ">2.5</text>", ">4</text>", "</svg>\n"})
    EXPECT_NE(svg.find(part), std::string::npos) << part;
  // x from 0 to 100 lies on 64..704, y from 2.5 to 4 on 388..40: the first line's ends, and the one point of the other.
  EXPECT_NE(svg.find("<polyline points=\"64.0,40.0 384.0,272.0 704.0,388.0\""), std::string::npos) << svg;
  EXPECT_NE(svg.find("<polyline points=\"384.0,156.0\""), std::string::npos) << svg;
  EXPECT_EQ(svg, chart_svg("Loss & more", "step", "nats", curves));
  // Nothing, and one value, have axes too.
  EXPECT_NE(chart_svg("", "", "", {}).find("</svg>"), std::string::npos);
  const std::vector<Curve> one{{"", {0}, {0}}}, uneven{{"", {0}, {}}};
  EXPECT_EQ(chart_svg("", "", "", one).find("nan"), std::string::npos);
  EXPECT_THROW(chart_svg("", "", "", uneven), ValueError);
}

}  // namespace
}  // namespace eadem::train
