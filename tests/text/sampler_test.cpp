#include "eadem/text/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <set>

#include "eadem/base/error.h"
#include "eadem/numerics/elementary_core.h"
#include "eadem/numerics/random.h"

namespace eadem::text {
namespace {

using Logits = std::vector<float>;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::int32_t choose(const Logits& logits, const SamplerSettings& settings, double uniform = 0.5,
                    const std::vector<std::int32_t>& history = {}) {
  return Sampler(settings)(logits, history, uniform);
}
// All tokens that many uniforms give.
std::set<std::int32_t> reachable(const Logits& logits, const SamplerSettings& settings) {
  std::set<std::int32_t> found;
  for (int i = 0; i < 1000; ++i) found.insert(choose(logits, settings, i / 1000.0));
  found.insert(choose(logits, settings, 1 - 0x1p-53));
  return found;
}
using Set = std::set<std::int32_t>;

// Public report C43.
TEST(Sampler, TemperatureZeroTakesTheBestAndTheLowestId) {
  EXPECT_EQ(choose({1, 2}, {.temperature = 0}), 1);
  EXPECT_EQ(choose({5, 5, 1}, {.temperature = 0}), 0);
  EXPECT_EQ(choose({-0.0f, 0.0f}, {.temperature = 0}), 1);
}
TEST(Sampler, TiesGoToTheLowestId) {
  EXPECT_EQ(reachable({3, 3, 3, 3}, {.top_k = 2}), (Set{0, 1}));
  EXPECT_EQ(reachable({std::log(.5f), std::log(.5f)}, {.top_p = .5}), (Set{0}));
}
TEST(Sampler, DegenerateSettings) {
  EXPECT_EQ(reachable({1, 4, 2, 4}, {.top_p = 0}), (Set{1}));
  EXPECT_EQ(reachable({1, 1, 1}, {.top_k = 0}), (Set{0, 1, 2}));
  EXPECT_EQ(reachable({1, 1, 1}, {.top_k = 1000000}), (Set{0, 1, 2}));
  EXPECT_EQ(reachable({1, 1, 0.9f}, {.min_p = 1}), (Set{0, 1}));
  EXPECT_EQ(reachable({7}, {}), (Set{0}));
}
TEST(Sampler, TinyTemperaturesAreGreedyWithoutInfinities) {
  for (const double temperature : {1e-45, 5e-324, 1e-38, 1e-30})
    EXPECT_EQ(reachable({1, 3, 2, -3e38f, 3e38f, -kInfinity}, {.temperature = temperature}), (Set{4}));
  EXPECT_EQ(reachable({2, 2, 1}, {.temperature = 1e-45}), (Set{0}));
  EXPECT_EQ(reachable({1, 2, 3}, {.temperature = 1e300}), (Set{0, 1, 2}));
}
TEST(Sampler, SettingsOutOfRangeAreRefused) {
  const double nan = std::nan("");
  for (const SamplerSettings& bad : {SamplerSettings{.temperature = nan},
                                     {.temperature = -1},
                                     {.temperature = HUGE_VAL},
                                     {.top_k = -1},
                                     {.top_p = nan},
                                     {.top_p = -0.1},
                                     {.top_p = 1.1},
                                     {.min_p = nan},
                                     {.min_p = 2},
                                     {.repetition_penalty = 0},
                                     {.repetition_penalty = nan},
                                     {.repetition_penalty = -2}})
    EXPECT_THROW(Sampler{bad}, ValueError);
}
TEST(Sampler, RowsThatMeanNothingAreRefused) {
  for (const double temperature : {0.0, 1.0}) {
    EXPECT_THROW(choose({1, NAN, 2}, {.temperature = temperature}), ValueError);
    EXPECT_THROW(choose({-kInfinity, -kInfinity}, {.temperature = temperature}), ValueError);
    EXPECT_THROW(choose({}, {.temperature = temperature}), ValueError);
  }
  EXPECT_THROW(choose({1, 2}, {}, 1.0), ValueError);
  EXPECT_THROW(choose({1, 2}, {.repetition_penalty = 2}, .5, {2}), ValueError);
  EXPECT_EQ(reachable({1, kInfinity, kInfinity}, {}), (Set{1, 2}));
}

// Public report C44.
TEST(Sampler, WhatHasNoWeightIsNeverDrawn) {
  const Logits logits = {-kInfinity, 1, -kInfinity, 1.03f, -kInfinity, 1, -kInfinity};
  EXPECT_EQ(reachable(logits, {}), (Set{1, 3, 5}));
  EXPECT_EQ(reachable(logits, {.top_p = .99999}), (Set{1, 3, 5}));
  EXPECT_EQ(reachable(logits, {.top_k = 6}), (Set{1, 3, 5}));
  EXPECT_EQ(reachable({0, -2000, 0}, {}), (Set{0, 2}));
}

TEST(Sampler, RepetitionPenalty) {
  const SamplerSettings settings{.temperature = 0, .repetition_penalty = 2};
  EXPECT_EQ(choose({4, 3, 1}, settings, .5, {0, 0, 0}), 1);  // once, however often it was seen
  EXPECT_EQ(choose({-4, -3}, settings, .5, {1}), 0);
  EXPECT_EQ(choose({4, 3, 1}, settings), 0);
}

// The same choice, written for reading: everything sorted, nothing clever.
std::int32_t by_definition(const Logits& logits, const SamplerSettings& s, double uniform) {
  std::vector<std::size_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return logits[a] > logits[b]; });
  if (s.top_k > 0 && static_cast<std::size_t>(s.top_k) < order.size()) order.resize(static_cast<std::size_t>(s.top_k));
  std::vector<double> weights(logits.size(), 0);
  for (const std::size_t id : order)
    weights[id] = numerics::core::exp((double{logits[id]} - logits[order[0]]) / s.temperature);
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  double sum = 0;
  bool full = false;
  for (const std::size_t id : order) {
    sum += weights[id];
    if (full) weights[id] = 0;
    full = full || (s.top_p < 1 && sum >= s.top_p * total);
  }
  for (double& weight : weights)
    if (weight < s.min_p) weight = 0;
  return static_cast<std::int32_t>(numerics::categorical<double>(weights, uniform));
}
TEST(Sampler, EqualsTheDefinition) {
  std::mt19937 random(1);
  const auto uniform = [&] { return static_cast<double>(random()) * 0x1p-32; };
  for (int i = 0; i < 1500; ++i) {
    Logits logits(1 + random() % (i % 10 == 0 ? 3000 : 60));
    for (float& logit : logits) logit = static_cast<float>(static_cast<int>(random() % 200)) / 8;  // many ties
    const SamplerSettings settings{.temperature = 0.1 + 3 * uniform(),
                                   .top_k = i % 3 == 0 ? 0 : static_cast<std::int64_t>(random() % 70),
                                   .top_p = i % 4 == 0 ? 1 : uniform(),
                                   .min_p = i % 5 == 0 ? 0.3 * uniform() : 0};
    Sampler sampler(settings);
    for (int draw = 0; draw < 4; ++draw) {
      const double u = uniform();
      ASSERT_EQ(sampler(logits, {}, u), by_definition(logits, settings, u)) << i;
    }
  }
}

// A token's uniform is its own: it does not depend on what else is drawn, and it is spread evenly.
TEST(Sampler, UniformsAreKeyedBySeedSequenceAndPosition) {
  const double first = sampling_uniform(7, 3, 100);
  EXPECT_EQ(sampling_uniform(7, 3, 100), first);
  EXPECT_NE(sampling_uniform(8, 3, 100), first);
  EXPECT_NE(sampling_uniform(7, 4, 100), first);
  EXPECT_NE(sampling_uniform(7, 3, 101), first);
  EXPECT_EQ(first, 0x1.7b31be0976b06p-1);  // JAX: uniform(split(PRNGKey(7), 5)[3], (101,), f64)[100]
  double sum = 0;
  for (std::uint64_t i = 0; i < 4000; ++i) sum += sampling_uniform(1, i % 40, i / 40);
  EXPECT_NEAR(sum / 4000, .5, .02);
}

}  // namespace
}  // namespace eadem::text
