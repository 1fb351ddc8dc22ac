#include "eadem/ir/program.h"

#include <algorithm>
#include <unordered_map>

#include "eadem/base/error.h"

namespace eadem {
namespace {

Types types_of(const Program& program, const std::vector<ValueId>& ids) {
  Types types;
  types.reserve(ids.size());
  for (const ValueId id : ids) types.push_back(program.type(id));
  return types;
}

bool operator_equal(const Equation& a, const Equation& b) {
  if (a.primitive != b.primitive || a.operands != b.operands || a.results != b.results || a.scope != b.scope)
    return false;
  if (!a.attributes || !b.attributes) return !a.attributes && !b.attributes;
  return a.primitive->attributes->equal(a.attributes.get(), b.attributes.get());
}

std::string describe(const Equation& equation, std::size_t index) {
  return fmt::format("equation {} ({})", index, equation.primitive->name);
}

}  // namespace

Types Program::input_types() const {
  return types_of(*this, inputs);
}
Types Program::output_types() const {
  return types_of(*this, outputs);
}

ValueId Program::add_value(const TensorType& type) {
  types.push_back(type);
  return static_cast<ValueId>(types.size() - 1);
}

const std::vector<ValueId>& Program::add_equation(const Primitive& primitive, std::vector<ValueId> operands,
                                                  std::shared_ptr<const void> attributes, const Types& results,
                                                  std::string scope) {
  std::vector<ValueId> ids;
  ids.reserve(results.size());
  for (const TensorType& type : results) ids.push_back(add_value(type));
  equations.push_back({&primitive, std::move(operands), std::move(ids), std::move(attributes), std::move(scope)});
  return equations.back().results;
}

bool operator==(const Program& a, const Program& b) {
  return a.types == b.types && a.inputs == b.inputs && a.outputs == b.outputs &&
         std::equal(a.equations.begin(), a.equations.end(), b.equations.begin(), b.equations.end(), operator_equal);
}

void verify(const Program& program) {
  ValueId next = 0;
  const auto define = [&](ValueId id, std::string_view where) {
    if (id != next++) fail<ValueError>("[program] {} defines %{}, expected %{}", where, id, next - 1);
    if (static_cast<std::size_t>(id) >= program.types.size()) fail<ValueError>("[program] %{} has no type", id);
  };
  const auto use = [&](ValueId id, std::string_view where) {
    if (id < 0 || id >= next) fail<ValueError>("[program] {} uses %{}, which is not defined before it", where, id);
  };
  for (const ValueId id : program.inputs) define(id, "the inputs");
  for (std::size_t i = 0; i < program.equations.size(); ++i) {
    const Equation& equation = program.equations[i];
    const std::string where = describe(equation, i);
    for (const ValueId id : equation.operands) use(id, where);
    for (const ValueId id : equation.results) define(id, where);
    if (!equation.attributes && equation.primitive->attributes != &kAttributesOf<NoAttributes>)
      fail<ValueError>("[program] {} lacks its attributes", where);
    if (equation.attributes)
      for (const ProgramRef& body : equation.primitive->attributes->programs(equation.attributes.get())) verify(*body);
    const Types operands = types_of(program, equation.operands), results = types_of(program, equation.results);
    const Types inferred = equation.primitive->infer({operands, equation.attributes.get()});
    if (inferred != results)
      fail<TypeError>("[program] {} has results [{}], its operands give [{}]", where, print_types(results),
                      print_types(inferred));
  }
  for (const ValueId id : program.outputs) use(id, "the outputs");
  if (static_cast<std::size_t>(next) != program.types.size())
    fail<ValueError>("[program] {} values are typed, {} defined", program.types.size(), next);
}

namespace {

// The equations kept, on inputs in the given order, renumbered.
Program rebuilt(const Program& program, const std::vector<ValueId>& inputs, const std::vector<bool>& kept) {
  Program result;
  std::vector<ValueId> renamed(program.types.size(), -1);
  const auto rename = [&](const std::vector<ValueId>& ids) {
    std::vector<ValueId> names;
    for (const ValueId id : ids) names.push_back(renamed[static_cast<std::size_t>(id)]);
    return names;
  };
  for (const ValueId id : inputs) {
    renamed[static_cast<std::size_t>(id)] = result.add_value(program.type(id));
    result.inputs.push_back(renamed[static_cast<std::size_t>(id)]);
  }
  for (std::size_t i = 0; i < program.equations.size(); ++i) {
    if (!kept[i]) continue;
    const Equation& equation = program.equations[i];
    const std::vector<ValueId>& ids =
        result.add_equation(*equation.primitive, rename(equation.operands), equation.attributes,
                            types_of(program, equation.results), equation.scope);
    for (std::size_t r = 0; r < ids.size(); ++r) renamed[static_cast<std::size_t>(equation.results[r])] = ids[r];
  }
  result.outputs = rename(program.outputs);
  return result;
}

}  // namespace

Program without_dead_code(const Program& program) {
  std::vector<bool> live(program.types.size(), false), kept(program.equations.size(), false);
  const auto mark = [&](const std::vector<ValueId>& ids) {
    for (const ValueId id : ids) live[static_cast<std::size_t>(id)] = true;
  };
  mark(program.outputs);
  for (std::size_t i = program.equations.size(); i-- > 0;) {
    const Equation& equation = program.equations[i];
    kept[i] = equation.primitive->effect;
    for (const ValueId id : equation.results) kept[i] = kept[i] || live[static_cast<std::size_t>(id)];
    if (kept[i]) mark(equation.operands);
  }
  return rebuilt(program, program.inputs, kept);
}

Program with_common_equations_joined(const Program& program) {
  Program joined = program;
  std::vector<ValueId> same(program.types.size());
  for (std::size_t i = 0; i < same.size(); ++i) same[i] = static_cast<ValueId>(i);
  const auto rename = [&](std::vector<ValueId>& ids) {
    for (ValueId& id : ids) id = same[static_cast<std::size_t>(id)];
  };
  std::unordered_multimap<std::size_t, const Equation*> known;
  for (Equation& equation : joined.equations) {
    rename(equation.operands);
    const bool higher_order = std::holds_alternative<Control>(equation.primitive->run);
    if (equation.primitive->effect || higher_order) continue;
    std::size_t hash = std::hash<const void*>()(equation.primitive);
    const auto mix = [&](std::size_t value) { hash = hash * 0x9E3779B97F4A7C15u + value; };
    for (const ValueId id : equation.operands) mix(static_cast<std::size_t>(id));
    if (equation.attributes) mix(equation.primitive->attributes->hash(equation.attributes.get()));
    const auto [begin, end] = known.equal_range(hash);
    const auto twin = std::find_if(begin, end, [&](const auto& entry) {
      const Equation& other = *entry.second;
      if (other.primitive != equation.primitive || other.operands != equation.operands) return false;
      if (!other.attributes || !equation.attributes) return !other.attributes && !equation.attributes;
      return equation.primitive->attributes->equal(other.attributes.get(), equation.attributes.get());
    });
    if (twin == end) {
      known.emplace(hash, &equation);
      continue;
    }
    for (std::size_t r = 0; r < equation.results.size(); ++r)
      same[static_cast<std::size_t>(equation.results[r])] = twin->second->results[r];
  }
  rename(joined.outputs);
  return without_dead_code(joined);
}

Program with_inputs(const Program& program, const std::vector<std::size_t>& order) {
  std::vector<ValueId> inputs;
  for (const std::size_t i : order) inputs.push_back(program.inputs[i]);
  return rebuilt(program, inputs, std::vector<bool>(program.equations.size(), true));
}

}  // namespace eadem
