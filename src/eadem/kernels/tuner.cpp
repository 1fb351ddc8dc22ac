#include "eadem/kernels/tuner.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>

#include "eadem/base/error.h"
#include "eadem/kernels/contraction/contraction.h"
#include "eadem/kernels/quantized/quantized.h"

namespace eadem::kernels {
namespace {

// Every family's tuner.
std::array<Tuner*, 2> families() {
  return {&contraction_tuner(), &quantized_tuner()};
}

bool wanted_at_start() {
  const char* value = std::getenv("EADEM_TUNE");
  return value && *value && *value != '0';
}

std::atomic<bool>& tuning_flag() {
  static std::atomic<bool> on{wanted_at_start()};
  return on;
}

// How many tuners have a forced candidate: with tuning off and none forced, run() is this one load.
std::atomic<int> forced_count{0};

double seconds_of(const Candidate& candidate, const void* problem) {
  double best = 1e300;
  for (int i = 0; i < 3; ++i) {
    const auto start = std::chrono::steady_clock::now();
    candidate.run(problem);
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

}  // namespace

bool Tuner::run(const void* problem) {
  const bool measured = tuning_flag().load(std::memory_order_relaxed);
  if (!measured && forced_count.load(std::memory_order_relaxed) == 0) return false;
  std::optional<std::size_t> choice;
  {
    const std::lock_guard lock(mutex_);
    if (forced_ && candidates_[*forced_].admits(problem))
      choice = forced_;
    else if (measured)
      choice = tuned(problem);
    if (choice) ++entries_[*choice].runs;
  }
  if (!choice) return false;
  candidates_[*choice].run(problem);
  return true;
}

std::optional<std::size_t> Tuner::tuned(const void* problem) {
  const std::string key = key_(problem);
  if (const auto known = choices_.find(key); known != choices_.end()) return known->second;
  std::optional<std::size_t> fastest;
  double least = 1e300;
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    if (entries_[i].refused || !candidates_[i].admits(problem)) continue;
    candidates_[i].run(problem);
    if (const std::optional<Difference> difference = check_(problem)) {
      entries_[i].refused = true;
      refusals_.push_back({family_ + "/" + std::string(candidates_[i].name), key, *difference});
      continue;
    }
    const double seconds = seconds_of(candidates_[i], problem);
    if (seconds < least) least = seconds, fastest = i;
  }
  return choices_[key] = fastest;
}

void Tuner::add(const Candidate& candidate) {
  const std::lock_guard lock(mutex_);
  candidates_.push_back(candidate);
  entries_.emplace_back();
}

std::vector<CandidateStatus> Tuner::status() {
  const std::lock_guard lock(mutex_);
  std::vector<CandidateStatus> all;
  for (std::size_t i = 0; i < candidates_.size(); ++i)
    all.push_back({family_ + "/" + std::string(candidates_[i].name), entries_[i].runs, entries_[i].refused});
  return all;
}

std::vector<Refusal> Tuner::refusals() {
  const std::lock_guard lock(mutex_);
  return refusals_;
}

bool Tuner::force(std::string_view name) {
  const std::lock_guard lock(mutex_);
  const bool before = forced_.has_value();
  std::optional<std::size_t> found;
  for (std::size_t i = 0; i < candidates_.size(); ++i)
    if (candidates_[i].name == name) found = i;
  if (!name.empty() && !found) return false;
  forced_ = found;
  forced_count.fetch_add(static_cast<int>(found.has_value()) - static_cast<int>(before));
  return true;
}

void Tuner::clear() {
  const std::lock_guard lock(mutex_);
  choices_.clear();
  refusals_.clear();
  for (Entry& entry : entries_) entry.refused = false;
}

std::vector<CandidateStatus> tuner_candidates() {
  std::vector<CandidateStatus> all;
  for (Tuner* tuner : families())
    for (CandidateStatus& each : tuner->status()) all.push_back(std::move(each));
  return all;
}

void force_candidate(std::string_view name) {
  for (Tuner* tuner : families()) tuner->force("");
  if (name.empty()) return;
  const std::size_t slash = name.find('/');
  if (slash != std::string_view::npos)
    for (Tuner* tuner : families())
      if (tuner->family() == name.substr(0, slash) && tuner->force(name.substr(slash + 1))) return;
  std::string names;
  for (const CandidateStatus& each : tuner_candidates()) names += (names.empty() ? "" : " ") + each.name;
  fail<ValueError>("[force_candidate] must be one of {}, got '{}'", names, name);
}

std::vector<Refusal> tuner_refusals() {
  std::vector<Refusal> all;
  for (Tuner* tuner : families())
    for (Refusal& each : tuner->refusals()) all.push_back(std::move(each));
  return all;
}

bool tuning() {
  return tuning_flag().load(std::memory_order_relaxed);
}
void set_tuning(bool on) {
  tuning_flag().store(on, std::memory_order_relaxed);
}

void clear_tuner() {
  for (Tuner* tuner : families()) tuner->clear();
}

}  // namespace eadem::kernels
