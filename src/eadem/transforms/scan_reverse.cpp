// The reverse rule of scan. It gives the bits of reversing the loop written out: accumulators are handed from iteration
// to iteration as they are, and an iteration's equations are reversed only where that loop's would be. Iterations after
// which the same accumulators are there again are one scan; the others, the first ones mostly, are written out.

#include <algorithm>
#include <map>

#include "eadem/array/tree.h"
#include "eadem/ops/ops.h"
#include "eadem/transforms/scan.h"
#include "eadem/transforms/scan_plan.h"

namespace eadem {
namespace {

// At most so many iterations make one of the reversed scan.
constexpr std::int64_t kMostPeriod = 64;

// The loop written out, as one program.
void unrolled_vjp(Vjp& g, const ScanAttribute& scan) {
  Types types;
  Arrays operands;
  for (std::size_t i = 0; i < g.operands(); ++i) {
    types.push_back(g.in(i).type());
    operands.push_back(g.in(i));
  }
  const Traced loop = trace("grad of scan", types, [&](const Arrays& arguments) {
    return scan_as_loop(scan, arguments, [&](const Arrays& inputs) { return replay(*scan.body, inputs); });
  });
  operands.insert(operands.end(), loop.captures.begin(), loop.captures.end());
  reverse_inlined(g, *loop.program,
                  [&](const Program& body, const std::vector<bool>& active) { return record(body, operands, active); });
}

// The reversal of a scan at one equation: state between iterations, which are reversed last to first.
class ScanReversal {
 public:
  ScanReversal(Vjp& g, const ScanPlan& plan)
      : g_(g),
        plan_(plan),
        forward_(plan.forward()),
        scan_(g.as<ScanAttribute>()),
        body_(*scan_.body),
        layout_(forward_.layout()),
        constants_(layout_.constants),
        carries_(layout_.carries),
        of_ys_(layout_.ys),
        slice_pieces_(layout_.slices),
        slice_reached_(layout_.slices) {
    std::size_t next = 0;
    for (const std::size_t i : forward_.kept()) saved_.emplace(i, g.saved()[next++]);
    std::vector<bool> ys(layout_.ys), initial(layout_.carries);
    for (std::size_t y = 0; y < layout_.ys; ++y)
      if ((ys[y] = g_.has_ct(layout_.carries + y))) of_ys_[y] = g_.ct(layout_.carries + y);
    for (std::size_t c = 0; c < layout_.carries; ++c)
      initial[c] = g_.wants(layout_.constants + c) && !g_.operand_accumulator(layout_.constants + c).empty();
    has_ys_ = ys;
    phases_ = plan_.phases(ys, initial);
  }

  void run() {
    begin();
    for (std::int64_t end = scan_.length; end > 0;) {  // iterations [0, end) are still to be reversed
      add_constants(end);
      const auto [steps, repeats] = round(end);
      const auto period = static_cast<std::int64_t>(steps.size());
      const std::int64_t times = repeats ? (end - phases_.steady) / period : 1;
      if (times * period > 1) {
        run_scan(steps, times, end);
        end -= times * period;
      } else {
        run_one(*steps[0], --end);
      }
    }
    finish();
  }

 private:
  using StepRef = std::shared_ptr<const ReverseStep>;
  // What a step reads besides accumulators: one array for all iterations, or the element of a stacked one that belongs
  // to the iteration `before` earlier.
  struct Source {
    Array array;
    bool stacked = false;
    std::int64_t before = 0;
  };

  bool is_active(ValueId id) const { return forward_.active()[at(id)]; }
  bool is_active_at_end(std::size_t c) const {
    return is_active(body_.inputs[plan_.carried(scan_.length, c)]) &&
           (scan_.length == 0 || is_active(body_.outputs[c]));
  }
  DType dtype_of_carry(std::size_t c) const { return body_.type(body_.outputs[c]).dtype; }

  // The accumulators of values that are there when the loop ends: what they have had, then the final carries'
  // cotangents, then those as ys, which the loop stacks at its end, the last y first.
  void begin() {
    for (std::size_t k = 0; k < layout_.constants; ++k)
      if (g_.wants(k) && plan_.constant(k) == k) constants_[k] = std::move(g_.operand_accumulator(k));
    for (std::size_t c = 0; c < layout_.carries; ++c) {
      const std::size_t name = plan_.carried(scan_.length, c);
      const std::optional<std::size_t> initial = plan_.initial(scan_.length, c);
      if (initial && name == layout_.constants + c && g_.wants(layout_.constants + *initial))
        carries_[c] = std::move(g_.operand_accumulator(layout_.constants + *initial));
      if (g_.has_ct(c) && is_active_at_end(c)) accumulator(name).append(g_.result_accumulator(c), dtype_of_carry(c));
    }
    for (std::size_t y = layout_.ys; y-- > 0;) {
      if (!has_ys_[y]) continue;
      for (std::size_t k = 0; k < layout_.constants; ++k)
        if (plan_.constant(k) == k && is_active(body_.inputs[k]))
          add_ys(y, constants_[k], [&](std::int64_t i) { return plan_.is_y_of_constant(y, i, k); });
      for (std::size_t c = 0; c < layout_.carries; ++c)
        if (plan_.carried(scan_.length, c) == layout_.constants + c && is_active_at_end(c))
          add_ys(y, carries_[c], [&](std::int64_t i) { return plan_.is_y(y, i, scan_.length, c); });
    }
  }
  Accumulator& accumulator(std::size_t name) {
    return name < layout_.constants ? constants_[name] : carries_[name - layout_.constants];
  }
  // Adds the cotangents that a value has as y of the iterations of which `is_value` holds, the last in memory first.
  template <class F>
  void add_ys(std::size_t y, Accumulator& sum, F&& is_value) {
    std::vector<std::int64_t> indices;
    for (std::int64_t i = 0; i < scan_.length; ++i)
      if (is_value(i)) indices.push_back(slice_index(scan_, i));
    std::sort(indices.begin(), indices.end(), std::greater<>());
    const std::int64_t apart = indices.size() > 1 ? indices[0] - indices[1] : 0;
    const auto uneven = [&](std::int64_t a, std::int64_t b) { return a - b != apart; };
    if (indices.size() < 4 || std::adjacent_find(indices.begin(), indices.end(), uneven) != indices.end()) {
      for (const std::int64_t index : indices) sum.add(step_of(of_ys_[y], index), true);
      return;
    }
    TensorType type = of_ys_[y].type();
    type.shape.erase(0);
    const DType dtype = type.dtype;
    const Array before = sum.empty() ? zeros(type.shape, wide_dtype(dtype)) : sum.wide(dtype);
    const Traced adding = trace("grad of scan", {before.type(), type},
                                [](const Arrays& in) { return Arrays{in[0] + convert(in[1], in[0].dtype())}; });
    const ScanAttribute attributes{adding.program, static_cast<std::int64_t>(indices.size()), 0, 1, true};
    const Array of_value = slice_axis(of_ys_[y], 0, {indices.back(), indices.front() + 1, apart});
    sum = Accumulator::from_wide(apply_all(prim::scan, {before, of_value}, attributes)[0]);
  }

  Presence presence() const {
    Presence now;
    for (const Accumulator& sum : constants_) now.constants.push_back(!sum.empty());
    for (const Accumulator& sum : carries_) now.carries.push_back(!sum.empty());
    return now;
  }

  // Constants that get a contribution now begin at +0, as accumulators do, so that all iterations find them there.
  void add_constants(std::int64_t end) {
    if (end - 1 <= phases_.steady) return;
    const StepRef step = plan_.step(phases_.at(end - 1), presence());
    for (std::size_t k = 0; k < layout_.constants; ++k) {
      if (!step->after.constants[k] || !constants_[k].empty()) continue;
      const TensorType& type = body_.type(body_.inputs[k]);
      constants_[k] = Accumulator::from_wide(zeros(type.shape, wide_dtype(type.dtype)));
    }
  }

  // The steps from iteration end - 1 on, going back, after which the same accumulators are there again; or just the
  // first, and false.
  std::pair<std::vector<StepRef>, bool> round(std::int64_t end) const {
    const Presence start = presence();
    Presence now = start;
    std::vector<StepRef> steps;
    const std::int64_t most = std::min(end - phases_.steady, kMostPeriod);
    for (std::int64_t back = 1; back <= std::max<std::int64_t>(most, 1); ++back) {
      steps.push_back(plan_.step(phases_.at(end - back), now));
      now = steps.back()->after;
      if (back <= most && now == start && back % phases_.period == 0) return {std::move(steps), true};
    }
    steps.resize(1);
    return {std::move(steps), false};
  }

  // The accumulators that are there, constants' first.
  Arrays sums() const {
    Arrays all;
    for (std::size_t k = 0; k < layout_.constants; ++k)
      if (!constants_[k].empty()) all.push_back(constants_[k].wide(body_.type(body_.inputs[k]).dtype));
    for (std::size_t c = 0; c < layout_.carries; ++c)
      if (!carries_[c].empty()) all.push_back(carries_[c].wide(dtype_of_carry(c)));
    return all;
  }

  std::vector<Source> kept_of(const ReverseStep& step) const {
    std::vector<Source> all;
    for (const std::size_t index : step.kept) {
      const std::optional<std::size_t> input = forward_.input_of(index);
      if (!forward_.is_at_hand(index))
        all.push_back({saved_.at(index), true});
      else
        all.push_back({g_.in(*input), *input >= layout_.constants});
    }
    return all;
  }
  std::vector<Source> rest_of(const ReverseStep& step) const {
    std::vector<Source> all;
    for (const Iteration::Start& start : step.iteration.starts) {
      if (start.initial)
        all.push_back({g_.operand_accumulator(layout_.constants + *start.initial).wide(body_.type(start.id).dtype)});
      for (const auto& [y, before] : start.ys) all.push_back({of_ys_[y], true, before});
    }
    if (plan_.needs_index()) all.push_back({arange(scan_.length), true});
    for (const Array& capture : step.captures) all.push_back({capture});
    return all;
  }

  void run_one(const ReverseStep& step, std::int64_t iteration) {
    Arrays inputs;
    const auto add = [&](const std::vector<Source>& sources) {
      for (const Source& source : sources)
        inputs.push_back(source.stacked ? step_of(source.array, slice_index(scan_, iteration - source.before))
                                        : source.array);
    };
    add(kept_of(step));
    const Arrays present = sums();
    inputs.insert(inputs.end(), present.begin(), present.end());
    add(rest_of(step));
    Arrays results = replay_or_call(step.program, inputs);
    const auto slices = results.begin() + take_sums(step, results);
    std::vector<Arrays> of_slices{Arrays(slices, results.end())};
    for (Array& each : of_slices[0]) each = expand_dims(each, 0);
    take_slices({&step}, of_slices, 1);
  }

  // `times` rounds of these steps back from iteration end - 1, as one scan the other way round. Each step reads its
  // elements of what is stacked, a round apart.
  void run_scan(const std::vector<StepRef>& steps, std::int64_t times, std::int64_t end) {
    const auto period = static_cast<std::int64_t>(steps.size());
    Arrays constants, slices;
    // Where each step's inputs are: in which list, and its place there.
    std::vector<std::vector<std::pair<bool, std::size_t>>> kept(steps.size()), rest(steps.size());
    std::string key = "round";
    for (std::size_t s = 0; s < steps.size(); ++s) {
      key += " " + steps[s]->key;
      const auto add = [&](const std::vector<Source>& sources, std::vector<std::pair<bool, std::size_t>>& places) {
        for (const Source& source : sources) {
          places.emplace_back(source.stacked, (source.stacked ? slices : constants).size());
          if (!source.stacked) {
            constants.push_back(source.array);
            continue;
          }
          const std::int64_t last = end - 1 - static_cast<std::int64_t>(s) - source.before;  // reversed first
          const std::int64_t a = slice_index(scan_, last), b = slice_index(scan_, last - (times - 1) * period);
          slices.push_back(slice_axis(source.array, 0, {std::min(a, b), std::max(a, b) + 1, period}));
        }
      };
      add(kept_of(*steps[s]), kept[s]);
      add(rest_of(*steps[s]), rest[s]);
    }
    const Arrays present = sums();
    Arrays operands = constants;
    operands.insert(operands.end(), present.begin(), present.end());
    operands.insert(operands.end(), slices.begin(), slices.end());
    const std::shared_ptr<const Program> program = body_.prepared.memo<Program>(key, [&] {
      Types types = types_of(operands);
      const std::size_t first_slice = constants.size() + present.size();
      for (std::size_t i = first_slice; i < types.size(); ++i) types[i].shape.erase(0);
      return trace("grad of scan", types,
                   [&](const Arrays& arguments) {
                     Arrays carried(arguments.begin() + static_cast<std::ptrdiff_t>(constants.size()),
                                    arguments.begin() + static_cast<std::ptrdiff_t>(first_slice));
                     Arrays of_slices;
                     for (std::size_t s = 0; s < steps.size(); ++s) {
                       Arrays inputs;
                       const auto add = [&](const std::vector<std::pair<bool, std::size_t>>& places) {
                         for (const auto& [stacked, place] : places)
                           inputs.push_back(arguments[place + (stacked ? first_slice : 0)]);
                       };
                       add(kept[s]);
                       inputs.insert(inputs.end(), carried.begin(), carried.end());
                       add(rest[s]);
                       const Arrays results = replay(*steps[s]->program, inputs);
                       const auto split = results.begin() + sums_after(*steps[s]);
                       carried.assign(results.begin(), split);
                       of_slices.insert(of_slices.end(), split, results.end());
                     }
                     carried.insert(carried.end(), of_slices.begin(), of_slices.end());
                     return carried;
                   })
          .program;
    });
    const ScanAttribute reversed{program, times, static_cast<std::int64_t>(constants.size()),
                                 static_cast<std::int64_t>(present.size()), !scan_.reverse};
    const Arrays results = apply_all(prim::scan, operands, &reversed);
    auto next = results.begin() + take_sums(*steps.back(), results);
    std::vector<Arrays> of_slices;
    std::vector<const ReverseStep*> of_steps;
    for (const StepRef& step : steps) {
      const auto count = std::count(step->slices.begin(), step->slices.end(), true);
      of_slices.emplace_back(next, next + count);
      of_steps.push_back(step.get());
      next += count;
    }
    take_slices(of_steps, of_slices, times);
  }

  static std::ptrdiff_t sums_after(const ReverseStep& step) {
    return std::count(step.after.constants.begin(), step.after.constants.end(), true) +
           std::count(step.after.carries.begin(), step.after.carries.end(), true);
  }

  // The accumulators as they are after a step; how many results they are.
  std::ptrdiff_t take_sums(const ReverseStep& step, const Arrays& results) {
    std::size_t next = 0;
    for (std::size_t k = 0; k < layout_.constants; ++k)
      constants_[k] = step.after.constants[k] ? Accumulator::from_wide(results[next++]) : Accumulator();
    for (std::size_t c = 0; c < layout_.carries; ++c)
      carries_[c] = step.after.carries[c] ? Accumulator::from_wide(results[next++]) : Accumulator();
    return static_cast<std::ptrdiff_t>(next);
  }

  // The cotangents of slices of `times` rounds of steps, by step those that it has.
  void take_slices(const std::vector<const ReverseStep*>& steps, const std::vector<Arrays>& of_slices,
                   std::int64_t times) {
    std::vector<std::size_t> next(steps.size(), 0);
    for (std::size_t i = 0; i < layout_.slices; ++i) {
      const Array& source = g_.in(layout_.constants + layout_.carries + i);
      Shape shape = source.shape();
      shape[0] = times;
      Arrays pieces;
      bool reached = false;
      for (std::size_t s = 0; s < steps.size(); ++s) {
        reached = reached || steps[s]->slices[i];
        pieces.push_back(steps[s]->slices[i] ? of_slices[s][next[s]++] : zeros(shape, source.dtype()));
      }
      slice_pieces_[i].push_back(interleaved(std::move(pieces), !scan_.reverse));  // the reversal goes the other way
      slice_reached_[i] = slice_reached_[i] || reached;
    }
  }

  void finish() {
    for (std::size_t k = 0; k < layout_.constants; ++k)
      if (g_.wants(k) && plan_.constant(k) == k) g_.operand_accumulator(k) = std::move(constants_[k]);
    for (std::size_t c = 0; c < layout_.carries; ++c)
      if (g_.wants(layout_.constants + c) && plan_.initial(0, c) == c)
        g_.operand_accumulator(layout_.constants + c) = std::move(carries_[c]);
    for (std::size_t i = layout_.slices; i-- > 0;) {  // as the loop indexes them, last to first
      const std::size_t operand = layout_.constants + layout_.carries + i;
      if (!g_.wants(operand) || !slice_reached_[i]) continue;
      std::vector<Array>& pieces = slice_pieces_[i];
      if (!scan_.reverse) std::reverse(pieces.begin(), pieces.end());
      g_.add_canonical(operand, pieces.size() == 1 ? pieces[0] : concatenate(pieces, 0));
    }
  }

  Vjp& g_;
  const ScanPlan& plan_;
  const ScanForward& forward_;
  const ScanAttribute& scan_;
  const Program& body_;
  const ScanLayout& layout_;
  std::vector<Accumulator> constants_, carries_;  // of carries: of the values carried into the iteration before which
                                                  // the reversal stands
  std::vector<bool> has_ys_;
  Arrays of_ys_;
  ScanPlan::Phases phases_;
  std::vector<std::vector<Array>> slice_pieces_;  // in the order of reversal
  std::vector<bool> slice_reached_;
  std::map<std::size_t, Array> saved_;
};

}  // namespace

Arrays scan_run_saving(const Equation& equation, std::span<const Array> operands, const std::vector<bool>& active,
                       Arrays& saved) {
  const auto& scan = *static_cast<const ScanAttribute*>(equation.attributes.get());
  if (ScanPlan::of(scan, active, equation.operands)->is_irregular()) return apply_all(prim::scan, operands, &scan);
  // The body also gives, as ys, what the reversal needs of each iteration, but for constants and slices.
  const std::shared_ptr<const ScanForward> forward = ScanForward::of(scan, active);
  ScanAttribute saving = scan;
  saving.body = forward->saving();
  const Arrays all = with_captures(saving, Arrays(operands.begin(), operands.end()), forward->traced().captures);
  Arrays results = apply_all(prim::scan, all, &saving);
  const auto own = static_cast<std::ptrdiff_t>(scan.body->outputs.size());
  saved.assign(results.begin() + own, results.end());
  results.resize(static_cast<std::size_t>(own));
  return results;
}

void scan_vjp(Vjp& g) {
  const ScanAttribute& scan = g.as<ScanAttribute>();
  std::vector<bool> wanted(g.operands());
  for (std::size_t i = 0; i < g.operands(); ++i) wanted[i] = g.wants(i);
  const std::shared_ptr<const ScanPlan> plan = ScanPlan::of(scan, wanted, g.equation().operands);
  plan->is_irregular() ? unrolled_vjp(g, scan) : ScanReversal(g, *plan).run();
}

}  // namespace eadem
