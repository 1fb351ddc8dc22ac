#pragma once

#include <filesystem>

#include "eadem/array/tree.h"

namespace eadem::train {

namespace detail {
using Named = std::vector<std::pair<std::string, Array>>;
void save_arrays(const std::filesystem::path& path, const Named& arrays);
Arrays load_arrays(const std::filesystem::path& path, const Named& like);
std::string sha256_of(const Named& arrays);

template <class T>
Named named(const T& tree) {
  Named all;
  for_each_leaf(tree, [&](const std::string& leaf, const Array& array) { all.emplace_back(leaf, array); });
  return all;
}
}  // namespace detail

/// Writes the arrays of a tree (a model, the state of an optimizer, a pair of both) to a safetensors file, named by
/// their paths in the tree; the file is replaced at once or stays as it was. The bytes depend on the arrays alone.
/// Throws FileError.
template <class T>
void save(const std::filesystem::path& path, const T& tree) {
  detail::save_arrays(path, detail::named(tree));
}

/// The tree with its arrays as `save` wrote them, to the bit: training that goes on from them gives the bits of
/// training that never stopped. Throws FileError where the file lacks an array, holds another, or one of another type.
template <class T>
T load(const std::filesystem::path& path, const T& like) {
  return with_leaves(like, detail::load_arrays(path, detail::named(like)));
}

/// SHA-256 of a tree's arrays: their paths, types and elements, in order.
template <class T>
std::string sha256(const T& tree) {
  return detail::sha256_of(detail::named(tree));
}

}  // namespace eadem::train
