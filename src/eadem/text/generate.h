#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "eadem/models/llama.h"
#include "eadem/text/sampler.h"

namespace eadem::text {

struct GenerateOptions {
  std::int64_t max_tokens = 256;  ///< emitted by a sequence at most
  SamplerSettings sampling{.temperature = 0};
  std::uint64_t seed = 0;
  /// The stream of random numbers of each prompt; empty: 0 for all, so that a prompt's draws do not depend on the
  /// batch.
  std::vector<std::uint64_t> streams = {};
  std::int64_t prefill_chunk = 512;  ///< prompt tokens run at once; moves no bit
  /// Prompt look-up: tokens that followed the last occurrence of the latest ones are run ahead, up to this many, and
  /// kept as far as they are what would have been emitted. 0: off. Moves no bit.
  std::int64_t speculate = 0;
};

/// One emitted token and the logits that it was drawn from.
struct Emission {
  std::int64_t sequence = 0;  ///< index of the prompt
  std::int64_t step = 0;      ///< 0 for the first emitted token
  std::int32_t token = 0;
  std::span<const float> logits;  ///< valid during the call
};

struct GenerateStatistics {
  double prefill_seconds = 0, decode_seconds = 0;
  std::int64_t prompt_tokens = 0, emitted = 0;
  std::int64_t runs = 0;  ///< forward passes after the prompt
  std::int64_t drafted = 0, accepted = 0;
};

/// Generates a continuation of each prompt, all in one batch; each gets the bits that it would get alone. `emit` is
/// called for every token in order of steps and returns whether its sequence goes on. Throws ValueError for an empty
/// prompt, a token outside the vocabulary, or a prompt and max_tokens that exceed the model's context.
GenerateStatistics generate(const models::Llama& model, std::span<const std::vector<std::int32_t>> prompts,
                            const GenerateOptions& options, const std::function<bool(const Emission&)>& emit);

}  // namespace eadem::text
