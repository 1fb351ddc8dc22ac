#pragma once

#include <functional>

#include "eadem/array/array.h"

namespace eadem::nn {

/// Makes a parameter of a shape and floating dtype from a key.
using Initializer = std::function<Array(const Array& key, const Shape& shape, DType dtype)>;

Initializer zeros_init();
Initializer ones_init();
Initializer constant_init(double value);
/// Normal numbers times `deviation`.
Initializer normal_init(double deviation = 1e-2);
/// Uniform numbers in [0, scale).
Initializer uniform_init(double scale = 1e-2);

enum class Fan : std::uint8_t { in, out, average };
enum class Distribution : std::uint8_t { truncated_normal, normal, uniform };
/// Numbers of variance scale / fan, where a kernel [.., in, out] has fans in and out times the extents before them; in
/// the steps of jax.nn.initializers.variance_scaling. `transposed`: a table [out, in], as of embeddings. Throws
/// ShapeError below two axes.
Initializer variance_scaling(double scale, Fan fan, Distribution distribution, bool transposed = false);

/// A kernel [.., n] whose columns (if they are more than the other extents together, rows) are orthonormal, times
/// scale: normal numbers made so by Gram and Schmidt in f64, twice, as jax.nn.initializers.orthogonal means. Throws
/// ShapeError below two axes. Source: Saxe et al. 2014.
Initializer orthogonal(double scale = 1);

/// variance_scaling's well-known cases. Sources: LeCun et al. 1998, Glorot & Bengio 2010, He et al. 2015.
Initializer lecun_normal();
Initializer lecun_uniform();
Initializer glorot_normal();
Initializer glorot_uniform();
Initializer he_normal();
Initializer he_uniform();
inline Initializer xavier_normal() {
  return glorot_normal();
}
inline Initializer xavier_uniform() {
  return glorot_uniform();
}

}  // namespace eadem::nn
