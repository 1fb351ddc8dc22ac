#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "eadem/transforms/program_transforms.h"
#include "eadem/transforms/scan.h"

// How a scan is reversed: what its forward pass keeps, and the program that goes back over one iteration. Both are kept
// with the body's program, so that scans within scans are traced once a level, however often a level is asked for.

namespace eadem {

/// The forward pass of an iteration as a program whose outputs are the body's and then, flattened, every value of the
/// body and what nested equations saved.
class ScanForward {
 public:
  ScanForward(const ScanAttribute& scan, const std::vector<bool>& active_operands);
  /// That of a scan whose operands are active as said, made once for its body.
  static std::shared_ptr<const ScanForward> of(const ScanAttribute& scan, const std::vector<bool>& active_operands);

  const Program& body() const { return body_; }
  const ScanLayout& layout() const { return layout_; }
  const std::string& key() const { return key_; }
  /// By id; values that may be one value in some iteration are active together.
  const std::vector<bool>& active() const { return active_; }
  const Traced& traced() const { return traced_; }
  const std::vector<std::size_t>& saved_counts() const { return saved_counts_; }
  /// The indices into the flattened recording that a reversal may need, but for those at hand.
  const std::vector<std::size_t>& kept() const { return kept_; }
  /// The body that gives what is kept as further ys; its inputs are the body's and then the captures of `traced`.
  const ProgramRef& saving() const { return saving_; }
  /// The body's input that flattened value `index` is, if it is one.
  std::optional<std::size_t> input_of(std::size_t index) const;
  /// Whether it is a constant or a slice, and so needs no saving.
  bool is_at_hand(std::size_t index) const;

 private:
  void grow_active_inputs(std::vector<bool>& inputs) const;

  const Program& body_;
  ScanLayout layout_;
  std::string key_;
  std::vector<bool> active_;
  Traced traced_;
  std::vector<std::size_t> saved_counts_, kept_;
  ProgramRef saving_;
};

/// One iteration as its reversal sees it. Inputs, and so the values of carries, are named by their first input that is
/// the same value: a constant's, or a carry's.
struct Iteration {
  /// By carry: the value carried in, and the one carried out, as the next iteration names it.
  std::vector<std::size_t> in, out;
  /// A value whose accumulator begins here, since no later iteration has it: with what the initial carry that it is
  /// brings along, then with its cotangents as ys of this iteration and of earlier ones.
  struct Start {
    ValueId id;
    std::optional<std::size_t> initial;
    std::vector<std::pair<std::size_t, std::int64_t>> ys;  ///< which, and how many iterations before
    friend bool operator==(const Start&, const Start&) = default;
  };
  std::vector<Start> starts;
  friend bool operator==(const Iteration&, const Iteration&) = default;
};

/// Which accumulators are there: of constants, and of the values carried.
struct Presence {
  std::vector<bool> constants, carries;
  friend bool operator==(const Presence&, const Presence&) = default;
};

/// The reversal of one iteration as a program. Inputs: the kept values that it needs; accumulators present, of
/// constants and then of values carried out; what initial carries bring along; cotangents of ys; the iteration's index,
/// where the plan says so; captures. Outputs: accumulators present afterwards, of constants and of values carried in,
/// and cotangents of slices.
struct ReverseStep {
  std::string key;
  Iteration iteration;
  ProgramRef program;
  Arrays captures;
  std::vector<std::size_t> kept;  // indices into the flattened recording
  std::size_t sums = 0;           // how many accumulators come in
  Presence after;
  std::vector<bool> slices;  // which slices get a cotangent
};

/// What the values carried are, iteration by iteration, and the reversal of each. Values that are one value have one
/// accumulator: operands, carries handed on or exchanged, constants as carries.
class ScanPlan {
 public:
  ScanPlan(std::shared_ptr<const ScanForward> forward, std::span<const ValueId> operands);
  static std::shared_ptr<const ScanPlan> of(const ScanAttribute& scan, const std::vector<bool>& active_operands,
                                            std::span<const ValueId> operands);

  const ScanForward& forward() const { return *forward_; }
  /// Whether slices come from what is also an initial carry, or the carries take too long to come round: the loop must
  /// be written out.
  bool is_irregular() const { return irregular_; }
  /// Whether slices come from what is also a constant, so that a step adds their cotangents to that one's rows.
  bool needs_index() const { return needs_index_; }
  /// The first constant that is the same value.
  std::size_t constant(std::size_t k) const { return constants_[k]; }
  /// The first input that is the value carried into `iteration` as carry c.
  std::size_t carried(std::int64_t iteration, std::size_t c) const;
  /// The initial carry that the value is, if it is none that an iteration made and no constant.
  std::optional<std::size_t> initial(std::int64_t iteration, std::size_t c) const;
  /// Whether y of this iteration is the value carried into `boundary`, a later one, as carry c; or constant k.
  bool is_y(std::size_t y, std::int64_t iteration, std::int64_t boundary, std::size_t c) const;
  bool is_y_of_constant(std::size_t y, std::int64_t iteration, std::size_t k) const;

  /// The iterations, all that differ: from `steady` on they repeat with `period`.
  struct Phases {
    std::vector<Iteration> iterations;
    std::int64_t steady = 0, period = 1;
    const Iteration& at(std::int64_t iteration) const {
      return iterations[static_cast<std::size_t>(iteration < steady ? iteration
                                                                    : steady + (iteration - steady) % period)];
    }
  };
  /// Those of a reversal in which these ys have cotangents and these initial carries bring something along.
  Phases phases(const std::vector<bool>& ys, const std::vector<bool>& initial) const;

  std::shared_ptr<const ReverseStep> step(const Iteration& iteration, const Presence& present) const;

 private:
  // The value that a carry holds before an iteration: a constant, an initial carry, or one that an iteration made.
  struct Value {
    enum class Kind : std::uint8_t { constant, initial, made } kind;
    std::size_t which;     // the constant's or the carry's number, or the id in the body
    std::int64_t age = 0;  // of one made: how many iterations ago
    friend bool operator==(const Value&, const Value&) = default;
  };
  using State = std::vector<Value>;
  std::optional<std::size_t> carry_of(ValueId id) const;
  State next(const State&) const;
  const State& state(std::int64_t iteration) const;
  // Whether y of the iteration `age` before is what `value` is at this one.
  bool is_value(std::size_t y, std::int64_t iteration, std::int64_t age, const Value& value) const;
  std::vector<std::size_t> names(const State&) const;
  Iteration iteration(std::int64_t which) const;

  std::shared_ptr<const ScanForward> forward_;
  const Program& body_;
  const ScanLayout& layout_;
  std::string key_;
  std::vector<std::size_t> constants_;
  std::vector<std::optional<std::size_t>> slices_;  // the constant that a source of slices also is
  std::vector<State> states_;
  std::int64_t repeats_ = 0, round_ = 1;  // states_[i + round_] is states_[i] from repeats_ on
  std::vector<Iteration> iterations_;
  bool irregular_ = false, needs_index_ = false;
};

}  // namespace eadem
