#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>

#include "eadem/array/tree.h"
#include "eadem/transforms/executable.h"
#include "eadem/transforms/number.h"
#include "eadem/transforms/transforms.h"

namespace eadem {

namespace detail {

/// What a tree is, but for its values: paths, leaf types and static parts. Two calls with equal keys share a program.
template <class T>
void append_key(std::string& key, const T& tree) {
  std::string path;
  visit_tree(
      tree, path,
      [&](const std::string&, const Array& leaf) {
        key += ' ';
        key += name_of(leaf.dtype());
        for (const std::int64_t extent : leaf.shape()) {
          key += ',';
          key += std::to_string(extent);
        }
      },
      [&](const std::string&, const auto& value) {
        using V = std::remove_cvref_t<decltype(value)>;
        key += " =";
        if constexpr (std::is_same_v<V, std::string> || std::is_same_v<V, std::string_view>)
          key += fmt::format("{}:{}", value.size(), value);
        else if constexpr (std::is_enum_v<V>)
          key += std::to_string(static_cast<std::int64_t>(value));
        else if constexpr (std::is_floating_point_v<V>)
          key += fmt::format("{:a}", static_cast<double>(value));
        else if constexpr (std::is_arithmetic_v<V>)
          key += std::to_string(value);
        else if constexpr (std::is_same_v<V, Shape>)
          key += fmt::format("{}", value);
        else if constexpr (std::is_pointer_v<V>)  // to a function
          key += std::to_string(reinterpret_cast<std::uintptr_t>(value));
      });
}

/// Records f as `compile` does: a large concrete capture is an error.
Traced trace_for_compile(std::string who, const Types& inputs, const ArraysFunction& f);

/// Counts the compiled functions that this thread is in; throws ValueError where they call each other without end.
class CompiledCall {
 public:
  explicit CompiledCall(std::string_view function);
  ~CompiledCall();
  CompiledCall(const CompiledCall&) = delete;
  CompiledCall& operator=(const CompiledCall&) = delete;
};

/// What a compiled function gets for an argument: numbers are operands.
template <class T>
auto operand_of(const T& argument) {
  if constexpr (std::is_same_v<T, bool>)
    return Array::scalar(argument ? 1 : 0, DType::boolean);
  else if constexpr (std::is_arithmetic_v<T>)
    return Number(argument);
  else
    return argument;
}
template <class T>
T operand_of(const StaticArgument<T>& argument) {
  return argument.value;
}
template <class T>
using OperandOf = decltype(operand_of(std::declval<const T&>()));

}  // namespace detail

/// f made into a program once for each structure and types of its arguments, and run from its Executable; the bits are
/// f's. Copies share the programs. Inside another transform it is f itself. Throws ValueError when f captures a
/// concrete array of more than 64 bytes that is not constant(x): its later values would not be seen.
///
/// C++ numbers among the arguments are operands, so that another value needs no other program: f gets a `Number`,
/// an Array bool [] for a flag, and the value itself for static_arg(value), which has a program for each value.
/// (C++ numbers inside of structures are a part of the structure, as in JAX what is registered static.) Arguments given
/// as rvalues, as by std::move, are donated: their memory may become a result's, and reading them afterwards throws
/// ValueError.
template <class F>
class Compiled {
 public:
  explicit Compiled(F f) : f_(std::move(f)), cache_(std::make_shared<Cache>()) {}

  template <class... T>
  auto operator()(T&&... arguments) const {
    static_assert(std::is_invocable_v<const F&, const detail::OperandOf<std::remove_cvref_t<T>>&...>,
                  "a compiled function must take numbers as `const auto&`, or the caller write static_arg(number)");
    using All = Operands<T...>;
    using Result = ResultOf<All>;
    const detail::CompiledCall call(detail::type_name<F>());
    std::optional<All> all(std::in_place, detail::operand_of(arguments)...);
    if (Trace::current()) return Result(std::apply(f_, *all));
    const std::shared_ptr<const Entry> entry = entry_of(*all);
    auto placed = entry->placed.begin();
    for_each_number(*all, [&](const Number& number) {
      for (const DType dtype : *placed++) number.as(dtype);  // throws where it is not a value of the dtype
    });
    Arrays inputs = leaves(*all);
    inputs.insert(inputs.end(), entry->captures.begin(), entry->captures.end());
    all.reset();
    (donate<T>(arguments), ...);
    return with_leaves(*std::static_pointer_cast<const Result>(entry->result),
                       run_program(*entry->program, std::move(inputs)));
  }

  /// The most bytes that a call with such arguments takes at once beside them, if they are contiguous and kept; what
  /// kernels pack comes on top (Executable::planned_peak_bytes). The program is made if need be, nothing runs.
  template <class... T>
  std::int64_t planned_bytes(const T&... arguments) const {
    const Operands<T...> all(detail::operand_of(arguments)...);
    return executable_of(*entry_of(all)->program).planned_peak_bytes();
  }

  /// How many programs were made.
  std::size_t programs() const {
    const std::lock_guard lock(cache_->mutex);
    return cache_->entries.size();
  }

 private:
  struct Entry {
    ProgramRef program;
    Arrays captures;
    std::shared_ptr<const void> result;      // the traced result: its structure
    std::vector<std::vector<DType>> placed;  // by number among the arguments: the integer dtypes that it must fit
  };
  struct Cache {
    std::mutex mutex;
    std::map<std::string, std::shared_ptr<const Entry>> entries;
  };

  // Leaves the arrays of an rvalue to the call.
  template <class T, class Argument>
  static void donate(Argument& argument) {
    using Tree = std::remove_cvref_t<T>;
    if constexpr (!std::is_lvalue_reference_v<T> && !std::is_const_v<T> && !detail::kIsStatic<Tree> &&
                  !detail::kIsStaticArgument<Tree>)
      for_each_leaf(argument, [](const std::string&, Array& leaf) {
        static const std::string who = detail::name_of_function<F>("compile");
        leaf = Array::donated(leaf.type(), who);
      });
  }

  template <class... T>
  using Operands = std::tuple<detail::OperandOf<std::remove_cvref_t<T>>...>;
  template <class All>
  using ResultOf = std::remove_cvref_t<decltype(std::apply(std::declval<const F&>(), std::declval<const All&>()))>;

  template <class All, class Visit>
  static void for_each_number(All& all, const Visit& visit) {
    const auto one = [&]<class T>(T& argument) {
      if constexpr (std::is_same_v<std::remove_const_t<T>, Number>) visit(argument);
    };
    std::apply([&](auto&... arguments) { (one(arguments), ...); }, all);
  }

  template <class All>
  std::shared_ptr<const Entry> entry_of(const All& all) const {
    using Result = ResultOf<All>;
    std::string key = typeid(All).name();
    detail::append_key(key, all);
    const std::lock_guard lock(cache_->mutex);
    if (const auto known = cache_->entries.find(key); known != cache_->entries.end()) return known->second;
    std::optional<Result> traced;
    std::vector<std::shared_ptr<const std::vector<DType>>> notes;
    Traced made = detail::trace_for_compile(
        detail::name_of_function<F>("compile"), types_of(leaves(all)), [&](const Arrays& values) {
          All operands = with_leaves(all, values);
          notes.clear();
          for_each_number(operands, [&](Number& n) { notes.push_back(n.note_placed()); });
          traced = std::apply(f_, std::as_const(operands));
          return leaves(*traced);
        });
    std::vector<std::vector<DType>> placed;
    for (const auto& note : notes) placed.push_back(*note);
    auto entry =
        std::make_shared<const Entry>(Entry{std::move(made.program), std::move(made.captures),
                                            std::make_shared<const Result>(std::move(*traced)), std::move(placed)});
    cache_->entries.emplace(key, entry);
    return entry;
  }

  F f_;
  std::shared_ptr<Cache> cache_;
};

/// See Compiled.
template <class F>
Compiled<F> compile(F f) {
  return Compiled<F>(std::move(f));
}

}  // namespace eadem
