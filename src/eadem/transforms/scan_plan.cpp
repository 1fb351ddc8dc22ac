#include "eadem/transforms/scan_plan.h"

#include <algorithm>

#include "eadem/ops/ops.h"

namespace eadem {
namespace {

// Carries that need more iterations than this to come round again are written out.
constexpr std::size_t kMostStates = 512;

std::optional<std::size_t> input_index(const Program& body, ValueId id) {
  const auto input = std::find(body.inputs.begin(), body.inputs.end(), id);
  if (input == body.inputs.end()) return std::nullopt;
  return static_cast<std::size_t>(input - body.inputs.begin());
}

std::string bits(const std::vector<bool>& flags) {
  std::string text;
  for (const bool flag : flags) text += flag ? '1' : '0';
  return text;
}

std::string print(const Iteration& iteration) {
  std::string text;
  for (std::size_t c = 0; c < iteration.in.size(); ++c)
    text += fmt::format("{}>{} ", iteration.in[c], iteration.out[c]);
  for (const Iteration::Start& start : iteration.starts) {
    text += fmt::format("%{}:{}", start.id, start.initial ? fmt::format("{}", *start.initial) : "");
    for (const auto& [y, age] : start.ys) text += fmt::format(",{}-{}", y, age);
    text += ' ';
  }
  return text;
}

TensorType wide(TensorType type) {
  type.dtype = wide_dtype(type.dtype);
  return type;
}

// Adds `row` to row `index` of an accumulator in its dtype.
Array with_added_row(const Array& sum, const Array& index, const Array& row) {
  Shape size = sum.shape();
  size[0] = 1;
  const Array place = pad(reshape(index, {1}), zeros({}, DType::i64), {0}, {sum.rank() - 1});
  return dynamic_update_slice(sum, dynamic_slice(sum, place, size) + expand_dims(convert(row, sum.dtype()), 0), place);
}

// Which of the constants that a reversal knows slices to be: without them, slices are on their own.
struct SliceConstants {
  std::vector<std::optional<std::size_t>> of;
  bool any = false;
};

struct StepMaker {
  const ScanForward& forward;
  const std::vector<std::size_t>& constants;  // by constant: the first that is the same value
  const Iteration& iteration;
  const Presence& present;
  const SliceConstants& slices;

  const Program& original() const { return forward.body(); }
  const ScanLayout& layout() const { return forward.layout(); }
  ValueId input(std::size_t i) const { return original().inputs[i]; }
  bool is_carried_out(std::size_t c) const { return iteration.out[c] == layout().constants + c; }
  bool is_carried_in(std::size_t c) const { return iteration.in[c] == layout().constants + c; }

  Program merged() const {
    std::vector<ValueId> names;
    for (const std::size_t k : constants) names.push_back(static_cast<ValueId>(k));
    for (const std::size_t i : iteration.in) names.push_back(static_cast<ValueId>(i));
    return with_merged_inputs(original(), names);
  }

  Types input_types(std::size_t& kept_count, std::size_t& sums) const {
    const Program& flat = *forward.traced().program;
    Types types;
    for (std::size_t i = original().outputs.size(); i < flat.outputs.size(); ++i)
      types.push_back(flat.type(flat.outputs[i]));
    kept_count = types.size();
    for (std::size_t k = 0; k < layout().constants; ++k)
      if (present.constants[k]) types.push_back(wide(original().type(input(k))));
    for (std::size_t c = 0; c < layout().carries; ++c)
      if (present.carries[c]) types.push_back(wide(original().type(original().outputs[c])));
    sums = types.size() - kept_count;
    for (const Iteration::Start& start : iteration.starts) {
      const TensorType& type = original().type(start.id);
      if (start.initial) types.push_back(wide(type));
      types.insert(types.end(), start.ys.size(), type);
    }
    if (slices.any) types.push_back({DType::i64, {}});
    return types;
  }

  // The accumulators as the iteration after leaves them, and those that begin here.
  std::vector<Accumulator> begin(const Program& body, std::span<const Array> arguments) const {
    std::vector<Accumulator> sums(body.types.size());
    std::size_t next = 0;
    for (std::size_t k = 0; k < layout().constants; ++k)
      if (present.constants[k]) sums[at(input(k))] = Accumulator::from_wide(arguments[next++]);
    for (std::size_t c = 0; c < layout().carries; ++c)
      if (present.carries[c]) sums[at(body.outputs[c])] = Accumulator::from_wide(arguments[next++]);
    for (const Iteration::Start& start : iteration.starts) {
      if (start.initial) sums[at(start.id)] = Accumulator::from_wide(arguments[next++]);
      for (std::size_t i = 0; i < start.ys.size(); ++i) sums[at(start.id)].add(arguments[next++], true);
    }
    return sums;
  }

  Arrays end(std::vector<Accumulator>& sums, const Array& index, ReverseStep& step) const {
    const std::size_t first_slice = layout().constants + layout().carries;
    step.slices.assign(layout().slices, false);
    Arrays of_slices;
    for (std::size_t i = layout().slices; i-- > 0;) {  // as the loop indexes them, last to first
      const ValueId id = input(first_slice + i);
      const Accumulator& sum = sums[at(id)];
      if (sum.empty()) continue;
      const Array row = sum.rounded(original().type(id).dtype);
      if (!slices.any || !slices.of[i]) {
        step.slices[i] = true;
        of_slices.push_back(row);
        continue;
      }
      const TensorType type = wide(original().type(input(*slices.of[i])));
      Accumulator& whole = sums[at(input(*slices.of[i]))];
      const Array before =
          whole.empty() ? zeros(type.shape, type.dtype) : whole.wide(original().type(input(*slices.of[i])).dtype);
      whole = Accumulator::from_wide(with_added_row(before, index, row));
    }
    Arrays outputs;
    const auto give = [&](std::size_t i, bool named) {
      const Accumulator& sum = sums[at(input(i))];
      const bool there = named && !sum.empty();
      (i < layout().constants ? step.after.constants : step.after.carries).push_back(there);
      if (there) outputs.push_back(sum.wide(original().type(input(i)).dtype));
    };
    for (std::size_t k = 0; k < layout().constants; ++k) give(k, constants[k] == k);
    for (std::size_t c = 0; c < layout().carries; ++c) give(layout().constants + c, is_carried_in(c));
    outputs.insert(outputs.end(), of_slices.rbegin(), of_slices.rend());
    return outputs;
  }

  ReverseStep make() const {
    const Program body = merged();
    ReverseStep step;
    step.iteration = iteration;
    std::size_t kept_count = 0;
    const Types types = input_types(kept_count, step.sums);
    const Traced whole = trace("grad of scan", types, [&](const Arrays& arguments) {
      std::size_t next = 0;
      Recording recording{std::vector<std::optional<Array>>(body.types.size()),
                          std::vector<Arrays>(body.equations.size())};
      for (std::optional<Array>& value : recording.values) value = arguments[next++];
      // What nested equations save is laid out as the forward pass has it.
      for (std::size_t i = 0; i < body.equations.size(); ++i)
        for (std::size_t k = 0; k < forward.saved_counts()[i]; ++k) recording.saved[i].push_back(arguments[next++]);
      std::vector<Accumulator> sums = begin(body, std::span(arguments).subspan(kept_count));
      reverse(body, recording, forward.active(), sums);
      return end(sums, slices.any ? arguments.back() : Array(), step);
    });
    step.captures = whole.captures;
    prune(*whole.program, kept_count, step);
    return step;
  }

  // Drops what the reversal does not need: dead equations, then kept values that nothing reads.
  void prune(const Program& whole, std::size_t kept_count, ReverseStep& step) const {
    const Program live = without_dead_code(whole);
    std::vector<bool> used(live.types.size(), false);
    for (const Equation& equation : live.equations)
      for (const ValueId id : equation.operands) used[at(id)] = true;
    for (const ValueId id : live.outputs) used[at(id)] = true;
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < live.inputs.size(); ++i) {
      if (i < kept_count && !used[at(live.inputs[i])]) continue;
      order.push_back(i);
      if (i < kept_count) step.kept.push_back(source(i));
    }
    step.program = std::make_shared<const Program>(with_inputs(live, order));
  }

  // Where the kept value is to be had: an input that is another one, too, may have been kept as that.
  std::size_t source(std::size_t index) const {
    const auto had = [&](std::size_t i) {
      return forward.is_at_hand(i) ||
             std::find(forward.kept().begin(), forward.kept().end(), i) != forward.kept().end();
    };
    const std::optional<std::size_t> wanted = forward.input_of(index);
    if (had(index) || !wanted) return index;
    for (std::size_t c = 0; c < layout().carries; ++c) {
      const auto other = static_cast<std::size_t>(input(layout().constants + c));
      if (iteration.in[c] == *wanted && had(other)) return other;
    }
    return index;
  }
};

}  // namespace

ScanForward::ScanForward(const ScanAttribute& scan, const std::vector<bool>& active_operands)
    : body_(*scan.body), layout_(scan) {
  std::vector<bool> inputs = active_operands;
  grow_active_inputs(inputs);
  active_ = active_values(body_, inputs);
  traced_ = trace("grad of scan", body_.input_types(), [&](const Arrays& arguments) {
    const Recording recording = record(body_, arguments, active_);
    Arrays outputs;
    for (const ValueId id : body_.outputs) outputs.push_back(*recording.values[at(id)]);
    for (const std::optional<Array>& value : recording.values) outputs.push_back(*value);
    for (const Arrays& saved : recording.saved) {
      outputs.insert(outputs.end(), saved.begin(), saved.end());
      saved_counts_.push_back(saved.size());
    }
    return outputs;
  });
  // What a reversal needs in which every accumulator is there, and no value is another: any other one needs less.
  Iteration alone;
  std::vector<std::size_t> constants;
  Presence all;
  for (std::size_t k = 0; k < layout_.constants; ++k) {
    constants.push_back(k);
    all.constants.push_back(active_[at(body_.inputs[k])]);
  }
  for (std::size_t c = 0; c < layout_.carries; ++c) {
    alone.in.push_back(layout_.constants + c);
    alone.out.push_back(layout_.constants + c);
    all.carries.push_back(active_[at(body_.outputs[c])]);
  }
  for (std::size_t y = 0; y < layout_.ys; ++y) {
    const ValueId id = body_.outputs[layout_.carries + y];
    if (active_[at(id)]) alone.starts.push_back({id, std::nullopt, {{y, 0}}});
  }
  const ReverseStep step = StepMaker{*this, constants, alone, all, {}}.make();
  std::copy_if(step.kept.begin(), step.kept.end(), std::back_inserter(kept_),
               [&](std::size_t i) { return !is_at_hand(i); });
  Program saving = *traced_.program;
  const std::size_t own = body_.outputs.size();
  std::vector<ValueId> outputs(saving.outputs.begin(), saving.outputs.begin() + static_cast<std::ptrdiff_t>(own));
  for (const std::size_t i : kept_) outputs.push_back(saving.outputs[own + i]);
  saving.outputs = std::move(outputs);
  saving_ = std::make_shared<const Program>(without_dead_code(saving));
}

std::shared_ptr<const ScanForward> ScanForward::of(const ScanAttribute& scan, const std::vector<bool>& active) {
  const std::string key =
      fmt::format("scan {} {} {} {}", scan.constants, scan.carries, bits(active), name_of(wide_dtype(DType::f32)));
  return scan.body->prepared.memo<ScanForward>(key, [&] {
    auto made = std::make_shared<ScanForward>(scan, active);
    made->key_ = key;
    return made;
  });
}

void ScanForward::grow_active_inputs(std::vector<bool>& inputs) const {
  for (bool grown = true; grown;) {
    grown = false;
    const auto set = [&](std::size_t input) {
      grown = grown || !inputs[input];
      inputs[input] = true;
    };
    const std::vector<bool> active = active_values(body_, inputs);
    for (std::size_t c = 0; c < layout_.carries; ++c) {
      const ValueId id = body_.outputs[c];
      const std::optional<std::size_t> from = input_index(body_, id);
      if (active[at(id)]) set(layout_.constants + c);
      if (!inputs[layout_.constants + c] || !is_floating(body_.type(id).dtype)) continue;
      // What is handed on to an active carry, or is another one in the iterations to come, counts as active, too.
      if (from && *from < layout_.constants + layout_.carries) set(*from);
      for (std::size_t other = 0; other < layout_.carries; ++other)
        if (body_.outputs[other] == id) set(layout_.constants + other);
    }
  }
}

std::optional<std::size_t> ScanForward::input_of(std::size_t index) const {
  if (index >= body_.types.size()) return std::nullopt;
  return input_index(body_, static_cast<ValueId>(index));
}

bool ScanForward::is_at_hand(std::size_t index) const {
  const std::optional<std::size_t> input = input_of(index);
  return input && (*input < layout_.constants || *input >= layout_.constants + layout_.carries);
}

ScanPlan::ScanPlan(std::shared_ptr<const ScanForward> forward, std::span<const ValueId> operands)
    : forward_(std::move(forward)), body_(forward_->body()), layout_(forward_->layout()) {
  const auto first_of = [&](std::size_t i) {
    return static_cast<std::size_t>(std::find(operands.begin(), operands.end(), operands[i]) - operands.begin());
  };
  State initial;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const std::size_t first = first_of(i);
    if (i < layout_.constants) {
      constants_.push_back(first);
    } else if (i < layout_.constants + layout_.carries) {
      initial.push_back(first < layout_.constants ? Value{Value::Kind::constant, first}
                                                  : Value{Value::Kind::initial, first - layout_.constants});
    } else {
      const bool active = forward_->active()[at(body_.inputs[i])];
      slices_.push_back(active && first < layout_.constants ? std::optional(first) : std::nullopt);
      needs_index_ = needs_index_ || slices_.back();
      irregular_ = irregular_ || (active && first >= layout_.constants && first < layout_.constants + layout_.carries);
    }
  }
  states_.push_back(std::move(initial));
  for (auto known = states_.end();; states_.push_back(next(states_.back()))) {
    known = std::find(states_.begin(), states_.end() - 1, states_.back());
    irregular_ = irregular_ || states_.size() > kMostStates;
    if (irregular_) return;
    if (known == states_.end() - 1) continue;
    repeats_ = known - states_.begin();
    round_ = static_cast<std::int64_t>(states_.size()) - 1 - repeats_;
    break;
  }
  // A value lives for at most as many iterations as there are carries to hand it on.
  const std::int64_t all = repeats_ + static_cast<std::int64_t>(layout_.carries) + 1 + round_;
  for (std::int64_t i = 0; i < all; ++i) iterations_.push_back(iteration(i));
}

std::shared_ptr<const ScanPlan> ScanPlan::of(const ScanAttribute& scan, const std::vector<bool>& active_operands,
                                             std::span<const ValueId> operands) {
  const std::shared_ptr<const ScanForward> forward = ScanForward::of(scan, active_operands);
  std::string key = forward->key() + " plan";
  for (const ValueId id : operands)
    key += fmt::format(" {}", std::find(operands.begin(), operands.end(), id) - operands.begin());
  return scan.body->prepared.memo<ScanPlan>(key, [&] {
    auto made = std::make_shared<ScanPlan>(forward, operands);
    made->key_ = key;
    return made;
  });
}

std::optional<std::size_t> ScanPlan::carry_of(ValueId id) const {
  const std::optional<std::size_t> input = input_index(body_, id);
  if (!input || *input < layout_.constants || *input >= layout_.constants + layout_.carries) return std::nullopt;
  return *input - layout_.constants;
}

ScanPlan::State ScanPlan::next(const State& before) const {
  State after;
  for (std::size_t c = 0; c < layout_.carries; ++c) {
    const ValueId id = body_.outputs[c];
    const std::optional<std::size_t> input = input_index(body_, id), carry = carry_of(id);
    if (carry) {
      after.push_back(before[*carry]);
      if (after.back().kind == Value::Kind::made) ++after.back().age;
    } else if (input && *input < layout_.constants) {
      after.push_back({Value::Kind::constant, constants_[*input]});
    } else {
      after.push_back({Value::Kind::made, at(id), 1});
    }
  }
  return after;
}

const ScanPlan::State& ScanPlan::state(std::int64_t iteration) const {
  return states_[static_cast<std::size_t>(iteration < repeats_ ? iteration
                                                               : repeats_ + (iteration - repeats_) % round_)];
}

bool ScanPlan::is_value(std::size_t y, std::int64_t iteration, std::int64_t age, const Value& value) const {
  const ValueId id = body_.outputs[layout_.carries + y];
  Value then = value;
  if (value.kind == Value::Kind::made) {
    if (age >= value.age) return age == value.age && at(id) == value.which;
    then.age -= age;
  }
  const std::optional<std::size_t> carry = carry_of(id), input = input_index(body_, id);
  if (carry) return state(iteration - age)[*carry] == then;
  return value.kind == Value::Kind::constant && input && *input < layout_.constants &&
         constants_[*input] == value.which;
}

bool ScanPlan::is_y(std::size_t y, std::int64_t iteration, std::int64_t boundary, std::size_t c) const {
  return is_value(y, boundary, boundary - iteration, state(boundary)[c]);
}
bool ScanPlan::is_y_of_constant(std::size_t y, std::int64_t iteration, std::size_t k) const {
  return is_value(y, iteration, 0, {Value::Kind::constant, k});
}

std::vector<std::size_t> ScanPlan::names(const State& values) const {
  std::vector<std::size_t> all;
  for (const Value& value : values) {
    const auto first = std::find(values.begin(), values.end(), value);
    all.push_back(value.kind == Value::Kind::constant
                      ? value.which
                      : layout_.constants + static_cast<std::size_t>(first - values.begin()));
  }
  return all;
}

std::size_t ScanPlan::carried(std::int64_t iteration, std::size_t c) const {
  return names(state(iteration))[c];
}
std::optional<std::size_t> ScanPlan::initial(std::int64_t iteration, std::size_t c) const {
  const Value& value = state(iteration)[c];
  return value.kind == Value::Kind::initial ? std::optional(value.which) : std::nullopt;
}

Iteration ScanPlan::iteration(std::int64_t which) const {
  const State& before = state(which);
  Iteration result{names(before), names(state(which + 1)), {}};
  const auto carries_end = body_.outputs.begin() + static_cast<std::ptrdiff_t>(layout_.carries);
  const auto is_carried_out = [&](ValueId id) {
    return std::find(body_.outputs.begin(), carries_end, id) != carries_end;
  };
  const auto add = [&](Iteration::Start start) {
    if (forward_->active()[at(start.id)] && (start.initial || !start.ys.empty()))
      result.starts.push_back(std::move(start));
  };
  for (std::size_t c = 0; c < layout_.carries; ++c) {
    if (result.in[c] != layout_.constants + c) continue;
    bool lives_on = false;
    for (std::size_t other = 0; other < layout_.carries; ++other)
      lives_on = lives_on || (before[other] == before[c] && is_carried_out(body_.inputs[layout_.constants + other]));
    if (lives_on) continue;
    const bool is_initial = before[c].kind == Value::Kind::initial;
    Iteration::Start start{
        body_.inputs[layout_.constants + c], is_initial ? std::optional(before[c].which) : std::nullopt, {}};
    for (std::size_t y = layout_.ys; y-- > 0;)
      for (std::int64_t age = 0; age <= (is_initial ? which : before[c].age); ++age)
        if (is_value(y, which, age, before[c])) start.ys.emplace_back(y, age);
    add(std::move(start));
  }
  for (std::size_t y = layout_.ys; y-- > 0;) {
    const ValueId id = body_.outputs[layout_.carries + y];
    const std::optional<std::size_t> input = input_index(body_, id);
    const auto has_id = [&](const Iteration::Start& start) { return start.id == id; };
    const auto known = std::find_if(result.starts.begin(), result.starts.end(), has_id);
    if ((input && *input < layout_.constants + layout_.carries) || is_carried_out(id)) continue;
    if (known == result.starts.end())
      add({id, std::nullopt, {{y, 0}}});
    else
      known->ys.emplace_back(y, 0);
  }
  return result;
}

ScanPlan::Phases ScanPlan::phases(const std::vector<bool>& ys, const std::vector<bool>& initial) const {
  std::vector<Iteration> all = iterations_;
  for (Iteration& each : all) {
    for (Iteration::Start& start : each.starts) {
      std::erase_if(start.ys, [&](const auto& y) { return !ys[y.first]; });
      if (start.initial && !initial[*start.initial]) start.initial.reset();
    }
    std::erase_if(each.starts, [](const Iteration::Start& start) { return !start.initial && start.ys.empty(); });
  }
  const auto count = static_cast<std::int64_t>(all.size());
  const auto same_from = [&](std::int64_t from, std::int64_t period) {
    return std::equal(all.begin() + from + period, all.end(), all.begin() + from);
  };
  Phases phases;
  while (round_ % phases.period != 0 || !same_from(count - round_, phases.period)) ++phases.period;
  phases.steady = count - round_;
  while (phases.steady > 0 && same_from(phases.steady - 1, phases.period)) --phases.steady;
  all.resize(static_cast<std::size_t>(phases.steady + phases.period));
  phases.iterations = std::move(all);
  return phases;
}

std::shared_ptr<const ReverseStep> ScanPlan::step(const Iteration& iteration, const Presence& present) const {
  const std::string key =
      fmt::format("{} step {}{} {}", key_, print(iteration), bits(present.constants), bits(present.carries));
  return body_.prepared.memo<ReverseStep>(key, [&] {
    auto made = std::make_shared<ReverseStep>(
        StepMaker{*forward_, constants_, iteration, present, {slices_, needs_index_}}.make());
    made->key = key;
    return made;
  });
}

}  // namespace eadem
