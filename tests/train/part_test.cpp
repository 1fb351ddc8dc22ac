#include "eadem/array/part.h"

#include <gtest/gtest.h>

#include <tuple>

#include "../support/bits.h"
#include "eadem/base/error.h"
#include "eadem/nn/lora.h"
#include "eadem/train/optimizers.h"
#include "eadem/transforms/compile.h"
#include "eadem/transforms/transforms.h"

namespace eadem {
namespace {

using testing::doubles_of;
using testing::expect_same;

struct Model {
  nn::LoRALinear first, second;
  explicit Model(Rngs& rngs) : first(6, 8, 2, rngs), second(8, 3, 2, rngs) {}
  Array operator()(const Array& x) const { return second(tanh(first(x))); }
  static void fields(auto& m, auto f) { f("first", m.first), f("second", m.second); }
};

Model made() {
  Rngs rngs(0);
  return Model(rngs);
}

TEST(Part, IsChosenByKindOrPath) {
  const Model model = made();
  const Part adapters = part_of(model, marks_of<nn::LoRA>(model));
  std::vector<std::string> paths;
  for (const auto& [path, array] : adapters) paths.push_back(path);
  EXPECT_EQ(paths, (std::vector<std::string>{"first/lora/lora_a", "first/lora/lora_b", "second/lora/lora_a",
                                             "second/lora/lora_b"}));
  const auto kernels =
      part_of(model, marks_where(model, [](std::string_view path) { return path.ends_with("kernel"); }));
  ASSERT_EQ(kernels.size(), 2u);
  expect_same(kernels.at("second/kernel"), model.second.kernel);
  EXPECT_EQ(part_of(model.first.lora, marks_of<nn::LoRA>(model.first.lora)).size(), 2u) << "the root is of the kind";
  expect_same(with_part(model, adapters), model);
}

TEST(Part, RefusesWhatIsNotThere) {
  const Model model = made();
  EXPECT_THROW(part_of(model, {true}), ValueError);
  EXPECT_THROW(with_part(model, Part{{"third", zeros({1})}}), ValueError);
}

TEST(Part, AdaptersAreTrainedAndNothingElse) {
  Model model = made();
  const std::vector<bool> marks = marks_of<nn::LoRA>(model);
  Part adapters = part_of(model, marks);
  const train::AdamW optimizer{train::constant_schedule(0.02)};
  auto state = optimizer.init(adapters);
  EXPECT_EQ(leaves(state).size(), 1 + 4 * leaves(adapters).size()) << "master, rest and two moments of the adapters";

  const Array x = normal(random_key(1), {16, 6}), y = normal(random_key(2), {16, 3});
  const auto gradient = value_and_grad([](const Part& part, const Model& whole, const Array& in, const Array& want) {
    const Array error = with_part(whole, part)(in) - want;
    return mean(error * error);
  });
  const auto step = compile(gradient);
  const Model before = model;
  double first = 0, last = 0;
  for (int i = 0; i < 60; ++i) {
    const auto [loss, slope] = gradient(adapters, model, x, y);
    expect_same(std::tuple(loss, slope), std::tuple(step(adapters, model, x, y)));
    // The gradient is the adapters' part of the whole model's.
    if (i == 0) {
      const auto all = grad([&](const Model& m) {
        const Array error = m(x) - y;
        return mean(error * error);
      })(model);
      expect_same(slope, part_of(all, marks));
    }
    std::tie(adapters, state) = optimizer.update(adapters, slope, state);
    (i == 0 ? first : last) = doubles_of(loss)[0];
  }
  EXPECT_LT(last, 0.8 * first);
  model = with_part(model, adapters);
  expect_same(std::tuple(model.first.kernel, model.first.bias, model.second.kernel, model.second.bias),
              std::tuple(before.first.kernel, before.first.bias, before.second.kernel, before.second.bias));
  EXPECT_NE(doubles_of(model.first.lora.lora_b), doubles_of(before.first.lora.lora_b));
}

}  // namespace
}  // namespace eadem
