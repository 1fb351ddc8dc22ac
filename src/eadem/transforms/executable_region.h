#pragma once

#include "eadem/transforms/executable.h"

namespace eadem {

/// Steps that run on a panel of rows one after the other, as f(x[i:j]) == f(x)[i:j] for each of them. Values that only
/// the region reads are never whole: each thread holds the panel at work.
struct Executable::Region {
  /// Where a part finds an operand or leaves a result.
  struct Place {
    ValueId id;
    std::ptrdiff_t slot;  ///< of the panel; -1: an array
    Shape axes;           ///< of an operand: its axis for each of `lead`, or kWhole
  };
  struct Part {
    Step step;
    std::vector<Place> operands, results;
  };
  Shape lead;  ///< the leading extents of every value that is made here: what is cut into panels
  std::vector<Part> parts;
  std::vector<std::int64_t> slots;  ///< bytes of a row, that is of one index of `lead`
  std::int64_t row_bytes = 0;       ///< of all that is made

  /// Whether every part reads of this operand only the panel's rows, which are where a result's would be.
  bool is_cut_alike(ValueId operand) const;
};

/// The operand's axis that goes with this axis of the equation's results: see Kernel::axis_of. kWhole where each part
/// takes all of the operand, as rows do of a norm's gain.
inline constexpr int kWhole = -2;
int axis_of(const Program& program, const Equation& equation, std::size_t operand, int axis);

}  // namespace eadem
