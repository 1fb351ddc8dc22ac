#pragma once

#include <optional>
#include <utility>

#include "eadem/array/array.h"

// Convolutions over any number of spatial axes, channels last as Flax has them: inputs [N, extents.., C], kernels
// [taps.., C / groups, C'].

namespace eadem {

/// Padding of the spatial axes: none; as much as keeps the extent under stride 1 and gives ceil(extent / stride); or as
/// said, negative to crop.
struct Padding {
  enum class Kind : std::uint8_t { valid, same, given } kind = Kind::valid;
  Shape low = {}, high = {};  ///< of `given`, an entry for each spatial axis
  static Padding valid() { return {}; }
  static Padding same() { return {Kind::same}; }
  static Padding given(const Shape& low, const Shape& high) { return {Kind::given, low, high}; }
};

struct ConvolutionArguments {
  Shape strides = {};  ///< default: 1 along each axis, as of the next two
  Padding padding = {};
  Shape lhs_dilation = {};         ///< 1 + the holes between neighbours of the input
  Shape rhs_dilation = {};         ///< 1 + the holes between neighbours of the kernel
  std::int64_t groups = 1;         ///< of channels, each its own product: jax.lax's feature_group_count
  bool flip = false;               ///< the taps in reverse order: a convolution proper, or the transpose of one without
  std::optional<Array> bias = {};  ///< [C'], any floating dtype, added in f32 (f64) before the rounding
  std::optional<DType> result = {};  ///< default: the promoted dtype of the operands
};
/// The kernel moved over the input, products summed over (taps.., channels) in the one order of contractions, rounded
/// once; as jax.lax.conv_general_dilated with channels last. Throws ShapeError, TypeError, ValueError.
Array conv_general(const Array& x, const Array& kernel, const ConvolutionArguments& arguments = {});

/// A convolution over the input dilated by `strides`, as jax.lax.conv_transpose with channels last: extents become
/// extent stride (same) or, valid, as many as the kernel reaches.
Array conv_transpose(const Array& x, const Array& kernel, const Shape& strides, const Padding& padding = {},
                     const Shape& rhs_dilation = {}, const std::optional<Array>& bias = {}, bool flip = false);

/// The padding, low and high, that Kind::same means.
std::pair<Shape, Shape> same_padding(const Shape& extents, const Shape& taps, const Shape& strides,
                                     const Shape& rhs_dilation);

}  // namespace eadem
