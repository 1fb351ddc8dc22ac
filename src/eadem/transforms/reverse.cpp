#include <algorithm>

#include "eadem/ops/ops.h"
#include "eadem/transforms/program_transforms.h"

namespace eadem {
namespace {

class Reversal final : public Vjp {
 public:
  Reversal(const Program& program, const Equation& equation, std::span<const Array> operands,
           std::span<const Array> results, const Arrays& saved, const std::vector<bool>& active,
           std::vector<Accumulator>& accumulators)
      : Vjp(equation, operands, results),
        program_(program),
        saved_(saved),
        active_(active),
        accumulators_(accumulators),
        rounded_(equation.results.size()) {}

  bool wants(std::size_t i) const override { return active_[at(equation_.operands[i])]; }
  bool has_ct(std::size_t i) const override { return !accumulators_[at(equation_.results[i])].empty(); }
  Array ct(std::size_t i) override {
    if (!rounded_[i]) {
      const TensorType& type = program_.type(equation_.results[i]);
      rounded_[i] =
          has_ct(i) ? accumulators_[at(equation_.results[i])].rounded(type.dtype) : zeros(type.shape, type.dtype);
    }
    return *rounded_[i];
  }
  void add_window(std::size_t i, const Array& contribution, int axis, std::int64_t start) override {
    if (!wants(i)) return;
    Shape shape = in(i).shape();
    if (axis < 0 || axis >= shape.rank() || contribution.rank() != shape.rank() || start < 0 ||
        start > shape[axis] - contribution.shape()[axis])
      refuse(i, contribution);
    shape[axis] = contribution.shape()[axis];
    require(i, contribution, shape);
    check_canonical(equation_.primitive->name, contribution);
    order_.gives(contribution);
    accumulators_[at(equation_.operands[i])].add_window(contribution, axis, start, in(i).shape());
  }
  const Arrays& saved() const override { return saved_; }
  const Accumulator& result_accumulator(std::size_t i) const override {
    return accumulators_[at(equation_.results[i])];
  }
  Accumulator& operand_accumulator(std::size_t i) override { return accumulators_[at(equation_.operands[i])]; }
  // Of a first-order primitive: what it gives is its contributions.
  void order_equations() { order_.finish(); }

 private:
  void contribute(std::size_t i, const Array& contribution, bool canonical) override {
    if (!wants(i)) return;
    const ValueId id = equation_.operands[i];
    require(i, contribution, in(i).shape());
    if (canonical) check_canonical(equation_.primitive->name, contribution);
    order_.gives(contribution);
    accumulators_[at(id)].add(contribution, canonical);
  }

  [[noreturn]] void refuse(std::size_t i, const Array& contribution) const {
    fail<TypeError>("[grad] the rule of {} gives operand {} a cotangent of type {}, the operand is {}",
                    equation_.primitive->name, i, contribution.type(), in(i).type());
  }
  void require(std::size_t i, const Array& contribution, const Shape& shape) const {
    if (contribution.shape() != shape || contribution.dtype() != in(i).dtype()) refuse(i, contribution);
  }

  const Program& program_;
  const Arrays& saved_;
  const std::vector<bool>& active_;
  std::vector<Accumulator>& accumulators_;
  std::vector<std::optional<Array>> rounded_;
  RuleOrder order_;
};

// A composite without a rule of its own: that of its decomposition, whose equations are one equation to the outside,
// so that each operand gets one rounded contribution.
void reverse_decomposed(Vjp& g) {
  const Primitive& primitive = g.primitive();
  Types types;
  Arrays operands;
  for (std::size_t i = 0; i < g.operands(); ++i) {
    types.push_back(g.in(i).type());
    operands.push_back(g.in(i));
  }
  const Traced body = trace(fmt::format("grad of {}", primitive.name), types, [&](const Arrays& arguments) {
    RuleOrder order;
    Arrays outputs = primitive.decompose(arguments, g.attributes());
    for (const Array& output : outputs) order.gives(output);
    order.finish();
    return outputs;
  });
  operands.insert(operands.end(), body.captures.begin(), body.captures.end());
  std::vector<bool> inputs(body.program->inputs.size(), false);
  for (std::size_t i = 0; i < g.operands(); ++i) inputs[i] = g.wants(i);
  const std::vector<bool> active = active_values(*body.program, inputs);
  Recording recording = record(*body.program, operands, active);
  std::vector<Accumulator> accumulators(body.program->types.size());
  for (std::size_t i = 0; i < g.results(); ++i)
    if (g.has_ct(i)) accumulators[at(body.program->outputs[i])].add(g.ct(i), true);
  reverse(*body.program, recording, active, accumulators);
  for (std::size_t i = 0; i < g.operands(); ++i) {
    const Accumulator& sum = accumulators[at(body.program->inputs[i])];
    if (g.wants(i) && !sum.empty()) g.add_canonical(i, sum.rounded(types[i].dtype));
  }
}

}  // namespace

std::vector<bool> active_values(const Program& program, const std::vector<bool>& active_inputs) {
  std::vector<bool> active(program.types.size(), false);
  const auto floating = [&](ValueId id) { return is_floating(program.type(id).dtype); };
  for (std::size_t i = 0; i < program.inputs.size(); ++i)
    active[at(program.inputs[i])] = active_inputs[i] && floating(program.inputs[i]);
  for (const Equation& equation : program.equations) {
    bool any = false;
    for (const ValueId id : equation.operands) any = any || active[at(id)];
    for (const ValueId id : equation.results) active[at(id)] = any && floating(id);
  }
  return active;
}

Recording record(const Program& program, std::span<const Array> inputs, const std::vector<bool>& active,
                 std::span<const std::optional<Array>> known) {
  if (inputs.size() != program.inputs.size())
    fail<ValueError>("[program] takes {} inputs, got {}", program.inputs.size(), inputs.size());
  Recording recording{std::vector<std::optional<Array>>(program.types.size()),
                      std::vector<Arrays>(program.equations.size())};
  for (std::size_t i = 0; i < inputs.size(); ++i) recording.values[at(program.inputs[i])] = inputs[i];
  for (std::size_t i = 0; i < program.equations.size(); ++i) {
    const Equation& equation = program.equations[i];
    const auto is_known = [&](ValueId id) { return at(id) < known.size() && known[at(id)]; };
    if (std::all_of(equation.results.begin(), equation.results.end(), is_known)) {
      for (const ValueId id : equation.results) recording.values[at(id)] = known[at(id)];
      continue;
    }
    Arrays operands;
    std::vector<bool> wanted;
    for (const ValueId id : equation.operands) {
      operands.push_back(*recording.values[at(id)]);
      wanted.push_back(active[at(id)]);
    }
    const Scope scope(equation.scope);
    const bool saves = equation.primitive->run_saving && std::find(wanted.begin(), wanted.end(), true) != wanted.end();
    Arrays results = saves ? equation.primitive->run_saving(equation, operands, wanted, recording.saved[i])
                           : apply_all(*equation.primitive, operands, equation.attributes.get());
    for (std::size_t r = 0; r < results.size(); ++r) recording.values[at(equation.results[r])] = std::move(results[r]);
  }
  return recording;
}

bool is_first_of_its_value(std::span<const ValueId> operands, std::size_t operand) {
  return std::find(operands.begin(), operands.end(), operands[operand]) ==
         operands.begin() + static_cast<std::ptrdiff_t>(operand);
}

Program with_merged_inputs(const Program& body, std::span<const ValueId> operands) {
  Program merged = body;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const auto first =
        static_cast<std::size_t>(std::find(operands.begin(), operands.end(), operands[i]) - operands.begin());
    if (first == i) continue;
    const auto rename = [&](std::vector<ValueId>& ids) {
      std::replace(ids.begin(), ids.end(), body.inputs[i], body.inputs[first]);
    };
    for (Equation& equation : merged.equations) rename(equation.operands);
    rename(merged.outputs);
  }
  return merged;
}

void reverse_inlined(Vjp& g, const Program& original, const RecordBody& record_body) {
  const std::vector<ValueId>& operands = g.equation().operands;
  const Program body = with_merged_inputs(original, operands);
  const auto is_first = [&](std::size_t i) { return is_first_of_its_value(operands, i); };
  std::vector<bool> wanted(body.inputs.size(), false);
  for (std::size_t i = 0; i < g.operands(); ++i) wanted[i] = g.wants(i);
  const std::vector<bool> active = active_values(body, wanted);
  Recording recording = record_body(body, active);
  std::vector<Accumulator> accumulators(body.types.size());
  for (std::size_t i = 0; i < g.operands(); ++i)
    if (g.wants(i) && is_first(i)) accumulators[at(body.inputs[i])] = std::move(g.operand_accumulator(i));
  for (std::size_t i = 0; i < g.results(); ++i)
    if (g.has_ct(i)) accumulators[at(body.outputs[i])].append(g.result_accumulator(i), g.out(i).dtype());
  reverse(body, recording, active, accumulators);
  for (std::size_t i = 0; i < g.operands(); ++i)
    if (g.wants(i) && is_first(i)) g.operand_accumulator(i) = std::move(accumulators[at(body.inputs[i])]);
}

void reverse(const Program& program, Recording& recording, const std::vector<bool>& active,
             std::vector<Accumulator>& accumulators) {
  std::vector<std::optional<Array>>& values = recording.values;
  for (std::size_t i = program.equations.size(); i-- > 0;) {
    const Equation& equation = program.equations[i];
    bool reached = false, wanted = false;
    for (const ValueId id : equation.results) reached = reached || !accumulators[at(id)].empty();
    for (const ValueId id : equation.operands) wanted = wanted || active[at(id)];
    if (reached && wanted) {
      Arrays operands, results;
      for (const ValueId id : equation.operands) operands.push_back(*values[at(id)]);
      for (const ValueId id : equation.results) results.push_back(*values[at(id)]);
      const Scope scope(equation.scope);
      Reversal reversal(program, equation, operands, results, recording.saved[i], active, accumulators);
      if (equation.primitive->vjp)
        equation.primitive->vjp(reversal);
      else if (equation.primitive->decompose)
        reverse_decomposed(reversal);
      else
        fail<ValueError>("[grad] {} has no derivative", equation.primitive->name);
      if (!std::holds_alternative<Control>(equation.primitive->run)) reversal.order_equations();
    }
    for (const ValueId id : equation.results) {
      values[at(id)].reset();
      accumulators[at(id)] = Accumulator();
    }
    recording.saved[i].clear();
  }
}

}  // namespace eadem
