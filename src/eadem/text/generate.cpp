#include "eadem/text/generate.h"

#include <algorithm>
#include <chrono>

#include "eadem/ops/ops.h"

namespace eadem::text {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct Sequence {
  std::vector<std::int32_t> tokens;  // the prompt and what was emitted
  std::int64_t cached = 0;           // how many of them are in the cache
  std::int64_t emitted = 0;
  bool active = true;
};

// What followed the latest earlier occurrence of the last tokens (three, else two), at most `limit` of it.
std::vector<std::int32_t> look_up(const std::vector<std::int32_t>& tokens, std::int64_t limit) {
  for (const std::size_t n : {std::size_t{3}, std::size_t{2}}) {
    if (tokens.size() < n + 1) continue;
    const auto key = tokens.end() - static_cast<std::ptrdiff_t>(n);
    const auto found = std::find_end(tokens.begin(), tokens.end() - 1, key, tokens.end());
    if (found == tokens.end() - 1) continue;
    const auto from = found + static_cast<std::ptrdiff_t>(n);
    return {from, from + std::min<std::ptrdiff_t>(limit, tokens.end() - from)};
  }
  return {};
}

class Batch {
 public:
  Batch(const models::Llama& model, std::span<const std::vector<std::int32_t>> prompts, const GenerateOptions& options,
        const std::function<bool(const Emission&)>& emit)
      : model_(model),
        options_(options),
        emit_(emit),
        sampler_(options.sampling),
        cache_(model.make_cache(static_cast<std::int64_t>(prompts.size()))) {
    for (const auto& prompt : prompts) sequences_.push_back({prompt});
  }

  // All prompts but their last tokens, which belong to the first decoding step.
  void prefill() {
    for (;;) {
      std::vector<std::span<const std::int32_t>> rows;
      std::size_t longest = 0;
      for (Sequence& s : sequences_) {
        const auto begin = static_cast<std::size_t>(s.cached);
        const std::size_t count =
            std::min(s.tokens.size() - 1 - begin, static_cast<std::size_t>(options_.prefill_chunk));
        rows.push_back(std::span(s.tokens).subspan(begin, count));
        longest = std::max(longest, count);
      }
      if (longest == 0) return;
      run(rows);
      for (std::size_t b = 0; b < rows.size(); ++b) sequences_[b].cached += static_cast<std::int64_t>(rows[b].size());
    }
  }

  // One forward pass: every active sequence's last token and what is guessed to follow it.
  void step(GenerateStatistics& statistics) {
    std::vector<std::vector<std::int32_t>> rows(sequences_.size());
    for (std::size_t b = 0; b < rows.size(); ++b) {
      Sequence& s = sequences_[b];
      if (!s.active) continue;
      rows[b] = {s.tokens.back()};
      if (options_.speculate > 0 && options_.max_tokens - s.emitted > 1) {
        const std::vector<std::int32_t> draft =
            look_up(s.tokens, std::min(options_.speculate, options_.max_tokens - s.emitted - 1));
        rows[b].insert(rows[b].end(), draft.begin(), draft.end());
        statistics.drafted += static_cast<std::int64_t>(draft.size());
      }
    }
    const Array hidden = run({rows.begin(), rows.end()});
    ++statistics.runs;
    const Array logits = contiguous(model_.logits(needed_rows(hidden, rows)));
    const auto vocabulary = static_cast<std::size_t>(model_.config().vocabulary);
    std::size_t row = 0;
    for (std::size_t b = 0; b < rows.size(); ++b) {
      Sequence& s = sequences_[b];
      const std::size_t first = row;
      row += rows[b].size();
      for (std::size_t i = 0; i < rows[b].size() && s.active; ++i) {
        if (i > 0 && rows[b][i] != s.tokens.back()) break;  // the guess was wrong; what follows it is void
        statistics.accepted += i > 0;
        ++s.cached;
        emit(b, logits_of(logits, first + i, vocabulary));
        ++statistics.emitted;
      }
    }
  }

  bool active() const {
    return std::any_of(sequences_.begin(), sequences_.end(), [](const Sequence& s) { return s.active; });
  }

 private:
  // Runs tokens after what each sequence has in the cache; hidden states [B, longest, hidden].
  Array run(const std::vector<std::span<const std::int32_t>>& rows) {
    std::size_t longest = 0;
    for (const auto& row : rows) longest = std::max(longest, row.size());
    std::vector<std::int64_t> tokens(rows.size() * longest, 0);
    models::Placement placement;
    for (std::size_t b = 0; b < rows.size(); ++b) {
      std::copy(rows[b].begin(), rows[b].end(), tokens.begin() + static_cast<std::ptrdiff_t>(b * longest));
      placement.position.push_back(sequences_[b].cached);
      placement.count.push_back(static_cast<std::int64_t>(rows[b].size()));
    }
    const Shape shape{static_cast<std::int64_t>(rows.size()), static_cast<std::int64_t>(longest)};
    return model_.hidden(Array::from(tokens, shape), placement, cache_);
  }

  // The hidden states of real tokens, [sum of row lengths, hidden].
  static Array needed_rows(const Array& hidden, const std::vector<std::vector<std::int32_t>>& rows) {
    const std::int64_t width = hidden.shape()[1];
    std::vector<std::int64_t> indices;
    for (std::size_t b = 0; b < rows.size(); ++b)
      for (std::size_t i = 0; i < rows[b].size(); ++i)
        indices.push_back(static_cast<std::int64_t>(b) * width + static_cast<std::int64_t>(i));
    const Array flat = reshape(hidden, {hidden.shape()[0] * width, hidden.shape()[2]});
    if (static_cast<std::int64_t>(indices.size()) == flat.shape()[0]) return flat;
    return take(flat, Array::from(indices, {static_cast<std::int64_t>(indices.size())}), 0);
  }

  // A row of logits as f32, rounded when the model computes in f64.
  std::span<const float> logits_of(const Array& logits, std::size_t row, std::size_t vocabulary) {
    if (logits.dtype() == DType::f32) return logits.data<float>().subspan(row * vocabulary, vocabulary);
    const auto wide = logits.data<double>().subspan(row * vocabulary, vocabulary);
    rounded_.assign(wide.begin(), wide.end());
    return rounded_;
  }

  void emit(std::size_t b, std::span<const float> logits) {
    Sequence& s = sequences_[b];
    const std::uint64_t stream = options_.streams.empty() ? 0 : options_.streams[b];
    const double uniform = sampling_uniform(options_.seed, stream, static_cast<std::uint64_t>(s.emitted));
    const std::int32_t token = sampler_(logits, s.tokens, uniform);
    const bool more = emit_({static_cast<std::int64_t>(b), s.emitted, token, logits});
    s.tokens.push_back(token);
    ++s.emitted;
    s.active = more && s.emitted < options_.max_tokens;
  }

  const models::Llama& model_;
  const GenerateOptions& options_;
  const std::function<bool(const Emission&)>& emit_;
  Sampler sampler_;
  nn::KvCache cache_;
  std::vector<Sequence> sequences_;
  std::vector<float> rounded_;
};

void check(const models::Llama& model, std::span<const std::vector<std::int32_t>> prompts,
           const GenerateOptions& options) {
  if (prompts.empty()) fail<ValueError>("[generate] needs at least one prompt");
  if (options.max_tokens < 0 || options.prefill_chunk < 1 || options.speculate < 0)
    fail<ValueError>(
        "[generate] max_tokens {} and speculate {} must not be negative, prefill_chunk {} must be positive",
        options.max_tokens, options.speculate, options.prefill_chunk);
  options.sampling.check();
  if (!options.streams.empty() && options.streams.size() != prompts.size())
    fail<ValueError>("[generate] {} streams for {} prompts", options.streams.size(), prompts.size());
  for (std::size_t b = 0; b < prompts.size(); ++b) {
    if (prompts[b].empty()) fail<ValueError>("[generate] prompt {} is empty", b);
    const auto length = static_cast<std::int64_t>(prompts[b].size());
    if (length > model.config().context || options.max_tokens > model.config().context - length)
      fail<ValueError>("[generate] prompt {} has {} tokens; with {} more they exceed the model's context of {}", b,
                       length, options.max_tokens, model.config().context);
  }
}

}  // namespace

GenerateStatistics generate(const models::Llama& model, std::span<const std::vector<std::int32_t>> prompts,
                            const GenerateOptions& options, const std::function<bool(const Emission&)>& emit) {
  check(model, prompts, options);
  GenerateStatistics statistics;
  for (const auto& prompt : prompts) statistics.prompt_tokens += static_cast<std::int64_t>(prompt.size());
  if (options.max_tokens == 0) return statistics;
  Batch batch(model, prompts, options, emit);
  const auto start = Clock::now();
  batch.prefill();
  statistics.prefill_seconds = seconds_since(start);
  const auto decode = Clock::now();
  while (batch.active()) batch.step(statistics);
  statistics.decode_seconds = seconds_since(decode);
  return statistics;
}

}  // namespace eadem::text
