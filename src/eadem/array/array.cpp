#include "eadem/array/array.h"

#include <cmath>
#include <limits>
#include <new>
#include <utility>

#include "eadem/base/float_environment.h"
#include "eadem/numerics/convert.h"
#include "eadem/numerics/rounding.h"

namespace eadem {

Array::Array() : Array(allocate({DType::f32, {0}})) {}

Array::Array(BufferRef buffer, const TensorView& view) : buffer_(std::move(buffer)), view_(view) {
  view_.buffer = buffer_.get();
}

Array::Array(std::shared_ptr<const TraceMark> trace, std::int32_t id, const TensorType& type)
    : view_{nullptr, type.dtype, type.shape, contiguous_strides(type.shape)}, trace_(std::move(trace)), id_(id) {}

Array Array::donated(const TensorType& type, std::string who) {
  return Array(std::make_shared<const TraceMark>(TraceMark{std::move(who), nullptr, true}), -1, type);
}

void Array::refuse_traced() const {
  if (trace_->donated)
    fail<ValueError>("[array] a value of type {} is used after its memory was donated to {}", type(), trace_->who);
  if (trace_->open)
    fail<ValueError>("[array] a value of type {} was read while {} is tracing: it has no elements yet", type(),
                     trace_->who);
  fail<ValueError>("[array] a value of type {} is used after {}, which traced it, has ended", type(), trace_->who);
}

Array Array::allocate(const TensorType& type) {
  const std::int64_t elements = checked_elements("array", type.shape);
  try {
    BufferRef buffer = Buffer::allocate(static_cast<std::size_t>(elements) * size_of(type.dtype));
    const TensorView view = contiguous_view(buffer->data(), type.dtype, type.shape);
    return Array(std::move(buffer), view);
  } catch (const std::bad_alloc&) {
    fail<MemoryError>("[array] there is not enough memory for {}", type);
  }
}

namespace {

template <class I>
void write_integer(I value, const TensorView& to) {
  const FloatEnvironment environment;
  visit(to.dtype, [&]<class T>(std::type_identity<T>) {
    if constexpr (IntegerElement<T>)
      if (!std::in_range<T>(value)) fail<ValueError>("[scalar] {} is not a value of {}", value, to.dtype);
    *to.as<T>() = numerics::convert<T>(value);
  });
}

}  // namespace

Array Array::integer_scalar(std::int64_t value, DType dtype) {
  Array result = allocate({dtype, {}});
  write_integer(value, result.view_);
  return result;
}
Array Array::integer_scalar(std::uint64_t value, DType dtype) {
  Array result = allocate({dtype, {}});
  write_integer(value, result.view_);
  return result;
}

Array Array::scalar(double value, DType dtype) {
  const FloatEnvironment environment;
  Array result = allocate({dtype, {}});
  visit(dtype, [&]<class T>(std::type_identity<T>) {
    if constexpr (FloatingElement<T>)
      *result.view_.as<T>() = numerics::round_to<T>(value);
    else if constexpr (std::same_as<T, bool>)
      *result.view_.as<T>() = value != 0;
    else {
      constexpr auto low = static_cast<double>(std::numeric_limits<T>::min());
      const double end = std::ldexp(1.0, std::numeric_limits<T>::digits);
      if (!(value >= low && value < end) || std::trunc(value) != value)
        fail<ValueError>("[scalar] {} is not a value of {}", value, dtype);
      *result.view_.as<T>() = static_cast<T>(value);
    }
  });
  return result;
}

}  // namespace eadem
