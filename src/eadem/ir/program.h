#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "eadem/ir/primitive.h"

namespace eadem {

/// A value of one program: an index into its types.
using ValueId = std::int32_t;

/// One application of a primitive.
struct Equation {
  const Primitive* primitive = nullptr;
  std::vector<ValueId> operands, results;
  std::shared_ptr<const void> attributes;  ///< of the primitive's kind; null when it takes none
  std::string scope;                       ///< where the user's program made it, as "layers/attend"; may be empty
};

/// What an executor made of a program, kept with it for the next run; it is no part of the program's value, so a copy
/// has none.
class PreparedProgram {
 public:
  PreparedProgram() = default;
  PreparedProgram(const PreparedProgram&) {}
  PreparedProgram& operator=(const PreparedProgram&) {
    made_.reset();
    memos_.clear();
    return *this;
  }
  /// What `make` made of the program at the first call.
  std::shared_ptr<const void> get(const Program& program, std::shared_ptr<const void> (*make)(const Program&)) const {
    const std::lock_guard lock(mutex_);
    if (!made_) made_ = make(program);
    return made_;
  }
  /// What `make` made under this key at the first call: a transform's view of the program, which programs around it
  /// ask for again and again. A key names the type T, too.
  template <class T, class Make>
  std::shared_ptr<const T> memo(const std::string& key, Make&& make) const {
    {
      const std::lock_guard lock(mutex_);
      if (const auto known = memos_.find(key); known != memos_.end())
        return std::static_pointer_cast<const T>(known->second);
    }
    std::shared_ptr<const T> fresh = make();  // outside of the lock: it may look into other programs
    const std::lock_guard lock(mutex_);
    return std::static_pointer_cast<const T>(memos_.try_emplace(key, fresh).first->second);
  }

 private:
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const void> made_;
  mutable std::map<std::string, std::shared_ptr<const void>> memos_;
};

/// A closed function on arrays: inputs, equations in the order of execution, outputs. Every value is defined once, as
/// an input or a result, before its uses; ids count up in the order of definition.
struct Program {
  std::vector<TensorType> types;  ///< of every value, by id
  std::vector<ValueId> inputs, outputs;
  std::vector<Equation> equations;
  PreparedProgram prepared;

  const TensorType& type(ValueId id) const { return types[static_cast<std::size_t>(id)]; }
  Types input_types() const;
  Types output_types() const;
  /// Adds a value of this type.
  ValueId add_value(const TensorType& type);
  /// Adds an equation and its results.
  const std::vector<ValueId>& add_equation(const Primitive&, std::vector<ValueId> operands,
                                           std::shared_ptr<const void> attributes, const Types& results,
                                           std::string scope = {});
};

/// Equal in every equation, attribute, id, type and scope.
bool operator==(const Program&, const Program&);

/// Throws ValueError, TypeError or ShapeError, naming the equation, unless the program is as Program says, and every
/// equation's results have the types that its primitive infers; sub-programs too.
void verify(const Program&);

/// "f32[2,3], i64[]".
std::string print_types(std::span<const TensorType> types);

/// How deep programs within programs may be printed and parsed.
inline constexpr int kMaxProgramDepth = 80;
/// The program as text, an equation a line: `%2:f32[4] = add %0 %1`, attributes in brackets, floats in hexadecimal.
/// Throws ValueError when programs nest deeper than kMaxProgramDepth.
std::string print(const Program&);
/// The inverse: parse(print(p), catalog) == p. Throws ValueError with the place in the text; verifies what it read.
Program parse_program(std::string_view text, Catalog catalog);

/// The program without the equations that no output needs (effects stay), its values renumbered; inputs stay.
Program without_dead_code(const Program&);

/// The program with equal equations joined (not those with effects or sub-programs), its values renumbered.
Program with_common_equations_joined(const Program&);

/// The program with inputs `order[0], order[1], ...` of its own; those left out must be unused.
Program with_inputs(const Program&, const std::vector<std::size_t>& order);

}  // namespace eadem
