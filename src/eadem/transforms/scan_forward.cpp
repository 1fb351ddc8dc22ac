// The forward rule of scan: an iteration's tangents beside its values. Iterations after which the same tangents are
// there again are one scan; the others are written out.

#include <algorithm>

#include "eadem/array/tree.h"
#include "eadem/ops/ops.h"
#include "eadem/transforms/scan.h"

namespace eadem {
namespace {

// At most so many iterations make one of the scan.
constexpr std::int64_t kMostPeriod = 64;

using StepRef = std::shared_ptr<const ForwardProgram>;

class ScanForwardMode {
 public:
  explicit ScanForwardMode(ProgramJvp& j)
      : j_(j),
        scan_(j.as<ScanAttribute>()),
        body_(*scan_.body),
        layout_(scan_),
        first_slice_(layout_.constants + layout_.carries),
        tangents_(j.operands()),
        ys_(layout_.ys),
        tangents_of_ys_(layout_.ys),
        reached_(layout_.ys) {
    for (std::size_t i = 0; i < j.operands(); ++i) {
      values_.push_back(j.in(i));
      if (j.has(i)) tangents_[i] = j.tangent(i);
    }
  }

  void run() {
    for (std::int64_t begin = 0; begin < scan_.length;) {
      const auto [steps, repeats] = round(begin);
      const auto period = static_cast<std::int64_t>(steps.size());
      const std::int64_t times = repeats ? (scan_.length - begin) / period : 1;
      // Where this is to be reversed, several loops would have other sums than one: they are written out.
      if (times * period == 1 || (ToBeReversed::here() && times != scan_.length)) {
        run_one(*steps[0], begin++);
      } else {
        run_scan(steps, times, begin);
        begin += times * period;
      }
    }
    Arrays results;
    for (std::size_t c = 0; c < layout_.carries; ++c) {
      results.push_back(values_[layout_.constants + c]);
      if (tangents_[layout_.constants + c]) j_.add_canonical(*tangents_[layout_.constants + c], c);
    }
    for (std::size_t y = 0; y < layout_.ys; ++y) {
      results.push_back(joined(ys_[y], layout_.carries + y));
      if (reached_[y]) j_.add_canonical(joined(tangents_of_ys_[y], layout_.carries + y), layout_.carries + y);
    }
    j_.set_results(std::move(results));
  }

 private:
  std::vector<bool> present() const {
    std::vector<bool> all;
    for (const std::optional<Array>& tangent : tangents_) all.push_back(tangent.has_value());
    return all;
  }

  // The steps from iteration `begin` on after which the same tangents are there again; or just the first, and false.
  std::pair<std::vector<StepRef>, bool> round(std::int64_t begin) const {
    const std::vector<bool> start = present();
    std::vector<bool> now = start;
    std::vector<StepRef> steps;
    for (std::int64_t s = 0; s < std::min(scan_.length - begin, kMostPeriod); ++s) {
      steps.push_back(forward_program(body_, now));
      std::copy_n(steps.back()->outputs.begin(), layout_.carries,
                  now.begin() + static_cast<std::ptrdiff_t>(layout_.constants));
      if (now == start) return {std::move(steps), true};
    }
    steps.resize(1);
    return {std::move(steps), false};
  }

  void run_one(const ForwardProgram& step, std::int64_t iteration) {
    const std::int64_t index = slice_index(scan_, iteration);
    const auto of = [&](const Array& array, std::size_t i) {
      return i < first_slice_ ? array : squeeze(slice_axis(array, 0, {index, index + 1}), 0);
    };
    Arrays inputs, tangents;
    for (std::size_t i = 0; i < values_.size(); ++i) {
      inputs.push_back(of(values_[i], i));
      if (tangents_[i]) tangents.push_back(of(*tangents_[i], i));
    }
    inputs.insert(inputs.end(), tangents.begin(), tangents.end());
    inputs.insert(inputs.end(), step.captures.begin(), step.captures.end());
    Arrays results = replay_or_call(step.program, inputs);
    Arrays carried;
    std::vector<Arrays> ys(1);
    split(step, results, carried, ys[0]);
    take(step, carried);
    take_ys({&step}, ys, std::nullopt);
  }

  // A step's results, each carry and each y with its tangent behind it, as in the loop written out.
  void split(const ForwardProgram& step, const Arrays& results, Arrays& carried, Arrays& ys) const {
    std::size_t tangent = body_.outputs.size();
    for (std::size_t i = 0; i < body_.outputs.size(); ++i) {
      Arrays& to = i < layout_.carries ? carried : ys;
      to.push_back(results[i]);
      if (step.outputs[i]) to.push_back(results[tangent++]);
    }
  }

  void take(const ForwardProgram& step, std::span<const Array> carried) {
    std::size_t next = 0;
    for (std::size_t c = 0; c < layout_.carries; ++c) {
      values_[layout_.constants + c] = carried[next++];
      tangents_[layout_.constants + c].reset();
      if (step.outputs[c]) tangents_[layout_.constants + c] = carried[next++];
    }
  }

  // The ys of `times` rounds of steps, or of one iteration, and their tangents; by step as `split` gives them.
  void take_ys(const std::vector<const ForwardProgram*>& steps, const std::vector<Arrays>& ys,
               std::optional<std::int64_t> times) {
    std::vector<std::size_t> next(steps.size(), 0);
    for (std::size_t y = 0; y < layout_.ys; ++y) {
      TensorType type = body_.type(body_.outputs[layout_.carries + y]);
      if (times) type.shape.insert(0, *times);
      Arrays values, tangents;
      for (std::size_t s = 0; s < steps.size(); ++s) {
        const bool has = steps[s]->outputs[layout_.carries + y];
        values.push_back(ys[s][next[s]++]);
        tangents.push_back(has ? ys[s][next[s]++] : zeros(type.shape, type.dtype));
        reached_[y] = reached_[y] || has;
      }
      ys_[y].push_back(interleaved(std::move(values), scan_.reverse));
      tangents_of_ys_[y].push_back(interleaved(std::move(tangents), scan_.reverse));
    }
  }

  // Pieces of consecutive iterations and single ones as one array: a result of the scan. Single ones get their axis
  // now, as the loop stacks in the end.
  Array joined(Arrays& pieces, std::size_t result) const {
    TensorType type = body_.type(body_.outputs[result]);
    for (Array& piece : pieces)
      if (piece.rank() == type.shape.rank()) piece = expand_dims(piece, 0);
    type.shape.insert(0, 0);
    if (pieces.empty()) return zeros(type.shape, type.dtype);
    if (scan_.reverse) std::reverse(pieces.begin(), pieces.end());
    return pieces.size() == 1 ? pieces[0] : concatenate(pieces, 0);
  }

  // `times` rounds of these steps from iteration `begin` on as one scan: of constants, captures, carries, and each
  // step's slices, a round apart; each of these but captures with its tangent behind it.
  void run_scan(const std::vector<StepRef>& steps, std::int64_t times, std::int64_t begin) {
    const auto period = static_cast<std::int64_t>(steps.size());
    Arrays operands, slices;
    const auto add_range = [&](Arrays& to, std::size_t from, std::size_t end, auto&& of) {
      for (std::size_t i = from; i < end; ++i) {
        to.push_back(of(values_[i]));
        if (tangents_[i]) to.push_back(of(*tangents_[i]));
      }
    };
    const auto whole = [](const Array& array) { return array; };
    add_range(operands, 0, layout_.constants, whole);
    const std::size_t first_capture = operands.size();
    std::string key = "round";
    for (std::size_t s = 0; s < steps.size(); ++s) {
      key += " " + steps[s]->key;
      operands.insert(operands.end(), steps[s]->captures.begin(), steps[s]->captures.end());
      const std::int64_t first = begin + static_cast<std::int64_t>(s);
      const std::int64_t a = slice_index(scan_, first), b = slice_index(scan_, first + (times - 1) * period);
      add_range(slices, first_slice_, values_.size(), [&](const Array& array) {
        return times == scan_.length ? array : slice_axis(array, 0, {std::min(a, b), std::max(a, b) + 1, period});
      });
    }
    const std::size_t first_carry = operands.size();
    add_range(operands, layout_.constants, first_slice_, whole);
    const std::size_t first_slice = operands.size();
    operands.insert(operands.end(), slices.begin(), slices.end());
    const std::shared_ptr<const Program> program = body_.prepared.memo<Program>(key, [&] {
      Types types = types_of(operands);
      for (std::size_t i = first_slice; i < types.size(); ++i) types[i].shape.erase(0);
      return trace("jvp of scan", types,
                   [&](const Arrays& arguments) {
                     Arrays carried(arguments.begin() + static_cast<std::ptrdiff_t>(first_carry),
                                    arguments.begin() + static_cast<std::ptrdiff_t>(first_slice));
                     Arrays all_ys;
                     std::size_t capture = first_capture, slice = first_slice;
                     for (const StepRef& step : steps) {
                       // The step takes all values and then all tangents.
                       Arrays own, tangents;
                       std::size_t constant = 0, carry = 0;
                       const auto next = [&](std::size_t i) {
                         return i < layout_.constants ? arguments[constant++]
                                : i < first_slice_    ? carried[carry++]
                                                      : arguments[slice++];
                       };
                       for (std::size_t i = 0; i < values_.size(); ++i) {
                         own.push_back(next(i));
                         if (step->inputs[i]) tangents.push_back(next(i));
                       }
                       own.insert(own.end(), tangents.begin(), tangents.end());
                       for (std::size_t i = 0; i < step->captures.size(); ++i) own.push_back(arguments[capture++]);
                       const Arrays results = replay(*step->program, own);
                       carried.clear();
                       split(*step, results, carried, all_ys);
                     }
                     carried.insert(carried.end(), all_ys.begin(), all_ys.end());
                     return carried;
                   })
          .program;
    });
    const ScanAttribute attributes{program, times, static_cast<std::int64_t>(first_carry),
                                   static_cast<std::int64_t>(first_slice - first_carry), scan_.reverse};
    const Arrays results = apply_scan(attributes, operands);
    take(*steps.back(), results);
    auto next = results.begin() + static_cast<std::ptrdiff_t>(first_slice - first_carry);
    std::vector<Arrays> ys;
    std::vector<const ForwardProgram*> of_steps;
    for (const StepRef& step : steps) {
      const auto count =
          static_cast<std::ptrdiff_t>(layout_.ys) +
          std::count(step->outputs.begin() + static_cast<std::ptrdiff_t>(layout_.carries), step->outputs.end(), true);
      ys.emplace_back(next, next + count);
      of_steps.push_back(step.get());
      next += count;
    }
    take_ys(of_steps, ys, times);
  }

  ProgramJvp& j_;
  const ScanAttribute& scan_;
  const Program& body_;
  ScanLayout layout_;
  std::size_t first_slice_;
  Arrays values_;
  std::vector<std::optional<Array>> tangents_;
  std::vector<Arrays> ys_, tangents_of_ys_;  // in pieces of consecutive iterations; zeros where a y has no tangent
  std::vector<bool> reached_;                // whether it has one in some iteration
};

}  // namespace

void scan_jvp(Jvp& j) {
  ScanForwardMode(static_cast<ProgramJvp&>(j)).run();
}

}  // namespace eadem
