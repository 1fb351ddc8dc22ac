#include "eadem/nn/linear.h"

#include <algorithm>

#include "eadem/nn/tabulate.h"
#include "eadem/ops/ops.h"

namespace eadem::nn {
namespace {

void require_positive(std::string_view module, std::string_view what, const Shape& shape) {
  for (const std::int64_t extent : shape)
    if (extent < 1) fail<ValueError>("[{}] {} must be at least 1, got {}", module, what, shape);
}

Shape joined(const Shape& a, const Shape& b) {
  Shape both = a;
  for (const std::int64_t extent : b) both.push_back(extent);
  return both;
}

}  // namespace

DType compute_dtype(std::string_view module, std::optional<DType> dtype, const Array& x, DType parameter) {
  const DType chosen = dtype ? *dtype : promote(is_floating(x.dtype()) ? x.dtype() : DType::f32, parameter);
  if (!is_floating(chosen)) fail<TypeError>("[{}] computes in a floating dtype, got {}", module, chosen);
  return chosen;
}

Linear::Linear(std::int64_t in, std::int64_t out, Rngs& rngs, const LinearOptions& options) : dtype(options.dtype) {
  require_positive("Linear", "features", {in, out});
  kernel = options.kernel_init(rngs.params(), {in, out}, options.param_dtype);
  if (options.use_bias) bias = options.bias_init(rngs.params(), {out}, options.param_dtype);
}

Array Linear::operator()(const Array& x) const {
  const DType t = compute_dtype("Linear", dtype, x, kernel.dtype());
  return noted(*this, linear(convert(x, t), transpose(convert(kernel, t)), bias), x);
}

LinearGeneral::LinearGeneral(const Shape& in, const Shape& out, Rngs& rngs, const LinearOptions& options,
                             Shape contracted)
    : axes(std::move(contracted)), dtype(options.dtype) {
  require_positive("LinearGeneral", "features", joined(in, out));
  if (in.rank() != axes.rank())
    fail<ValueError>("[LinearGeneral] needs an axis for each of the features {}, got axes {}", in, axes);
  const Array matrix = options.kernel_init(rngs.params(), {in.elements(), out.elements()}, options.param_dtype);
  kernel = reshape(matrix, joined(in, out));
  if (options.use_bias) bias = reshape(options.bias_init(rngs.params(), {out.elements()}, options.param_dtype), out);
}

Array LinearGeneral::operator()(const Array& x) const {
  const DType t = compute_dtype("LinearGeneral", dtype, x, kernel.dtype());
  const int rank = x.rank();
  std::vector<std::int64_t> contracted;
  for (const std::int64_t axis : axes) contracted.push_back(normalize_axis("LinearGeneral", axis, rank));
  std::sort(contracted.begin(), contracted.end());
  Shape order, result;
  for (int axis = 0; axis < rank; ++axis) {
    if (std::find(contracted.begin(), contracted.end(), axis) != contracted.end()) continue;
    order.push_back(axis);
    result.push_back(x.shape()[axis]);
  }
  Shape rows = result, out;
  for (std::size_t i = 0; i < contracted.size(); ++i) {
    order.push_back(contracted[i]);
    if (order.rank() > rank || x.shape()[static_cast<int>(contracted[i])] != kernel.shape()[static_cast<int>(i)])
      fail<ShapeError>("[LinearGeneral] axes {} of x {} must have the first extents of the kernel {}", axes, x.type(),
                       kernel.type());
  }
  for (int axis = axes.rank(); axis < kernel.rank(); ++axis) out.push_back(kernel.shape()[axis]);
  const std::int64_t k = kernel.elements() / out.elements();
  rows.push_back(k);
  const Array matrix = reshape(convert(kernel, t), {k, out.elements()});
  std::optional<Array> flat_bias;
  if (bias) flat_bias = reshape(*bias, {out.elements()});
  const Array y = linear(reshape(transpose(convert(x, t), order), rows), transpose(matrix), flat_bias);
  return noted(*this, reshape(y, joined(result, out)), x);
}

Embed::Embed(std::int64_t count, std::int64_t features, Rngs& rngs, const EmbedOptions& options)
    : dtype(options.dtype) {
  require_positive("Embed", "extents", {count, features});
  embedding = options.embedding_init(rngs.params(), {count, features}, options.param_dtype);
}

Array Embed::operator()(const Array& indices) const {
  return noted(*this, convert(take(embedding, indices, 0), dtype.value_or(embedding.dtype())), indices);
}

Array Embed::attend(const Array& x) const {
  const DType t = compute_dtype("Embed", dtype, x, embedding.dtype());
  return linear(convert(x, t), convert(embedding, t));
}

}  // namespace eadem::nn
