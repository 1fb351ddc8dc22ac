#include "eadem/ops/indices.h"

#include "eadem/ops/infer.h"
#include "eadem/ops/ops.h"

namespace eadem::ops {

Array as_indices(std::string_view operation, const Array& indices) {
  if (!is_integer(indices.dtype())) fail<TypeError>("[{}] indices must be integers, got {}", operation, indices.type());
  if (indices.dtype() == DType::i64) return contiguous(indices);
  if (indices.traced()) return convert(indices, DType::i64);
  Array wide = Array::allocate({DType::i64, indices.shape()});
  std::int64_t* next = wide.view().as<std::int64_t>();
  visit(indices.dtype(), [&]<class T>(std::type_identity<T>) {
    if constexpr (IntegerElement<T>)
      for_each_index(indices.shape(), [&](const Shape& at) {
        const T value = *reinterpret_cast<const T*>(element_at(indices.view(), at));
        if (static_cast<std::uint64_t>(value) > INT64_MAX && value > 0)
          fail<ValueError>("[{}] index {} is beyond 64-bit signed integers", operation, value);
        *next++ = static_cast<std::int64_t>(value);
      });
  });
  return wide;
}

}  // namespace eadem::ops
