#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace eadem::text {

/// How the next token is chosen. Applied in this order: repetition penalty, temperature, top-k, top-p, min-p, draw.
struct SamplerSettings {
  double temperature = 1;         ///< logits are divided by it; 0 (or below 2^-126) takes the best token
  std::int64_t top_k = 0;         ///< keep the best k tokens; 0, or more than there are: no limit
  double top_p = 1;               ///< keep the fewest best tokens that have this share of the weight; at least one
  double min_p = 0;               ///< keep tokens at least this likely, relative to the best
  double repetition_penalty = 1;  ///< divides positive logits of tokens seen before, multiplies negative ones

  /// Throws ValueError for NaN, infinities, and what lies outside the ranges above.
  void check() const;
  bool greedy() const { return temperature < 0x1p-126; }
};

/// The uniform number in [0, 1) for the token at `position` of a sequence: Threefry keyed by (seed, sequence), counted
/// by position. So sampled text repeats, whatever else is in the batch.
double sampling_uniform(std::uint64_t seed, std::uint64_t sequence, std::uint64_t position);

/// Chooses tokens. A choice is a pure function of (logits, settings, history, uniform); the object only keeps memory to
/// be reused. Tokens are ranked everywhere by logit, descending (-0 below +0), then by id, ascending. Weights are
/// exp((l - l_max) / T) in f64, zero below exp(-700); the draw is numerics::categorical over the kept tokens, by
/// ascending id.
class Sampler {
 public:
  /// Throws ValueError when the settings are out of range.
  explicit Sampler(const SamplerSettings& settings) : settings_(settings) { settings.check(); }

  /// The token chosen by `uniform` in [0, 1). `history` are the tokens that the repetition penalty looks at. Throws
  /// ValueError for a NaN logit, for no logit above -inf, and for a history token out of range.
  std::int32_t operator()(std::span<const float> logits, std::span<const std::int32_t> history, double uniform);
  const SamplerSettings& settings() const { return settings_; }

 private:
  std::span<const float> penalized(std::span<const float> logits, std::span<const std::int32_t> history);
  void keep_top_k(std::span<const float> logits);
  void keep_top_p();

  SamplerSettings settings_;
  std::vector<float> penalized_;
  std::vector<std::int32_t> seen_;
  std::vector<std::uint64_t> ranks_;  // what is kept, best first once sorted: (logit, id) as one integer
  std::vector<double> weights_;       // by id over the vocabulary; zero where not kept
  std::vector<double> kept_weights_;
  std::vector<std::int32_t> kept_;
};

}  // namespace eadem::text
