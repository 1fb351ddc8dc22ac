#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "eadem/base/launch.h"
#include "eadem/ir/attributes.h"
#include "eadem/ir/samples.h"
#include "eadem/kernels/tile.h"

namespace eadem {

class Array;
class Vjp;
class Jvp;
class Batch;
struct Equation;
using Arrays = std::vector<Array>;
using Types = std::vector<TensorType>;

/// Scratch memory for a kernel, freed when it returns.
class Context;

/// Moves no bytes: the result is a window on operand 0's memory; nothing where its strides allow none, and then the
/// operand is copied first.
struct View {
  std::optional<TensorView> (*view)(const Launch&);
};
/// Elementwise: 512 contiguous elements in L1 at a time. Operands have the result's shape (broadcast by stride 0).
struct Tile {
  kernels::TilePick pick;
};
/// Whole last axes at a time: operand 0 is [.., length]; results and operands of its rank have its rows, others none.
struct Row {
  kernels::RowPick pick;
};
/// Everything else; results are contiguous and operands strided.
struct Kernel {
  void (*run)(const Launch&, Context&);
  /// Where f(x[i:j]) == f(x)[i:j], so that it may run on a part of its results at a time: the operand's axis that goes
  /// with this axis of the results, or kNoParts. Null: no axis has parts.
  int (*axis_of)(const Signature&, std::size_t operand, int axis) = nullptr;
  /// Whether it hands the parts of its result on to Context::epilogue as it makes them, the last axis being the
  /// columns.
  bool (*hands_on)(const Signature&) = nullptr;
};
inline constexpr int kNoParts = -1;

/// Runs its sub-programs, which are attributes (transforms/).
struct Control {
  Arrays (*run)(std::span<const Array> operands, const void* attributes);
};

/// How a primitive fares when a program is promoted to f64: retype floats; keep (random bits, bitcasts); or, of a
/// conversion between floats, do nothing at all.
enum class Promote : std::uint8_t { retype, keep, conversion };

/// What one run moves and computes.
struct Cost {
  double bytes = 0, flops = 0;
};

/// A primitive is one record: its types, its meaning, its fast form, its rules and its samples, in one file of ops/.
struct Primitive {
  std::string_view name, summary;
  const AttributeKind* attributes = &kAttributesOf<NoAttributes>;
  Types (*infer)(const Signature&);  ///< result types; the only check of operands and attributes; throws
  void (*reference)(const Launch&);  ///< the meaning, by numerics/; operands of any strides
  std::variant<View, Tile, Row, Kernel, Control> run;
  void (*vjp)(Vjp&) = nullptr;      ///< null: that of decompose, else refused
  void (*jvp)(Jvp&) = nullptr;      ///< null: two vjps
  void (*batch)(Batch&) = nullptr;  ///< null: a map over slices
  /// A composite in simpler primitives.
  Arrays (*decompose)(const Arrays& operands, const void* attributes) = nullptr;
  /// Of higher-order ones: the results, and in `saved` what the vjp wants kept besides operands and results.
  Arrays (*run_saving)(const Equation&, std::span<const Array> operands, const std::vector<bool>& active,
                       Arrays& saved) = nullptr;
  void (*samples)(SampleSink&);                                    ///< domain and edge cases; every suite runs them
  Cost (*cost)(const Signature&, const Types& results) = nullptr;  ///< null: the bytes of operands and results
  Promote promote = Promote::retype;
  bool effect = false;
};

}  // namespace eadem
