#pragma once

#include <concepts>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "eadem/array/tree.h"

// A part of a tree, such as a model's adapters: its arrays by their paths, a tree of its own to differentiate by and to
// train, while the other arrays stay as they are.

namespace eadem {

namespace detail {

template <class Kind, class T>
void mark_kind(const T& tree, bool inside, std::vector<bool>& marks) {
  if constexpr (std::is_same_v<T, Array>) marks.push_back(inside);
  for_each_child(tree, [&](std::string_view, const auto& child) {
    mark_kind<Kind>(child, inside || std::is_same_v<std::remove_cvref_t<decltype(child)>, Kind>, marks);
  });
}

}  // namespace detail

/// Of each array of a tree, in order: whether it lies inside a module of type Kind, such as nn::LoRA.
template <class Kind, class T>
std::vector<bool> marks_of(const T& tree) {
  std::vector<bool> marks;
  detail::mark_kind<Kind>(tree, std::is_same_v<T, Kind>, marks);
  return marks;
}
/// Of each array of a tree, in order: what `holds` says of its path.
template <class T, std::predicate<std::string_view> F>
std::vector<bool> marks_where(const T& tree, F&& holds) {
  std::vector<bool> marks;
  for_each_leaf(tree, [&](const std::string& path, const Array&) { marks.push_back(holds(std::string_view(path))); });
  return marks;
}

/// Arrays of a tree by their paths.
using Part = std::map<std::string, Array>;

/// The marked arrays of a tree. Throws ValueError unless there is a mark for each array.
template <class T>
Part part_of(const T& tree, const std::vector<bool>& marks) {
  Part part;
  std::size_t next = 0;
  for_each_leaf(tree, [&](const std::string& path, const Array& leaf) {
    if (next < marks.size() && marks[next]) part.emplace(path, leaf);
    ++next;
  });
  if (next != marks.size()) fail<ValueError>("[part_of] the tree has {} arrays, got {} marks", next, marks.size());
  return part;
}
/// The tree with the part's arrays in their places. Throws ValueError where the tree has no such place, TypeError for
/// an array of another type.
template <class T>
T with_part(T tree, const Part& part) {
  std::size_t found = 0;
  for_each_leaf(tree, [&](const std::string& path, Array& leaf) {
    const auto own = part.find(path);
    if (own == part.end()) return;
    if (own->second.type() != leaf.type())
      fail<TypeError>("[with_part] {} must be {}, got {}", path, leaf.type(), own->second.type());
    leaf = own->second;
    ++found;
  });
  if (found != part.size()) fail<ValueError>("[with_part] the tree has {} of the part's {} arrays", found, part.size());
  return tree;
}

}  // namespace eadem
