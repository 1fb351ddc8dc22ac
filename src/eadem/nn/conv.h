#pragma once

#include "eadem/nn/linear.h"

namespace eadem::nn {

/// Padding by Flax's names; `given` takes low and high of each spatial axis. causal: of one axis; circular and reflect
/// repeat the input.
enum class ConvPadding : std::uint8_t { same, valid, causal, circular, reflect, given };

struct ConvOptions {
  Shape strides = {};  ///< default: 1 along each axis, as of the dilations
  ConvPadding padding = ConvPadding::same;
  Shape low = {}, high = {};  ///< of ConvPadding::given
  Shape input_dilation = {}, kernel_dilation = {};
  std::int64_t feature_group_count = 1;
  bool use_bias = true;
  std::optional<DType> dtype = {};
  DType param_dtype = DType::f32;
  Initializer kernel_init = lecun_normal(), bias_init = zeros_init();
  std::optional<Array> mask = {};  ///< of the kernel's shape, which it multiplies: a masked convolution; not trained
};

/// A convolution of [batch.., extents.., in] with kernel [taps.., in / groups, out], plus bias, rounded once; over as
/// many spatial axes as there are taps.
struct Conv {
  Array kernel;
  std::optional<Array> bias, mask;
  Shape strides, low, high, input_dilation, kernel_dilation;
  ConvPadding padding;
  std::int64_t feature_group_count;
  std::optional<DType> dtype;

  Conv(std::int64_t in, std::int64_t out, const Shape& kernel_size, Rngs& rngs, const ConvOptions& options = {});
  Array operator()(const Array& x) const;
  static void fields(auto& m, auto f) {
    f("kernel", m.kernel), f("bias", m.bias), f("strides", m.strides), f("low", m.low), f("high", m.high);
    f("input_dilation", m.input_dilation), f("kernel_dilation", m.kernel_dilation), f("padding", m.padding);
    f("feature_group_count", m.feature_group_count), f("dtype", m.dtype), f("mask", m.mask);
  }
  static constexpr bool is_state(std::string_view field) { return field == "mask"; }
};

struct ConvTransposeOptions {
  Shape strides = {};
  ConvPadding padding = ConvPadding::same;  ///< same, valid, circular or given
  Shape low = {}, high = {};
  Shape kernel_dilation = {};
  bool use_bias = true;
  bool transpose_kernel = false;  ///< the kernel is [taps.., out, in] and its taps are reversed: Conv's transpose
  std::optional<DType> dtype = {};
  DType param_dtype = DType::f32;
  Initializer kernel_init = lecun_normal(), bias_init = zeros_init();
  std::optional<Array> mask = {};  ///< as Conv's
};

/// A convolution over the input dilated by the strides: extents grow by them.
struct ConvTranspose {
  Array kernel;
  std::optional<Array> bias, mask;
  Shape strides, low, high, kernel_dilation;
  ConvPadding padding;
  bool transpose_kernel;
  std::optional<DType> dtype;

  ConvTranspose(std::int64_t in, std::int64_t out, const Shape& kernel_size, Rngs& rngs,
                const ConvTransposeOptions& options = {});
  Array operator()(const Array& x) const;
  static void fields(auto& m, auto f) {
    f("kernel", m.kernel), f("bias", m.bias), f("strides", m.strides), f("low", m.low), f("high", m.high);
    f("kernel_dilation", m.kernel_dilation), f("padding", m.padding), f("transpose_kernel", m.transpose_kernel);
    f("dtype", m.dtype), f("mask", m.mask);
  }
  static constexpr bool is_state(std::string_view field) { return field == "mask"; }
};

}  // namespace eadem::nn
