#pragma once

#include <string>

#include "eadem/nn/linear.h"

namespace eadem::nn {

/// einsum of the input and a kernel, plus a bias whose elements stand where the kernel's labels stand in the result.
struct Einsum {
  Array kernel;
  std::optional<Array> bias;
  std::string equation;
  std::optional<DType> dtype;

  /// Throws ValueError unless the equation has two operands and an arrow. `bias_shape`: none for no bias.
  Einsum(std::string text, const Shape& kernel_shape, std::optional<Shape> bias_shape, Rngs& rngs,
         const LinearOptions& options = {});
  Array operator()(const Array& x) const;
  static void fields(auto& m, auto f) {
    f("kernel", m.kernel), f("bias", m.bias), f("equation", m.equation), f("dtype", m.dtype);
  }
};

}  // namespace eadem::nn
