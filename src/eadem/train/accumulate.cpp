#include "eadem/train/accumulate.h"

namespace eadem::train::detail {

Arrays TreeSum::sum(const Arrays& a, const Arrays& b) {
  Arrays result;
  for (std::size_t i = 0; i < a.size(); ++i) result.push_back(is_floating(a[i].dtype()) ? a[i] + b[i] : a[i]);
  return result;
}

void TreeSum::add(Arrays values) {
  for (Array& value : values)
    if (is_floating(value.dtype()) && value.dtype() != DType::f64) value = convert(value, DType::f32);
  Node node{std::move(values), 1};
  ++count_;
  while (!nodes_.empty() && nodes_.back().count == node.count) {
    node = {sum(nodes_.back().values, node.values), 2 * node.count};
    nodes_.pop_back();
  }
  nodes_.push_back(std::move(node));
}

Arrays TreeSum::mean() const {
  Arrays total = nodes_.back().values;
  for (std::size_t i = nodes_.size() - 1; i-- > 0;) total = sum(nodes_[i].values, total);
  for (Array& value : total)
    if (is_floating(value.dtype())) value = value / static_cast<double>(count_);
  return total;
}

Array part_of(const Array& batch, std::int64_t index, std::int64_t count) {
  if (batch.rank() == 0 || batch.shape()[0] % count != 0)
    fail<ShapeError>("[accumulate] axis 0 of {} has no {} equal parts", batch.type(), count);
  const std::int64_t rows = batch.shape()[0] / count;
  return slice_axis(batch, 0, {index * rows, (index + 1) * rows});
}

}  // namespace eadem::train::detail
