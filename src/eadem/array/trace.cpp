#include "eadem/array/trace.h"

#include <unordered_map>

namespace eadem {
namespace {

thread_local Trace* innermost = nullptr;
thread_local std::string scope_path;

}  // namespace

Trace::Trace(std::string who)
    : mark_(std::make_shared<TraceMark>(TraceMark{std::move(who), this})),
      outer_(std::exchange(innermost, this)),
      outer_path_(scope_path.size()),
      depth_(outer_ ? outer_->depth_ + 1 : 1) {
  if (depth_ <= kMaxDepth) return;
  innermost = outer_;
  fail<ValueError>("[{}] transforms nest deeper than {}: does the function transform itself without end?", mark_->who,
                   kMaxDepth);
}
Trace::~Trace() {
  mark_->open = nullptr;
  innermost = outer_;
}
Trace* Trace::current() {
  return innermost;
}

std::string Trace::path() const {
  const std::size_t begin = outer_path_ == 0 ? 0 : outer_path_ + 1;  // past the slash
  return begin < scope_path.size() ? scope_path.substr(begin) : std::string();
}

Array Trace::input(const TensorType& type) {
  const ValueId id = program_.add_value(type);
  program_.inputs.push_back(id);
  return value(id);
}

ValueId Trace::id_of(const Array& array) {
  if (array.trace_ == mark_) return array.id_;
  if (array.trace_) {
    if (array.trace_->donated) array.refuse_traced();
    const Trace* from = outer_;
    while (from && from->mark_ != array.trace_) from = from->outer_;
    if (!from) {
      if (array.trace_->open)
        fail<ValueError>("[{}] a value of type {} belongs to {}, which traces on another thread or inside this one",
                         mark_->who, array.type(), array.trace_->who);
      fail<ValueError>("[{}] a value of type {} is used after {}, which traced it, has ended: return it instead",
                       mark_->who, array.type(), array.trace_->who);
    }
    return capture(array);
  }
  const std::size_t bytes = static_cast<std::size_t>(array.elements()) * size_of(array.dtype());
  if (bytes <= kLiteralBytes) {
    return program_.add_equation(prim::literal, {},
                                 std::make_shared<LiteralAttribute>(LiteralAttribute{literal_of(array)}),
                                 {array.type()}, path())[0];
  }
  if (refuse_large_captures_)
    fail<ValueError>(
        "[{}] captures an array of type {} ({} bytes) instead of taking it as an argument{}{}: its later values would "
        "not be seen; pass it, or write constant(x)",
        mark_->who, array.type(), bytes, scope_path.empty() ? "" : " in ", scope_path);
  return capture(array);
}

ValueId Trace::capture(const Array& array) {
  const void* origin = array.trace_ ? static_cast<const void*>(array.trace_.get()) : array.buffer_.get();
  const auto [begin, end] = captured_.equal_range(origin);
  for (auto at = begin; at != end; ++at) {
    const Array& known = captures_[at->second];
    const bool same = array.trace_ ? known.id_ == array.id_
                                   : known.view_.data == array.view_.data && known.type() == array.type() &&
                                         known.view_.strides == array.view_.strides;
    if (same) return capture_ids_[at->second];
  }
  captured_.emplace(origin, captures_.size());
  captures_.push_back(array);
  capture_ids_.push_back(program_.add_value(array.type()));
  return capture_ids_.back();
}

Array Trace::permitted_capture(const Array& array) {
  if (array.trace_) return value(id_of(array));
  // Traces around this one, which may refuse what is not permitted, capture it first.
  return value(outer_ ? id_of(outer_->permitted_capture(array)) : capture(array));
}

Arrays Trace::record(const Primitive& primitive, std::span<const Array> operands, const void* attributes) {
  Types types;
  for (const Array& operand : operands) types.push_back(operand.type());
  const Types results = primitive.infer({types, attributes});
  std::vector<ValueId> ids;
  for (const Array& operand : operands) ids.push_back(id_of(operand));
  Arrays arrays;
  for (const ValueId id : program_.add_equation(
           primitive, std::move(ids), attributes ? primitive.attributes->copy(attributes) : nullptr, results, path()))
    arrays.push_back(value(id));
  return arrays;
}

void Trace::order_by_need(std::size_t first, std::span<const Array> results) {
  std::vector<Equation>& all = program_.equations;
  const std::size_t count = all.size() - first;
  if (count < 2) return;
  std::unordered_map<ValueId, std::size_t> maker;
  for (std::size_t i = 0; i < count; ++i)
    for (const ValueId id : all[first + i].results) maker.emplace(id, i);
  std::vector<std::size_t> order;
  std::vector<bool> placed(count, false);
  // By a stack of its own: a chain of equations may be long. The second part is the next operand to look at.
  std::vector<std::pair<std::size_t, std::size_t>> open;
  const auto place = [&](std::size_t root) {
    if (!placed[root]) open.emplace_back(root, 0);
    while (!open.empty()) {
      auto& [at, next] = open.back();
      const std::vector<ValueId>& operands = all[first + at].operands;
      if (next == operands.size()) {
        if (!placed[at]) order.push_back(at);
        placed[at] = true;
        open.pop_back();
        continue;
      }
      const auto made = maker.find(operands[next++]);
      if (made != maker.end() && !placed[made->second]) open.emplace_back(made->second, 0);
    }
  };
  for (const Array& result : results)
    if (result.trace_ == mark_)
      if (const auto made = maker.find(result.id_); made != maker.end()) place(made->second);
  for (std::size_t i = 0; i < count; ++i) place(i);
  std::vector<Equation> ordered;
  for (const std::size_t i : order) ordered.push_back(std::move(all[first + i]));
  std::move(ordered.begin(), ordered.end(), all.begin() + static_cast<std::ptrdiff_t>(first));
}

Traced Trace::close(std::span<const Array> outputs) {
  for (const Array& output : outputs) program_.outputs.push_back(id_of(output));
  program_.inputs.insert(program_.inputs.end(), capture_ids_.begin(), capture_ids_.end());
  // Captures were numbered as they came up; programs number their inputs first.
  Program ordered;
  std::vector<ValueId> renamed(program_.types.size(), -1);
  const auto name = [&](ValueId id) { return renamed[static_cast<std::size_t>(id)]; };
  const auto rename = [&](std::vector<ValueId>& ids) {
    for (ValueId& id : ids) id = name(id);
  };
  const auto define = [&](std::vector<ValueId>& ids) {
    for (ValueId& id : ids) id = renamed[static_cast<std::size_t>(id)] = ordered.add_value(program_.type(id));
  };
  define(program_.inputs);
  for (Equation& equation : program_.equations) {
    rename(equation.operands);
    define(equation.results);
  }
  rename(program_.outputs);
  ordered.inputs = std::move(program_.inputs);
  ordered.equations = std::move(program_.equations);
  ordered.outputs = std::move(program_.outputs);
  return {std::make_shared<const Program>(std::move(ordered)), std::move(captures_)};
}

Traced trace(std::string who, const Types& inputs, const std::function<Arrays(const Arrays&)>& f) {
  Trace scope(std::move(who));
  Arrays arguments;
  for (const TensorType& type : inputs) arguments.push_back(scope.input(type));
  return scope.close(f(arguments));
}

Scope::Scope(std::string_view name) : saved_(scope_path.size()) {
  if (name.empty()) return;
  if (name.find_first_of(" \n\t\r@[]{}") != std::string_view::npos)
    fail<ValueError>("[scope] a name must not hold spaces or brackets, got '{}'", name);
  if (!scope_path.empty()) scope_path += '/';
  scope_path += name;
}
Scope::~Scope() {
  scope_path.resize(saved_);
}
const std::string& Scope::path() {
  return scope_path;
}

namespace {

void require_inputs(const Program& program, std::span<const Array> inputs) {
  if (inputs.size() != program.inputs.size())
    fail<ValueError>("[program] takes {} inputs, got {}", program.inputs.size(), inputs.size());
}

Arrays apply_equation(const Equation& equation, const std::vector<std::optional<Array>>& values) {
  Arrays operands;
  operands.reserve(equation.operands.size());
  for (const ValueId id : equation.operands) operands.push_back(*values[static_cast<std::size_t>(id)]);
  const Scope scope(equation.scope);
  return apply_all(*equation.primitive, operands, equation.attributes.get());
}

std::vector<std::optional<Array>> bound(const Program& program, std::span<const Array> inputs) {
  require_inputs(program, inputs);
  std::vector<std::optional<Array>> values(program.types.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) values[static_cast<std::size_t>(program.inputs[i])] = inputs[i];
  return values;
}

}  // namespace

Arrays replay(const Program& program, std::span<const Array> inputs) {
  std::vector<std::optional<Array>> values = bound(program, inputs);
  std::vector<std::size_t> last_use(values.size(), 0);
  for (std::size_t i = 0; i < program.equations.size(); ++i)
    for (const ValueId id : program.equations[i].operands) last_use[static_cast<std::size_t>(id)] = i;
  std::vector<bool> is_output(values.size(), false);
  for (const ValueId id : program.outputs) is_output[static_cast<std::size_t>(id)] = true;
  for (std::size_t i = 0; i < program.equations.size(); ++i) {
    const Equation& equation = program.equations[i];
    Arrays results = apply_equation(equation, values);
    for (std::size_t r = 0; r < results.size(); ++r)
      values[static_cast<std::size_t>(equation.results[r])] = std::move(results[r]);
    for (const ValueId id : equation.operands)
      if (last_use[static_cast<std::size_t>(id)] == i && !is_output[static_cast<std::size_t>(id)])
        values[static_cast<std::size_t>(id)].reset();
  }
  Arrays outputs;
  for (const ValueId id : program.outputs) outputs.push_back(*values[static_cast<std::size_t>(id)]);
  return outputs;
}

}  // namespace eadem
