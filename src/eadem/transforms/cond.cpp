// cond: one of several programs, by an index. Only the branch taken runs, so what the others would do moves no bit.

#include "eadem/ops/infer.h"
#include "eadem/ops/ops.h"
#include "eadem/transforms/control.h"
#include "eadem/transforms/executable.h"
#include "eadem/transforms/program_transforms.h"

namespace eadem {
namespace {

Types infer(const Signature& s) {
  const std::vector<ProgramRef>& branches = s.as<CondAttribute>().branches;
  if (branches.empty()) fail<ValueError>("[cond] needs at least one branch");
  if (s.operands.empty() || s.operands[0] != TensorType{DType::i64, {}})
    fail<TypeError>("[cond] operand 0 must be the index of a branch, i64[]");
  const Types operands(s.operands.begin() + 1, s.operands.end()), results = branches[0]->output_types();
  for (std::size_t i = 0; i < branches.size(); ++i) {
    if (branches[i]->input_types() != operands)
      fail<TypeError>("[cond] branch {} takes ({}), the operands are ({})", i, print_types(branches[i]->input_types()),
                      print_types(operands));
    if (branches[i]->output_types() != results)
      fail<TypeError>("[cond] branches must give the same types: branch 0 gives ({}), branch {} gives ({})",
                      print_types(results), i, print_types(branches[i]->output_types()));
  }
  return results;
}

Arrays run(std::span<const Array> operands, const void* attributes) {
  const std::vector<ProgramRef>& branches = static_cast<const CondAttribute*>(attributes)->branches;
  const auto last = static_cast<std::int64_t>(branches.size()) - 1;
  const std::int64_t index = std::clamp<std::int64_t>(operands[0].item<std::int64_t>(), 0, last);
  return run_program(*branches[static_cast<std::size_t>(index)], Arrays(operands.begin() + 1, operands.end()));
}

// The branch taken gets the accumulators and runs its own forward pass again; an operand that it does not reach keeps
// what it had, or has +0. Operands that are one value (what several branches capture is one) have one accumulator.
void vjp(Vjp& g) {
  const std::vector<ProgramRef>& branches = g.as<CondAttribute>().branches;
  Types types;
  Arrays operands{g.in(0)};
  const std::span<const ValueId> values = std::span(g.equation().operands).subspan(1);
  std::vector<bool> wanted, had, has;
  for (std::size_t i = 1; i < g.operands(); ++i) {
    types.push_back(g.in(i).type());
    operands.push_back(g.in(i));
    wanted.push_back(g.wants(i) && is_first_of_its_value(values, i - 1));
    had.push_back(wanted.back() && !g.operand_accumulator(i).empty());
  }
  const auto wide = [](TensorType type) {
    type.dtype = wide_dtype(type.dtype);
    return type;
  };
  for (std::size_t i = 1; i < g.operands(); ++i)
    if (had[i - 1]) {
      types.push_back(wide(g.in(i).type()));
      operands.push_back(g.operand_accumulator(i).wide(g.in(i).dtype()));
    }
  for (std::size_t r = 0; r < g.results(); ++r) {
    has.push_back(g.has_ct(r) && is_floating(g.out(r).dtype()));
    if (!has[r]) continue;
    types.push_back(wide(g.out(r).type()));
    operands.push_back(g.result_accumulator(r).wide(g.out(r).dtype()));
  }
  std::vector<Traced> reversed;
  for (const ProgramRef& branch : branches)
    reversed.push_back(trace("grad of cond", types, [&](const Arrays& arguments) {
      const Program body = with_merged_inputs(*branch, values);
      const std::vector<bool> active = active_values(body, wanted);
      Recording recording = record(body, std::span(arguments).first(body.inputs.size()), active);
      std::vector<Accumulator> sums(body.types.size());
      std::size_t next = body.inputs.size();
      for (std::size_t i = 0; i < body.inputs.size(); ++i)
        if (had[i]) sums[at(body.inputs[i])] = Accumulator::from_wide(arguments[next++]);
      for (std::size_t r = 0; r < body.outputs.size(); ++r) {
        if (!has[r]) continue;
        const Array sum = arguments[next++];
        if (active[at(body.outputs[r])])
          sums[at(body.outputs[r])].append(Accumulator::from_wide(sum), body.type(body.outputs[r]).dtype);
      }
      reverse(body, recording, active, sums);
      Arrays outputs;
      for (std::size_t i = 0; i < body.inputs.size(); ++i) {
        if (!wanted[i]) continue;
        const TensorType type = wide(body.type(body.inputs[i]));
        const Accumulator& sum = sums[at(body.inputs[i])];
        outputs.push_back(sum.empty() ? zeros(type.shape, type.dtype) : sum.wide(body.type(body.inputs[i]).dtype));
      }
      return outputs;
    }));
  const Branches all = with_same_inputs(reversed);
  operands.insert(operands.end(), all.captures.begin(), all.captures.end());
  const Arrays results = apply_all(prim::cond, operands, &all.attributes);
  std::size_t next = 0;
  for (std::size_t i = 1; i < g.operands(); ++i)
    if (wanted[i - 1]) g.operand_accumulator(i) = Accumulator::from_wide(results[next++]);
}

void jvp(Jvp& j) {
  const std::vector<ProgramRef>& branches = j.as<CondAttribute>().branches;
  Types types;
  Arrays operands{j.in(0)};
  for (std::size_t i = 1; i < j.operands(); ++i) {
    types.push_back(j.in(i).type());
    operands.push_back(j.in(i));
  }
  for (std::size_t i = 1; i < j.operands(); ++i)
    if (j.has(i)) {
      types.push_back(j.in(i).type());
      operands.push_back(j.tangent(i));
    }
  // A result has a tangent if any branch gives it one.
  std::vector<bool> inputs;
  for (std::size_t i = 1; i < j.operands(); ++i) inputs.push_back(j.has(i));
  std::vector<std::shared_ptr<const ForwardProgram>> steps;
  std::vector<bool> any(branches[0]->outputs.size(), false);
  for (const ProgramRef& branch : branches) {
    steps.push_back(forward_program(*branch, inputs));
    for (std::size_t r = 0; r < any.size(); ++r) any[r] = any[r] || steps.back()->outputs[r];
  }
  std::vector<Traced> forwards;
  for (const auto& step : steps)
    forwards.push_back(trace("jvp of cond", types, [&](const Arrays& arguments) {
      Arrays own = arguments;
      own.insert(own.end(), step->captures.begin(), step->captures.end());
      const Arrays results = replay(*step->program, own);
      Arrays outputs(results.begin(), results.begin() + static_cast<std::ptrdiff_t>(any.size()));
      std::size_t tangent = any.size();
      for (std::size_t r = 0; r < any.size(); ++r)
        if (any[r]) outputs.push_back(step->outputs[r] ? results[tangent++] : zeros_like(results[r]));
      return outputs;
    }));
  const Branches all = with_same_inputs(forwards);
  operands.insert(operands.end(), all.captures.begin(), all.captures.end());
  Arrays results = apply_all(prim::cond, operands, &all.attributes);
  std::size_t next = any.size();
  for (std::size_t r = 0; r < any.size(); ++r)
    if (any[r]) j.add_canonical(results[next++], r);
  results.resize(any.size());
  static_cast<ProgramJvp&>(j).set_results(std::move(results));
}

// One index for all: batched branches. An index a row: each row takes its own branch (a select would let the branch not
// taken move bits), which is what a primitive without a rule does.
void batch_rule(Batch& b) {
  if (b.batched(0)) {
    b.set_by_slices();
    return;
  }
  const std::vector<ProgramRef>& branches = b.as<CondAttribute>().branches;
  Types types;
  Arrays operands{b.in(0)};
  std::vector<bool> flags;
  for (std::size_t i = 1; i < b.operands(); ++i) {
    types.push_back(b.in(i).type());
    operands.push_back(b.in(i));
    flags.push_back(b.batched(i));
  }
  std::vector<Traced> batched;
  for (const ProgramRef& branch : branches)
    batched.push_back(trace("vmap of cond", types,
                            [&](const Arrays& arguments) { return batch_all(*branch, arguments, flags, b.size()); }));
  const Branches all = with_same_inputs(batched);
  operands.insert(operands.end(), all.captures.begin(), all.captures.end());
  b.set(apply_all(prim::cond, operands, &all.attributes));
}

}  // namespace

Branches with_same_inputs(const std::vector<Traced>& traced) {
  Branches result;
  for (const Traced& each : traced)
    result.captures.insert(result.captures.end(), each.captures.begin(), each.captures.end());
  std::size_t before = 0;
  for (const Traced& each : traced) {
    const Program& program = *each.program;
    const std::size_t own = program.inputs.size() - each.captures.size();
    Types types = program.input_types();
    types.resize(own);
    for (const Array& capture : result.captures) types.push_back(capture.type());
    const std::size_t first = own + before;
    const Traced widened = trace("cond", types, [&](const Arrays& arguments) {
      Arrays inputs(arguments.begin(), arguments.begin() + static_cast<std::ptrdiff_t>(own));
      for (std::size_t i = 0; i < each.captures.size(); ++i) inputs.push_back(arguments[first + i]);
      return replay(program, inputs);
    });
    result.attributes.branches.push_back(widened.program);
    before += each.captures.size();
  }
  return result;
}

constinit const Primitive prim::cond{.name = "cond",
                                     .summary = "One of several programs, by an index.",
                                     .attributes = &kAttributesOf<CondAttribute>,
                                     .infer = infer,
                                     .reference = [](const Launch&) { fail<ValueError>("[cond] runs on arrays only"); },
                                     .run = Control{run},
                                     .vjp = vjp,
                                     .jvp = jvp,
                                     .batch = batch_rule,
                                     .samples = [](SampleSink&) {},
                                     .promote = Promote::keep};

}  // namespace eadem
