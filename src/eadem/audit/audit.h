#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "eadem/audit/evaluation.h"

namespace eadem::audit {

/// What the auditor audits: a way to run one token sequence under a form, in one compute dtype. Threads, target and
/// poison are the process' own state, set by the auditor before it asks.
struct Subject {
  std::int64_t vocabulary = 0;
  std::function<Evaluation(const std::vector<std::int32_t>&, const Form&)> evaluate;
  /// Runs the tokens in a fresh process whose new memory is filled with `poison` (-1: not); null: skipped.
  std::function<Evaluation(const std::vector<std::int32_t>&, const Evaluation& like, int poison)> evaluate_elsewhere;
  /// What was generated greedily: the logits of each emitted token, and how many tokens look-up guessed.
  struct Generation {
    Array logits;
    std::int64_t drafted = 0;
  };
  /// Generates after the tokens, with and without prompt look-up. Null: skipped.
  std::function<Generation(const std::vector<std::int32_t>&, bool speculative)> generate;
};

/// What one property showed.
struct PropertyResult {
  std::string name;
  std::int64_t compared = 0, differing = 0;
  std::string skipped;  ///< why nothing, or less, was compared; empty: nothing was left out
  std::optional<Difference> first;
  std::string first_form;  ///< the form in which the first difference showed
  double seconds = 0;
};

/// Told before each run of a form, to show progress: property, form, runs done, runs in all.
using Progress = std::function<void(const std::string& property, const std::string& form)>;

struct Options {
  /// Positions that the scalar target runs at most: it is the definition, and slow. 0: all.
  std::int64_t scalar_tokens = 0;
};

/// Runs the tokens in every form that must not matter and compares all logits and cache entries by bits.
std::vector<PropertyResult> audit(const Subject& subject, const std::vector<std::int32_t>& tokens,
                                  const Options& options, const Progress& progress);

/// Distance from FP64 of a run in a dtype.
struct Accuracy {
  std::string dtype;
  double max_abs = 0;       ///< largest |y - y64|
  double relative_rms = 0;  ///< ||y - y64|| / ||y64||
  double ratio = 0;         ///< R = ||y - y64|| / ||ideal - y64||, ideal rounding only where the program says
  std::int64_t positions = 0, top1_agree = 0;
  std::int64_t explained = 0;  ///< flips of the top token where FP64's margin is below twice the position's max error
};

/// Compares logits with FP64's and with those of the ideal arithmetic of the dtype.
Accuracy accuracy(const std::string& dtype, const Array& logits, const Array& ideal, const Array& reference);

/// "layer 3, key[0,17,5]: 0.25 became 0.2500001", for people.
std::string describe(const Difference& difference);

}  // namespace eadem::audit
