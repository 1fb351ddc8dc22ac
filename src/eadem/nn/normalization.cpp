#include "eadem/nn/normalization.h"

#include "eadem/nn/tabulate.h"
#include "eadem/ops/ops.h"

namespace eadem::nn {
namespace {

// The dtype of the result, once the input is found to have the features.
DType checked(std::string_view module, const Array& x, std::int64_t features, std::optional<DType> dtype,
              const std::optional<Array>& parameter) {
  if (x.rank() == 0 || x.extent(-1) != features)
    fail<ShapeError>("[{}] the last axis must be {}, got {}", module, features, x.type());
  return compute_dtype(module, dtype, x, parameter ? parameter->dtype() : x.dtype());
}

// A parameter as the primitives take it: in x's dtype or f32, whichever keeps its value; `value` where there is none.
Array prepared(const std::optional<Array>& parameter, double value, std::int64_t features, DType x) {
  if (!parameter) return full({features}, value, x);
  return parameter->dtype() == x || x == DType::f64 ? convert(*parameter, x) : convert(*parameter, DType::f32);
}

void require_features(std::string_view module, std::int64_t features) {
  if (features < 1) fail<ValueError>("[{}] features must be at least 1, got {}", module, features);
}

}  // namespace

LayerNorm::LayerNorm(std::int64_t count, Rngs& rngs, const NormOptions& options)
    : features(count), epsilon(options.epsilon), dtype(options.dtype) {
  require_features("LayerNorm", count);
  if (options.use_scale) scale = options.scale_init(rngs.params(), {count}, options.param_dtype);
  if (options.use_bias) bias = options.bias_init(rngs.params(), {count}, options.param_dtype);
}

Array LayerNorm::operator()(const Array& x) const {
  const DType t = checked("LayerNorm", x, features, dtype, scale ? scale : bias);
  if (!scale && !bias) return noted(*this, layer_norm(convert(x, t), epsilon), x);
  Array gamma = prepared(scale, 1, features, t), beta = prepared(bias, 0, features, t);
  if (gamma.dtype() != beta.dtype()) {  // one of x's dtype, one of f32: both exact in f32
    gamma = convert(gamma, DType::f32);
    beta = convert(beta, DType::f32);
  }
  return noted(*this, layer_norm(convert(x, t), gamma, beta, epsilon), x);
}

RMSNorm::RMSNorm(std::int64_t count, Rngs& rngs, const NormOptions& options)
    : features(count), epsilon(options.epsilon), dtype(options.dtype) {
  require_features("RMSNorm", count);
  if (options.use_scale) scale = options.scale_init(rngs.params(), {count}, options.param_dtype);
}

Array RMSNorm::operator()(const Array& x) const {
  const DType t = checked("RMSNorm", x, features, dtype, scale);
  return noted(*this, rms_norm(convert(x, t), prepared(scale, 1, features, t), epsilon), x);
}

}  // namespace eadem::nn
