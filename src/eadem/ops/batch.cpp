#include "eadem/ops/batch.h"

#include "eadem/ops/ops.h"

namespace eadem::ops {

Array merge_batch(const Array& x) {
  Shape shape = x.shape();
  shape[1] *= shape[0];
  shape.erase(0);
  return reshape(x, shape);
}
Array split_batch(const Array& x, std::int64_t batch, std::int64_t n) {
  Shape shape = x.shape();
  shape[0] = n;
  shape.insert(0, batch);
  return reshape(x, shape);
}

}  // namespace eadem::ops
