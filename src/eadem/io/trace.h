#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "eadem/io/atomic_file.h"

namespace eadem::io {

/// What the bits of a generation depend on, besides the model's bytes and the numerics version.
struct TraceSettings {
  std::string dtype = "bf16";        ///< compute dtype: bf16, f32 or f64
  std::vector<std::int64_t> prompt;  ///< token ids, with the special ones
  std::int64_t max_tokens = 0;
  double temperature = 0;  ///< 0 is greedy
  std::int64_t top_k = 0;  ///< 0 keeps all
  double top_p = 1;
  double min_p = 0;
  double repetition_penalty = 1;
  std::uint64_t seed = 0;
  friend bool operator==(const TraceSettings&, const TraceSettings&) = default;
};

/// Where a trace was made: recorded, never compared.
struct TraceMachine {
  std::string cpu, target;
  std::int64_t threads = 1;
};

struct TraceHeader {
  std::string numerics;      ///< "v1"
  std::string model;         ///< as it was named; recorded, not compared
  std::string model_sha256;  ///< of the file, or of what a built-in model is made of
  TraceSettings settings;
  TraceMachine machine;
};

/// One emitted token and the SHA-256 of the f32 logits (little-endian, vocabulary order) that it was drawn from.
struct TraceStep {
  std::int64_t token = 0;
  std::string logits;
  friend bool operator==(const TraceStep&, const TraceStep&) = default;
};

struct Trace {
  TraceHeader header;
  std::vector<TraceStep> steps;
};

/// Writes a trace as it is made: JSON Lines, a header, one record for each token, an end with their count.
/// The file appears when finish() returns; without it, nothing is left.
class TraceWriter {
 public:
  /// FileError; ValueError for a header that a reader would refuse.
  TraceWriter(const std::filesystem::path&, const TraceHeader&);
  void add(const TraceStep&);
  void finish();

 private:
  AtomicFile file_;
  std::int64_t count_ = 0;
};

/// Reads a trace, all of it checked; FileError naming file, line and field.
Trace read_trace(const std::filesystem::path&);
Trace parse_trace(std::string_view text, std::string_view source);

/// The first thing in which two traces differ.
struct TraceDifference {
  std::string field;                 ///< "numerics", "settings.seed", "logits", "token", "count", ...
  std::optional<std::int64_t> step;  ///< for logits and token
  std::string left, right;
};
/// Compares all but where the traces were made and how the model was named. Nothing when they are the same.
std::optional<TraceDifference> diff(const Trace& left, const Trace& right);

}  // namespace eadem::io
