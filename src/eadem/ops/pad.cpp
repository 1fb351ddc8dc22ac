#include "eadem/kernels/move/copy.h"
#include "eadem/ops/catalog.h"
#include "eadem/ops/infer.h"
#include "eadem/ops/ops.h"
#include "eadem/ops/rules.h"

namespace eadem {
namespace {

struct PadAttribute {
  Shape low, high, interior;
  static constexpr auto fields() {
    return std::tuple(field("low", &PadAttribute::low), field("high", &PadAttribute::high),
                      field("interior", &PadAttribute::interior));
  }
};

Types infer(const Signature& s) {
  ops::require_operands("pad", s, 2);
  const TensorType &x = s.operands[0], &value = s.operands[1];
  const auto& a = s.as<PadAttribute>();
  const int rank = x.shape.rank();
  if (value.dtype != x.dtype || value.shape.rank() != 0)
    fail<TypeError>("[pad] the value must be {}[], got {}", x.dtype, value);
  if (a.low.rank() != rank || a.high.rank() != rank || a.interior.rank() != rank)
    fail<ShapeError>("[pad] {} needs {} low, high and interior amounts, got {}, {}, {}", x, rank, a.low, a.high,
                     a.interior);
  Shape shape = x.shape;
  for (int i = 0; i < rank; ++i) {
    constexpr std::int64_t kMost = std::int64_t{1} << 59;  // more than memory holds, and small enough to compute with
    if (a.interior[i] > kMost || a.low[i] > kMost || a.low[i] < -kMost || a.high[i] > kMost || a.high[i] < -kMost)
      fail<ValueError>("[pad] low {}, high {}, interior {} of axis {} are beyond 2^59", a.low[i], a.high[i],
                       a.interior[i], i);
    if (a.interior[i] < 0) fail<ValueError>("[pad] interior padding of axis {} is {}", i, a.interior[i]);
    std::int64_t between = 0;
    bool overflow = __builtin_mul_overflow(std::max<std::int64_t>(x.shape[i] - 1, 0), a.interior[i], &between);
    for (const std::int64_t part : {between, a.low[i], a.high[i]})
      overflow |= __builtin_add_overflow(shape[i], part, &shape[i]);
    if (overflow || shape[i] < 0)
      fail<ShapeError>("[pad] axis {} of {} with low {}, high {}, interior {} has no extent", i, x, a.low[i], a.high[i],
                       a.interior[i]);
  }
  checked_elements("pad", shape);
  return {{x.dtype, shape}};
}

void reference(const Launch& launch) {
  const TensorView &x = launch.operands[0], &value = launch.operands[1], &result = launch.results[0];
  const auto& a = launch.as<PadAttribute>();
  ops::for_each_index(result.shape, [&](const Shape& index) {
    Shape from = index;
    bool inside = true;
    for (int i = 0; i < from.rank(); ++i) {
      const std::int64_t position = index[i] - a.low[i], step = a.interior[i] + 1;
      inside = inside && position >= 0 && position % step == 0 && position / step < x.shape[i];
      from[i] = position / step;
    }
    ops::move_element(result.dtype, inside ? ops::element_at(x, from) : value.data, ops::element_at(result, index));
  });
}

void run(const Launch& launch, Context&) {
  TensorView x = launch.operands[0], window = launch.results[0], fill = window;
  const auto& a = launch.as<PadAttribute>();
  fill.data = launch.operands[1].data;
  fill.strides = Shape::filled(fill.shape.rank(), 0);
  kernels::copy(fill, window);
  const auto size = static_cast<std::int64_t>(size_of(x.dtype));
  for (int i = 0; i < x.shape.rank(); ++i) {
    // Elements first .. last of x land inside the result.
    const std::int64_t step = a.interior[i] + 1, extent = window.shape[i];
    const std::int64_t first = a.low[i] >= 0 ? 0 : (-a.low[i] + step - 1) / step;
    const std::int64_t room = extent - 1 - a.low[i];
    const std::int64_t last = room < 0 ? -1 : std::min(x.shape[i] - 1, room / step);
    if (first > last) return;
    x.data += first * x.strides[i] * size;
    window.data += (a.low[i] + first * step) * window.strides[i] * size;
    x.shape[i] = window.shape[i] = last - first + 1;
    window.strides[i] *= step;
  }
  kernels::copy(x, window);
}

void vjp(Vjp& g) {
  const auto& a = g.as<PadAttribute>();
  const Array zero = zeros({}, g.ct().dtype());
  if (g.wants(0)) {
    Shape low = a.low, high = a.high;
    std::vector<Slice> every;
    for (int i = 0; i < low.rank(); ++i) {
      low[i] = -low[i];
      high[i] = -high[i];
      every.push_back({std::nullopt, std::nullopt, a.interior[i] + 1});
    }
    g.add_canonical(0, slice(pad(g.ct(), zero, low, high), every));
  }
  if (g.wants(1)) {
    Shape axes;
    for (int i = 0; i < a.low.rank(); ++i) axes.push_back(i);
    const Array is_value =
        pad(zeros(g.in(0).shape(), DType::boolean), ones({}, DType::boolean), a.low, a.high, a.interior);
    g.add_canonical(1, sum(where(is_value, g.ct(), zero), axes));
  }
}

void jvp(Jvp& j) {
  j.add_canonical(apply(prim::pad, {j.tangent(0), j.tangent(1)}, j.as<PadAttribute>()));
}

void batch(Batch& b) {
  if (b.batched(1)) return b.set_by_slices();
  PadAttribute a = b.as<PadAttribute>();
  for (Shape* amounts : {&a.low, &a.high, &a.interior}) amounts->insert(0, 0);
  b.set(apply(prim::pad, {b.in(0), b.in(1)}, a));
}

}  // namespace

constinit const Primitive prim::pad{
    .name = "pad",
    .summary = "Pads or crops each axis, and between its elements, with a value.",
    .attributes = &kAttributesOf<PadAttribute>,
    .infer = infer,
    .reference = reference,
    .run = Kernel{run},
    .vjp = vjp,
    .jvp = jvp,
    .batch = batch,
    .samples = [](SampleSink& sink) {
      sink.add({{DType::f32, {3, 4}, Fill::edges}, {DType::f32, {}}}, PadAttribute{{1, 0}, {2, 3}, {0, 2}});
      sink.add({{DType::i32, {7}, Fill::wide}, {DType::i32, {}}}, PadAttribute{{-3}, {-1}, {1}});
      sink.add({{DType::bf16, {0, 2}}, {DType::bf16, {}}}, PadAttribute{{2, 1}, {1, 0}, {3, 0}});
      sink.add({{DType::u8, {3}, Fill::wide}, {DType::u8, {}}}, PadAttribute{{-5}, {4}, {0}});
    }};

Array pad(const Array& x, const Array& value, const Shape& low, const Shape& high, const Shape& interior) {
  return apply(prim::pad, {x, value},
               PadAttribute{low, high, interior.empty() ? Shape::filled(x.rank(), 0) : interior});
}

}  // namespace eadem
