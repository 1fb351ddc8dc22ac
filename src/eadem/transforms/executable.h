#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "eadem/array/trace.h"
#include "eadem/runtime/tiles.h"

namespace eadem {

/// A program made ready to run: equal equations joined, dead ones dropped, those of constants done, elementwise ones
/// that follow each other run as chains tile by tile, their temporaries in L1, and chains, row operations, sums and
/// products that follow each other as regions, a panel of rows at a time, their temporaries in the cache. Every result
/// is rounded as the equation says, so the bits are those of `replay`.
class Executable {
 public:
  explicit Executable(const Program& program);
  /// Runs it on concrete inputs; values are let go after their last use, inputs too, and memory that nobody else holds
  /// may become a result's. Throws what the equations throw.
  Arrays run(Arrays inputs) const;

  /// The most bytes that results and temporaries will take at once, on contiguous inputs that the caller keeps: exactly
  /// that of a program without loops, branches and remat, else at most so much. Kernels' scratch, such as packed
  /// operands of a product, comes on top.
  std::int64_t planned_peak_bytes() const;

  /// How many equations run; how many of them in chains, and how many chains there are; how many steps (chains and
  /// other equations) run in regions, and how many regions there are; how many products run a chain on their parts.
  struct Statistics {
    std::size_t equations = 0, chained = 0, chains = 0, joined = 0, regions = 0, products = 0;
  };
  const Statistics& statistics() const { return statistics_; }

  struct Region;  // executable_region.h

 private:
  class RegionFinder;
  using Values = std::vector<std::optional<Array>>;
  // A chain of elementwise equations, one equation of any kind, a product with a chain, or a region of such steps.
  struct Step {
    std::vector<std::size_t> equations;      // into program_
    std::vector<ValueId> operands, results;  // of chains and regions: what comes from outside and what is used there
    std::vector<ValueId> released;           // last used here
    std::shared_ptr<const Region> region = nullptr;
    std::shared_ptr<const Step> chain = nullptr;  // what the product equations[0] hands its parts on to
  };
  std::int64_t most_bytes(bool contiguous_inputs) const;
  static bool is_elementwise(const Equation& equation);
  bool is_chain(const Step& step) const;
  void fold_constants();
  std::vector<Step> chains() const;
  void make_steps();
  void set_results(std::vector<Step>& steps) const;
  void set_released();
  std::shared_ptr<Region> region_of(std::vector<Step> steps, const Shape& lead, const std::vector<bool>& outside) const;

  // For each result of a chain or region the operand whose memory it takes, if any. `held(id)` is the view of a value
  // whose memory nobody else holds, else null.
  template <class Held>
  std::vector<std::optional<ValueId>> donors(const Step& step, Held held) const;
  // Whether the step reads nothing of `operand` once it has written over it with `result`.
  bool is_read_before(const Step& step, ValueId operand, ValueId result) const;

  std::vector<TensorView> take_results(const Step& step, Values& values) const;
  std::vector<TileStep> tiles_of(const Step& step) const;
  void run_step(const Step& step, Values& values) const;
  void run_chain(const Step& step, Values& values) const;
  void run_region(const Step& step, Values& values) const;
  void run_product(const Step& step, Values& values) const;
  // Which of its results the product's own lies in before its chain makes that one, if it is no result itself.
  std::optional<std::size_t> product_place(const Step& step) const;

  Program program_;
  std::vector<std::pair<ValueId, Array>> constants_;
  std::vector<bool> folded_;  // by equation
  std::vector<Step> steps_;
  Statistics statistics_;
};

/// Regions are made where at least this many bytes are handed on in them (a MiB); returns what it was before. For
/// tests, whose programs are small; of what the calling thread makes.
std::int64_t set_least_region_bytes(std::int64_t bytes);

/// The Executable that is kept with the program.
const Executable& executable_of(const Program& program);

/// Runs a sub-program: from its Executable, kept with it; equation by equation while someone watches or stands in for
/// them (an observer, a referee's mode, the definitions of numerics/), or while a trace is open.
Arrays run_program(const Program& program, Arrays inputs);

// ---

template <class Held>
std::vector<std::optional<ValueId>> Executable::donors(const Step& step, Held held) const {
  std::vector<ValueId> free = step.released;
  std::vector<std::optional<ValueId>> found;
  // A product is made in the memory of a result while its chain still reads what that might have taken over.
  const std::optional<std::size_t> product = step.chain ? product_place(step) : std::nullopt;
  for (std::size_t r = 0; r < step.results.size(); ++r) {
    const ValueId id = step.results[r];
    const auto donor = std::find_if(free.begin(), free.end(), [&](ValueId candidate) {
      const TensorView* x = product == r ? nullptr : held(candidate);
      return x && x->type() == program_.type(id) && is_contiguous(*x) && is_read_before(step, candidate, id);
    });
    found.emplace_back();
    if (donor == free.end()) continue;
    found.back() = *donor;
    free.erase(donor);
  }
  return found;
}

}  // namespace eadem
