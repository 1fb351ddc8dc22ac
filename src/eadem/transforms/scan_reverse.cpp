// The reverse rule of scan. It gives the bits of reversing the loop written out: accumulators are handed from iteration
// to iteration as they are, and an iteration's equations are reversed only where that loop's would be. Iterations at
// which the same accumulators are present are one scan; the first and the last ones, where they differ, are written
// out.

#include <algorithm>
#include <map>

#include "eadem/ops/ops.h"
#include "eadem/transforms/scan.h"

namespace eadem {
namespace {

// What an iteration keeps for its reversal, flattened: every value of the body, then what nested equations saved.
Arrays flattened(const Recording& recording) {
  Arrays all;
  for (const std::optional<Array>& value : recording.values) all.push_back(*value);
  for (const Arrays& saved : recording.saved) all.insert(all.end(), saved.begin(), saved.end());
  return all;
}

// The forward pass of an iteration: a program whose outputs are the body's and then what it keeps; and how many arrays
// each equation saves.
struct ForwardPass {
  Traced traced;
  std::vector<std::size_t> saved_counts;
};
ForwardPass forward_pass(const Program& body, const std::vector<bool>& active) {
  ForwardPass pass;
  pass.traced = trace("grad of scan", body.input_types(), [&](const Arrays& arguments) {
    const Recording recording = record(body, arguments, active);
    Arrays outputs;
    for (const ValueId id : body.outputs) outputs.push_back(*recording.values[at(id)]);
    const Arrays kept = flattened(recording);
    outputs.insert(outputs.end(), kept.begin(), kept.end());
    for (const Arrays& saved : recording.saved) pass.saved_counts.push_back(saved.size());
    return outputs;
  });
  return pass;
}

// Which accumulators are present when an iteration is reversed: those of constants, of the values that it carries out
// and, of the first iteration, of the initial carries.
struct Presence {
  std::vector<bool> constants, carries, initial;
  friend bool operator==(const Presence&, const Presence&) = default;
};

// The reversal of one iteration as a program. Inputs: the kept values that it needs; accumulators present, constants'
// and then carries'; in the first iteration those that the initial carries bring along; cotangents of ys of this
// iteration, and in later ones, where the carry in is also a y of the iteration before, of that one. Outputs:
// accumulators present afterwards, and cotangents of slices.
struct ReverseStep {
  ProgramRef program;
  Arrays captures;
  std::vector<std::size_t> kept;  // indices into the flattened recording
  Presence after;
  std::vector<bool> slices;  // which slices get a cotangent
};

class ScanReverse {
 public:
  ScanReverse(const ScanAttribute& scan, const std::vector<bool>& active_operands)
      : scan_(scan),
        body_(*scan.body),
        layout_(scan),
        inputs_(active_body_inputs(scan, active_operands)),
        active_(active_values(body_, inputs_)),
        forward_(forward_pass(body_, active_)) {
    // The y that a carry out also is, whose cotangent comes before the uses in the next iteration.
    also_y_.resize(layout_.carries);
    for (std::size_t c = 0; c < layout_.carries; ++c)
      for (std::size_t y = 0; y < layout_.ys; ++y)
        if (body_.outputs[c] == body_.outputs[layout_.carries + y]) also_y_[c] = y;
  }

  // Whether each accumulator is one value's in every iteration, and gets its contributions in the loop's order; else
  // the loop is written out.
  bool is_regular(const std::vector<ValueId>& operands) const {
    const auto position = [](const std::vector<ValueId>& ids, ValueId id, std::size_t from) {
      return static_cast<std::size_t>(std::find(ids.begin() + static_cast<std::ptrdiff_t>(from), ids.end(), id) -
                                      ids.begin());
    };
    for (std::size_t i = 0; i < operands.size(); ++i)
      if (inputs_[i] && position(operands, operands[i], 0) != i) return false;  // one value is two operands
    for (std::size_t i = 0; i < body_.outputs.size(); ++i) {
      const ValueId id = body_.outputs[i];
      if (!active_[at(id)]) continue;
      const std::size_t input = position(body_.inputs, id, 0);
      if (input < layout_.constants) return false;
      const bool carried_in = input < layout_.constants + layout_.carries;
      if (i < layout_.carries) {
        if (carried_in || position(body_.outputs, id, 0) != i) return false;  // handed on, or two carries
      } else {
        if (position(body_.outputs, id, layout_.carries) != i) return false;  // two ys
        // A carry in that is a y, and was one of the iteration before.
        if (carried_in && also_y_[input - layout_.constants]) return false;
      }
    }
    return true;
  }

  // The indices of the flattened recording that any reversal may need.
  std::vector<std::size_t> kept() const {
    Presence all{std::vector<bool>(layout_.constants), std::vector<bool>(layout_.carries), {}};
    for (std::size_t i = 0; i < layout_.constants; ++i) all.constants[i] = inputs_[i];
    for (std::size_t i = 0; i < layout_.carries; ++i) all.carries[i] = active_[at(body_.outputs[i])];
    return step(all, std::vector<bool>(layout_.ys, true), false).kept;
  }

  const Traced& forward() const { return forward_.traced; }
  const ScanLayout& layout() const { return layout_; }
  const std::vector<bool>& active() const { return active_; }
  // The body's input that flattened value `index` is, if it is one.
  std::optional<std::size_t> input_of(std::size_t index) const {
    const auto input = std::find(body_.inputs.begin(), body_.inputs.end(), static_cast<ValueId>(index));
    if (input == body_.inputs.end()) return std::nullopt;
    return static_cast<std::size_t>(input - body_.inputs.begin());
  }
  // Whether it is a constant or a slice, and so needs no saving.
  bool is_at_hand(std::size_t index) const {
    const std::optional<std::size_t> input = input_of(index);
    return input && (*input < layout_.constants || *input >= layout_.constants + layout_.carries);
  }
  std::optional<std::size_t> also_y(std::size_t carry) const { return also_y_[carry]; }

  ReverseStep step(const Presence& present, const std::vector<bool>& ys, bool first) const {
    const Program& forward = *forward_.traced.program;
    const std::size_t own = body_.outputs.size();
    Types types;
    for (std::size_t i = own; i < forward.outputs.size(); ++i) types.push_back(forward.type(forward.outputs[i]));
    const std::size_t kept_count = types.size();
    const auto wide = [&](TensorType type) {
      type.dtype = wide_dtype(type.dtype);
      return type;
    };
    for (std::size_t i = 0; i < layout_.constants; ++i)
      if (present.constants[i]) types.push_back(wide(body_.type(body_.inputs[i])));
    for (std::size_t i = 0; i < layout_.carries; ++i)
      if (present.carries[i]) types.push_back(wide(body_.type(body_.outputs[i])));
    for (std::size_t i = 0; first && i < layout_.carries; ++i)
      if (present.initial[i]) types.push_back(wide(body_.type(body_.outputs[i])));
    for (std::size_t y = 0; y < layout_.ys; ++y)
      if (ys[y]) types.push_back(body_.type(body_.outputs[layout_.carries + y]));
    for (std::size_t c = 0; !first && c < layout_.carries; ++c)
      if (is_before(c, ys)) types.push_back(body_.type(body_.outputs[c]));

    ReverseStep result;
    const Traced whole = trace("grad of scan", types, [&](const Arrays& arguments) {
      std::size_t next = 0;
      Recording recording{std::vector<std::optional<Array>>(body_.types.size()),
                          std::vector<Arrays>(body_.equations.size())};
      for (std::optional<Array>& value : recording.values) value = arguments[next++];
      // What nested equations save is laid out as the forward pass has it.
      for (std::size_t i = 0; i < body_.equations.size(); ++i)
        for (std::size_t k = 0; k < forward_.saved_counts[i]; ++k) recording.saved[i].push_back(arguments[next++]);
      std::vector<Accumulator> sums(body_.types.size());
      for (std::size_t i = 0; i < layout_.constants; ++i)
        if (present.constants[i]) sums[at(body_.inputs[i])] = Accumulator::from_wide(arguments[next++]);
      for (std::size_t i = 0; i < layout_.carries; ++i)
        if (present.carries[i]) sums[at(body_.outputs[i])] = Accumulator::from_wide(arguments[next++]);
      // The accumulators of the values carried in: as a y of the iteration before, or as the initial carries have them.
      std::vector<std::optional<Array>> initial(layout_.carries);
      for (std::size_t c = 0; first && c < layout_.carries; ++c)
        if (present.initial[c]) initial[c] = arguments[next++];
      Arrays of_ys(layout_.ys);
      for (std::size_t y = 0; y < layout_.ys; ++y)
        if (ys[y]) of_ys[y] = arguments[next++];
      for (std::size_t c = 0; c < layout_.carries; ++c) {
        Accumulator& sum = sums[at(body_.inputs[layout_.constants + c])];
        if (initial[c]) sum = Accumulator::from_wide(*initial[c]);
        if (!first && is_before(c, ys)) sum.add(arguments[next++], true);
      }
      for (std::size_t y = 0; y < layout_.ys; ++y) {
        const ValueId id = body_.outputs[layout_.carries + y];
        const auto carries_end = body_.outputs.begin() + static_cast<std::ptrdiff_t>(layout_.carries);
        // A carry out that is also this y had it from the iteration after.
        if (ys[y] && active_[at(id)] && std::find(body_.outputs.begin(), carries_end, id) == carries_end)
          sums[at(id)].add(of_ys[y], true);
      }
      reverse(body_, recording, active_, sums);

      Arrays outputs;
      for (std::size_t i = 0; i < layout_.constants + layout_.carries; ++i) {
        const Accumulator& sum = sums[at(body_.inputs[i])];
        (i < layout_.constants ? result.after.constants : result.after.carries).push_back(!sum.empty());
        if (!sum.empty()) outputs.push_back(sum.wide(body_.type(body_.inputs[i]).dtype));
      }
      for (std::size_t i = layout_.constants + layout_.carries; i < body_.inputs.size(); ++i) {
        const Accumulator& sum = sums[at(body_.inputs[i])];
        result.slices.push_back(!sum.empty());
        if (!sum.empty()) outputs.push_back(sum.rounded(body_.type(body_.inputs[i]).dtype));
      }
      return outputs;
    });
    result.captures = whole.captures;
    prune(*whole.program, kept_count, result);
    return result;
  }

  // Whether the value carried in as c has a cotangent as a y of the iteration before.
  bool is_before(std::size_t c, const std::vector<bool>& ys) const {
    return also_y_[c] && ys[*also_y_[c]] && active_[at(body_.inputs[layout_.constants + c])];
  }

 private:
  // Drops what the reversal does not need: dead equations, then kept values that nothing reads.
  static void prune(const Program& whole, std::size_t kept_count, ReverseStep& result) {
    Program live = without_dead_code(whole);
    std::vector<bool> used(live.types.size(), false);
    for (const Equation& equation : live.equations)
      for (const ValueId id : equation.operands) used[at(id)] = true;
    for (const ValueId id : live.outputs) used[at(id)] = true;
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < live.inputs.size(); ++i) {
      if (i < kept_count && !used[at(live.inputs[i])]) continue;
      order.push_back(i);
      if (i < kept_count) result.kept.push_back(i);
    }
    result.program = std::make_shared<const Program>(with_inputs(live, order));
  }

  const ScanAttribute& scan_;
  const Program& body_;
  ScanLayout layout_;
  std::vector<bool> inputs_, active_;
  ForwardPass forward_;
  std::vector<std::optional<std::size_t>> also_y_;
};

Array step_of(const Array& stacked, std::int64_t index) {
  return squeeze(slice_axis(stacked, 0, {index, index + 1}), 0);
}

// The loop written out, as one program.
void unrolled_vjp(Vjp& g, const ScanAttribute& scan) {
  const ScanLayout layout(scan);
  Types types;
  Arrays operands;
  for (std::size_t i = 0; i < g.operands(); ++i) {
    types.push_back(g.in(i).type());
    operands.push_back(g.in(i));
  }
  const Traced loop = trace("grad of scan", types, [&](const Arrays& arguments) {
    const auto first = arguments.begin() + static_cast<std::ptrdiff_t>(layout.constants + layout.carries);
    Arrays inputs(arguments.begin(), first);
    inputs.resize(arguments.size());
    std::vector<Arrays> ys(layout.ys, Arrays(static_cast<std::size_t>(scan.length)));
    for (std::int64_t step = 0; step < scan.length; ++step) {
      const std::int64_t index = slice_index(scan, step);
      for (std::size_t i = layout.constants + layout.carries; i < arguments.size(); ++i)
        inputs[i] = step_of(arguments[i], index);
      const Arrays outputs = replay(*scan.body, inputs);
      std::copy_n(outputs.begin(), layout.carries, inputs.begin() + static_cast<std::ptrdiff_t>(layout.constants));
      for (std::size_t y = 0; y < layout.ys; ++y) ys[y][static_cast<std::size_t>(index)] = outputs[layout.carries + y];
    }
    Arrays results(inputs.begin() + static_cast<std::ptrdiff_t>(layout.constants),
                   inputs.begin() + static_cast<std::ptrdiff_t>(layout.constants + layout.carries));
    for (std::size_t y = 0; y < layout.ys; ++y) {
      TensorType empty = scan.body->type(scan.body->outputs[layout.carries + y]);
      empty.shape.insert(0, 0);
      results.push_back(scan.length == 0 ? zeros(empty.shape, empty.dtype) : stack(ys[y]));
    }
    return results;
  });
  operands.insert(operands.end(), loop.captures.begin(), loop.captures.end());
  reverse_inlined(g, *loop.program, operands);
}

// The reversal of a regular scan at one equation: state between iterations, which are reversed last to first.
class ScanReversal {
 public:
  ScanReversal(Vjp& g, const ScanReverse& plan)
      : g_(g),
        plan_(plan),
        scan_(g.as<ScanAttribute>()),
        body_(*scan_.body),
        layout_(plan.layout()),
        constants_(layout_.constants),
        carries_(layout_.carries),
        ys_(layout_.ys),
        of_ys_(layout_.ys),
        slice_pieces_(layout_.slices),
        slice_reached_(layout_.slices) {
    std::size_t next = 0;
    for (const std::size_t i : plan.kept())
      if (!plan.is_at_hand(i)) saved_.emplace(i, g.saved()[next++]);
  }

  void run() {
    begin();
    std::int64_t end = scan_.length;  // iterations [0, end) are still to be reversed
    while (end > 1) {
      const Presence now = presence(false);
      const ReverseStep step = plan_.step(now, ys_, false);
      const bool steady = step.after.constants == now.constants && step.after.carries == now.carries;
      const std::int64_t first = steady ? 1 : end - 1;
      end - first > 1 ? run_scan(step, first, end) : run_one(step, first, false);
      end = first;
    }
    run_one(plan_.step(presence(true), ys_, true), 0, true);
    finish();
  }

 private:
  void begin() {
    for (std::size_t y = 0; y < layout_.ys; ++y) {
      ys_[y] = g_.has_ct(layout_.carries + y);
      if (ys_[y]) of_ys_[y] = g_.ct(layout_.carries + y);
    }
    for (std::size_t i = 0; i < layout_.constants; ++i)
      if (g_.wants(i)) constants_[i] = std::move(g_.operand_accumulator(i));
    for (std::size_t c = 0; c < layout_.carries; ++c) {
      if (!plan_.active()[at(body_.outputs[c])]) continue;
      if (g_.has_ct(c)) carries_[c] = g_.result_accumulator(c);
      if (const auto y = plan_.also_y(c); y && ys_[*y])
        carries_[c].add(step_of(of_ys_[*y], slice_index(scan_, scan_.length - 1)), true);
    }
  }

  Presence presence(bool first) const {
    Presence now;
    for (const Accumulator& sum : constants_) now.constants.push_back(!sum.empty());
    for (const Accumulator& sum : carries_) now.carries.push_back(!sum.empty());
    for (std::size_t c = 0; first && c < layout_.carries; ++c)
      now.initial.push_back(g_.wants(layout_.constants + c) && !g_.operand_accumulator(layout_.constants + c).empty());
    return now;
  }

  // The accumulators that are present, constants' first.
  Arrays sums() const {
    Arrays all;
    for (std::size_t i = 0; i < layout_.constants; ++i)
      if (!constants_[i].empty()) all.push_back(constants_[i].wide(body_.type(body_.inputs[i]).dtype));
    for (std::size_t c = 0; c < layout_.carries; ++c)
      if (!carries_[c].empty()) all.push_back(carries_[c].wide(body_.type(body_.outputs[c]).dtype));
    return all;
  }

  // Takes a step's results: accumulators as they are after it, then cotangents of slices.
  void take(const ReverseStep& step, const Arrays& results, bool stacked, std::int64_t count) {
    std::size_t next = 0;
    for (std::size_t i = 0; i < layout_.constants; ++i)
      constants_[i] = step.after.constants[i] ? Accumulator::from_wide(results[next++]) : Accumulator();
    for (std::size_t c = 0; c < layout_.carries; ++c)
      carries_[c] = step.after.carries[c] ? Accumulator::from_wide(results[next++]) : Accumulator();
    for (std::size_t i = 0; i < layout_.slices; ++i) {
      if (step.slices[i]) {
        slice_pieces_[i].push_back(stacked ? results[next] : expand_dims(results[next], 0));
        ++next;
      } else {
        Shape shape = g_.in(layout_.constants + layout_.carries + i).shape();
        shape[0] = count;
        slice_pieces_[i].push_back(zeros(shape, g_.in(layout_.constants + layout_.carries + i).dtype()));
      }
      slice_reached_[i] = slice_reached_[i] || step.slices[i];
    }
  }

  // The part of a stacked array that iterations [begin, end) of the loop read.
  Array part(const Array& stacked, std::int64_t begin, std::int64_t end) const {
    return scan_.reverse ? slice_axis(stacked, 0, {scan_.length - end, scan_.length - begin})
                         : slice_axis(stacked, 0, {begin, end});
  }
  // The stacked array that holds kept value `index` of every iteration; nothing for a constant.
  std::optional<Array> stacked_kept(std::size_t index) const {
    const std::optional<std::size_t> input = plan_.input_of(index);
    if (!input || !plan_.is_at_hand(index)) return saved_.at(index);
    if (*input >= layout_.constants) return g_.in(*input);
    return std::nullopt;
  }

  void run_one(const ReverseStep& step, std::int64_t iteration, bool first) {
    const std::int64_t index = slice_index(scan_, iteration);
    Arrays inputs;
    for (const std::size_t k : step.kept) {
      const std::optional<Array> stacked = stacked_kept(k);
      inputs.push_back(stacked ? step_of(*stacked, index) : g_.in(*plan_.input_of(k)));
    }
    const Arrays present = sums();
    inputs.insert(inputs.end(), present.begin(), present.end());
    for (std::size_t c = 0; first && c < layout_.carries; ++c) {
      if (!g_.wants(layout_.constants + c)) continue;
      const Accumulator& sum = g_.operand_accumulator(layout_.constants + c);
      if (!sum.empty()) inputs.push_back(sum.wide(body_.type(body_.outputs[c]).dtype));
    }
    for (std::size_t y = 0; y < layout_.ys; ++y)
      if (ys_[y]) inputs.push_back(step_of(of_ys_[y], index));
    for (std::size_t c = 0; !first && c < layout_.carries; ++c)
      if (plan_.is_before(c, ys_))
        inputs.push_back(step_of(of_ys_[*plan_.also_y(c)], slice_index(scan_, iteration - 1)));
    inputs.insert(inputs.end(), step.captures.begin(), step.captures.end());
    take(step, replay(*step.program, inputs), false, 1);
  }

  // Iterations [begin, end), which all find the same accumulators, as one scan the other way round.
  void run_scan(const ReverseStep& step, std::int64_t begin, std::int64_t end) {
    // A scan's body takes constants, carries, slices in this order; the step has kept values, sums, cotangents,
    // captures.
    Arrays constants, slices;
    std::vector<std::size_t> constant_inputs, slice_inputs, order;
    for (std::size_t k = 0; k < step.kept.size(); ++k) {
      const std::optional<Array> stacked = stacked_kept(step.kept[k]);
      (stacked ? slices : constants)
          .push_back(stacked ? part(*stacked, begin, end) : g_.in(*plan_.input_of(step.kept[k])));
      (stacked ? slice_inputs : constant_inputs).push_back(k);
    }
    const Arrays present = sums();
    std::size_t next = step.kept.size() + present.size();
    for (std::size_t y = 0; y < layout_.ys; ++y) {
      if (!ys_[y]) continue;
      slices.push_back(part(of_ys_[y], begin, end));
      slice_inputs.push_back(next++);
    }
    for (std::size_t c = 0; c < layout_.carries; ++c) {
      if (!plan_.is_before(c, ys_)) continue;
      slices.push_back(part(of_ys_[*plan_.also_y(c)], begin - 1, end - 1));
      slice_inputs.push_back(next++);
    }
    for (const Array& capture : step.captures) {
      constants.push_back(capture);
      constant_inputs.push_back(next++);
    }
    order = constant_inputs;
    for (std::size_t k = 0; k < present.size(); ++k) order.push_back(step.kept.size() + k);
    order.insert(order.end(), slice_inputs.begin(), slice_inputs.end());
    const ScanAttribute reversed{std::make_shared<const Program>(with_inputs(*step.program, order)), end - begin,
                                 static_cast<std::int64_t>(constants.size()), static_cast<std::int64_t>(present.size()),
                                 !scan_.reverse};
    Arrays operands = std::move(constants);
    operands.insert(operands.end(), present.begin(), present.end());
    operands.insert(operands.end(), slices.begin(), slices.end());
    take(step, apply_all(prim::scan, operands, &reversed), true, end - begin);
  }

  void finish() {
    for (std::size_t i = 0; i < layout_.constants; ++i)
      if (g_.wants(i)) g_.operand_accumulator(i) = std::move(constants_[i]);
    for (std::size_t c = 0; c < layout_.carries; ++c)
      if (g_.wants(layout_.constants + c)) g_.operand_accumulator(layout_.constants + c) = std::move(carries_[c]);
    for (std::size_t i = 0; i < layout_.slices; ++i) {
      const std::size_t operand = layout_.constants + layout_.carries + i;
      if (!g_.wants(operand) || !slice_reached_[i]) continue;
      std::vector<Array>& pieces = slice_pieces_[i];
      if (!scan_.reverse) std::reverse(pieces.begin(), pieces.end());
      g_.add_canonical(operand, pieces.size() == 1 ? pieces[0] : concatenate(pieces, 0));
    }
  }

  Vjp& g_;
  const ScanReverse& plan_;
  const ScanAttribute& scan_;
  const Program& body_;
  const ScanLayout& layout_;
  std::vector<Accumulator> constants_, carries_;  // of carries: of the values carried out of the iteration to come
  std::vector<bool> ys_;
  Arrays of_ys_;
  std::vector<std::vector<Array>> slice_pieces_;  // in the order of reversal
  std::vector<bool> slice_reached_;
  std::map<std::size_t, Array> saved_;
};

}  // namespace

Arrays scan_run_saving(const Equation& equation, std::span<const Array> operands, const std::vector<bool>& active,
                       Arrays& saved) {
  const auto& scan = *static_cast<const ScanAttribute*>(equation.attributes.get());
  const ScanReverse plan(scan, active);
  if (scan.length <= 1 || !plan.is_regular(equation.operands)) return apply_all(prim::scan, operands, &scan);
  // The body also gives, as ys, what the reversal needs of each iteration, but for constants and slices.
  Program body = *plan.forward().program;
  const std::size_t own = scan.body->outputs.size();
  std::vector<ValueId> outputs(body.outputs.begin(), body.outputs.begin() + static_cast<std::ptrdiff_t>(own));
  for (const std::size_t i : plan.kept())
    if (!plan.is_at_hand(i)) outputs.push_back(body.outputs[own + i]);
  body.outputs = std::move(outputs);
  ScanAttribute saving = scan;
  saving.body = std::make_shared<const Program>(without_dead_code(body));
  const Arrays all = with_captures(saving, Arrays(operands.begin(), operands.end()), plan.forward().captures);
  Arrays results = apply_all(prim::scan, all, &saving);
  saved.assign(results.begin() + static_cast<std::ptrdiff_t>(own), results.end());
  results.resize(own);
  return results;
}

void scan_vjp(Vjp& g) {
  const ScanAttribute& scan = g.as<ScanAttribute>();
  std::vector<bool> wanted(g.operands());
  for (std::size_t i = 0; i < g.operands(); ++i) wanted[i] = g.wants(i);
  const ScanReverse plan(scan, wanted);
  scan.length <= 1 || !plan.is_regular(g.equation().operands) ? unrolled_vjp(g, scan) : ScanReversal(g, plan).run();
}

}  // namespace eadem
