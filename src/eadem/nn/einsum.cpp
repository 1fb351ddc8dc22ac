#include "eadem/nn/einsum.h"

#include <algorithm>

#include "eadem/nn/tabulate.h"
#include "eadem/ops/ops.h"

namespace eadem::nn {

Einsum::Einsum(std::string text, const Shape& kernel_shape, std::optional<Shape> bias_shape, Rngs& rngs,
               const LinearOptions& options)
    : equation(std::move(text)), dtype(options.dtype) {
  std::erase(equation, ' ');
  if (equation.find("->") == std::string::npos || std::count(equation.begin(), equation.end(), ',') != 1)
    fail<ValueError>("[Einsum] '{}' must name two operands and the result, as 'ab,bc->ac'", equation);
  kernel = options.kernel_init(rngs.params(), kernel_shape, options.param_dtype);
  if (bias_shape) bias = options.bias_init(rngs.params(), *bias_shape, options.param_dtype);
}

Array Einsum::operator()(const Array& x) const {
  const DType t = compute_dtype("Einsum", dtype, x, kernel.dtype());
  Array y = einsum(equation, {convert(x, t), convert(kernel, t)});
  if (bias) {
    const std::size_t comma = equation.find(','), arrow = equation.find("->");
    const std::string labels = equation.substr(comma + 1, arrow - comma - 1);
    std::string result = equation.substr(arrow + 2);
    if (const std::size_t dots = result.find("..."); dots != std::string::npos)
      result.replace(dots, 3, static_cast<std::size_t>(y.rank()) + 3 - result.size(), '.');
    Shape shape;
    for (const char label : result) {
      const std::size_t at = label == '.' ? std::string::npos : labels.find(label);
      shape.push_back(at == std::string::npos ? 1 : kernel.shape()[static_cast<int>(at)]);
    }
    y = y + reshape(convert(*bias, t), shape);
  }
  return noted(*this, y, x);
}

}  // namespace eadem::nn
