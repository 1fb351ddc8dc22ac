#include "eadem/transforms/executable.h"

#include <algorithm>
#include <array>

#include "eadem/base/float_environment.h"
#include "eadem/transforms/executable_region.h"
#include "eadem/transforms/program_transforms.h"

namespace eadem {
namespace {

// Results of equations on constants are kept when they are at most this large, or windows on such.
constexpr std::size_t kFoldedBytes = 1 << 16;

void add_once(std::vector<ValueId>& ids, ValueId id) {
  if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
}

// Elementwise equations on one shape that wait to be run as a chain.
struct Group {
  Shape shape;
  std::vector<std::size_t> equations;
  std::vector<ValueId> operands, made;

  bool makes(ValueId id) const { return std::find(made.begin(), made.end(), id) != made.end(); }
  bool has_room(const Equation& equation) const {
    std::size_t fresh = 0;
    for (const ValueId id : equation.operands)
      fresh += !makes(id) && std::find(operands.begin(), operands.end(), id) == operands.end();
    return equations.size() < kMaxChainSteps && operands.size() + fresh <= kMaxChainOperands;
  }
};

}  // namespace

Executable::Executable(const Program& program) : program_(with_common_equations_joined(program)) {
  fold_constants();
  make_steps();
  set_released();
}

bool Executable::is_elementwise(const Equation& equation) {
  return std::holds_alternative<Tile>(equation.primitive->run) && equation.operands.size() <= 4;
}
bool Executable::is_chain(const Step& step) const {
  return !step.region && is_elementwise(program_.equations[step.equations[0]]);
}

void Executable::fold_constants() {
  folded_.resize(program_.equations.size(), false);
  std::vector<std::optional<Array>> known(program_.types.size());
  for (std::size_t i = 0; i < program_.equations.size(); ++i) {
    const Equation& equation = program_.equations[i];
    std::size_t bytes = 0;
    for (const ValueId id : equation.results)
      bytes += static_cast<std::size_t>(program_.type(id).shape.elements()) * size_of(program_.type(id).dtype);
    const bool constant = std::all_of(equation.operands.begin(), equation.operands.end(),
                                      [&](ValueId id) { return known[at(id)].has_value(); });
    const bool is_window = std::holds_alternative<View>(equation.primitive->run);
    if (!constant || equation.primitive->effect || std::holds_alternative<Control>(equation.primitive->run) ||
        (bytes > kFoldedBytes && !is_window))
      continue;
    Arrays operands;
    for (const ValueId id : equation.operands) operands.push_back(*known[at(id)]);
    Arrays results = apply_all(*equation.primitive, operands, equation.attributes.get());
    for (std::size_t r = 0; r < results.size(); ++r) {
      known[at(equation.results[r])] = results[r];
      constants_.emplace_back(equation.results[r], std::move(results[r]));
    }
    folded_[i] = true;
  }
}

std::vector<Executable::Step> Executable::chains() const {
  std::vector<Step> steps;
  std::vector<Group> open;
  const auto close = [&](std::size_t which) {
    Step step;
    step.equations = std::move(open[which].equations);
    step.operands = std::move(open[which].operands);
    steps.push_back(std::move(step));
    open.erase(open.begin() + static_cast<std::ptrdiff_t>(which));
  };
  for (std::size_t i = 0; i < program_.equations.size(); ++i) {
    if (folded_[i]) continue;
    const Equation& equation = program_.equations[i];
    if (!is_elementwise(equation)) {
      // It runs now, after the groups that make its operands and before those still open, which do not.
      for (std::size_t g = open.size(); g-- > 0;)
        if (std::any_of(equation.operands.begin(), equation.operands.end(),
                        [&](ValueId id) { return open[g].makes(id); }))
          close(g);
      steps.push_back({{i}, equation.operands, equation.results, {}});
      continue;
    }
    // Elementwise operands have the result's shape, so only the group of that shape can make them.
    const Shape& shape = program_.type(equation.results[0]).shape;
    auto home = std::find_if(open.begin(), open.end(), [&](const Group& group) { return group.shape == shape; });
    if (home != open.end() && !home->has_room(equation)) {
      close(static_cast<std::size_t>(home - open.begin()));
      home = open.end();
    }
    if (home == open.end()) home = open.insert(open.end(), {shape, {}, {}, {}});
    for (const ValueId id : equation.operands)
      if (!home->makes(id)) add_once(home->operands, id);
    home->equations.push_back(i);
    home->made.push_back(equation.results[0]);
  }
  while (!open.empty()) close(0);
  return steps;
}

// Of chains and regions: what is used outside of the one that makes it, in the order of its equations.
void Executable::set_results(std::vector<Step>& steps) const {
  std::vector<bool> outside(program_.types.size(), false);
  for (const Step& step : steps)
    for (const ValueId id : step.operands) outside[at(id)] = true;
  for (const ValueId id : program_.outputs) outside[at(id)] = true;
  for (Step& step : steps) {
    if (!step.region && !step.chain && !is_chain(step)) continue;
    step.results.clear();
    for (const std::size_t i : step.equations)
      for (const ValueId id : program_.equations[i].results)
        if (outside[at(id)]) step.results.push_back(id);
  }
}

void Executable::set_released() {
  std::vector<std::size_t> last_use(program_.types.size(), 0);
  std::vector<bool> used(program_.types.size(), false);
  for (std::size_t s = 0; s < steps_.size(); ++s)
    for (const ValueId id : steps_[s].operands) {
      used[at(id)] = true;
      last_use[at(id)] = s;
    }
  for (const ValueId id : program_.outputs) {
    used[at(id)] = true;
    last_use[at(id)] = SIZE_MAX;
  }
  for (const auto& [id, array] : constants_) last_use[at(id)] = SIZE_MAX;
  for (std::size_t s = 0; s < steps_.size(); ++s) {
    Step& step = steps_[s];
    for (const ValueId id : step.operands)
      if (last_use[at(id)] == s) add_once(step.released, id);
    for (const ValueId id : step.results)
      if (!used[at(id)]) add_once(step.released, id);
  }
}

bool Executable::is_read_before(const Step& step, ValueId operand, ValueId result) const {
  if (step.region && !step.region->is_cut_alike(operand)) return false;
  if (step.chain) {  // other parts of the product still read its operands
    const std::vector<ValueId>& factors = program_.equations[step.equations[0]].operands;
    if (std::find(factors.begin(), factors.end(), operand) != factors.end()) return false;
  }
  bool made = false;
  for (const std::size_t i : step.equations) {
    const Equation& equation = program_.equations[i];
    const bool makes = std::find(equation.results.begin(), equation.results.end(), result) != equation.results.end();
    const bool reads =
        std::find(equation.operands.begin(), equation.operands.end(), operand) != equation.operands.end();
    if (reads && (made || (makes && !is_elementwise(equation)))) return false;
    made = made || makes;
  }
  return true;
}

// A result may take the memory of an operand that nobody needs any more, in the step neither.
std::vector<TensorView> Executable::take_results(const Step& step, Values& values) const {
  const std::vector<std::optional<ValueId>> from = donors(step, [&](ValueId id) -> const TensorView* {
    const std::optional<Array>& x = values[at(id)];
    return x && x->buffer()->unique() ? &x->view() : nullptr;
  });
  std::vector<TensorView> results;
  for (std::size_t r = 0; r < step.results.size(); ++r) {
    std::optional<Array>& result = values[at(step.results[r])];
    if (from[r]) {
      values[at(*from[r])]->buffer()->drop_prepared();
      result = *values[at(*from[r])];
    } else {
      result = Array::allocate(program_.type(step.results[r]));
    }
    results.push_back(result->view());
  }
  return results;
}

std::vector<TileStep> Executable::tiles_of(const Step& step) const {
  std::vector<TileStep> chain(step.equations.size());
  std::array<TensorType, 4> types;
  std::int8_t next_result = 0;
  for (std::size_t s = 0; s < step.equations.size(); ++s) {
    const Equation& equation = program_.equations[step.equations[s]];
    TileStep& tile = chain[s];
    tile.value_count = static_cast<std::uint8_t>(equation.operands.size());
    for (std::size_t i = 0; i < equation.operands.size(); ++i) {
      const ValueId id = equation.operands[i];
      types[i] = program_.type(id);
      const auto outer = std::find(step.operands.begin(), step.operands.end(), id);
      std::size_t value = static_cast<std::size_t>(outer - step.operands.begin());
      if (outer == step.operands.end())
        for (std::size_t k = 0; k < s; ++k)
          if (program_.equations[step.equations[k]].results[0] == id) value = step.operands.size() + k;
      tile.values[i] = static_cast<std::uint8_t>(value);
    }
    tile.attributes = equation.attributes.get();
    tile.fn = std::get<Tile>(equation.primitive->run).pick({{types.data(), equation.operands.size()}, tile.attributes});
    tile.dtype = program_.type(equation.results[0]).dtype;
    const bool is_result = static_cast<std::size_t>(next_result) < step.results.size() &&
                           step.results[static_cast<std::size_t>(next_result)] == equation.results[0];
    tile.result = is_result ? next_result++ : std::int8_t{-1};
  }
  return chain;
}

void Executable::run_chain(const Step& step, Values& values) const {
  std::array<TensorView, kMaxChainOperands> operands;
  for (std::size_t i = 0; i < step.operands.size(); ++i) operands[i] = values[at(step.operands[i])]->view();
  const std::vector<TensorView> results = take_results(step, values);
  run_tiles(tiles_of(step), {{operands.data(), step.operands.size()}, results, nullptr});
}

Arrays Executable::run(Arrays inputs) const {
  if (inputs.size() != program_.inputs.size())
    fail<ValueError>("[program] takes {} inputs, got {}", program_.inputs.size(), inputs.size());
  const FloatEnvironment environment;  // chains run here, not in an `execute`
  const Primitive* at_work = nullptr;
  try {
    Values values(program_.types.size());
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].type() != program_.type(program_.inputs[i]))
        fail<TypeError>("[program] input {} must be {}, got {}", i, program_.type(program_.inputs[i]),
                        inputs[i].type());
      values[at(program_.inputs[i])] = std::move(inputs[i]);
    }
    inputs.clear();
    for (const auto& [id, array] : constants_) values[at(id)] = array;
    for (const Step& step : steps_) {
      at_work = program_.equations[step.equations[0]].primitive;
      run_step(step, values);
      for (const ValueId id : step.released) values[at(id)].reset();
    }
    Arrays outputs;
    for (const ValueId id : program_.outputs) outputs.push_back(*values[at(id)]);
    return outputs;
  } catch (const std::bad_alloc&) {
    fail<MemoryError>("[{}] there is not enough memory to run it in a compiled program",
                      at_work ? at_work->name : std::string_view("program"));
  }
}

void Executable::run_step(const Step& step, Values& values) const {
  const Equation& first = program_.equations[step.equations[0]];
  if (step.region) return run_region(step, values);
  if (step.chain) return run_product(step, values);
  if (is_chain(step)) return run_chain(step, values);
  Arrays operands;
  operands.reserve(first.operands.size());
  for (const ValueId id : first.operands) operands.push_back(*values[at(id)]);
  const Scope scope(first.scope);
  Arrays results = apply_all(*first.primitive, operands, first.attributes.get());
  for (std::size_t r = 0; r < results.size(); ++r) values[at(first.results[r])] = std::move(results[r]);
}

const Executable& executable_of(const Program& program) {
  return *std::static_pointer_cast<const Executable>(program.prepared.get(
      program, [](const Program& p) -> std::shared_ptr<const void> { return std::make_shared<const Executable>(p); }));
}

Arrays run_program(const Program& program, Arrays inputs) {
  if (Trace::current() || runs_equation_by_equation()) return replay(program, inputs);
  return executable_of(program).run(std::move(inputs));
}

}  // namespace eadem
