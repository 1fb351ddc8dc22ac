#pragma once

#include <optional>
#include <span>
#include <vector>

#include "eadem/array/trace.h"

namespace eadem {

/// A program made ready to run: equal equations joined, dead ones dropped, those of constants done, and elementwise
/// ones that follow each other run as chains tile by tile, their temporaries in L1. Every result is rounded as the
/// equation says, so the bits are those of `replay`.
class Executable {
 public:
  explicit Executable(const Program& program);
  /// Runs it on concrete inputs; values are let go after their last use, inputs too, and memory that nobody else holds
  /// may become a result's. Throws what the equations throw.
  Arrays run(Arrays inputs) const;

  /// The most bytes that results and temporaries will take at once, on contiguous inputs that the caller keeps;
  /// kernels' scratch, such as packed operands of a product, comes on top. Nothing for programs with loops or branches.
  std::optional<std::int64_t> planned_peak_bytes() const;

  /// How many equations run, how many of them in chains, and how many chains there are.
  struct Statistics {
    std::size_t equations = 0, chained = 0, chains = 0;
  };
  const Statistics& statistics() const { return statistics_; }

 private:
  // A chain of elementwise equations, or one equation of any kind.
  struct Step {
    std::vector<std::size_t> equations;      // into program_
    std::vector<ValueId> operands, results;  // of a chain: what comes from outside and what is used there
    std::vector<ValueId> released;           // last used here
  };
  bool is_chain(const Step& step) const;
  void fold_constants();
  void make_steps();
  // Whether no equation of the chain after the one that makes `result` reads `operand`.
  bool is_read_before(const Step& step, ValueId operand, ValueId result) const;
  void run_chain(const Step& step, std::vector<std::optional<Array>>& values) const;

  Program program_;
  std::vector<std::pair<ValueId, Array>> constants_;
  std::vector<bool> folded_;  // by equation
  std::vector<Step> steps_;
  Statistics statistics_;
};

/// Runs a sub-program: from its Executable, kept with it; equation by equation while someone watches or stands in for
/// them (an observer, a referee's mode, the definitions of numerics/), or while a trace is open.
Arrays run_program(const Program& program, Arrays inputs);

}  // namespace eadem
