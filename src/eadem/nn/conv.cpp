#include "eadem/nn/conv.h"

#include "eadem/nn/tabulate.h"
#include "eadem/ops/convolution.h"
#include "eadem/ops/ops.h"

namespace eadem::nn {
namespace {

void require_extents(std::string_view module, std::int64_t in, std::int64_t out, const Shape& kernel_size) {
  if (kernel_size.empty()) fail<ValueError>("[{}] needs at least one spatial axis", module);
  bool positive = in >= 1 && out >= 1;
  for (const std::int64_t extent : kernel_size) positive = positive && extent >= 1;
  if (!positive)
    fail<ValueError>("[{}] features and taps must be at least 1, got {}, {} and {}", module, in, out, kernel_size);
}

Shape kernel_shape(const Shape& taps, std::int64_t first, std::int64_t second) {
  Shape shape = taps;
  shape.push_back(first);
  shape.push_back(second);
  return shape;
}

// [batch.., extents.., C] with one batch axis.
Array with_one_batch_axis(std::string_view module, const Array& x, const Array& kernel) {
  const int spatial = kernel.rank() - 2, batch = x.rank() - spatial - 1;
  if (batch < 0)
    fail<ShapeError>("[{}] needs [batch.., extents.., C] for the kernel {}, got {}", module, kernel.type(), x.type());
  Shape shape{1};
  for (int axis = 0; axis < batch; ++axis) shape[0] *= x.shape()[axis];
  for (int axis = batch; axis < x.rank(); ++axis) shape.push_back(x.shape()[axis]);
  return reshape(x, shape);
}
Array with_batch_of(const Array& x, const Array& y, int spatial) {
  Shape shape;
  for (int axis = 0; axis < x.rank() - spatial - 1; ++axis) shape.push_back(x.shape()[axis]);
  for (int axis = 1; axis < y.rank(); ++axis) shape.push_back(y.shape()[axis]);
  return reshape(y, shape);
}

// An axis with its elements repeated beyond both ends: around, or back from the ends.
Array extended(const Array& x, int axis, std::int64_t low, std::int64_t high, bool around) {
  const std::int64_t n = x.shape()[axis], period = around ? n : std::max<std::int64_t>(1, 2 * (n - 1));
  if (n == 0) fail<ShapeError>("[Conv] axis {} of {} has nothing to repeat", axis, x.type());
  std::vector<std::int64_t> indices;
  for (std::int64_t i = -low; i < n + high; ++i) {
    const std::int64_t at = ((i % period) + period) % period;
    indices.push_back(at < n ? at : period - at);
  }
  return take(x, Array::from(indices, {n + low + high}), axis);
}

void require_mask(std::string_view module, const std::optional<Array>& mask, const Array& kernel) {
  if (mask && mask->shape() != kernel.shape())
    fail<ShapeError>("[{}] the mask must have the kernel's shape {}, got {}", module, kernel.shape(), mask->type());
}

// In the dtype of the computation; the mask multiplies what is stored.
Array masked(const Array& kernel, const std::optional<Array>& mask, DType t) {
  return convert(mask ? kernel * convert(*mask, kernel.dtype()) : kernel, t);
}

std::int64_t window(std::int64_t taps, const Shape& dilation, int axis) {
  return dilation.empty() ? taps : (taps - 1) * dilation[axis] + 1;
}

}  // namespace

Conv::Conv(std::int64_t in, std::int64_t out, const Shape& kernel_size, Rngs& rngs, const ConvOptions& o)
    : mask(o.mask),
      strides(o.strides),
      low(o.low),
      high(o.high),
      input_dilation(o.input_dilation),
      kernel_dilation(o.kernel_dilation),
      padding(o.padding),
      feature_group_count(o.feature_group_count),
      dtype(o.dtype) {
  require_extents("Conv", in, out, kernel_size);
  const std::int64_t groups = feature_group_count;
  if (groups < 1 || in % groups != 0 || out % groups != 0)
    fail<ValueError>("[Conv] {} groups must divide the features {} and {}", groups, in, out);
  if (padding == ConvPadding::causal && kernel_size.rank() != 1)
    fail<ValueError>("[Conv] causal padding is of one spatial axis, got kernel {}", kernel_size);
  kernel = o.kernel_init(rngs.params(), kernel_shape(kernel_size, in / groups, out), o.param_dtype);
  require_mask("Conv", mask, kernel);
  if (o.use_bias) bias = o.bias_init(rngs.params(), {out}, o.param_dtype);
}

Array Conv::operator()(const Array& x) const {
  const DType t = compute_dtype("Conv", dtype, x, kernel.dtype());
  const int spatial = kernel.rank() - 2;
  Array y = convert(with_one_batch_axis("Conv", x, kernel), t);
  ConvolutionArguments arguments{.strides = strides,
                                 .lhs_dilation = input_dilation,
                                 .rhs_dilation = kernel_dilation,
                                 .groups = feature_group_count,
                                 .bias = bias};
  switch (padding) {
    case ConvPadding::same: arguments.padding = Padding::same(); break;
    case ConvPadding::given: arguments.padding = Padding::given(low, high); break;
    case ConvPadding::causal:
      arguments.padding = Padding::given({window(kernel.shape()[0], kernel_dilation, 0) - 1}, {0});
      break;
    case ConvPadding::circular:
    case ConvPadding::reflect:
      for (int axis = 0; axis < spatial; ++axis) {
        const std::int64_t taps = window(kernel.shape()[axis], kernel_dilation, axis);
        y = extended(y, axis + 1, (taps - 1) / 2, taps / 2, padding == ConvPadding::circular);
      }
      break;
    case ConvPadding::valid: break;
  }
  return noted(*this, with_batch_of(x, conv_general(y, masked(kernel, mask, t), arguments), spatial), x);
}

ConvTranspose::ConvTranspose(std::int64_t in, std::int64_t out, const Shape& kernel_size, Rngs& rngs,
                             const ConvTransposeOptions& o)
    : mask(o.mask),
      strides(o.strides),
      low(o.low),
      high(o.high),
      kernel_dilation(o.kernel_dilation),
      padding(o.padding),
      transpose_kernel(o.transpose_kernel),
      dtype(o.dtype) {
  require_extents("ConvTranspose", in, out, kernel_size);
  if (padding == ConvPadding::causal || padding == ConvPadding::reflect)
    fail<ValueError>("[ConvTranspose] padding is same, valid, circular or given");
  const Shape shape = transpose_kernel ? kernel_shape(kernel_size, out, in) : kernel_shape(kernel_size, in, out);
  kernel = o.kernel_init(rngs.params(), shape, o.param_dtype);
  require_mask("ConvTranspose", mask, kernel);
  if (o.use_bias) bias = o.bias_init(rngs.params(), {out}, o.param_dtype);
}

Array ConvTranspose::operator()(const Array& x) const {
  const DType t = compute_dtype("ConvTranspose", dtype, x, kernel.dtype());
  const int spatial = kernel.rank() - 2;
  const Array one = convert(with_one_batch_axis("ConvTranspose", x, kernel), t);
  const Array own = masked(kernel, mask, t), w = transpose_kernel ? swap_axes(own, -1, -2) : own;
  const Padding border = padding == ConvPadding::same    ? Padding::same()
                         : padding == ConvPadding::given ? Padding::given(low, high)
                                                         : Padding::valid();
  const bool around = padding == ConvPadding::circular;
  Array y = conv_transpose(one, w, strides, border, kernel_dilation, around ? std::optional<Array>() : bias,
                           transpose_kernel);
  if (around) {
    // The result is laid around circles of the input's extent times the stride, aligned as Flax aligns it.
    for (int axis = 1; axis <= spatial; ++axis) {
      const std::int64_t period = one.shape()[axis] * (strides.empty() ? 1 : strides[axis - 1]);
      if (period == 0) fail<ShapeError>("[ConvTranspose] axis {} of {} has nothing to repeat", axis, x.type());
      const std::int64_t over = (y.shape()[axis] - period) % (2 * period);
      const std::int64_t missing = over > 0 ? 2 * period - over : -over;
      Shape before = Shape::filled(y.rank(), 0), after = before;
      before[axis] = transpose_kernel ? missing / 2 : (missing + 1) / 2;
      after[axis] = missing - before[axis];
      y = eadem::pad(y, Array::scalar(0, t), before, after);
      Shape parted = y.shape();
      parted[axis] /= period;
      parted.insert(axis + 1, period);
      y = sum(reshape(y, parted), {axis});
    }
    if (bias) y = y + convert(*bias, t);
  }
  return noted(*this, with_batch_of(x, y, spatial), x);
}

}  // namespace eadem::nn
