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

// Both of one dtype: where one is of x's and the other f32, they are exact in f32.
std::pair<Array, Array> prepared_pair(const std::optional<Array>& scale, const std::optional<Array>& bias,
                                      std::int64_t features, DType x) {
  const Array gamma = prepared(scale, 1, features, x), beta = prepared(bias, 0, features, x);
  if (gamma.dtype() == beta.dtype()) return {gamma, beta};
  return {convert(gamma, DType::f32), convert(beta, DType::f32)};
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
  const auto [gamma, beta] = prepared_pair(scale, bias, features, t);
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

GroupNorm::GroupNorm(std::int64_t count, std::int64_t group_count, Rngs& rngs, const NormOptions& options)
    : features(count), groups(group_count), epsilon(options.epsilon), dtype(options.dtype) {
  require_features("GroupNorm", count);
  if (groups < 1 || count % groups != 0)
    fail<ValueError>("[GroupNorm] {} groups must divide the {} features", groups, count);
  if (options.use_scale) scale = options.scale_init(rngs.params(), {count}, options.param_dtype);
  if (options.use_bias) bias = options.bias_init(rngs.params(), {count}, options.param_dtype);
}

Array GroupNorm::operator()(const Array& x) const {
  const DType t = checked("GroupNorm", x, features, dtype, scale ? scale : bias);
  if (x.rank() < 2) fail<ShapeError>("[GroupNorm] needs [N, .., {}], got {}", features, x.type());
  const auto [gamma, beta] = prepared_pair(scale, bias, features, t);
  return noted(*this, group_norm(convert(x, t), gamma, beta, groups, epsilon, -1), x);
}

BatchNorm::BatchNorm(std::int64_t count, Rngs& rngs, const BatchNormOptions& options)
    : mean(zeros({count})),
      var(ones({count})),
      features(count),
      axis(options.axis),
      momentum(options.momentum),
      epsilon(options.epsilon),
      use_running_average(options.use_running_average),
      dtype(options.dtype) {
  require_features("BatchNorm", count);
  if (!(momentum >= 0 && momentum <= 1)) fail<ValueError>("[BatchNorm] momentum must be in [0, 1], got {}", momentum);
  if (options.use_scale) scale = options.scale_init(rngs.params(), {count}, options.param_dtype);
  if (options.use_bias) bias = options.bias_init(rngs.params(), {count}, options.param_dtype);
}

BatchNorm::Prepared BatchNorm::prepare(const Array& x) const {
  if (x.rank() < 2 || x.extent(axis) != features)
    fail<ShapeError>("[BatchNorm] axis {} of an input [N, ..] must be {}, got {}", axis, features, x.type());
  const DType parameters = scale ? scale->dtype() : bias ? bias->dtype() : mean.dtype();
  const DType t = compute_dtype("BatchNorm", dtype, x, promote(parameters, mean.dtype()));
  const auto [gamma, beta] = prepared_pair(scale, bias, features, t);
  return {convert(x, t), gamma, beta};
}

Array BatchNorm::evaluate(const Array& x) const {
  const Prepared p = prepare(x);
  return batch_norm_inference(p.x, mean, var, p.gamma, p.beta, epsilon, axis);
}

Array BatchNorm::operator()(const Array& x, std::optional<bool> running) {
  if (running.value_or(use_running_average)) return noted(*this, evaluate(x), x);
  const Prepared p = prepare(x);
  const BatchNormResult batch = batch_norm(p.x, p.gamma, p.beta, epsilon, axis);
  const auto moved = [&](const Array& state, const Array& now) {
    const Array sum = convert(state, DType::f64) * momentum + convert(now, DType::f64) * (1 - momentum);
    return stop_gradient(convert(sum, state.dtype()));
  };
  mean = moved(mean, batch.mean);
  var = moved(var, batch.variance);
  return noted(*this, batch.y, x);
}

Array BatchNorm::operator()(const Array& x) const {
  if (!use_running_average)
    fail<ValueError>(
        "[BatchNorm] a constant module cannot move its moments: set use_running_average, or call one that may change");
  return noted(*this, evaluate(x), x);
}

}  // namespace eadem::nn
