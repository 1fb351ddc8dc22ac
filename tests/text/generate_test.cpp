#include "eadem/text/generate.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "eadem/models/load.h"

namespace eadem {
namespace {

using Prompts = std::vector<std::vector<std::int32_t>>;

struct Output {
  std::vector<std::int32_t> tokens;
  std::vector<std::vector<float>> logits;
};

std::vector<Output> run(const Prompts& prompts, const text::GenerateOptions& options,
                        text::GenerateStatistics* statistics = nullptr) {
  static const models::Llama model = models::builtin_tiny(DType::bf16);
  std::vector<Output> outputs(prompts.size());
  const auto result = text::generate(model, prompts, options, [&](const text::Emission& e) {
    Output& output = outputs[static_cast<std::size_t>(e.sequence)];
    EXPECT_EQ(e.step, static_cast<std::int64_t>(output.tokens.size()));
    output.tokens.push_back(e.token);
    output.logits.emplace_back(e.logits.begin(), e.logits.end());
    return true;
  });
  if (statistics) *statistics = result;
  return outputs;
}

void expect_same(const Output& a, const Output& b, const char* what) {
  EXPECT_EQ(a.tokens, b.tokens) << what;
  ASSERT_EQ(a.logits.size(), b.logits.size());
  for (std::size_t i = 0; i < a.logits.size(); ++i)
    ASSERT_EQ(std::memcmp(a.logits[i].data(), b.logits[i].data(), a.logits[i].size() * sizeof(float)), 0)
        << what << ", step " << i;
}

const Prompts kPrompts{{1, 5, 9, 200, 31, 5, 9, 200, 31, 5, 9}, {7}, {100, 101, 102, 103, 104, 105, 106}, {42, 42, 42}};

text::GenerateOptions options(double temperature) {
  text::GenerateOptions o;
  o.max_tokens = 40;
  o.sampling.temperature = temperature;
  o.sampling.top_k = 50;
  o.seed = 11;
  return o;
}

TEST(Generate, EachPromptOfABatchGetsItsOwnBits) {
  for (const double temperature : {0.0, 0.8}) {
    const std::vector<Output> batch = run(kPrompts, options(temperature));
    for (std::size_t b = 0; b < kPrompts.size(); ++b)
      expect_same(batch[b], run({kPrompts[b]}, options(temperature))[0], "batch against alone");
  }
}

TEST(Generate, ChunksOfThePromptMoveNothing) {
  const Output whole = run({kPrompts[0]}, options(0.8))[0];
  for (const std::int64_t chunk : {1, 3, 64}) {
    text::GenerateOptions o = options(0.8);
    o.prefill_chunk = chunk;
    expect_same(whole, run({kPrompts[0]}, o)[0], "chunks");
  }
}

TEST(Generate, SpeculationMovesNothing) {
  for (const double temperature : {0.0, 0.7}) {
    const std::vector<Output> plain = run(kPrompts, options(temperature));
    text::GenerateOptions o = options(temperature);
    o.speculate = 6;
    text::GenerateStatistics statistics;
    const std::vector<Output> ahead = run(kPrompts, o, &statistics);
    for (std::size_t b = 0; b < kPrompts.size(); ++b) expect_same(plain[b], ahead[b], "speculation");
    if (temperature == 0) {
      EXPECT_GT(statistics.accepted, 0);  // greedy text of a random model loops
    }
    EXPECT_EQ(statistics.emitted, 4 * 40);
  }
}

TEST(Generate, SeedsAndStreamsGiveOtherTextAndTheSameAgain) {
  text::GenerateOptions o = options(1.0);
  const Output first = run({kPrompts[0]}, o)[0];
  expect_same(first, run({kPrompts[0]}, o)[0], "again");
  o.seed = 12;
  EXPECT_NE(run({kPrompts[0]}, o)[0].tokens, first.tokens);
  o.seed = 11;
  o.streams = {0, 1};
  const std::vector<Output> two = run({kPrompts[0], kPrompts[0]}, o);
  EXPECT_EQ(two[0].tokens, first.tokens);
  EXPECT_NE(two[1].tokens, first.tokens);
}

TEST(Generate, StopsWhenToldAndRefusesWhatItCannotDo) {
  static const models::Llama model = models::builtin_tiny(DType::bf16);
  std::map<std::int64_t, int> emitted;
  text::GenerateOptions o = options(0);
  text::generate(model, kPrompts, o, [&](const text::Emission& e) { return ++emitted[e.sequence] < 3 + e.sequence; });
  EXPECT_EQ(emitted, (std::map<std::int64_t, int>{{0, 3}, {1, 4}, {2, 5}, {3, 6}}));
  const auto refused = [&](const Prompts& prompts) {
    EXPECT_THROW(text::generate(model, prompts, o, [](const text::Emission&) { return true; }), ValueError);
  };
  refused({});
  refused({{}});
  refused({{320}});
  o.max_tokens = 2048;
  refused({{1}});
  o.max_tokens = 4;
  o.sampling.temperature = -1;
  refused({{1}});
}

}  // namespace
}  // namespace eadem
