#include "eadem/train/adafactor.h"

#include <algorithm>
#include <numeric>

namespace eadem::train {
namespace {

using detail::scalar;

// The longest axis and the one before it, the later of equally long ones being the longer.
struct Axes {
  std::int64_t longest, second;
};
std::optional<Axes> factored_axes(const Shape& shape, std::int64_t least) {
  if (shape.rank() < 2) return std::nullopt;
  std::vector<std::int64_t> order(static_cast<std::size_t>(shape.rank()));
  std::iota(order.begin(), order.end(), 0);
  const auto extent = [&](std::int64_t axis) { return shape[static_cast<int>(axis)]; };
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return extent(a) < extent(b); });
  const Axes axes{order[order.size() - 1], order[order.size() - 2]};
  return extent(axes.second) < least ? std::nullopt : std::optional(axes);
}

Array root_mean_square(const Array& x) {
  return sqrt(mean(x * x));
}

}  // namespace

Schedule relative_step_schedule(double most) {
  return [most](const Array& step) {
    return minimum(1.0 / sqrt(convert(step, DType::f64) + 1.0), full({}, most, DType::f64));
  };
}

Array Adafactor::statistic(const Array& like, bool first) const {
  if (!is_floating(like.dtype())) return like;
  const std::optional<Axes> axes = factored_axes(like.shape(), least_factored);
  if (!axes) return first ? like : zeros({0}, like.dtype());
  Shape shape;
  for (int axis = 0; axis < like.rank(); ++axis)
    if (axis != (first ? axes->longest : axes->second)) shape.push_back(like.shape()[axis]);
  return zeros(shape, like.dtype());
}

detail::Rule Adafactor::rule() const {
  return [*this](const Array& p, const Array& g, std::vector<Array>& moments, const Array& step, const Array& lr) {
    if (p.elements() == 0) return p;
    const Array b = 1.0 - pow(convert(step, DType::f64) + 1.0, scalar(-exponent));
    const auto blended = [&](const Array& m, const Array& x) { return fma(b, m, (1.0 - b) * x); };
    const Array squares = g * g + epsilon;
    Array u;
    if (const std::optional<Axes> axes = factored_axes(p.shape(), least_factored)) {
      Array &rows = moments[0], &columns = moments[1];
      rows = blended(rows, mean(squares, {axes->longest}));
      columns = blended(columns, mean(squares, {axes->second}));
      // The axis `second`, as `rows` counts it.
      const std::int64_t second = axes->second - (axes->second > axes->longest ? 1 : 0);
      const Array row_factor = 1.0 / sqrt(rows / mean(rows, {second}, true)), column_factor = 1.0 / sqrt(columns);
      u = g * expand_dims(row_factor, axes->longest) * expand_dims(column_factor, axes->second);
    } else {
      moments[0] = blended(moments[0], squares);
      u = g / sqrt(moments[0]);
    }
    u = u / maximum(root_mean_square(u) / clipping, scalar(1)) * lr;
    if (scale_by_parameter) u = u * maximum(root_mean_square(p), scalar(least_scale));
    if (momentum != 0) u = moments[2] = fma(scalar(momentum), moments[2], u * (1 - momentum));
    return p - (decay == 0 ? u : u + p * decay);
  };
}

}  // namespace eadem::train
