#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "eadem/models/llama.h"

namespace eadem::audit {

/// Everything that a program says about a token sequence: logits of every position, and the cache.
struct Evaluation {
  Array logits;                     ///< f32 or f64 [tokens, vocabulary]
  std::vector<Array> keys, values;  ///< by layer, [kv_heads, tokens, head_size]
};

/// How the tokens are run; none of it may move a bit.
struct Form {
  std::vector<std::int64_t> chunks;                   ///< tokens run at once, in turn; empty: all at once
  std::vector<std::vector<std::int32_t>> companions;  ///< other sequences of the batch
  std::int64_t place = 0;                             ///< where in the batch the audited sequence stands
  std::int64_t left_padding = 0, right_padding = 0;   ///< columns of padding around each run
  /// After each run these many wrong tokens are run and taken back, as speculation that was refused.
  std::int64_t rejected = 0;
};

/// Runs the tokens (i32, inside the vocabulary) under a form.
Evaluation evaluate(const models::Llama& model, const std::vector<std::int32_t>& tokens, const Form& form = {});

/// The first place, in the order of computation, where two evaluations differ.
struct Difference {
  std::int64_t layer = -1;  ///< -1: after the last layer
  std::string tensor;       ///< "key", "value" or "logits"
  std::vector<std::int64_t> index;
  double expected = 0, got = 0;
};

struct Comparison {
  std::int64_t compared = 0, differing = 0;  ///< elements
  std::optional<Difference> first;
};

/// Compares bits of all logits and cache entries. ValueError when the evaluations are not of one shape.
Comparison compare(const Evaluation& expected, const Evaluation& got);

/// Keeps only the first `count` positions.
Evaluation head(const Evaluation& evaluation, std::int64_t count);

/// Raw little-endian bytes of an evaluation, for another process to read back.
void write_evaluation(const Evaluation& evaluation, const std::filesystem::path& path);
/// Reads one that has the types of `like`. FileError when the file does not hold it.
Evaluation read_evaluation(const std::filesystem::path& path, const Evaluation& like);

}  // namespace eadem::audit
