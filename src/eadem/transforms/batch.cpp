#include "eadem/ops/ops.h"
#include "eadem/transforms/control.h"
#include "eadem/transforms/program_transforms.h"

namespace eadem {
namespace {

// A primitive without a rule runs slice by slice: a scan without a carry over the batched operands.
Arrays by_slices(const Batch& b) {
  const Equation& equation = b.equation();
  const std::int64_t size = b.size();
  Arrays operands;
  for (std::size_t i = 0; i < b.operands(); ++i) operands.push_back(b.in(i));
  const std::vector<bool> batched = b.flags();
  Types types;
  Arrays constants, slices;
  std::vector<std::size_t> order(operands.size());
  for (std::size_t i = 0; i < operands.size(); ++i)
    if (!batched[i]) {
      order[i] = constants.size();
      constants.push_back(operands[i]);
      types.push_back(operands[i].type());
    }
  for (std::size_t i = 0; i < operands.size(); ++i)
    if (batched[i]) {
      order[i] = constants.size() + slices.size();
      slices.push_back(operands[i]);
      TensorType type = operands[i].type();
      type.shape.erase(0);
      types.push_back(type);
    }
  const Traced body = trace(fmt::format("vmap of {}", equation.primitive->name), types, [&](const Arrays& arguments) {
    Arrays own;
    for (const std::size_t i : order) own.push_back(arguments[i]);
    return apply_all(*equation.primitive, own, equation.attributes.get());
  });
  const ScanAttribute attributes{body.program, size, static_cast<std::int64_t>(constants.size()), 0, false};
  Arrays all = std::move(constants);
  all.insert(all.end(), slices.begin(), slices.end());
  return apply_all(prim::scan, all, &attributes);
}

}  // namespace

Batched batch(const Program& program, std::span<const Array> inputs, const std::vector<bool>& batched_inputs,
              std::int64_t size) {
  std::vector<std::optional<Array>> values(program.types.size());
  std::vector<bool> batched(program.types.size(), false);
  for (std::size_t i = 0; i < program.inputs.size(); ++i) {
    values[at(program.inputs[i])] = inputs[i];
    batched[at(program.inputs[i])] = batched_inputs[i];
  }
  for (const Equation& equation : program.equations) {
    Arrays operands;
    std::vector<bool> flags;
    bool any = false;
    for (const ValueId id : equation.operands) {
      operands.push_back(*values[at(id)]);
      flags.push_back(batched[at(id)]);
      any = any || flags.back();
    }
    const Scope scope(equation.scope);
    Arrays results;
    if (!any) {
      results = apply_all(*equation.primitive, operands, equation.attributes.get());
    } else {
      RuleOrder order;
      Batch rule(equation, operands, flags, size, by_slices);
      equation.primitive->batch ? equation.primitive->batch(rule) : rule.set_by_slices();
      results = rule.take_results();
      for (const Array& result : results) order.gives(result);
      if (!std::holds_alternative<Control>(equation.primitive->run)) order.finish();
    }
    for (std::size_t r = 0; r < equation.results.size(); ++r) {
      const ValueId id = equation.results[r];
      Shape expected = program.type(id).shape;
      if (any) expected.insert(0, size);
      if (results.size() != equation.results.size() || results[r].shape() != expected)
        fail<ShapeError>("[vmap] the rule of {} gives shape {} for result {}, required {}", equation.primitive->name,
                         r < results.size() ? results[r].shape() : Shape(), r, expected);
      values[at(id)] = std::move(results[r]);
      batched[at(id)] = any;
    }
  }
  Batched result;
  for (const ValueId id : program.outputs) {
    result.outputs.push_back(*values[at(id)]);
    result.batched.push_back(batched[at(id)]);
  }
  return result;
}

Array with_batch_axis(const Array& x, std::int64_t size) {
  Shape shape = x.shape();
  shape.insert(0, size);
  return broadcast_to(x, shape);
}

Arrays batch_all(const Program& program, std::span<const Array> inputs, const std::vector<bool>& batched,
                 std::int64_t size) {
  Batched result = batch(program, inputs, batched, size);
  for (std::size_t i = 0; i < result.outputs.size(); ++i)
    if (!result.batched[i]) result.outputs[i] = with_batch_axis(result.outputs[i], size);
  return std::move(result.outputs);
}

}  // namespace eadem
