#include "eadem/transforms/promote.h"

#include "eadem/array/trace.h"
#include "eadem/ops/ops.h"

namespace eadem {
namespace {

enum class Referee : std::uint8_t { f64, ideal };

Program rewritten(const Program& program, Referee referee);

std::shared_ptr<const void> with_rewritten_programs(const Equation& equation, Referee referee) {
  const AttributeKind& kind = *equation.primitive->attributes;
  std::vector<ProgramRef> programs = kind.programs(equation.attributes.get());
  for (ProgramRef& program : programs) program = std::make_shared<const Program>(rewritten(*program, referee));
  return kind.with_programs(equation.attributes.get(), programs);
}

Array widened(const Array& x) {
  return is_floating(x.dtype()) ? convert(x, DType::f64) : x;
}

Arrays apply_as_referee(const Equation& equation, const Arrays& operands, const Types& declared, Referee referee) {
  const Primitive& primitive = *equation.primitive;
  if (std::holds_alternative<Control>(primitive.run))
    return apply_all(primitive, operands, with_rewritten_programs(equation, referee).get());
  if (std::holds_alternative<View>(primitive.run)) return apply_all(primitive, operands, equation.attributes.get());
  Arrays results;
  if (primitive.promote == Promote::keep) {
    results = apply_all(primitive, operands, equation.attributes.get());
  } else if (referee == Referee::f64 && primitive.promote == Promote::conversion && is_floating(declared[0].dtype) &&
             is_floating(operands[0].dtype())) {
    return {operands[0]};
  } else {
    Arrays wide;
    for (const Array& operand : operands) wide.push_back(widened(operand));
    results = apply_all(primitive, wide, equation.attributes.get());
  }
  for (std::size_t i = 0; i < results.size(); ++i)
    if (is_floating(declared[i].dtype))
      results[i] = convert(results[i], referee == Referee::ideal ? declared[i].dtype : DType::f64);
  return results;
}

Program rewritten(const Program& program, Referee referee) {
  Types inputs = program.input_types();
  if (referee == Referee::f64)
    for (TensorType& type : inputs)
      if (is_floating(type.dtype)) type.dtype = DType::f64;
  const Traced traced = trace(referee == Referee::f64 ? "promote" : "ideal", inputs, [&](const Arrays& arguments) {
    std::vector<std::optional<Array>> values(program.types.size());
    for (std::size_t i = 0; i < arguments.size(); ++i)
      values[static_cast<std::size_t>(program.inputs[i])] = arguments[i];
    for (const Equation& equation : program.equations) {
      Arrays operands;
      Types declared;
      for (const ValueId id : equation.operands) operands.push_back(*values[static_cast<std::size_t>(id)]);
      for (const ValueId id : equation.results) declared.push_back(program.type(id));
      const Scope scope(equation.scope);
      Arrays results = apply_as_referee(equation, operands, declared, referee);
      for (std::size_t r = 0; r < results.size(); ++r)
        values[static_cast<std::size_t>(equation.results[r])] = std::move(results[r]);
    }
    Arrays outputs;
    for (const ValueId id : program.outputs) outputs.push_back(*values[static_cast<std::size_t>(id)]);
    return outputs;
  });
  return *traced.program;
}

}  // namespace

Program promote(const Program& program) {
  return rewritten(program, Referee::f64);
}
Program ideal(const Program& program) {
  return rewritten(program, Referee::ideal);
}

}  // namespace eadem
