#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>

#include "eadem/array/tree.h"
#include "eadem/transforms/executable.h"
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

}  // namespace detail

/// f made into a program once for each structure and types of its arguments, and run from its Executable; the bits are
/// f's. Copies share the programs. Inside another transform it is f itself. Throws ValueError when f captures a
/// concrete array of more than 64 bytes that is not constant(x): its later values would not be seen.
template <class F>
class Compiled {
 public:
  explicit Compiled(F f) : f_(std::move(f)), cache_(std::make_shared<Cache>()) {}

  template <class... T>
  auto operator()(const T&... arguments) const {
    using Result = std::remove_cvref_t<decltype(f_(arguments...))>;
    if (Trace::current()) return Result(f_(arguments...));
    const std::tuple<T...> all(arguments...);
    std::string key = typeid(std::tuple<T...>).name();
    detail::append_key(key, all);
    const std::shared_ptr<const Entry> entry = found_or_made<Result>(key, all);
    Arrays inputs = leaves(all);
    inputs.insert(inputs.end(), entry->captures.begin(), entry->captures.end());
    return with_leaves(*std::static_pointer_cast<const Result>(entry->result), run_program(*entry->program, inputs));
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
    std::shared_ptr<const void> result;  // the traced result: its structure
  };
  struct Cache {
    std::mutex mutex;
    std::map<std::string, std::shared_ptr<const Entry>> entries;
  };

  template <class Result, class All>
  std::shared_ptr<const Entry> found_or_made(const std::string& key, const All& all) const {
    const std::lock_guard lock(cache_->mutex);
    if (const auto known = cache_->entries.find(key); known != cache_->entries.end()) return known->second;
    std::optional<Result> traced;
    Traced made = detail::trace_for_compile(detail::name_of_function<F>("compile"), types_of(leaves(all)),
                                            [&](const Arrays& values) {
                                              traced = std::apply(f_, with_leaves(all, values));
                                              return leaves(*traced);
                                            });
    auto entry = std::make_shared<const Entry>(
        Entry{std::move(made.program), std::move(made.captures), std::make_shared<const Result>(std::move(*traced))});
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
