#include "eadem/nn/initializers.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "eadem/ops/ops.h"
#include "eadem/transforms/transforms.h"

namespace eadem::nn {

Initializer constant_init(double value) {
  return [value](const Array&, const Shape& shape, DType dtype) { return full(shape, value, dtype); };
}
Initializer zeros_init() {
  return constant_init(0);
}
Initializer ones_init() {
  return constant_init(1);
}
Initializer normal_init(double deviation) {
  return [=](const Array& key, const Shape& shape, DType dtype) { return normal(key, shape, dtype) * deviation; };
}
Initializer uniform_init(double scale) {
  return [=](const Array& key, const Shape& shape, DType dtype) { return uniform(key, shape, dtype) * scale; };
}

Initializer variance_scaling(double scale, Fan fan, Distribution distribution, bool transposed) {
  return [=](const Array& key, const Shape& shape, DType dtype) -> Array {
    const int rank = shape.rank();
    if (rank < 2) fail<ShapeError>("[variance_scaling] a kernel needs at least two axes, got {}", shape);
    double field = 1;  // receptive field: the axes before the last two
    for (int axis = 0; axis + 2 < rank; ++axis) field *= static_cast<double>(shape[axis]);
    const double in = field * static_cast<double>(shape[transposed ? rank - 1 : rank - 2]);
    const double out = field * static_cast<double>(shape[transposed ? rank - 2 : rank - 1]);
    const double fans = fan == Fan::in ? in : fan == Fan::out ? out : (in + out) / 2;
    if (shape.elements() == 0) return zeros(shape, dtype);
    const Array variance = Array::scalar(scale / fans, dtype);
    switch (distribution) {
      case Distribution::normal: return normal(key, shape, dtype) * sqrt(variance);
      case Distribution::uniform: return uniform(key, shape, dtype, -1) * sqrt(variance * 3.0);
      case Distribution::truncated_normal: break;
    }
    // The standard deviation of a standard normal cut at -2 and 2.
    constexpr double kDeviation = .87962566103423978;
    return truncated_normal(key, -2, 2, shape, dtype) * (sqrt(variance) / kDeviation);
  };
}

Initializer orthogonal(double scale) {
  return [scale](const Array& key, const Shape& shape, DType dtype) -> Array {
    if (shape.rank() < 2) fail<ShapeError>("[orthogonal] a kernel needs at least two axes, got {}", shape);
    if (shape.elements() == 0) return zeros(shape, dtype);
    const std::int64_t columns = shape.back(), rows = shape.elements() / columns;
    const std::int64_t length = std::max(rows, columns), count = std::min(rows, columns);
    // Row j of q is vector j; those still to come are zero.
    const Array draws = transpose(convert(normal(key, {length, count}, dtype), DType::f64));
    const auto add_vector = [&](const Array& j, const Array& q) {
      const Array start = concatenate(std::array{reshape(j, {1}), zeros({1}, DType::i64)}, 0);
      Array v = dynamic_slice(draws, start, {1, length});
      for (int pass = 0; pass < 2; ++pass) v = v - matmul(matmul(v, transpose(q)), q);
      return dynamic_update_slice(q, v / norm(v), start);
    };
    const Array q = fori_loop(0, count, add_vector, zeros({count, length}, DType::f64));
    return convert(reshape(rows >= columns ? transpose(q) : q, shape) * scale, dtype);
  };
}

Initializer lecun_normal() {
  return variance_scaling(1, Fan::in, Distribution::truncated_normal);
}
Initializer lecun_uniform() {
  return variance_scaling(1, Fan::in, Distribution::uniform);
}
Initializer glorot_normal() {
  return variance_scaling(1, Fan::average, Distribution::truncated_normal);
}
Initializer glorot_uniform() {
  return variance_scaling(1, Fan::average, Distribution::uniform);
}
Initializer he_normal() {
  return variance_scaling(2, Fan::in, Distribution::truncated_normal);
}
Initializer he_uniform() {
  return variance_scaling(2, Fan::in, Distribution::uniform);
}

}  // namespace eadem::nn
