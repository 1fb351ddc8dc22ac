#pragma once

#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "eadem/transforms/compile.h"
#include "tests/support/bits.h"

namespace eadem::testing {

using Two = std::pair<Array, Array>;

inline Array total(const Array& x) {
  Shape axes;
  for (int i = 0; i < x.rank(); ++i) axes.push_back(i);
  return sum(x, axes);
}
inline Array row(const Array& x, std::int64_t i) {
  return squeeze(slice_axis(x, 0, {i, i + 1}), 0);
}

/// A scan written out; without iterations, its ys are as the slices are.
template <class F, class Carry>
std::pair<Carry, Array> loop(const F& f, Carry carry, const Array& xs, bool reverse) {
  const std::int64_t n = xs.shape()[0];
  std::vector<Array> ys(static_cast<std::size_t>(n));
  for (std::int64_t s = 0; s < n; ++s) {
    const std::int64_t i = reverse ? n - 1 - s : s;
    auto [next, y] = f(carry, row(xs, i));
    carry = next;
    ys[static_cast<std::size_t>(i)] = y;
  }
  return {carry, n == 0 ? zeros(xs.shape(), xs.dtype()) : stack(ys)};
}

/// Expects two functions to have the same bits, and so their gradients, the derivatives of their gradients and of their
/// directional derivatives, and if `third_order` those of these, in every order of modes, eager, compiled and (at
/// length 2) under vmap. Each has the value beside it, so that what both need is one value.
inline void expect_same_derivatives(const std::function<Array(const Two&)>& f,
                                    const std::function<Array(const Two&)>& other, const Two& in, const Two& direction,
                                    bool third_order) {
  using Function = std::function<Array(const Two&)>;
  const auto slope = [&direction](const Function& g) -> Function {
    return [g, direction](const Two& v) {
      const Two there(constant(direction.first), constant(direction.second));
      const auto [value, tangent] = jvp(g, std::make_tuple(v), std::make_tuple(there));
      return value * tangent;
    };
  };
  // The direction is the point.
  const auto along = [](const Function& g) -> Function {
    return [g](const Two& v) {
      const auto [value, tangent] = jvp(g, std::make_tuple(v), std::make_tuple(v));
      return value + tangent;
    };
  };
  const auto steepness = [](const Function& g) -> Function {
    return [g](const Two& v) {
      const auto [value, slopes] = value_and_grad(g)(v);
      return value + total(slopes.first * v.first) + total(slopes.second * slopes.second);
    };
  };
  const Two batch(stack(std::vector<Array>{in.first, direction.first}),
                  stack(std::vector<Array>{in.second, direction.second}));
  const auto compare = [&](std::string_view what, const std::function<Function(const Function&)>& derivative) {
    SCOPED_TRACE(what);
    const auto gradient = [&derivative](const Function& g) {
      return [d = derivative(g)](const Two& v) { return value_and_grad(d)(v); };
    };
    const auto expected = gradient(other)(in);
    expect_same(gradient(f)(in), expected);
    expect_same(compile(gradient(f))(in), expected);
    const auto mapped = [&](const Function& g) { return vmap(gradient(g))(batch); };
    if (in.second.shape()[0] == 2) expect_same(mapped(f), mapped(other));
    const auto forward = [&](const Function& g) {
      return jvp(derivative(g), std::make_tuple(in), std::make_tuple(direction));
    };
    expect_same(forward(f), forward(other));
  };
  compare("itself", [](const Function& g) { return g; });
  compare("gradient", steepness);
  compare("directional", slope);
  compare("along", along);
  if (!third_order) return;
  compare("gradient of gradient", [&](const Function& g) { return steepness(steepness(g)); });
  compare("gradient of directional", [&](const Function& g) { return steepness(slope(g)); });
  compare("directional of gradient", [&](const Function& g) { return along(steepness(g)); });
  compare("directional of directional", [&](const Function& g) { return slope(along(g)); });
}

}  // namespace eadem::testing
