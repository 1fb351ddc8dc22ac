#include "eadem/train/optimizers.h"

namespace eadem::train {

namespace detail {

Array scalar(double value) {
  return full({}, value, DType::f64);
}
Array blended(double decay, const Array& m, const Array& g) {
  return fma(scalar(decay), m, g * (1 - decay));
}

DType state_dtype(DType parameter) {
  return parameter == DType::f64 ? DType::f64 : DType::f32;
}

void update_leaf(Leaf& leaf, const Array& gradient, const Rule& rule, const Array& step, const Array& rate) {
  if (gradient.shape() != leaf.parameter.shape() || !is_floating(gradient.dtype()))
    fail<ShapeError>("[update] the gradient of {} is {}", leaf.parameter.type(), gradient.type());
  const DType kept = leaf.master.dtype();
  const auto wide = [](const Array& x) { return convert(x, DType::f64); };
  std::vector<Array> moments;
  for (const Array& each : leaf.moments) moments.push_back(wide(each));
  const Array next = rule(wide(leaf.master) + wide(leaf.rest), wide(gradient), moments, step, rate);
  leaf.master = convert(next, kept);
  // What is not finite leaves nothing.
  const Array left = next - wide(leaf.master);
  leaf.rest = convert(where(is_finite(left), left, zeros_like(left)), kept);
  leaf.parameter = leaf.parameter.dtype() == kept ? leaf.master : convert(next, leaf.parameter.dtype());
  for (std::size_t i = 0; i < moments.size(); ++i) leaf.moments[i] = convert(moments[i], leaf.moments[i].dtype());
}

}  // namespace detail

using detail::blended;
using detail::scalar;

detail::Rule Sgd::rule() const {
  return [momentum = momentum, nesterov = nesterov](const Array& p, const Array& g, std::vector<Array>& moments,
                                                    const Array&, const Array& lr) {
    if (moments.empty()) return p - lr * g;
    Array& m = moments[0];
    m = fma(scalar(momentum), m, g);
    return p - lr * (nesterov ? fma(scalar(momentum), m, g) : m);
  };
}

detail::Rule AdamW::rule() const {
  return [b1 = b1, b2 = b2, epsilon = epsilon, decay = decay](
             const Array& p, const Array& g, std::vector<Array>& moments, const Array& step, const Array& lr) {
    Array &m = moments[0], &v = moments[1];
    m = blended(b1, m, g);
    v = blended(b2, v, g * g);
    const Array t = convert(step, DType::f64) + 1.0;
    const Array m_hat = m / (1.0 - pow(scalar(b1), t)), v_hat = v / (1.0 - pow(scalar(b2), t));
    const Array move = m_hat / (sqrt(v_hat) + epsilon);
    return p - lr * (decay == 0 ? move : move + p * decay);
  };
}

detail::Rule Lion::rule() const {
  return [b1 = b1, b2 = b2, decay = decay](const Array& p, const Array& g, std::vector<Array>& moments, const Array&,
                                           const Array& lr) {
    Array& m = moments[0];
    const Array move = sign(blended(b1, m, g));
    m = blended(b2, m, g);
    return p - lr * (move + p * decay);
  };
}

Array global_norm(const Arrays& arrays) {
  Arrays all;
  for (const Array& each : arrays) {
    if (!is_floating(each.dtype())) continue;
    all.push_back(reshape(convert(each, DType::f64), {each.elements()}));
  }
  return all.empty() ? scalar(0) : norm(concatenate(all, 0));
}

}  // namespace eadem::train
