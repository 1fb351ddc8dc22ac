// The laws of transforms over a residual network of convolutions, batch_norm, group_norm, cummax and norm: scan == the
// loop, vmap == stacked slices (with weights shared and with each slice's own), compiled == eager, forward and
// backward.

#include <gtest/gtest.h>

#include "eadem/array/rules.h"
#include "eadem/ops/catalog.h"
#include "eadem/ops/convolution.h"
#include "eadem/transforms/compile.h"
#include "eadem/transforms/transforms.h"
#include "tests/support/bits.h"
#include "tests/support/laws.h"

namespace eadem {
namespace {

using testing::expect_same;

class ConvolutionLaws : public testing::AccumulatorTest {
 protected:
  static Array random(std::uint64_t seed, const Shape& shape) { return normal(random_key(seed), shape, dtype()); }
};

INSTANTIATE_TEST_SUITE_P(Types, ConvolutionLaws,
                         ::testing::Combine(::testing::Values(DType::f64, DType::f32, DType::bf16, DType::f16),
                                            ::testing::Bool()),
                         testing::accumulator_test_name);

struct Block {
  Array w, bias, depthwise, gamma, beta;
  static void fields(auto& m, auto f) {
    f("w", m.w), f("bias", m.bias), f("depthwise", m.depthwise), f("gamma", m.gamma), f("beta", m.beta);
  }
};

// Images [2, 5, 4, 4].
Array step(const Block& block, const Array& h) {
  const Array wide = conv_general(h, block.w, {.strides = {2, 1}, .padding = Padding::same(), .bias = block.bias});
  const Array back = conv_transpose(wide, block.w, {2, 1}, Padding::given({1, 1}, {1, 1}));  // [2, 5, 4, 4]
  const Array mixed = conv_general(h, block.depthwise, {.padding = Padding::same(), .groups = 4});
  const Array normed = batch_norm(back + mixed, block.gamma, block.beta).y;
  const Array grouped = group_norm(normed, block.gamma, block.beta, 2, 1e-5, -1);
  return h * 0.5 + tanh(cummax(grouped, 1)) / (norm(h, {1, 2}, 2, true) + 1.0);
}
Array loss_of(const Array& h) {
  return sum(h * sin(h));
}

TEST_P(ConvolutionLaws, ScanVmapAndCompiledAreTheLoop) {
  const auto blocks_of = [](std::uint64_t seed, Shape leading) {
    const auto draw = [&](std::uint64_t i, const Shape& shape) {
      Shape all = leading;
      for (const std::int64_t extent : shape) all.push_back(extent);
      return random(10 * seed + i, all);
    };
    return Block{draw(1, {3, 3, 4, 4}) * 0.3, draw(2, {4}), draw(3, {3, 3, 1, 4}), draw(4, {4}), draw(5, {4})};
  };
  const auto at = [](std::int64_t i) {
    return [i](const Array& leaf) { return squeeze(slice_axis(leaf, 0, {i, i + 1}), 0); };
  };
  const Block blocks = blocks_of(1, {3});
  const Array x = random(2, {2, 5, 4, 4});
  const auto of_loop = [&](const Block& all, const Array& in) {
    Array h = in;
    for (std::int64_t i = 0; i < 3; ++i) h = step(map_leaves(at(i), all), h);
    return loss_of(h);
  };
  const auto of_scan = [](const Block& all, const Array& in) {
    return loss_of(
        scan([](const Array& h, const Block& block) { return std::pair(step(block, h), std::tuple<>()); }, in, all)
            .first);
  };
  const auto both = [](const auto& f) {
    return [f](const Block& all, const Array& in) {
      return std::pair(value_and_grad<0>(f)(all, in), grad<1>(f)(all, in));
    };
  };
  const auto want = both(of_loop)(blocks, x);
  expect_same(both(of_scan)(blocks, x), want);
  expect_same(compile(both(of_scan))(blocks, x), want);

  // One block over a batch of images, and each with its own block.
  const auto one = both([](const Block& block, const Array& in) { return loss_of(step(block, in)); });
  const Array images = random(3, {3, 2, 5, 4, 4});
  const auto stacked = [&](const auto& of) {
    Arrays first = leaves(of(0));
    std::vector<Arrays> all(first.size());
    for (std::int64_t i = 0; i < 3; ++i) {
      const Arrays each = leaves(of(i));
      for (std::size_t k = 0; k < all.size(); ++k) all[k].push_back(each[k]);
    }
    Arrays result;
    for (const Arrays& each : all) result.push_back(stack(each));
    return result;
  };
  const Block shared = map_leaves(at(0), blocks);
  expect_same(leaves(vmap([&](const Array& in) { return one(shared, in); })(images)),
              stacked([&](std::int64_t i) { return one(shared, at(i)(images)); }));
  expect_same(leaves(vmap(one)(blocks, images)),
              stacked([&](std::int64_t i) { return one(map_leaves(at(i), blocks), at(i)(images)); }));
  expect_same(leaves(vmap([&](const Block& block) { return one(block, x); })(blocks)),
              stacked([&](std::int64_t i) { return one(map_leaves(at(i), blocks), x); }));

  const Traced traced = trace("test", types_of(leaves(std::tuple(blocks, x))), [&](const Arrays& in) {
    const auto [all, image] = with_leaves(std::tuple(blocks, x), in);
    return leaves(both(of_scan)(all, image));
  });
  verify(*traced.program);
  const std::string text = print(*traced.program);
  EXPECT_TRUE(parse_program(text, catalog()) == *traced.program) << text;
}

}  // namespace
}  // namespace eadem
