#include "eadem/ops/elementwise.h"

#include "eadem/ops/ops.h"

namespace eadem::ops {

void detail::refuse_dtype(std::string_view name, bool (*takes)(DType), const TensorType& got) {
  std::string names;
  for (int i = 0; i < kDTypeCount; ++i)
    if (takes(static_cast<DType>(i))) names += (names.empty() ? "" : " ") + std::string(name_of(static_cast<DType>(i)));
  fail<TypeError>("[{}] takes operands of dtype {}; got {}", name, names, got);
}

void detail::require_one_type(std::string_view name, const Signature& signature, std::size_t count) {
  require_operands(name, signature, count);
  const TensorType& first = signature.operands[0];
  for (const TensorType& type : signature.operands) {
    if (type.dtype != first.dtype)
      fail<TypeError>("[{}] operands must have one dtype, got {} and {}", name, first, type);
    if (type.shape != first.shape)
      fail<ShapeError>("[{}] operands must have one shape, got {} and {}", name, first, type);
  }
}

void detail::add_samples(SampleSink& sink, bool (*takes)(DType), std::size_t operands) {
  const auto add = [&](DType dtype, const Shape& shape, Fill fill) {
    if (takes(dtype)) sink.add(std::vector<SampleOperand>(operands, {dtype, shape, fill}));
  };
  for (int i = 0; i < kDTypeCount; ++i) add(static_cast<DType>(i), {5, 29}, Fill::edges);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    add(dtype, {9, 1031}, Fill::normal);
    add(dtype, {3, 2, 67}, Fill::wide);
    add(dtype, {601}, Fill::unit);
  }
  add(DType::i32, {4, 77}, Fill::positive);
  for (const DType dtype : {DType::f32, DType::i64, DType::boolean}) {
    add(dtype, {}, Fill::normal);
    add(dtype, {3, 0}, Fill::normal);
  }
}

std::pair<Array, Array> matched(std::string_view name, const Array& a, const Array& b) {
  const DType dtype = promote(a.dtype(), b.dtype());
  const Shape shape = broadcast_shapes(name, a.shape(), b.shape());
  const auto match = [&](const Array& x) {
    const Array converted = x.dtype() == dtype ? x : convert(x, dtype);
    return converted.shape() == shape ? converted : broadcast_to(converted, shape);
  };
  return {match(a), match(b)};
}

Array as_floating(const Array& x) {
  return is_floating(x.dtype()) ? x : convert(x, DType::f32);
}

}  // namespace eadem::ops
