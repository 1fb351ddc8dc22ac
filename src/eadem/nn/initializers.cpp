#include "eadem/nn/initializers.h"

#include <bit>
#include <cmath>

#include "eadem/numerics/random.h"
#include "eadem/ops/ops.h"

namespace eadem::nn {
namespace {

// The next value of T above (below) x, which is finite.
template <class T>
T neighbour(T x, bool above) {
  using U = std::conditional_t<sizeof(T) == 8, std::uint64_t,
                               std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint16_t>>;
  const double value = numerics::to_double(x);
  constexpr auto sign = static_cast<U>(U{1} << (8 * sizeof(T) - 1));
  if (value == 0) return std::bit_cast<T>(static_cast<U>(above ? 1 : sign | 1));
  const U bits = std::bit_cast<U>(x);
  return std::bit_cast<T>(static_cast<U>((value > 0) == above ? bits + 1 : bits - 1));
}

}  // namespace

Array truncated_normal(const Array& key, double low, double high, const Shape& shape, DType dtype) {
  if (!is_floating(dtype)) fail<TypeError>("[truncated_normal] dtype must be floating, got {}", dtype);
  return visit_floating(dtype, [&]<class T>(std::type_identity<T>) {
    const T first = numerics::round_to<T>(low), last = numerics::round_to<T>(high);
    if (!std::isfinite(numerics::to_double(first)) || !std::isfinite(numerics::to_double(last)))
      fail<ValueError>("[truncated_normal] bounds must be finite in {}, got {} and {}", dtype, low, high);
    const T least = neighbour(first, true), most = neighbour(last, false);
    if (!(numerics::widen(least) <= numerics::widen(most)))
      fail<ValueError>("[truncated_normal] no {} lies between {} and {}", dtype, low, high);
    // JAX's steps in T, or in f32 for the 16-bit types: uniform between the values of erf at the bounds.
    using W = numerics::Wide<T>;
    const auto at = [](double bound) {
      return static_cast<double>(numerics::erf(numerics::round_to<W>(bound) / numerics::round_to<W>(std::sqrt(2.0))));
    };
    const Array z = convert(sqrt2_erfinv(uniform(key, shape, kDTypeOf<W>, at(low), at(high))), dtype);
    const auto scalar = [&](T value) { return Array::scalar(numerics::to_double(value), dtype); };
    return clamp(z, scalar(least), scalar(most));
  });
}

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
