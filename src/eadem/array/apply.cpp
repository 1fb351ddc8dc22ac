#include <array>
#include <new>
#include <string>

#include "eadem/array/array.h"
#include "eadem/array/trace.h"
#include "eadem/base/float_environment.h"
#include "eadem/kernels/move/copy.h"
#include "eadem/numerics/rounding.h"
#include "eadem/runtime/execute.h"

namespace eadem {
namespace {

thread_local Mode current_mode = Mode::declared;
thread_local bool use_reference = false;
thread_local Observer* observer = nullptr;
thread_local const ReplacementScope* replacement = nullptr;

// Types and views of the operands on the stack; only the rare primitive of many operands goes to the heap.
template <class T>
class Slots {
 public:
  explicit Slots(std::size_t count) : count_(count) {
    if (count > few_.size()) many_.resize(count);
  }
  T& operator[](std::size_t i) { return many_.empty() ? few_[i] : many_[i]; }
  std::span<const T> span() const { return {many_.empty() ? few_.data() : many_.data(), count_}; }

 private:
  std::size_t count_;
  std::array<T, 4> few_;
  std::vector<T> many_;
};

// With `in_place`, the first result takes the memory of the first operand if nobody else holds it.
Arrays run(const Primitive& primitive, std::span<const Array> operands, const void* attributes, bool in_place = false) {
  Slots<TensorType> types(operands.size());
  Slots<TensorView> views(operands.size());
  for (std::size_t i = 0; i < operands.size(); ++i) {
    types[i] = operands[i].type();
    views[i] = operands[i].view();
  }
  const Types result_types = primitive.infer({types.span(), attributes});
  Arrays results;
  results.reserve(result_types.size());
  if (const View* form = std::get_if<View>(&primitive.run); form && !use_reference) {
    const TensorView none = contiguous_view(nullptr, result_types[0].dtype, result_types[0].shape);
    if (const auto window = form->view({views.span(), {&none, 1}, attributes})) {
      results.emplace_back(operands[0].buffer(), *window);
      return results;
    }
    const Array dense = Array::allocate(operands[0].type());
    kernels::copy(views[0], dense.view());
    views[0] = dense.view();
    results.emplace_back(dense.buffer(), form->view({views.span(), {&none, 1}, attributes}).value());
    return results;
  }
  Slots<TensorView> outputs(result_types.size());
  for (std::size_t i = 0; i < result_types.size(); ++i) {
    const bool donated = i == 0 && in_place && !use_reference && operands[0].type() == result_types[0] &&
                         operands[0].contiguous() && operands[0].buffer() && operands[0].buffer()->unique();
    if (donated) operands[0].buffer()->drop_prepared();
    results.push_back(donated ? operands[0] : Array::allocate(result_types[i]));
    outputs[i] = results.back().view();
  }
  const Launch launch{views.span(), outputs.span(), attributes};
  use_reference ? execute_reference(primitive, launch) : execute(primitive, launch);
  return results;
}

// The sub-programs' equations run by `apply`, in this thread's mode; only as declared do the operands have the declared
// types.
Arrays run_control(const Primitive& primitive, const Control& form, std::span<const Array> operands,
                   const void* attributes) {
  Types types;
  for (const Array& operand : operands) types.push_back(operand.view().type());
  if (current_mode == Mode::declared) primitive.infer({types, attributes});
  return form.run(operands, attributes);
}

// The exact value of a 16- or 32-bit float is a double, and back is one rounding: plain loops, as only referees run it.
Array retyped(const Array& x, DType dtype) {
  if (!is_floating(x.dtype()) || x.dtype() == dtype) return x;
  Array result = Array::allocate({dtype, x.shape()});
  const Shape& shape = x.shape();
  Shape index = Shape::filled(shape.rank(), 0);
  const std::int64_t count = x.elements();
  visit_floating(x.dtype(), [&]<class From>(std::type_identity<From>) {
    visit_floating(dtype, [&]<class To>(std::type_identity<To>) {
      for (std::int64_t i = 0; i < count; ++i) {
        std::int64_t offset = 0;
        for (int axis = 0; axis < shape.rank(); ++axis) offset += index[axis] * x.view().strides[axis];
        result.view().as<To>()[i] = numerics::round_to<To>(numerics::to_double(x.view().as<const From>()[offset]));
        for (int axis = shape.rank() - 1; axis >= 0 && ++index[axis] == shape[axis]; --axis) index[axis] = 0;
      }
    });
  });
  return result;
}

// Data movement keeps bits in every mode; everything else is computed in f64 by the referees.
Arrays run_as_referee(const Primitive& primitive, std::span<const Array> operands, const void* attributes) {
  const FloatEnvironment environment;
  if (primitive.promote == Promote::keep || std::holds_alternative<View>(primitive.run))
    return run(primitive, operands, attributes);
  std::vector<Array> wide;
  Types declared_operands;
  for (const Array& operand : operands) {
    wide.push_back(retyped(operand, DType::f64));
    declared_operands.push_back(operand.type());
  }
  Arrays results = run(primitive, wide, attributes);
  // In f64 a conversion between floats says nothing; under `ideal` it is a rounding that the program asks for.
  if (primitive.promote == Promote::conversion && current_mode == Mode::f64 && is_floating(wide[0].dtype()) &&
      is_floating(results[0].dtype()))
    return {wide[0]};
  const bool ideal = current_mode == Mode::ideal;
  const Types declared = ideal ? primitive.infer({declared_operands, attributes}) : Types();
  for (std::size_t i = 0; i < results.size(); ++i)
    results[i] = retyped(results[i], ideal ? declared[i].dtype : DType::f64);
  return results;
}

[[noreturn]] void out_of_memory(const Primitive& primitive, std::span<const Array> operands) {
  std::string types;
  for (const Array& operand : operands) types += fmt::format("{}{}", types.empty() ? "" : ", ", operand.type());
  fail<MemoryError>("[{}] there is not enough memory for operands {}", primitive.name, types);
}

}  // namespace

Mode mode() {
  return current_mode;
}
ModeScope::ModeScope(Mode next) : saved_(std::exchange(current_mode, next)) {}
ModeScope::~ModeScope() {
  current_mode = saved_;
}
bool runs_equation_by_equation() {
  return current_mode != Mode::declared || use_reference || observer || replacement;
}
ReferenceScope::ReferenceScope() : saved_(std::exchange(use_reference, true)) {}
ReferenceScope::~ReferenceScope() {
  use_reference = saved_;
}
ObserverScope::ObserverScope(Observer* next) : saved_(std::exchange(observer, next)) {}
ObserverScope::~ObserverScope() {
  observer = saved_;
}

ReplacementScope::ReplacementScope(const Primitive& replaced, const Primitive& by)
    : replaced_(replaced), replacement_(by), outer_(std::exchange(replacement, this)) {}
ReplacementScope::~ReplacementScope() {
  replacement = outer_;
}

Arrays apply_all(const Primitive& asked, std::span<const Array> operands, const void* attributes, bool in_place) {
  const Primitive* found = &asked;
  for (const ReplacementScope* scope = replacement; scope; scope = scope->outer_)
    if (found == &scope->replaced_) found = &scope->replacement_;
  const Primitive& primitive = *found;
  if (Trace* trace = Trace::current()) return trace->record(primitive, operands, attributes);
  if (const Control* form = std::get_if<Control>(&primitive.run))
    return run_control(primitive, *form, operands, attributes);
  try {
    Arrays results = current_mode == Mode::declared ? run(primitive, operands, attributes, in_place)
                                                    : run_as_referee(primitive, operands, attributes);
    if (observer) observer->observe(primitive, results);
    return results;
  } catch (const std::bad_alloc&) {
    out_of_memory(primitive, operands);
  } catch (const MemoryError&) {  // of a result
    out_of_memory(primitive, operands);
  }
}

Array apply(const Primitive& primitive, std::span<const Array> operands, const void* attributes) {
  return std::move(apply_all(primitive, operands, attributes)[0]);
}

}  // namespace eadem
