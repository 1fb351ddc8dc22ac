#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "eadem/array/array.h"
#include "eadem/ir/program.h"

namespace eadem {

/// A recorded function: a program whose inputs are the declared ones and then the captures, arrays from outside that
/// the function touched.
struct Traced {
  ProgramRef program;
  Arrays captures;
};

/// Records every `apply` of its thread into a program while it is the innermost one open there. Traces nest as scopes.
class Trace {
 public:
  /// `who` names the transform and the user's function in errors, as "grad of loss". Throws ValueError when more than
  /// kMaxDepth traces are open, as in a function that transforms itself without end.
  explicit Trace(std::string who);
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  /// The innermost open trace of this thread, or null.
  static Trace* current();

  /// A new input.
  Array input(const TensorType& type);
  /// The id of an array in this program: a value of its own; a capture of a value of an outer trace, or of a concrete
  /// array, which up to kLiteralBytes becomes a `literal` equation instead. Throws ValueError for a value of a trace
  /// that has ended, or of another thread's.
  ValueId id_of(const Array& array);
  Arrays record(const Primitive&, std::span<const Array> operands, const void* attributes);
  /// How many equations are recorded.
  std::size_t equations() const { return program_.equations.size(); }
  /// Puts the equations from `first` on into the order in which `results` need them, each after its operands, first to
  /// last; those that none needs go last. So a rule's equations stand in an order that does not depend on that in which
  /// the compiler evaluates arguments.
  void order_by_need(std::size_t first, std::span<const Array> results);
  /// Ends the recording.
  Traced close(std::span<const Array> outputs);

  /// Makes a large concrete capture an error, as `compile` asks; `constant` (ops.h) permits one.
  void refuse_large_captures() { refuse_large_captures_ = true; }
  Array permitted_capture(const Array& array);

  static constexpr int kMaxDepth = 64;
  /// Concrete captures of at most this many bytes are written into the program.
  static constexpr std::size_t kLiteralBytes = 64;

 private:
  ValueId capture(const Array& array);
  std::string path() const;  // of scopes opened inside this trace
  Array value(ValueId id) { return Array(mark_, id, program_.type(id)); }

  std::shared_ptr<TraceMark> mark_;
  Trace* outer_;
  std::size_t outer_path_;
  int depth_;
  Program program_;
  Arrays captures_;
  std::vector<ValueId> capture_ids_;
  std::multimap<const void*, std::size_t> captured_;  // by buffer or trace: which captures come from it
  bool refuse_large_captures_ = false;
};

/// Records f on inputs of these types.
Traced trace(std::string who, const Types& inputs, const std::function<Arrays(const Arrays&)>& f);

/// Names a part of the user's program while it lives; equations recorded inside carry the path, as "layers/attend". An
/// empty name adds nothing.
class Scope {
 public:
  explicit Scope(std::string_view name);
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
  /// The path on this thread.
  static const std::string& path();

 private:
  std::size_t saved_;
};

/// Applies the program's equations in order: runs them, or records them into the trace that is open. `inputs` are all
/// of the program's inputs. Values are let go after their last use.
Arrays replay(const Program& program, std::span<const Array> inputs);
/// The attribute of prim::literal, a small array written into the program.
struct LiteralAttribute {
  Literal value;
  static constexpr auto fields() { return std::tuple(field("value", &LiteralAttribute::value)); }
};
namespace prim {
extern const Primitive literal;
}  // namespace prim
Array array_of(const Literal& literal);
Literal literal_of(const Array& array);

}  // namespace eadem
