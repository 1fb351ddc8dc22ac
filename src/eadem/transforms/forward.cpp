#include "eadem/ops/ops.h"
#include "eadem/transforms/program_transforms.h"

namespace eadem {
namespace {

class Forward final : public ProgramJvp {
 public:
  Forward(const Program& program, const Equation& equation, std::span<const Array> operands,
          std::span<const Array> results, const std::vector<std::optional<Array>>& tangents)
      : ProgramJvp(equation, operands, results),
        program_(program),
        tangents_(tangents),
        accumulators_(equation.results.size()) {}

  bool has(std::size_t i) const override { return tangents_[at(equation_.operands[i])].has_value(); }
  Array tangent(std::size_t i) override {
    return has(i) ? *tangents_[at(equation_.operands[i])] : zeros(in(i).shape(), in(i).dtype());
  }
  std::optional<Array> result(std::size_t i) const {
    const TensorType& type = program_.type(equation_.results[i]);
    if (accumulators_[i].empty() || !is_floating(type.dtype)) return std::nullopt;
    return accumulators_[i].rounded(type.dtype);
  }
  void order_equations() { order_.finish(); }
  Arrays take_results() { return std::move(set_results_); }

 private:
  void contribute(std::size_t i, const Array& contribution, bool canonical) override {
    const TensorType& type = program_.type(equation_.results[i]);
    if (contribution.shape() != type.shape)
      fail<ShapeError>("[jvp] the rule of {} gives result {} a tangent of type {}, the result is {}",
                       equation_.primitive->name, i, contribution.type(), type);
    if (canonical) check_canonical(equation_.primitive->name, contribution);
    order_.gives(contribution);
    accumulators_[i].add(contribution, canonical);
  }

  const Program& program_;
  const std::vector<std::optional<Array>>& tangents_;
  std::vector<Accumulator> accumulators_;
  RuleOrder order_;
};

// A reverse rule's contributions are linear in the cotangents, and the transpose of that map is the forward rule: the
// rule is recorded as a program of the cotangents, and that is reversed with the tangents.
void forward_by_two_reversals(Jvp& j) {
  const Primitive& primitive = j.primitive();
  Types cotangents;
  std::vector<std::size_t> floating;
  for (std::size_t i = 0; i < j.results(); ++i) {
    if (!is_floating(j.out(i).dtype())) continue;
    floating.push_back(i);
    cotangents.push_back(j.out(i).type());
  }
  if (floating.empty()) return;
  // A program of one equation, this one, so that `reverse` finds its rule or its decomposition.
  Program single;
  Arrays operands;
  std::vector<bool> active;
  for (std::size_t i = 0; i < j.operands(); ++i) {
    single.inputs.push_back(single.add_value(j.in(i).type()));
    operands.push_back(j.in(i));
    active.push_back(j.has(i));
  }
  Types results;
  for (std::size_t i = 0; i < j.results(); ++i) results.push_back(j.out(i).type());
  const std::shared_ptr<const void> attributes =
      j.attributes() ? primitive.attributes->copy(j.attributes()) : std::shared_ptr<const void>();
  single.outputs = single.add_equation(primitive, single.inputs, attributes, results);
  std::vector<std::size_t> reached;
  const Traced transposed = trace(fmt::format("jvp of {}", primitive.name), cotangents, [&](const Arrays& arguments) {
    const std::vector<bool> wanted = active_values(single, active);
    Recording recording = record(single, operands, wanted);
    std::vector<Accumulator> accumulators(single.types.size());
    for (std::size_t k = 0; k < floating.size(); ++k)
      accumulators[at(single.outputs[floating[k]])].add(arguments[k], true);
    reverse(single, recording, wanted, accumulators);
    Arrays contributions;
    for (std::size_t i = 0; i < j.operands(); ++i) {
      const Accumulator& sum = accumulators[at(single.inputs[i])];
      if (!j.has(i) || sum.empty()) continue;
      reached.push_back(i);
      contributions.push_back(sum.rounded(j.in(i).dtype()));
    }
    return contributions;
  });
  const Program& program = *transposed.program;
  Arrays inputs;
  for (const TensorType& type : cotangents) inputs.push_back(zeros(type.shape, type.dtype));
  inputs.insert(inputs.end(), transposed.captures.begin(), transposed.captures.end());
  std::vector<bool> linear(program.inputs.size(), false);
  std::fill_n(linear.begin(), cotangents.size(), true);
  const std::vector<bool> wanted = active_values(program, linear);
  Recording point = record(program, inputs, wanted);
  std::vector<Accumulator> accumulators(program.types.size());
  for (std::size_t k = 0; k < reached.size(); ++k)
    accumulators[at(program.outputs[k])].add(j.tangent(reached[k]), true);
  reverse(program, point, wanted, accumulators);
  for (std::size_t k = 0; k < floating.size(); ++k) {
    const Accumulator& sum = accumulators[at(program.inputs[k])];
    if (!sum.empty()) j.add_canonical(sum.rounded(cotangents[k].dtype), floating[k]);
  }
}

}  // namespace

Tangents forward(const Program& program, std::span<const Array> inputs,
                 const std::vector<std::optional<Array>>& given) {
  std::vector<std::optional<Array>> values(program.types.size()), tangents(program.types.size());
  for (std::size_t i = 0; i < program.inputs.size(); ++i) {
    values[at(program.inputs[i])] = inputs[i];
    tangents[at(program.inputs[i])] = given[i];
  }
  for (const Equation& equation : program.equations) {
    Arrays operands;
    bool any = false;
    for (const ValueId id : equation.operands) {
      operands.push_back(*values[at(id)]);
      any = any || tangents[at(id)];
    }
    const Scope scope(equation.scope);
    const bool is_program = any && std::holds_alternative<Control>(equation.primitive->run) && equation.primitive->jvp;
    Arrays results;
    if (!is_program) results = apply_all(*equation.primitive, operands, equation.attributes.get());
    if (any) {
      Forward rule(program, equation, operands, results, tangents);
      equation.primitive->jvp ? equation.primitive->jvp(rule) : forward_by_two_reversals(rule);
      if (is_program)
        results = rule.take_results();
      else
        rule.order_equations();
      for (std::size_t r = 0; r < results.size(); ++r) tangents[at(equation.results[r])] = rule.result(r);
    }
    for (std::size_t r = 0; r < results.size(); ++r) values[at(equation.results[r])] = std::move(results[r]);
  }
  Tangents result;
  for (const ValueId id : program.outputs) {
    result.outputs.push_back(*values[at(id)]);
    result.tangents.push_back(tangents[at(id)]);
  }
  return result;
}

std::shared_ptr<const ForwardProgram> forward_program(const Program& body, const std::vector<bool>& inputs) {
  std::string key = "jvp ";
  for (const bool each : inputs) key += each ? '1' : '0';
  key += name_of(wide_dtype(DType::f32));
  if (ToBeReversed::here()) key += " to be reversed";
  return body.prepared.memo<ForwardProgram>(key, [&] {
    Types types = body.input_types();
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (inputs[i]) types.push_back(body.type(body.inputs[i]));
    auto made = std::make_shared<ForwardProgram>();
    made->key = key;
    made->inputs = inputs;
    const Traced traced = trace("jvp", types, [&](const Arrays& arguments) {
      std::vector<std::optional<Array>> tangents(inputs.size());
      std::size_t next = inputs.size();
      for (std::size_t i = 0; i < inputs.size(); ++i)
        if (inputs[i]) tangents[i] = arguments[next++];
      const Tangents result = forward(body, std::span(arguments).first(inputs.size()), tangents);
      Arrays outputs = result.outputs;
      for (const std::optional<Array>& tangent : result.tangents) {
        made->outputs.push_back(tangent.has_value());
        if (tangent) outputs.push_back(*tangent);
      }
      return outputs;
    });
    made->program = traced.program;
    made->captures = traced.captures;
    return made;
  });
}

}  // namespace eadem
