#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "eadem/array/array.h"

// Trees: what transforms take and give. An Array is a leaf; tuples, pairs, vectors, std::array, optional and map are
// nodes, and so is any type with
//     static void fields(auto& m, auto f) { f("weight", m.weight), f("bias", m.bias); }
// Numbers, enumerations, strings, shapes and empty types (function objects without captures) are static: part of the
// tree's structure, not of its values.

namespace eadem {

namespace detail {

struct NoField {
  template <class T>
  void operator()(std::string_view, T&) const {}
};

template <class T>
concept HasFields = requires(T& t) {
  std::remove_const_t<T>::fields(t, NoField{});
};
template <class T>
concept TupleLike = requires {
  std::tuple_size<std::remove_const_t<T>>::value;
};
template <class T>
concept MapLike = requires {
  typename T::key_type;
  typename T::mapped_type;
};
template <class T>
concept Sequence = !MapLike<T> && requires(T & t) {
  t.begin();
  t.size();
  t[0];
};

template <class T>
inline constexpr bool kIsOptional = false;
template <class T>
inline constexpr bool kIsOptional<std::optional<T>> = true;

template <class T>
inline constexpr bool kIsStatic =
    std::is_arithmetic_v<T> || std::is_enum_v<T> || std::is_empty_v<T> || std::is_same_v<T, std::string> ||
    std::is_same_v<T, std::string_view> || std::is_same_v<T, Shape> || std::is_same_v<T, std::nullptr_t> ||
    std::is_function_v<std::remove_pointer_t<T>>;

}  // namespace detail

/// Calls f(name, child) for each part of a node, in order: a field, a map's entry, the elements by their number, what
/// an optional holds (nameless). Leaves and static parts have none.
template <class T, class F>
void for_each_child(T& node, F&& f) {
  using U = std::remove_const_t<T>;
  if constexpr (std::is_same_v<U, Array>) {
    return;
  } else if constexpr (detail::HasFields<T>) {
    U::fields(node, f);
  } else if constexpr (detail::kIsStatic<U>) {
    return;
  } else if constexpr (detail::kIsOptional<U>) {
    if (node) f(std::string_view(), *node);
  } else if constexpr (detail::MapLike<U>) {
    for (auto& [key, child] : node) f(std::string_view(key), child);
  } else if constexpr (detail::Sequence<T>) {
    std::size_t i = 0;
    for (auto& child : node) f(std::string_view(std::to_string(i++)), child);
  } else if constexpr (detail::TupleLike<T>) {
    [&]<std::size_t... i>(std::index_sequence<i...>) {
      (f(std::string_view(std::to_string(i)), std::get<i>(node)), ...);
    }
    (std::make_index_sequence<std::tuple_size_v<U>>());
  } else {
    static_assert(detail::HasFields<T>,
                  "not a tree: give the type `static void fields(auto& m, auto f)` that names its members");
  }
}

/// Calls leaf(path, array) for every Array of a tree, in order, and also fixed(path, value) for every static part.
/// Paths are as "layers/0/weight".
template <class T, class Leaf, class Fixed>
void visit_tree(T& tree, std::string& path, Leaf&& leaf, Fixed&& fixed) {
  using U = std::remove_const_t<T>;
  const std::string& here = path;
  if constexpr (std::is_same_v<U, Array>) {
    leaf(here, tree);
  } else if constexpr (!detail::HasFields<T> && detail::kIsStatic<U>) {
    fixed(here, tree);
  } else {
    if constexpr (detail::kIsOptional<U>) fixed(here, tree.has_value());
    if constexpr (!detail::HasFields<T> && (detail::MapLike<U> || detail::Sequence<T>)) fixed(here, tree.size());
    for_each_child(tree, [&](std::string_view name, auto& child) {
      const std::size_t length = path.size();
      if constexpr (!detail::HasFields<T> && detail::MapLike<U>) fixed(here, name);
      if constexpr (!detail::kIsOptional<U>) {
        if (!path.empty()) path += '/';
        path += name;
      }
      visit_tree(child, path, leaf, fixed);
      path.resize(length);
    });
  }
}

/// Calls leaf(path, array) for every Array of a tree, in order.
template <class T, class Leaf>
void for_each_leaf(T& tree, Leaf&& leaf) {
  std::string path;
  visit_tree(tree, path, leaf, [](const std::string&, const auto&) {});
}

/// The arrays of a tree, in order.
template <class T>
Arrays leaves(const T& tree) {
  Arrays all;
  for_each_leaf(tree, [&](const std::string&, const Array& leaf) { all.push_back(leaf); });
  return all;
}

/// The tree with other leaves, from `next` on, which moves past them.
template <class T>
T with_leaves(T tree, std::span<const Array> values) {
  std::size_t next = 0;
  for_each_leaf(tree, [&](const std::string&, Array& leaf) {
    if (next == values.size()) fail<ValueError>("[tree] needs more than {} leaves", values.size());
    leaf = values[next++];
  });
  if (next != values.size()) fail<ValueError>("[tree] has {} leaves, got {}", next, values.size());
  return tree;
}

/// The tree with f applied to each leaf.
template <class T, class F>
T map_leaves(F&& f, T tree) {
  for_each_leaf(tree, [&](const std::string&, Array& leaf) { leaf = f(static_cast<const Array&>(leaf)); });
  return tree;
}

inline Types types_of(std::span<const Array> arrays) {
  Types types;
  for (const Array& array : arrays) types.push_back(array.type());
  return types;
}

}  // namespace eadem
