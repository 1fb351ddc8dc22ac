#include "eadem/transforms/transforms.h"

#include <algorithm>
#include <memory>

#include "eadem/ops/ops.h"
#include "eadem/transforms/compile.h"
#include "eadem/transforms/control.h"
#include "eadem/transforms/dump.h"
#include "eadem/transforms/program_transforms.h"
#include "eadem/transforms/scan.h"

namespace eadem::detail {
namespace {

Arrays joined(Arrays first, const Arrays& rest) {
  first.insert(first.end(), rest.begin(), rest.end());
  return first;
}

}  // namespace

Traced trace_for_compile(std::string who, const Types& inputs, const ArraysFunction& f) {
  Trace scope(who);
  scope.refuse_large_captures();
  Arrays arguments;
  for (const TensorType& type : inputs) arguments.push_back(scope.input(type));
  Traced traced = scope.close(f(arguments));
  dump_program(who, *traced.program);
  return traced;
}

namespace {
thread_local int compiled_calls = 0;
}  // namespace

CompiledCall::CompiledCall(std::string_view function) {
  if (compiled_calls == Trace::kMaxDepth)
    fail<ValueError>("[compile of {}] compiled functions call each other more than {} deep: does one call itself?",
                     function, Trace::kMaxDepth);
  ++compiled_calls;
}
CompiledCall::~CompiledCall() {
  --compiled_calls;
}

struct VjpState {
  std::string who;
  Traced traced;
  Types inputs;
  bool is_written_out = false;
  std::vector<bool> active;
  Recording recording;
};

namespace {

// Records the forward pass, of the loops written out where gradients are to be differentiated.
void run_forward(VjpState& state, const Arrays& inputs) {
  state.is_written_out = ToBeReversed::here();
  if (state.is_written_out) state.traced = written_out(state.who, state.traced);
  std::vector<bool> wanted(inputs.size(), true);
  wanted.resize(state.traced.program->inputs.size(), false);
  state.active = active_values(*state.traced.program, wanted);
  state.recording = record(*state.traced.program, joined(inputs, state.traced.captures), state.active);
}

}  // namespace

std::shared_ptr<VjpState> begin_vjp(std::string who, const ArraysFunction& f, const Arrays& inputs, Arrays& outputs) {
  auto state = std::make_shared<VjpState>();
  state->who = std::move(who);
  state->inputs = types_of(inputs);
  bool any = false;
  for (const Array& input : inputs) any = any || is_floating(input.dtype());
  if (!any)
    fail<TypeError>("[{}] there is nothing to differentiate: the argument holds ({}), no floating array", state->who,
                    print_types(state->inputs));
  {
    const ToBeReversed scope;
    state->traced = trace(state->who, state->inputs, f);
  }
  dump_program(state->who, *state->traced.program);
  run_forward(*state, inputs);
  for (const ValueId id : state->traced.program->outputs) outputs.push_back(*state->recording.values[at(id)]);
  return state;
}

namespace {

// Goes back over the recording, letting go of it on the way.
Arrays reversed(const VjpState& state, Recording recording, const std::vector<std::optional<Array>>& cotangents) {
  const Program& program = *state.traced.program;
  std::vector<Accumulator> sums(program.types.size());
  if (cotangents.size() != program.outputs.size())
    fail<ValueError>("[{}] needs {} cotangents, got {}", state.who, program.outputs.size(), cotangents.size());
  for (std::size_t i = 0; i < cotangents.size(); ++i) {
    const ValueId id = program.outputs[i];
    if (!cotangents[i] || !is_floating(program.type(id).dtype)) continue;
    if (cotangents[i]->type() != program.type(id))
      fail<TypeError>("[{}] the cotangent of result {} must be {}, got {}", state.who, i, program.type(id),
                      cotangents[i]->type());
    if (state.active[at(id)]) sums[at(id)].add(*cotangents[i], false);
  }
  reverse(program, recording, state.active, sums);
  Arrays gradients;
  for (std::size_t i = 0; i < state.inputs.size(); ++i) {
    const Accumulator& sum = sums[at(program.inputs[i])];
    const TensorType& type = state.inputs[i];
    gradients.push_back(sum.empty() ? zeros(type.shape, type.dtype) : sum.rounded(type.dtype));
  }
  return gradients;
}

}  // namespace

Arrays finish_vjp(const VjpState& state, const std::vector<std::optional<Array>>& cotangents) {
  if (ToBeReversed::here() && !state.is_written_out) {
    VjpState again{state.who, state.traced, state.inputs, false, {}, {}};
    Arrays inputs;
    for (std::size_t i = 0; i < state.inputs.size(); ++i)
      inputs.push_back(*state.recording.values[at(state.traced.program->inputs[i])]);
    run_forward(again, inputs);
    return reversed(again, std::move(again.recording), cotangents);
  }
  return reversed(state, state.recording, cotangents);  // a copy: it may be gone back over again
}

Arrays grad_arrays(std::string who, const ArraysFunction& f, const Arrays& inputs, Arrays& outputs) {
  Arrays all = staged(who, inputs, [&](const Arrays& arguments) {
    Arrays results;
    const std::shared_ptr<VjpState> state = begin_vjp(who, f, arguments, results);
    const Array& loss = results[0];
    if (loss.rank() != 0) fail<ShapeError>("[{}] the function must give a scalar, got {}", who, loss.type());
    if (!is_floating(loss.dtype()))
      fail<TypeError>("[{}] the function must give a floating scalar, got {}", who, loss.type());
    std::vector<std::optional<Array>> cotangents(results.size());
    cotangents[0] = ones({}, loss.dtype());
    return joined(reversed(*state, std::move(state->recording), cotangents), results);
  });
  const auto split = all.begin() + static_cast<std::ptrdiff_t>(inputs.size());
  outputs.assign(split, all.end());
  all.erase(split, all.end());
  return all;
}

std::pair<Arrays, Arrays> jvp_arrays(std::string who, const ArraysFunction& f, const Arrays& inputs,
                                     const Arrays& tangents) {
  if (tangents.size() != inputs.size())
    fail<ValueError>("[{}] needs {} tangents, got {}", who, inputs.size(), tangents.size());
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (is_floating(inputs[i].dtype()) && tangents[i].type() != inputs[i].type())
      fail<TypeError>("[{}] the tangent of argument {} must be {}, got {}", who, i, inputs[i].type(),
                      tangents[i].type());
  Arrays all = staged(who, joined(inputs, tangents), [&](const Arrays& arguments) {
    const std::span<const Array> primals = std::span(arguments).first(inputs.size());
    const Traced traced = trace(who, types_of(primals), f);
    dump_program(who, *traced.program);
    std::vector<std::optional<Array>> given(traced.program->inputs.size());
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (is_floating(inputs[i].dtype())) given[i] = arguments[inputs.size() + i] + 0.0;  // no tangent is -0
    Tangents result = forward(*traced.program, joined(Arrays(primals.begin(), primals.end()), traced.captures), given);
    Arrays outputs = result.outputs;
    for (std::size_t i = 0; i < result.outputs.size(); ++i)
      outputs.push_back(result.tangents[i] ? *result.tangents[i] : zeros_like(result.outputs[i]));
    return outputs;
  });
  const auto split = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
  return {Arrays(all.begin(), split), Arrays(split, all.end())};
}

Arrays vmap_arrays(std::string who, const ArraysFunction& f, const Arrays& inputs,
                   const std::vector<std::optional<std::int64_t>>& in_axes, std::int64_t out_axis) {
  std::optional<std::int64_t> size;
  Types slices = types_of(inputs);
  std::vector<bool> batched(inputs.size());
  std::vector<int> axes(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!in_axes[i]) continue;
    batched[i] = true;
    if (inputs[i].rank() == 0)
      fail<ShapeError>("[{}] argument {} is mapped over axis {} but is {}", who, i, *in_axes[i], inputs[i].type());
    axes[i] = normalize_axis("vmap", *in_axes[i], inputs[i].rank());
    const std::int64_t extent = inputs[i].shape()[axes[i]];
    if (size && *size != extent)
      fail<ShapeError>("[{}] mapped axes must have one extent: {} before, axis {} of argument {}, {}, has {}", who,
                       *size, axes[i], i, inputs[i].type(), extent);
    size = extent;
    slices[i].shape.erase(axes[i]);
  }
  if (!size) fail<ValueError>("[{}] maps over no argument", who);
  return staged(who, inputs, [&](const Arrays& arguments) {
    Arrays moved;
    for (std::size_t i = 0; i < arguments.size(); ++i)
      moved.push_back(batched[i] ? move_axis(arguments[i], axes[i], 0) : arguments[i]);
    const Traced traced = trace(who, slices, f);
    dump_program(who, *traced.program);
    std::vector<bool> flags = batched;
    flags.resize(traced.program->inputs.size(), false);
    Arrays results = batch_all(*traced.program, joined(moved, traced.captures), flags, *size);
    for (Array& result : results) result = move_axis(result, 0, out_axis);
    return results;
  });
}

Arrays scan_arrays(std::string who, const ArraysFunction& f, const Arrays& carries, const Arrays& slices,
                   std::int64_t length, bool reverse) {
  if (length < 0) fail<ValueError>("[{}] the length must not be negative, got {}", who, length);
  Types types = types_of(carries);
  for (const Array& slice : slices) {
    types.push_back(slice.type());
    types.back().shape.erase(0);
  }
  const Traced body = trace(who, types, f);
  for (std::size_t i = 0; i < carries.size(); ++i) {
    const TensorType& after = body.program->type(body.program->outputs[i]);
    if (after != carries[i].type())
      fail<TypeError>("[{}] carry {} is {} before an iteration and {} after it", who, i, carries[i].type(), after);
  }
  ScanAttribute attributes{body.program, length, 0, static_cast<std::int64_t>(carries.size()), reverse};
  return apply_scan(attributes, with_captures(attributes, joined(carries, slices), body.captures));
}

Arrays while_arrays(std::string who, const ArraysFunction& condition, const ArraysFunction& body,
                    const Arrays& carries) {
  const auto traced = [&](const ArraysFunction& f) {
    Traced result = trace(who, types_of(carries), f);
    result.program = with_captures_as_constants(result.program, 0, result.captures.size());
    return result;
  };
  const Traced test = traced(condition), step = traced(body);
  if (step.program->output_types() != types_of(carries))
    fail<TypeError>("[{}] the carry must keep its types: ({}) before an iteration, ({}) after it", who,
                    print_types(types_of(carries)), print_types(step.program->output_types()));
  if (test.program->output_types() != Types{TensorType{DType::boolean, {}}})
    fail<TypeError>("[{}] the condition must give bool[], it gives ({})", who,
                    print_types(test.program->output_types()));
  const WhileAttribute attributes{test.program, step.program, static_cast<std::int64_t>(test.captures.size()),
                                  static_cast<std::int64_t>(step.captures.size())};
  return apply_all(prim::while_loop, joined(joined(test.captures, step.captures), carries), &attributes);
}

Arrays cond_arrays(std::string who, const Array& index, const std::vector<ArraysFunction>& branches,
                   const Arrays& operands) {
  if (index.rank() != 0 || !is_integer(index.dtype()))
    fail<TypeError>("[{}] the index of a branch must be an integer scalar, got {}", who, index.type());
  std::vector<Traced> traced;
  for (const ArraysFunction& branch : branches) traced.push_back(trace(who, types_of(operands), branch));
  for (const Traced& branch : traced)
    if (branch.program->output_types() != traced[0].program->output_types())
      fail<TypeError>("[{}] branches must give the same types: branch 0 gives ({}), branch {} gives ({})", who,
                      print_types(traced[0].program->output_types()), &branch - traced.data(),
                      print_types(branch.program->output_types()));
  const auto [attributes, captures] = with_same_inputs(traced);
  // Clamped before it is signed, for the greatest u64 would be negative.
  const auto last = static_cast<double>(branches.size() - 1);
  const Array which = index.dtype() == DType::u64 ? minimum(index, full({}, last, DType::u64)) : index;
  return apply_all(prim::cond, joined(joined({convert(which, DType::i64)}, operands), captures), &attributes);
}

Arrays remat_arrays(std::string who, const ArraysFunction& f, const Arrays& inputs, const RematPolicy& policy) {
  const Traced body = trace(std::move(who), types_of(inputs), f);
  return apply_remat({body.program, policy.name, policy.names}, joined(inputs, body.captures));
}

Arrays custom_vjp_arrays(std::string who, const ArraysFunction& f, const ArraysFunction& forward,
                         const ArraysFunction& backward, const Arrays& inputs, std::size_t joined,
                         const ArraysFunction& join) {
  const Types types = types_of(inputs);
  const auto closed = [&who](std::string_view part, const Traced& traced) {
    if (!traced.captures.empty())
      fail<ValueError>(
          "[{}] the {} captures an array of type {}: pass it as an argument, since what is captured would get no "
          "gradient",
          who, part, traced.captures[0].type());
    return traced.program;
  };
  CustomVjpAttribute attributes;
  attributes.body = closed("function", trace(who, types, f));
  attributes.forward = closed("forward rule", trace(who, types, forward));
  const Types results = attributes.body->output_types(), kept = attributes.forward->output_types();
  if (kept.size() < results.size() || !std::equal(results.begin(), results.end(), kept.begin()))
    fail<TypeError>("[{}] the forward rule must give the function's result ({}) first, it gives ({})", who,
                    print_types(results), print_types(kept));
  Types given(kept.begin() + static_cast<std::ptrdiff_t>(results.size()), kept.end());
  given.insert(given.end(), results.begin(), results.end());
  attributes.backward = closed("backward rule", trace(who, given, backward));
  if (join) {
    const Types last(types.end() - static_cast<std::ptrdiff_t>(joined), types.end());
    Types both = last;
    both.insert(both.end(), last.begin(), last.end());
    attributes.join.push_back(closed("join", trace(who, both, join)));
  }
  return apply_all(prim::custom_vjp, inputs, &attributes);
}

Array counted_from(std::int64_t begin, std::int64_t count) {
  return arange(count) + Array::from<std::int64_t>(std::span(&begin, 1), Shape());
}

Array index_of_predicate(const Array& predicate) {
  if (predicate.type() != TensorType{DType::boolean, {}})
    fail<TypeError>("[cond] the predicate must be bool[], got {}", predicate.type());
  return convert(predicate, DType::i64);
}

}  // namespace eadem::detail
