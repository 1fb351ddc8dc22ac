#include "eadem/numerics/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace eadem::numerics {
namespace {

template <class T>
std::uint64_t bits_of(T value) {
  if constexpr (Float16<T>)
    return value.bits;
  else if constexpr (sizeof(T) == 4)
    return std::bit_cast<std::uint32_t>(value);
  else
    return std::bit_cast<std::uint64_t>(value);
}

// tests/numerics/data/jax_random.txt, made by scripts/make_jax_vectors.py.
TEST(Random, KeysBitsAndUniformsAreThoseOfJax) {
  std::ifstream file(EADEM_SOURCE_DIR "/tests/numerics/data/jax_random.txt");
  std::map<std::string, int> compared;
  for (std::string line; std::getline(file, line);) {
    std::istringstream in(line);
    std::vector<std::string> arguments;
    for (std::string word; in >> word && word != "=";) arguments.push_back(word);
    std::vector<std::uint64_t> expected, values;
    for (std::uint64_t value; in >> value;) expected.push_back(value);
    const std::string& name = arguments.at(0);
    const Key key = random_key(std::stoull(arguments.at(1)));
    const auto put = [&](Key made) { values.push_back(made.high), values.push_back(made.low); };
    if (name == "key") put(key);
    if (name == "split")
      for (std::uint64_t i = 0; 2 * i < expected.size(); ++i) put(split(key, i));
    if (name == "fold_in") put(fold_in(key, static_cast<std::uint32_t>(std::stoull(arguments.at(2)))));
    for (std::uint64_t i = 0; i < expected.size(); ++i) {
      if (name == "shaped_bits") values.push_back(random_bits<std::uint32_t>(key, i));
      if (name == "bits") {
        const int width = std::stoi(arguments.at(2));
        values.push_back(width == 8    ? random_bits<std::uint8_t>(key, i)
                         : width == 16 ? random_bits<std::uint16_t>(key, i)
                         : width == 32 ? random_bits<std::uint32_t>(key, i)
                                       : random_bits<std::uint64_t>(key, i));
      }
      if (name == "uniform")
        visit_floating(*dtype_named(arguments.at(2)), [&]<class T>(std::type_identity<T>) {
          values.push_back(bits_of(uniform(key, i, round_to<T>(std::strtod(arguments.at(3).c_str(), nullptr)),
                                           round_to<T>(std::strtod(arguments.at(4).c_str(), nullptr)))));
        });
    }
    EXPECT_EQ(values, expected) << line.substr(0, line.find('='));
    ++compared[name];
  }
  EXPECT_EQ(compared["uniform"], 48);
  EXPECT_EQ(compared["bits"], 32);
  EXPECT_EQ(compared["fold_in"], 40);
  EXPECT_EQ(compared["split"], 8);
}

// The known answers of the Random123 distribution.
TEST(Random, ThreefryKnownAnswers) {
  EXPECT_EQ(threefry2x32({0, 0}, {0, 0}), (Key{0x6b200159, 0x99ba4efe}));
  EXPECT_EQ(threefry2x32({~0u, ~0u}, {~0u, ~0u}), (Key{0x1cb996fc, 0xbb002be7}));
  EXPECT_EQ(threefry2x32({0x13198a2e, 0x03707344}, {0x243f6a88, 0x85a308d3}), (Key{0xc4923a9c, 0x483df7a0}));
}

TEST(Random, NormalsHaveTheirMoments) {
  const Key key = random_key(3);
  double sum = 0, squares = 0, fourth = 0;
  constexpr int n = 100000;
  for (std::uint64_t i = 0; i < n; ++i) {
    const double x = to_double(normal<float>(key, i));
    ASSERT_TRUE(std::isfinite(x));
    sum += x, squares += x * x, fourth += x * x * x * x;
  }
  EXPECT_NEAR(sum / n, 0, 0.012);
  EXPECT_NEAR(squares / n, 1, 0.018);
  EXPECT_NEAR(fourth / n, 3, 0.16);
}
TEST(Random, SixteenBitNormalsAreTheF32OnesRounded) {
  const Key key = random_key(4);
  for (std::uint64_t i = 0; i < 2000; ++i) {
    EXPECT_EQ(normal<bfloat16>(key, i).bits, to_bfloat16(normal<float>(key, i)).bits);
    EXPECT_EQ(normal<float16>(key, i).bits, to_float16(normal<float>(key, i)).bits);
  }
}

// Public report C44: what has weight zero is never drawn, whatever the uniform and however the sums round.
template <class T>
void check_zero_weights() {
  for (const std::vector<double>& given :
       {std::vector<double>{0, 1}, {0, 1, 0}, {.33, .34, 0, .33}, {1, 0, 0, 0}, {0x1p-120, 0, 1, 0x1p-120, 0}}) {
    std::vector<T> weights;
    for (const double w : given) weights.push_back(round_to<T>(w));
    double sum = 0;
    for (const T w : weights) sum += to_double(w);
    std::vector<double> uniforms = {0, 0x1p-60, 0.5, 1 - 0x1p-24, 1 - 0x1p-53};
    double c = 0;
    for (const T w : weights) {
      c += to_double(w);
      for (const double u : {c / sum, std::nextafter(c / sum, 0.0), std::nextafter(c / sum, 2.0)})
        if (u < 1) uniforms.push_back(u);
    }
    for (std::uint64_t i = 0; i < 20000; ++i) uniforms.push_back(uniform<double>(random_key(5), i, 0, 1));
    for (const double u : uniforms) {
      const std::int64_t drawn = categorical<T>(weights, u);
      ASSERT_GE(drawn, 0);
      ASSERT_GT(to_double(weights[static_cast<std::size_t>(drawn)]), 0) << u;
    }
  }
}
TEST(Random, CategoricalNeverDrawsWeightZero) {
  check_zero_weights<float>();
  check_zero_weights<double>();
  check_zero_weights<bfloat16>();
}
TEST(Random, CategoricalIsTheInverseOfTheChain) {
  const std::vector<float> weights = {1, 2, 0, 1};
  const auto draw = [&](double u) { return categorical<float>(weights, u); };
  EXPECT_EQ(draw(0), 0);
  EXPECT_EQ(draw(std::nextafter(.25, 0)), 0);
  EXPECT_EQ(draw(.25), 1);
  EXPECT_EQ(draw(std::nextafter(.75, 0)), 1);
  EXPECT_EQ(draw(.75), 3);
  EXPECT_EQ(draw(1 - 0x1p-53), 3);
  for (const std::vector<float>& bad : {std::vector<float>{}, {0, 0}, {1, -1}, {1, NAN}, {1, INFINITY}})
    EXPECT_EQ(categorical<float>(bad, .5), -1);
  // A threshold that rounds to the whole sum still draws something.
  EXPECT_EQ(categorical<double>(std::vector<double>{5e-324, 0}, 1 - 0x1p-53), 0);
}

}  // namespace
}  // namespace eadem::numerics
