#pragma once

#include <concepts>
#include <string_view>
#include <vector>

#include "eadem/array/tree.h"

// State among a model's arrays: what its calls move, as running moments, caches and scales, and no optimizer does. A
// type with fields says which of them are state:
//     static constexpr bool is_state(std::string_view field) { return field == "mean"; }

namespace eadem {

namespace detail {

template <class T>
concept HasState = requires(std::string_view field) {
  { T::is_state(field) } -> std::same_as<bool>;
};

template <class T>
void mark_state(const T& tree, bool state, std::vector<bool>& marks) {
  if constexpr (std::is_same_v<T, Array>) marks.push_back(state);
  for_each_child(tree, [&](std::string_view name, const auto& child) {
    bool inside = state;
    if constexpr (HasState<T>) inside = inside || T::is_state(name);
    mark_state(child, inside, marks);
  });
}

}  // namespace detail

/// Of each array of a tree, in order: whether it is state.
template <class T>
std::vector<bool> state_marks(const T& tree) {
  std::vector<bool> marks;
  detail::mark_state(tree, false, marks);
  return marks;
}

}  // namespace eadem
