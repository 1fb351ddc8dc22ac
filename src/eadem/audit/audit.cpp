#include "eadem/audit/audit.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "eadem/base/float_environment.h"
#include "eadem/base/memory.h"
#include "eadem/base/parallel.h"
#include "eadem/kernels/target.h"
#include "eadem/kernels/tuner.h"
#include "eadem/ops/ops.h"

namespace eadem::audit {
namespace {

using Clock = std::chrono::steady_clock;

// Puts threads, target and poison back as they were.
class StateGuard {
 public:
  StateGuard() = default;
  ~StateGuard() {
    set_threads(threads_);
    kernels::set_target(target_);
    set_poison(poison_);
  }
  StateGuard(const StateGuard&) = delete;
  StateGuard& operator=(const StateGuard&) = delete;

 private:
  int threads_ = threads(), poison_ = poison();
  kernels::Target target_ = kernels::active_target();
};

class Auditor {
 public:
  Auditor(const Subject& subject, const std::vector<std::int32_t>& tokens, const Options& options,
          const Progress& progress)
      : subject_(subject), tokens_(tokens), options_(options), progress_(progress) {}

  std::vector<PropertyResult> run() {
    begin("reference");
    show("all at once");
    expected_ = subject_.evaluate(tokens_, {});
    repeat();
    fresh_process();
    thread_counts();
    targets();
    batches();
    padding();
    chunks();
    speculation();
    candidates();
    finish();
    return std::move(results_);
  }

 private:
  void begin(std::string name) {
    finish();
    current_.name = std::move(name);
    start_ = Clock::now();
  }
  void finish() {
    current_.seconds = std::chrono::duration<double>(Clock::now() - start_).count();
    if (!current_.name.empty() && current_.name != "reference") results_.push_back(std::move(current_));
    current_ = {};
  }
  void show(const std::string& form) {
    if (progress_) progress_(current_.name, form);
  }
  void add(const Comparison& comparison, const std::string& form) {
    current_.compared += comparison.compared;
    current_.differing += comparison.differing;
    if (comparison.first && !current_.first) {
      current_.first = comparison.first;
      current_.first_form = form;
    }
  }
  void check(const std::string& name, const Form& form = {}) {
    show(name);
    add(compare(expected_, subject_.evaluate(tokens_, form)), name);
  }

  // Each repetition starts from memory filled with another byte: what was never written shows at once.
  void repeat() {
    begin("repeat");
    const StateGuard guard;
    for (const int poison : {-1, 0x00, 0xff, 0x7f, 0x3c}) {
      set_poison(poison);
      check(poison < 0 ? "as it is" : fmt::format("memory filled with 0x{:02x}", poison));
    }
  }

  void fresh_process() {
    begin("fresh process");
    if (!subject_.evaluate_elsewhere) {
      current_.skipped = "this subject lives in one process";
      return;
    }
    for (const int poison : {-1, 0xff, 0x7f}) {
      const std::string name = poison < 0 ? "as it is" : fmt::format("memory filled with 0x{:02x}", poison);
      show(name);
      add(compare(expected_, subject_.evaluate_elsewhere(tokens_, expected_, poison)), name);
    }
  }

  void thread_counts() {
    begin("threads");
    const StateGuard guard;
    for (const int count : {1, 2, 3, 7}) {
      set_threads(count);
      check(fmt::format("{} threads", count));
    }
  }

  void targets() {
    begin("targets");
    const StateGuard guard;
    for (const kernels::Target target : kernels::available_targets()) {
      kernels::set_target(target);
      const auto total = static_cast<std::int64_t>(tokens_.size());
      const bool shortened =
          target == kernels::Target::scalar && options_.scalar_tokens > 0 && options_.scalar_tokens < total;
      const std::string name(kernels::name_of(target));
      if (!shortened) {
        check(name);
        continue;
      }
      show(name);
      const std::vector<std::int32_t> few(tokens_.begin(), tokens_.begin() + options_.scalar_tokens);
      add(compare(head(expected_, options_.scalar_tokens), subject_.evaluate(few, {})), name);
      current_.skipped = fmt::format("scalar: positions {} to {}", options_.scalar_tokens, total - 1);
    }
  }

  // Companions of several lengths, tokens unlike ours.
  std::vector<std::vector<std::int32_t>> companions(std::size_t count) const {
    std::vector<std::vector<std::int32_t>> result;
    const std::size_t total = tokens_.size();
    for (std::size_t i = 0; i < count; ++i) {
      std::vector<std::int32_t> row(std::max<std::size_t>(1, i % 3 == 0 ? total : i % 3 == 1 ? total / 2 : total / 7));
      for (std::size_t k = 0; k < row.size(); ++k)
        row[k] = static_cast<std::int32_t>((tokens_[total - 1 - k] + 31 * static_cast<std::int64_t>(i) + 5) %
                                           subject_.vocabulary);
      result.push_back(std::move(row));
    }
    return result;
  }

  void batches() {
    begin("batch size and place");
    for (const std::int64_t batch : {1, 2, 3, 8})
      for (std::int64_t place = 0; place < batch; ++place) {
        Form form;
        form.companions = companions(static_cast<std::size_t>(batch - 1));
        form.place = place;
        check(fmt::format("row {} of {}", place, batch), form);
      }
  }

  void padding() {
    begin("padding");
    for (const auto& [left, right] : {std::pair{1, 0}, {13, 0}, {0, 1}, {0, 29}, {5, 3}}) {
      Form form;
      form.left_padding = left;
      form.right_padding = right;
      form.companions = companions(1);
      check(fmt::format("{} left, {} right", left, right), form);
    }
  }

  void chunks() {
    begin("prefill in chunks");
    for (const std::int64_t size : {7, 64}) {
      Form form;
      form.chunks = {size};
      check(fmt::format("chunks of {}", size), form);
    }
    check("all at once");
    begin("token by token");
    Form single;
    single.chunks = {1};
    check("chunks of 1", single);
  }

  void speculation() {
    begin("speculation");
    Form form;
    form.chunks = {3, 1, 5, 2};
    form.rejected = 4;
    check("guesses taken back", form);
    if (!subject_.generate) return;
    show("prompt look-up");
    const Subject::Generation plain = subject_.generate(tokens_, false), ahead = subject_.generate(tokens_, true);
    // Where nothing was guessed, both runs were one: nothing was shown of look-up.
    if (ahead.drafted == 0)
      current_.skipped = "prompt look-up: it guessed nothing in this text";
    else
      add(compare({plain.logits, {}, {}}, {ahead.logits, {}, {}}), "prompt look-up");
  }

  // Each candidate wherever it can run; one that differs from the definition is refused by the tuner, by name.
  void candidates() {
    begin("tuner candidates");
    struct Unforce {
      ~Unforce() { kernels::force_candidate(""); }
    } guard;
    // All rows at once, and few, for which there are candidates of their own; each against its own form, so that this
    // line shows nothing but what candidates do.
    Form chunks;
    chunks.chunks = {7};
    const Evaluation expected_few = subject_.evaluate(tokens_, chunks);
    std::string idle;
    for (const kernels::CandidateStatus& candidate : kernels::tuner_candidates()) {
      kernels::force_candidate(candidate.name);
      show(candidate.name);
      bool ran = false;
      std::int64_t runs = candidate.runs;
      for (const bool few : {false, true}) {
        const Evaluation evaluation = subject_.evaluate(tokens_, few ? chunks : Form{});
        // Where a candidate admits none of the program's problems, the program ran as ever: nothing was shown of it.
        if (runs_of(candidate.name) == runs) continue;
        runs = runs_of(candidate.name), ran = true;
        add(compare(few ? expected_few : expected_, evaluation),
            few ? candidate.name + ", chunks of 7" : candidate.name);
      }
      if (!ran) idle += (idle.empty() ? "never ran: " : ", ") + candidate.name;
    }
    current_.skipped = idle;
    for (const kernels::Refusal& refusal : kernels::tuner_refusals()) {
      ++current_.differing;
      current_.first_form =
          fmt::format("{} was refused: {} of {}", refusal.candidate, refusal.difference.element, refusal.problem);
    }
  }

  static std::int64_t runs_of(const std::string& name) {
    for (const kernels::CandidateStatus& candidate : kernels::tuner_candidates())
      if (candidate.name == name) return candidate.runs;
    return 0;
  }

  const Subject& subject_;
  const std::vector<std::int32_t>& tokens_;
  const Options& options_;
  const Progress& progress_;
  Evaluation expected_;
  PropertyResult current_;
  Clock::time_point start_;
  std::vector<PropertyResult> results_;
};

double value_at(const Array& x, std::int64_t i) {
  return x.dtype() == DType::f64 ? x.view().as<const double>()[i] : static_cast<double>(x.view().as<const float>()[i]);
}

}  // namespace

std::vector<PropertyResult> audit(const Subject& subject, const std::vector<std::int32_t>& tokens,
                                  const Options& options, const Progress& progress) {
  return Auditor(subject, tokens, options, progress).run();
}

Accuracy accuracy(const std::string& dtype, const Array& logits, const Array& ideal, const Array& reference) {
  const FloatEnvironment environment;
  if (logits.shape() != reference.shape() || ideal.shape() != reference.shape())
    fail<ValueError>("[accuracy] logits {} and {} cannot be compared with {}", logits.type(), ideal.type(),
                     reference.type());
  Accuracy result{.dtype = dtype, .positions = reference.shape()[0]};
  const std::int64_t vocabulary = reference.shape()[1];
  double error = 0, ideal_error = 0, norm = 0;
  for (std::int64_t row = 0; row < result.positions; ++row) {
    double worst = 0, best = -INFINITY, second = -INFINITY;
    std::int64_t top = 0, own_top = 0;
    for (std::int64_t i = row * vocabulary; i < (row + 1) * vocabulary; ++i) {
      const double y = value_at(logits, i), y64 = value_at(reference, i), other = value_at(ideal, i) - y64;
      error += (y - y64) * (y - y64);
      ideal_error += other * other;
      norm += y64 * y64;
      worst = std::max(worst, std::fabs(y - y64));
      if (y64 > best) {
        second = best;
        best = y64;
        top = i;
      } else {
        second = std::max(second, y64);
      }
      if (y > value_at(logits, row * vocabulary + own_top)) own_top = i - row * vocabulary;
    }
    result.max_abs = std::max(result.max_abs, worst);
    if (top == row * vocabulary + own_top)
      ++result.top1_agree;
    else if (best - second <= 2 * worst)
      ++result.explained;
  }
  result.relative_rms = norm > 0 ? std::sqrt(error / norm) : 0;
  result.ratio = ideal_error > 0 ? std::sqrt(error / ideal_error) : error > 0 ? INFINITY : 1;
  return result;
}

std::string describe(const Difference& d) {
  const std::string where = d.layer < 0 ? "" : fmt::format("layer {}, ", d.layer);
  return fmt::format("{}{}[{}]: {} became {}", where, d.tensor, fmt::join(d.index, ","), d.expected, d.got);
}

}  // namespace eadem::audit
