// What differentiates a gradient: the function is written out before it is reversed, so that the program of its
// gradient, whose values are to have gradients themselves, is that of the loop.

#include <algorithm>

#include "eadem/array/tree.h"
#include "eadem/transforms/control.h"
#include "eadem/transforms/program_transforms.h"
#include "eadem/transforms/scan.h"

namespace eadem {
namespace {

thread_local int to_be_reversed = 0;

bool is_real(const Program& program, const Equation& equation) {
  return std::any_of(equation.results.begin(), equation.results.end(),
                     [&](ValueId id) { return is_floating(program.type(id).dtype); });
}

// Whether there is something to be written out.
bool has_borders(const Program& program) {
  return std::any_of(program.equations.begin(), program.equations.end(), [&](const Equation& equation) {
    if (!is_real(program, equation)) return false;
    if (equation.primitive != &prim::cond)
      return equation.primitive == &prim::scan || equation.primitive == &prim::remat;
    const auto& branches = static_cast<const CondAttribute*>(equation.attributes.get())->branches;
    return std::any_of(branches.begin(), branches.end(), [](const ProgramRef& branch) { return has_borders(*branch); });
  });
}

Arrays write_out(const Program& program, const Arrays& inputs);

Arrays write_out(const Program& program, const Equation& equation, const Arrays& operands) {
  const void* attributes = equation.attributes.get();
  if (equation.primitive == &prim::remat && is_real(program, equation))
    return write_out(*static_cast<const RematAttribute*>(attributes)->body, operands);
  if (equation.primitive == &prim::scan && is_real(program, equation)) {
    const ScanAttribute& scan = *static_cast<const ScanAttribute*>(attributes);
    return scan_as_loop(scan, operands, [&](const Arrays& arguments) { return write_out(*scan.body, arguments); });
  }
  if (equation.primitive != &prim::cond) return apply_all(*equation.primitive, operands, attributes);
  const Types types = types_of(std::span(operands).subspan(1));
  std::vector<Traced> branches;
  for (const ProgramRef& branch : static_cast<const CondAttribute*>(attributes)->branches)
    branches.push_back(trace("cond", types, [&](const Arrays& arguments) { return write_out(*branch, arguments); }));
  const Branches all = with_same_inputs(branches);
  Arrays closed = operands;
  closed.insert(closed.end(), all.captures.begin(), all.captures.end());
  return apply_all(prim::cond, closed, &all.attributes);
}

Arrays write_out(const Program& program, const Arrays& inputs) {
  std::vector<std::optional<Array>> values(program.types.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) values[at(program.inputs[i])] = inputs[i];
  for (const Equation& equation : program.equations) {
    Arrays operands;
    for (const ValueId id : equation.operands) operands.push_back(*values[at(id)]);
    const Scope scope(equation.scope);
    const Arrays results = write_out(program, equation, operands);
    for (std::size_t r = 0; r < results.size(); ++r) values[at(equation.results[r])] = results[r];
  }
  Arrays outputs;
  for (const ValueId id : program.outputs) outputs.push_back(*values[at(id)]);
  return outputs;
}

}  // namespace

ToBeReversed::ToBeReversed() {
  ++to_be_reversed;
}
ToBeReversed::~ToBeReversed() {
  --to_be_reversed;
}
bool ToBeReversed::here() {
  return to_be_reversed > 0;
}

Traced written_out(const std::string& who, const Traced& traced) {
  if (!has_borders(*traced.program)) return traced;
  Traced made = trace(who, traced.program->input_types(),
                      [&](const Arrays& arguments) { return write_out(*traced.program, arguments); });
  made.captures.insert(made.captures.begin(), traced.captures.begin(), traced.captures.end());
  return made;
}

}  // namespace eadem
