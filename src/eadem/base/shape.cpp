#include "eadem/base/shape.h"

#include <fmt/format.h>

namespace eadem {

int normalize_axis(std::string_view operation, std::int64_t axis, int rank) {
  if (axis < -rank || axis >= rank)
    fail<ShapeError>("[{}] axis {} is out of range for an array of rank {}", operation, axis, rank);
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

Shape broadcast_shapes(std::string_view operation, const Shape& a, const Shape& b) {
  const int rank = std::max(a.rank(), b.rank());
  Shape result = Shape::filled(rank, 1);
  for (int i = 1; i <= rank; ++i) {
    const std::int64_t x = i <= a.rank() ? a[a.rank() - i] : 1, y = i <= b.rank() ? b[b.rank() - i] : 1;
    if (x != y && x != 1 && y != 1)
      fail<ShapeError>("[{}] shapes {} and {} do not broadcast: axis {} is {} in one and {} in the other", operation, a,
                       b, -i, x, y);
    result[rank - i] = x == 1 ? y : x;
  }
  return result;
}

std::int64_t checked_elements(std::string_view operation, const Shape& shape) {
  std::int64_t product = 1;
  bool empty = false, overflow = false;
  for (const std::int64_t extent : shape) {
    if (extent < 0) fail<ShapeError>("[{}] extents must not be negative, got {}", operation, shape);
    empty |= extent == 0;
    overflow |= __builtin_mul_overflow(product, std::max<std::int64_t>(extent, 1), &product);
  }
  // 16 bytes an element leave room for every byte count and pointer difference.
  if (overflow || product > (std::int64_t{1} << 59))
    fail<ShapeError>("[{}] {} has more elements than memory can address", operation, shape);
  return empty ? 0 : product;
}

}  // namespace eadem

fmt::appender fmt::formatter<eadem::Shape>::format(const eadem::Shape& shape, fmt::format_context& context) const {
  return fmt::format_to(context.out(), "[{}]", fmt::join(shape.begin(), shape.end(), ","));
}
