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
  explicit ScanForwardMode(Jvp& j)
      : j_(j),
        scan_(j.as<ScanAttribute>()),
        body_(*scan_.body),
        layout_(scan_),
        first_slice_(layout_.constants + layout_.carries),
        tangents_(j.operands()),
        pieces_(layout_.ys),
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
      if (times * period > 1)
        run_scan(steps, times, begin);
      else
        run_one(*steps[0], begin);
      begin += times * period;
    }
    for (std::size_t c = 0; c < layout_.carries; ++c)
      if (tangents_[layout_.constants + c]) j_.add_canonical(*tangents_[layout_.constants + c], c);
    for (std::size_t y = 0; y < layout_.ys; ++y) {
      if (!reached_[y]) continue;
      if (scan_.reverse) std::reverse(pieces_[y].begin(), pieces_[y].end());
      j_.add_canonical(pieces_[y].size() == 1 ? pieces_[y][0] : concatenate(pieces_[y], 0), layout_.carries + y);
    }
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
    Arrays inputs;
    for (std::size_t i = 0; i < values_.size(); ++i) inputs.push_back(of(values_[i], i));
    for (std::size_t i = 0; i < values_.size(); ++i)
      if (tangents_[i]) inputs.push_back(of(*tangents_[i], i));
    inputs.insert(inputs.end(), step.captures.begin(), step.captures.end());
    Arrays results = replay_or_call(step.program, inputs);
    Arrays carried;
    std::vector<Arrays> ys(1);
    split(step, results, carried, ys[0]);
    for (Array& y : ys[0]) y = expand_dims(y, 0);
    take(step, carried);
    take_ys({&step}, ys, 1);
  }

  // A step's results: the carries and then their tangents; the ys and then theirs.
  void split(const ForwardProgram& step, const Arrays& results, Arrays& carried, Arrays& ys) const {
    std::size_t tangent = body_.outputs.size();
    for (std::size_t i = 0; i < body_.outputs.size(); ++i) (i < layout_.carries ? carried : ys).push_back(results[i]);
    for (std::size_t i = 0; i < body_.outputs.size(); ++i)
      if (step.outputs[i]) (i < layout_.carries ? carried : ys).push_back(results[tangent++]);
  }

  void take(const ForwardProgram& step, std::span<const Array> carried) {
    std::size_t next = layout_.carries;
    for (std::size_t c = 0; c < layout_.carries; ++c) {
      values_[layout_.constants + c] = carried[c];
      tangents_[layout_.constants + c].reset();
      if (step.outputs[c]) tangents_[layout_.constants + c] = carried[next++];
    }
  }

  // The tangents of ys of `times` rounds of steps; by step its ys and then the tangents that they have.
  void take_ys(const std::vector<const ForwardProgram*>& steps, const std::vector<Arrays>& ys, std::int64_t times) {
    std::vector<std::size_t> next(steps.size(), layout_.ys);
    for (std::size_t y = 0; y < layout_.ys; ++y) {
      TensorType type = body_.type(body_.outputs[layout_.carries + y]);
      type.shape.insert(0, times);
      Arrays pieces;
      for (std::size_t s = 0; s < steps.size(); ++s) {
        const bool has = steps[s]->outputs[layout_.carries + y];
        pieces.push_back(has ? ys[s][next[s]++] : zeros(type.shape, type.dtype));
        reached_[y] = reached_[y] || has;
      }
      pieces_[y].push_back(interleaved(std::move(pieces), scan_.reverse));
    }
  }

  // `times` rounds of these steps from iteration `begin` on as one scan: of constants, their tangents, captures; of
  // carries, theirs; of each step's slices, theirs, a round apart.
  void run_scan(const std::vector<StepRef>& steps, std::int64_t times, std::int64_t begin) {
    const auto period = static_cast<std::int64_t>(steps.size());
    Arrays operands, slices;
    const auto add_range = [&](Arrays& to, std::size_t from, std::size_t end, auto&& of) {
      for (std::size_t i = from; i < end; ++i) to.push_back(of(values_[i]));
      for (std::size_t i = from; i < end; ++i)
        if (tangents_[i]) to.push_back(of(*tangents_[i]));
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
        return slice_axis(array, 0, {std::min(a, b), std::max(a, b) + 1, period});
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
                       for (std::size_t i = 0; i < values_.size(); ++i) own.push_back(next(i));
                       for (std::size_t i = 0; i < values_.size(); ++i)
                         if (step->inputs[i]) own.push_back(next(i));
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
    const Arrays results = apply_all(prim::scan, operands, &attributes);
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

  Jvp& j_;
  const ScanAttribute& scan_;
  const Program& body_;
  ScanLayout layout_;
  std::size_t first_slice_;
  Arrays values_;
  std::vector<std::optional<Array>> tangents_;
  std::vector<Arrays> pieces_;  // of ys' tangents, in pieces of consecutive iterations; one without any is zeros
  std::vector<bool> reached_;
};

}  // namespace

void scan_jvp(Jvp& j) {
  ScanForwardMode(j).run();
}

}  // namespace eadem
