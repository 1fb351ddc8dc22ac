// Against Flax itself: keys, parameters and outputs that it stored (tests/nn/data/make_flax_4629.py).

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "eadem/audit/reproduce.h"
#include "tests/support/bits.h"

namespace eadem {
namespace {

using testing::doubles_of;

nlohmann::json stored() {
  std::ifstream file(EADEM_SOURCE_DIR "/tests/nn/data/flax_4629.json");
  return nlohmann::json::parse(file);
}

Array array_of(const nlohmann::json& numbers, DType dtype) {
  Shape shape;
  for (const std::int64_t extent : numbers["shape"]) shape.push_back(extent);
  return convert(Array::from(numbers["data"].get<std::vector<double>>(), shape), dtype);
}

TEST(Flax, KeysAreThoseOfNnxRngs) {
  const nlohmann::json flax = stored();
  const Array keys = split_key(random_key(0), 2);
  EXPECT_EQ(doubles_of(keys), flax["keys"].get<std::vector<double>>());
  Rngs rngs(squeeze(slice_axis(keys, 0, {0, 1}), 0));
  for (const auto& draw : flax["draws"]) EXPECT_EQ(doubles_of(rngs.params()), draw.get<std::vector<double>>());
}

TEST(Flax, ParametersAreThoseOfFlaxButForItsErfinv) {
  const nlohmann::json flax = stored();
  const Stack<audit::FlaxLayer> layers = audit::flax_layers(2, DType::f32);
  std::size_t seen = 0;
  for_each_leaf(layers.layers, [&](const std::string& path, const Array& leaf) {
    ASSERT_TRUE(flax["parameters"].contains(path)) << path;
    ++seen;
    const std::vector<double> ours = doubles_of(leaf);
    const std::vector<double> theirs = flax["parameters"][path]["data"].get<std::vector<double>>();
    ASSERT_EQ(ours.size(), theirs.size()) << path;
    for (std::size_t i = 0; i < ours.size(); ++i)
      EXPECT_NEAR(ours[i], theirs[i], 1e-5 * std::abs(theirs[i])) << path << " " << i;
  });
  EXPECT_EQ(seen, flax["parameters"].size());
}

TEST(Flax, OutputsWithItsParametersAreWithinTheErrorOfTheDtype) {
  const nlohmann::json flax = stored();
  const std::vector<double> y64 = flax["y"]["data"].get<std::vector<double>>();
  // Four halves of a unit in the last place, for ten roundings in a row and those of the parameters.
  const std::pair<DType, double> bounds[] = {
      {DType::f64, 0x1p-51}, {DType::f32, 0x1p-22}, {DType::f16, 0x1p-9}, {DType::bf16, 0x1p-6}};
  for (const auto& [dtype, bound] : bounds) {
    Stack<audit::FlaxLayer> layers = audit::flax_layers(2, dtype);
    for_each_leaf(layers.layers, [&, t = dtype](const std::string& path, Array& leaf) {
      leaf = array_of(flax["parameters"][path], t);
    });
    const std::vector<double> y = doubles_of(scan(layers, array_of(flax["x"], dtype)));
    double error = 0, norm = 0;
    for (std::size_t i = 0; i < y.size(); ++i) error += std::pow(y[i] - y64[i], 2), norm += y64[i] * y64[i];
    EXPECT_LT(std::sqrt(error / norm), bound) << name_of(dtype);
  }
}

}  // namespace
}  // namespace eadem
