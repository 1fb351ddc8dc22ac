#pragma once

#include "eadem/array/trace.h"
#include "eadem/ops/catalog.h"

// The attributes of the higher-order primitives: their sub-programs, which are closed, and how operands are given out.

namespace eadem {

/// Operands: constants, initial carries, then slices' sources along their axis 0. The body takes (constants, carries,
/// one slice of each) and gives (carries, ys); the results are the final carries and the ys of all iterations stacked.
struct ScanAttribute {
  ProgramRef body;
  std::int64_t length = 0, constants = 0, carries = 0;
  bool reverse = false;  ///< from the last slice to the first
  static constexpr auto fields() {
    using S = ScanAttribute;
    return std::tuple(field("length", &S::length), field("constants", &S::constants), field("carries", &S::carries),
                      field("reverse", &S::reverse), field("body", &S::body));
  }
};

/// A loop's traced program with what it captured, which are its last inputs, behind its first `constants` inputs.
ProgramRef with_captures_as_constants(const ProgramRef& traced, std::size_t constants, std::size_t captures);

/// Operands: constants of the condition, of the body, then the carries. The condition takes (its constants, carries)
/// and gives a bool; the body takes (its constants, carries) and gives the carries.
struct WhileAttribute {
  ProgramRef condition, body;
  std::int64_t condition_constants = 0, body_constants = 0;
  static constexpr auto fields() {
    using S = WhileAttribute;
    return std::tuple(field("condition_constants", &S::condition_constants),
                      field("body_constants", &S::body_constants), field("condition", &S::condition),
                      field("body", &S::body));
  }
};

/// Operands: the i64 index of a branch, clamped, then what every branch takes.
struct CondAttribute {
  std::vector<ProgramRef> branches;
  static constexpr auto fields() { return std::tuple(field("branches", &CondAttribute::branches)); }
};

/// Branches that take the same: each traced one, with the captures of all as further inputs.
struct Branches {
  CondAttribute attributes;
  Arrays captures;
};
Branches with_same_inputs(const std::vector<Traced>& traced);

/// The body stands for its equations; its gradient runs it again instead of keeping its values, but for those that the
/// policy keeps.
struct RematAttribute {
  ProgramRef body;
  std::string policy = "nothing_saveable";  ///< one of kRematPolicies
  std::vector<std::string> names = {};      ///< of save_only_these_names: those of checkpoint_name
  static constexpr auto fields() {
    using S = RematAttribute;
    return std::tuple(field("policy", &S::policy), field("names", &S::names), field("body", &S::body));
  }
};
inline constexpr std::string_view kRematPolicies[] = {"nothing_saveable", "everything_saveable", "dots_saveable",
                                                      "dots_with_no_batch_dims_saveable", "save_only_these_names"};

/// A remat of these operands. A result that is an operand, or another result, too, is given as that.
Arrays apply_remat(const RematAttribute& remat, const Arrays& operands);

/// body: operands to results; forward: operands to results and residuals; backward: residuals and cotangents of the
/// results to those of the operands. join: none, or one that takes the last operands' cotangents from two uses and
/// gives what stands for both; those of the other operands are added.
struct CustomVjpAttribute {
  ProgramRef body, forward, backward;
  std::vector<ProgramRef> join = {};
  static constexpr auto fields() {
    using S = CustomVjpAttribute;
    return std::tuple(field("body", &S::body), field("forward", &S::forward), field("backward", &S::backward),
                      field("join", &S::join));
  }
};

}  // namespace eadem
