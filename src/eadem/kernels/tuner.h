#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// The tuner measures candidates that are registered as bit-identical, so that its choice cannot be seen in a result;
// and it believes none of them: before a candidate may be timed on operands, its result on those operands is compared
// with numerics/, bit by bit. It is off unless EADEM_TUNE=1 or set_tuning(true): the static choices are as good where
// they were measured (docs/performance.md). Forcing a candidate works always.

namespace eadem::kernels {

/// One way to compute a family's problems. `problem` is the family's own struct.
struct Candidate {
  std::string_view name;
  bool (*admits)(const void* problem) = nullptr;  ///< whether it can run this problem on the active target
  void (*run)(const void* problem) = nullptr;
};

/// The first element in which a result differs from the definition.
struct Difference {
  std::string element;  ///< "[2,0,17]"
  double got = 0, want = 0;
};

/// A candidate that is not what it was registered as.
struct Refusal {
  std::string candidate;  ///< "contraction/vdpbf16ps"
  std::string problem;
  Difference difference;
};

struct CandidateStatus {
  std::string name;
  std::int64_t runs = 0;  ///< problems that it ran as a forced or tuned choice
  bool refused = false;
};

/// The candidates of one family of kernels.
class Tuner {
 public:
  /// key: names the class of a problem for which a choice is kept. check: compares the problem's result in memory with
  /// numerics/, all of it.
  Tuner(std::string_view family, std::span<const Candidate> candidates, std::string (*key)(const void* problem),
        std::optional<Difference> (*check)(const void* problem))
      : family_(family), candidates_(candidates.begin(), candidates.end()), key_(key), check_(check) {
    entries_.resize(candidates_.size());
  }

  /// Runs the problem by the forced or the tuned candidate; false if there is neither, and the caller's own choice is
  /// wanted. Costs one load when nothing is forced and tuning is off.
  bool run(const void* problem);

  /// Adds a candidate for the rest of the process (tests plant wrong ones).
  void add(const Candidate&);

  std::string_view family() const { return family_; }
  std::vector<CandidateStatus> status();
  std::vector<Refusal> refusals();
  /// Forces the candidate of that name wherever it admits the problem; empty: none. False if there is no such name.
  bool force(std::string_view name);
  /// Forgets choices and refusals.
  void clear();

 private:
  struct Entry {
    std::int64_t runs = 0;
    bool refused = false;
  };
  std::optional<std::size_t> tuned(const void* problem);

  std::string family_;
  std::vector<Candidate> candidates_;
  std::string (*key_)(const void* problem);
  std::optional<Difference> (*check_)(const void* problem);
  std::mutex mutex_;
  std::vector<Entry> entries_;
  std::vector<Refusal> refusals_;
  std::map<std::string, std::optional<std::size_t>> choices_;
  std::optional<std::size_t> forced_;
};

/// All candidates of all families, by name "family/candidate".
std::vector<CandidateStatus> tuner_candidates();

/// Forces "family/candidate" wherever it can run; an empty name forces none. Throws ValueError for an unknown name.
void force_candidate(std::string_view name);

/// What was refused so far.
std::vector<Refusal> tuner_refusals();

/// Whether families ask the tuner for measured choices; initially EADEM_TUNE=1.
bool tuning();
void set_tuning(bool on);

/// Forgets measured choices and refusals of all families.
void clear_tuner();

}  // namespace eadem::kernels
