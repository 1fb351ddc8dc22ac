#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <typeinfo>
#include <vector>

#include "eadem/array/trace.h"
#include "eadem/array/tree.h"

namespace eadem {

/// What a module is: a row of a table.
struct ModuleRow {
  struct Parameter {
    std::string name;   ///< below the module
    std::string dtype;  ///< or the format of a quantized one
    Shape shape;
    std::int64_t bytes = 0;
  };
  std::string path;                   ///< "" for the whole
  std::string module;                 ///< its type, as "Linear"
  Types inputs, outputs;              ///< of its first call; empty when it was not seen called
  std::vector<Parameter> parameters;  ///< its own, not those of modules inside it
};

/// A table of a model's modules.
struct ModuleTable {
  std::vector<ModuleRow> rows;

  /// Elements of all parameters, and their bytes.
  std::int64_t parameters() const;
  std::int64_t bytes() const;
  /// Aligned columns of at most `width` characters a line, and the totals.
  std::string text(int width = 100) const;
  /// An object: rows, parameters, bytes.
  std::string json() const;
};

/// "541,184" and "1.1 MB".
std::string with_commas(std::int64_t number);
std::string megabytes(std::int64_t bytes);

namespace detail {

/// The modules of the table being made on this thread, by address.
class Tabulation {
 public:
  explicit Tabulation(ModuleTable& table);
  ~Tabulation();
  Tabulation(const Tabulation&) = delete;
  Tabulation& operator=(const Tabulation&) = delete;
  static Tabulation* current();

  void add(const void* address, const std::type_info& type, std::size_t row);
  void called(const void* address, const std::type_info& type, Types inputs, Types outputs);
  /// One module is a copy of another, and so are the modules inside it, wherever they lie.
  template <class M>
  void copied(const M& original, const M& copy);

 private:
  struct Known {
    const void* address;
    const std::type_info* type;
    std::size_t row;
  };
  void alias(const void* original, const void* copy, const std::type_info& type);

  ModuleTable& table_;
  std::vector<Known> known_;
  Tabulation* outer_;
};

ModuleRow::Parameter parameter_of(const std::string& name, const TensorType& type);

/// "Linear" of "eadem::nn::Linear"; template arguments are left out.
std::string short_name(const std::type_info& type);

// Visits the modules of a tree: adds a row for each, and its own arrays to it.
template <class T>
void tabulate_tree(T& tree, const std::string& path, const std::string& name, std::size_t owner, ModuleTable& table,
                   Tabulation& tabulation) {
  using U = std::remove_const_t<T>;
  const auto join = [](const std::string& a, std::string_view b) {
    return a.empty() || b.empty() ? a + std::string(b) : a + "/" + std::string(b);  // an optional's content is nameless
  };
  if constexpr (std::is_same_v<U, Array>) {
    table.rows[owner].parameters.push_back(parameter_of(name, tree.type()));
  } else if constexpr (HasFields<T>) {
    const std::size_t row = table.rows.size();
    table.rows.push_back({path, short_name(typeid(U)), {}, {}, {}});
    tabulation.add(&tree, typeid(U), row);
    for_each_child(tree, [&](std::string_view field, auto& child) {
      tabulate_tree(child, join(path, field), std::string(field), row, table, tabulation);
    });
  } else {
    for_each_child(tree, [&](std::string_view part, auto& child) {
      tabulate_tree(child, join(path, part), join(name, part), owner, table, tabulation);
    });
  }
}

// Calls f(address, type) for every module of a tree, in order.
template <class T, class F>
void for_each_module(const T& tree, F&& f) {
  if constexpr (HasFields<const T>) f(static_cast<const void*>(&tree), typeid(T));
  for_each_child(tree, [&](std::string_view, const auto& child) { for_each_module(child, f); });
}

template <class M>
void Tabulation::copied(const M& original, const M& copy) {
  std::vector<const void*> from;
  for_each_module(original, [&](const void* address, const std::type_info&) { from.push_back(address); });
  std::size_t next = 0;
  for_each_module(copy, [&](const void* address, const std::type_info& type) {
    if (next < from.size()) alias(from[next++], address, type);
  });
}

}  // namespace detail

/// Notes a call of a module for the table that is being made, if one is, and gives the result: `return noted(*this, y,
/// x)`. Modules without it show no inputs and outputs of their own.
template <class M, class Y, class... X>
Y noted(const M& module, Y result, const X&... inputs) {
  if (detail::Tabulation* tabulation = detail::Tabulation::current()) [[unlikely]]
    tabulation->called(&module, typeid(M), types_of(leaves(std::tie(inputs...))), types_of(leaves(result)));
  return result;
}

/// The modules of a model with what goes in and out of them when it is called with these arguments: the call is
/// recorded, not run, so the arguments' values do not matter.
template <class M, class... X>
ModuleTable tabulate(const M& model, const X&... inputs) {
  ModuleTable table;
  detail::Tabulation tabulation(table);
  detail::tabulate_tree(model, "", "", 0, table, tabulation);
  if constexpr (sizeof...(X) > 0) {
    const std::tuple<X...> all(inputs...);
    Types outputs;
    trace("tabulate", types_of(leaves(all)), [&](const Arrays& values) {
      const Arrays results =
          leaves(std::apply([&](const auto&... x) { return model(x...); }, with_leaves(all, values)));
      outputs = types_of(results);
      return results;
    });
    table.rows[0].inputs = types_of(leaves(all));
    table.rows[0].outputs = outputs;
  }
  return table;
}

}  // namespace eadem
