#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "eadem/array/rules.h"
#include "eadem/array/trace.h"

// The transforms as rewrites of programs: each replays a program's equations through their rules, running them or
// recording them into the trace that is open.

namespace eadem {

/// A value's place in what is kept by id.
inline std::size_t at(ValueId id) {
  return static_cast<std::size_t>(id);
}

/// Of an array of this type.
inline std::int64_t bytes_of(const TensorType& type) {
  return type.shape.elements() * static_cast<std::int64_t>(size_of(type.dtype));
}

/// While a rule runs: notes what it gives, in order, and at its end puts the equations that it recorded in that order.
class RuleOrder {
 public:
  RuleOrder() : trace_(Trace::current()), first_(trace_ ? trace_->equations() : 0) {}
  void gives(const Array& result) {
    if (trace_) results_.push_back(result);
  }
  void finish() {
    if (trace_) trace_->order_by_need(first_, results_);
  }

 private:
  Trace* trace_;
  std::size_t first_;
  Arrays results_;
};

/// Of the values: which depend on an input marked active through equations on floating values.
std::vector<bool> active_values(const Program& program, const std::vector<bool>& active_inputs);

/// A forward pass that `reverse` can go back over: every value by id, and by equation what its primitive saved.
struct Recording {
  std::vector<std::optional<Array>> values;
  std::vector<Arrays> saved;
};
/// `known`, by id, may hold values that need not be computed again: an equation all whose results are known is not run.
Recording record(const Program& program, std::span<const Array> inputs, const std::vector<bool>& active,
                 std::span<const std::optional<Array>> known = {});

/// Reverses the equations of a program, last to first, letting go of what was recorded of each. `accumulators`, by id,
/// hold the cotangents of the outputs on entry and those of the inputs on return.
void reverse(const Program& program, Recording& recording, const std::vector<bool>& active,
             std::vector<Accumulator>& accumulators);

/// The body with one input for operands that are one value, so that the value has one accumulator, as it has without
/// the body's border; the other inputs are left unused.
Program with_merged_inputs(const Program& body, std::span<const ValueId> operands);
/// Whether no operand before this one is the same value.
bool is_first_of_its_value(std::span<const ValueId> operands, std::size_t operand);

/// The rule of an equation that stands for its body's equations (remat, an unrolled scan): reverses the body at these
/// inputs, the first of which are the equation's operands, handing accumulators in and on as they are. `record_body`
/// gives the forward pass of the body with one input for operands that are one value.
using RecordBody = std::function<Recording(const Program& body, const std::vector<bool>& active)>;
void reverse_inlined(Vjp& g, const Program& body, const RecordBody& record_body);

/// While it lives, this thread records a function whose gradient will be taken, so that gradients inside of it are to
/// be differentiated themselves.
class ToBeReversed {
 public:
  ToBeReversed();
  ~ToBeReversed();
  ToBeReversed(const ToBeReversed&) = delete;
  ToBeReversed& operator=(const ToBeReversed&) = delete;
  /// Whether one lives.
  static bool here();
};

/// The program with remat and the scans that floating values go through written out, also in branches of cond. A
/// gradient made of it has one value wherever the loop's has one, so that its own gradient has the loop's bits; what a
/// scan and its reversal hand to each other would be several.
Traced written_out(const std::string& who, const Traced& traced);

/// Outputs and their tangents; absent ones are structural zeros.
struct Tangents {
  Arrays outputs;
  std::vector<std::optional<Array>> tangents;
};
Tangents forward(const Program& program, std::span<const Array> inputs,
                 const std::vector<std::optional<Array>>& tangents);

/// What `forward` gives to rules of primitives that stand for a program: those run it, once for values and tangents
/// together, and set the results (in order, all of them).
class ProgramJvp : public Jvp {
 public:
  using Jvp::Jvp;
  void set_results(Arrays results) { set_results_ = std::move(results); }

 protected:
  Arrays set_results_;
};

/// `forward` as a program, made once for the body and for which of its inputs have tangents: its inputs are the body's,
/// the tangents that are there, and captures; its outputs the body's and then the tangents of those that have one.
struct ForwardProgram {
  std::string key;
  ProgramRef program;
  Arrays captures;
  std::vector<bool> inputs, outputs;  ///< which of the body's have tangents
};
std::shared_ptr<const ForwardProgram> forward_program(const Program& body, const std::vector<bool>& inputs);

/// Outputs over a batch of `size`: batched inputs carry it as axis 0, and so do the outputs that are said to be
/// batched.
struct Batched {
  Arrays outputs;
  std::vector<bool> batched;
};
Batched batch(const Program& program, std::span<const Array> inputs, const std::vector<bool>& batched,
              std::int64_t size);

/// x repeated `size` times along a new axis 0: a value that is the same for the whole batch.
Array with_batch_axis(const Array& x, std::int64_t size);
/// The outputs of `batch`, all with the batch axis.
Arrays batch_all(const Program& program, std::span<const Array> inputs, const std::vector<bool>& batched,
                 std::int64_t size);

}  // namespace eadem
