// Layers made by vmap and run by scan are those made and run one by one, bit by bit: parameters, results, gradients.

#include "eadem/nn/stack.h"

#include <gtest/gtest.h>

#include "eadem/nn/attention.h"
#include "eadem/nn/dropout.h"
#include "eadem/nn/sequential.h"
#include "tests/support/bits.h"

namespace eadem {
namespace {

using testing::expect_same;

struct Block {
  nn::LayerNorm norm;
  nn::MultiHeadAttention attend;
  nn::Linear up, down;
  Block(std::int64_t d, DType dtype, Rngs& rngs)
      : norm(d, rngs, {.param_dtype = dtype}),
        attend(d, 2, rngs, {.param_dtype = dtype}),
        up(d, 3 * d, rngs, {.param_dtype = dtype}),
        down(3 * d, d, rngs, {.param_dtype = dtype}) {}
  Array operator()(const Array& x) const {
    const Array y = x + attend(norm(x), {.causal = true});
    return y + down(gelu(up(y)));
  }
  static void fields(auto& m, auto f) { f("norm", m.norm), f("attend", m.attend), f("up", m.up), f("down", m.down); }
};

class StackTest : public ::testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Types, StackTest, ::testing::Values(DType::f64, DType::f32, DType::bf16, DType::f16),
                         [](const auto& p) { return std::string(name_of(p.param)); });

TEST_P(StackTest, ConstructorsUnderVmapAreThoseCalledOneByOne) {
  const Array keys = split_key(random_key(0), 3);
  const auto make = [](Rngs& rngs) { return Block(8, GetParam(), rngs); };
  const Stack<Block> layers = vmap_init(keys, make);
  ASSERT_EQ(layers.size(), 3);
  std::int64_t i = 0;
  for (const Block& layer : layers) {
    Rngs rngs(squeeze(slice_axis(keys, 0, {i, i + 1}), 0));
    expect_same(layer, make(rngs));
    ++i;
  }
  EXPECT_EQ(i, 3);
  EXPECT_THROW(layers[3], ShapeError);

  Rngs rngs(7), again(7);
  const Stack<Block> drawn = vmap_init(3, rngs, make);
  const Array split = split_key(again(), 3);
  Rngs second(squeeze(slice_axis(split, 0, {1, 2}), 0));
  expect_same(drawn[1], make(second));
}

TEST_P(StackTest, ScanIsTheLoop) {
  const Stack<Block> layers =
      vmap_init(split_key(random_key(1), 3), [](Rngs& rngs) { return Block(8, GetParam(), rngs); });
  const Array x = normal(random_key(2), {2, 5, 8}, GetParam());
  Array y = x;
  for (const Block& layer : layers) y = layer(y);
  expect_same(y, scan(layers, x));
}

}  // namespace
}  // namespace eadem
