#include "eadem/ops/products.h"

#include <algorithm>

#include "eadem/ops/ops.h"

namespace eadem::ops {

Array shifted(const Array& x, std::int64_t by, double value) {
  const std::int64_t places = std::clamp(by, -x.extent(-1), x.extent(-1));
  Shape low = Shape::filled(x.rank(), 0), high = low;
  low.back() = places;
  high.back() = -places;
  return pad(x, Array::scalar(value, x.dtype()), low, high);
}

Array products_before(const Array& x) {
  Array y = shifted(x, 1, 1);
  for (std::int64_t step = 1; step < x.extent(-1); step *= 2) y = y * shifted(y, step, 1);
  return y;
}

}  // namespace eadem::ops
