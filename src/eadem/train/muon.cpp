#include "eadem/train/muon.h"

#include <algorithm>
#include <cmath>

namespace eadem::train {

Array newton_schulz(const Array& x, std::int64_t steps, double epsilon) {
  if (x.rank() != 2 || !is_floating(x.dtype()))
    fail<ShapeError>("[newton_schulz] needs a floating matrix, got {}", x.type());
  const Array wide = convert(x, DType::f64);
  const bool tall = x.shape()[0] > x.shape()[1];
  Array y = convert(wide / (global_norm(wide) + epsilon), DType::f32);
  if (tall) y = transpose(y);
  for (std::int64_t i = 0; i < steps; ++i) {
    const Array a = matmul(y, transpose(y));
    y = y * 3.4445 + matmul(a * -4.7750 + matmul(a, a) * 2.0315, y);
  }
  return tall ? transpose(y) : y;
}

detail::Rule Muon::rule() const {
  using detail::blended;
  return [*this, adam = others.rule()](const Array& p, const Array& g, std::vector<Array>& moments, const Array& step,
                                       const Array& lr) {
    if (moments[1].shape() == p.shape()) return adam(p, g, moments, step, others.rate(step));
    Array& m = moments[0];
    m = blended(b, m, g);
    const Array u = convert(newton_schulz(nesterov ? blended(b, m, g) : m, steps), DType::f64);
    const double scale =
        std::sqrt(std::max(1.0, static_cast<double>(p.shape()[1]) / static_cast<double>(p.shape()[0])));
    return p - lr * (decay == 0 ? u * scale : u * scale + p * decay);
  };
}

}  // namespace eadem::train
