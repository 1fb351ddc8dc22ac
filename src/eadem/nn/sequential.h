#pragma once

#include <string>
#include <tuple>

#include "eadem/nn/tabulate.h"

namespace eadem::nn {

/// Modules, or functions of an array, one after the other: `Sequential(Linear(..), [](const Array& x) { return gelu(x);
/// }, Linear(..))`.
template <class... Layer>
struct Sequential {
  std::tuple<Layer...> layers;

  explicit Sequential(Layer... all) : layers(std::move(all)...) {}
  Array operator()(const Array& x) const {
    Array y = x;
    std::apply([&](const auto&... layer) { ((y = layer(y)), ...); }, layers);
    return noted(*this, y, x);
  }
  static void fields(auto& m, auto f) {
    [&]<std::size_t... i>(std::index_sequence<i...>) {
      (f(std::to_string(i), std::get<i>(m.layers)), ...);
    }
    (std::index_sequence_for<Layer...>());
  }
};

}  // namespace eadem::nn
