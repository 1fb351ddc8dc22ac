#include "eadem/nn/weight.h"

#include <vector>

#include "eadem/base/float_environment.h"
#include "eadem/ops/ops.h"

namespace eadem::nn {

Weight Weight::dense(Array matrix) {
  if (!is_floating(matrix.dtype()) || matrix.rank() != 2)
    fail<ShapeError>("[weight] a dense weight must be floating with two axes, got {}", matrix.type());
  return Weight(std::move(matrix));
}

Weight Weight::quantized(std::span<const Named> parts) {
  const FloatEnvironment environment;  // scales are rounded here, outside of launches
  std::vector<numerics::QuantizedMatrix> matrices;
  try {
    for (const Named& part : parts) {
      numerics::require_finite(part.name, part.matrix);
      matrices.push_back(part.matrix);
    }
  } catch (const ValueError& error) {
    throw FileError(error.what());
  }
  return Weight(std::make_shared<const kernels::PackedQuantized>(kernels::pack(matrices)));
}

const kernels::PackedQuantized* Weight::packed() const {
  const Packed* packed = std::get_if<Packed>(&form_);
  return packed ? packed->get() : nullptr;
}

Shape Weight::shape() const {
  if (const Array* dense = array()) return dense->shape();
  return {packed()->rows, packed()->columns};
}

std::int64_t Weight::bytes() const {
  if (const Array* dense = array()) return dense->elements() * static_cast<std::int64_t>(size_of(dense->dtype()));
  return static_cast<std::int64_t>(packed()->bytes());
}

Array linear(const Array& x, const Weight& weight, const std::optional<Array>& bias, std::optional<DType> result) {
  if (const Array* dense = weight.array()) return eadem::linear(x, *dense, bias, result);
  return quantized_linear(x, *weight.packed(), bias, result);
}

Array embed(const Weight& weight, const Array& indices, DType dtype) {
  if (const Array* dense = weight.array()) {
    const Array rows = take(*dense, indices, 0);
    return rows.dtype() == dtype ? rows : convert(rows, dtype);
  }
  return quantized_take(*weight.packed(), indices, dtype);
}

}  // namespace eadem::nn
