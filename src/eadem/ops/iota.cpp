#include "eadem/array/trace.h"
#include "eadem/base/parallel.h"
#include "eadem/numerics/rounding.h"
#include "eadem/ops/catalog.h"
#include "eadem/ops/infer.h"
#include "eadem/ops/ops.h"

namespace eadem {
namespace {

struct IotaAttribute {
  DType dtype = DType::i64;
  Shape shape;
  std::int64_t axis = 0;
  static constexpr auto fields() {
    return std::tuple(field("dtype", &IotaAttribute::dtype), field("shape", &IotaAttribute::shape),
                      field("axis", &IotaAttribute::axis));
  }
};

template <class T>
T number(std::int64_t i) {
  if constexpr (FloatingElement<T>)
    return numerics::round_to<T>(static_cast<double>(i));
  else
    return static_cast<T>(i);
}

void fill(const Launch& launch, std::int64_t begin, std::int64_t end) {
  const TensorView& result = launch.results[0];
  const int axis = static_cast<int>(launch.as<IotaAttribute>().axis);
  const std::int64_t inner = result.strides[axis], extent = result.shape[axis];
  visit(result.dtype, [&]<class T>(std::type_identity<T>) {
    for (std::int64_t i = begin; i < end; ++i) result.as<T>()[i] = number<T>(i / inner % extent);
  });
}

}  // namespace

constinit const Primitive prim::iota{
    .name = "iota",
    .summary = "0, 1, 2, ... along an axis; integers wrap, floats are rounded.",
    .attributes = &kAttributesOf<IotaAttribute>,
    .infer = [](const Signature& s) -> Types {
      ops::require_operands("iota", s, 0);
      const auto& a = s.as<IotaAttribute>();
      if (a.dtype == DType::boolean) fail<TypeError>("[iota] bool does not count");
      checked_elements("iota", a.shape);
      ops::require_axis("iota", a.axis, a.shape.rank());
      return {{a.dtype, a.shape}};
    },
    .reference = [](const Launch& launch) { fill(launch, 0, launch.results[0].elements()); },
    .run = Kernel{[](const Launch& launch, Context&) {
      parallel_for(launch.results[0].elements(), 8192,
                   [&](std::int64_t begin, std::int64_t end) { fill(launch, begin, end); });
    }},
    .samples =
        [](SampleSink& sink) {
          sink.add({}, IotaAttribute{DType::f32, {3, 5}, 0});
          sink.add({}, IotaAttribute{DType::bf16, {300}, 0});
          sink.add({}, IotaAttribute{DType::i8, {2, 300, 2}, 1});
          sink.add({}, IotaAttribute{DType::u64, {0, 2}, 1});
        },
    .promote = Promote::keep};

Array iota(DType dtype, const Shape& shape, std::int64_t axis) {
  return apply(prim::iota, {}, IotaAttribute{dtype, shape, normalize_axis("iota", axis, shape.rank())});
}
Array arange(std::int64_t count, DType dtype) {
  return iota(dtype, {count}, 0);
}

Array full(const Shape& shape, double value, DType dtype) {
  return broadcast_to(Array::scalar(value, dtype), shape);
}
Array constant(const Array& x) {
  Trace* trace = Trace::current();
  return trace ? trace->permitted_capture(x) : x;
}

}  // namespace eadem
