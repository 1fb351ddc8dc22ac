#include "eadem/ops/reductions.h"

#include "eadem/kernels/reduce/reduce.h"
#include "eadem/kernels/rows/rows.h"
#include "eadem/numerics/reduction.h"
#include "eadem/numerics/reduction_views.h"
#include "eadem/ops/catalog.h"
#include "eadem/ops/ops.h"
#include "eadem/ops/products.h"
#include "eadem/ops/rules.h"

namespace eadem {
namespace ops {

void require_floating_rows(std::string_view operation, const TensorType& x) {
  if (!is_floating(x.dtype)) fail<TypeError>("[{}] needs a floating-point array, got {}", operation, x);
  if (x.shape.empty()) fail<ShapeError>("[{}] needs at least one axis, got the scalar {}", operation, x);
}

Shape normalize_axes(std::string_view operation, const Shape& axes, int rank) {
  Shape sorted;
  for (const std::int64_t axis : axes) sorted.push_back(normalize_axis(operation, axis, rank));
  std::sort(sorted.begin(), sorted.end());
  for (int i = 1; i < sorted.rank(); ++i) {
    if (sorted[i] == sorted[i - 1]) fail<ShapeError>("[{}] axis {} is given twice", operation, sorted[i]);
  }
  return sorted;
}

Array move_axis_last(const Array& x, int axis) {
  if (axis == x.rank() - 1) return x;
  Shape order;
  for (int i = 0; i < x.rank(); ++i) {
    if (i != axis) order.push_back(i);
  }
  order.push_back(axis);
  return transpose(x, order);
}
Array move_axis_back(const Array& x, int axis) {
  if (axis == x.rank() - 1) return x;
  Shape order;
  for (int i = 0; i < x.rank() - 1; ++i) order.push_back(i);
  order.insert(axis, x.rank() - 1);
  return transpose(x, order);
}

Shape kept_axes(std::string_view operation, const TensorType& x, const Shape& axes) {
  Shape shape;
  int next = 0;
  for (int axis = 0; axis < x.shape.rank(); ++axis) {
    if (next < axes.rank() && axes[next] == axis)
      ++next;
    else
      shape.push_back(x.shape[axis]);
  }
  if (next != axes.rank()) fail<ShapeError>("[{}] axes {} of {} are not ascending axes of it", operation, axes, x);
  return shape;
}

Array spread(const Array& reduced, const Shape& axes, const Shape& shape) {
  Shape kept = shape;
  for (const std::int64_t axis : axes) kept[static_cast<int>(axis)] = 1;
  return broadcast_to(reshape(reduced, kept), shape);
}

}  // namespace ops

namespace {

using ops::AxesAttribute;
using ops::Number;
using ops::spread;

struct VarianceAttribute {
  Shape axes;
  double ddof = 0;
  static constexpr auto fields() {
    return std::tuple(field("axes", &VarianceAttribute::axes), field("ddof", &VarianceAttribute::ddof));
  }
};

DType same_dtype(DType t) {
  return t;
}
DType sum_dtype(DType t) {
  return is_floating(t) ? t : is_unsigned_integer(t) ? DType::u64 : DType::i64;
}
DType mean_dtype(DType t) {
  return is_floating(t) ? t : DType::f32;
}
DType bool_dtype(DType) {
  return DType::boolean;
}
DType index_dtype(DType) {
  return DType::i64;
}

template <class Attribute, DType (*dtype)(DType), bool needs_elements>
Types infer(std::string_view name, const Signature& s) {
  ops::require_operands(name, s, 1);
  const TensorType& x = s.operands[0];
  const Shape& axes = s.as<Attribute>().axes;
  const Shape shape = ops::kept_axes(name, x, axes);
  if (needs_elements) {
    for (const std::int64_t axis : axes) {
      if (x.shape[static_cast<int>(axis)] == 0) {
        fail<ShapeError>("[{}] has no value over no elements: axis {} of {} is empty", name, axis, x);
      }
    }
  }
  return {{dtype(x.dtype), shape}};
}

// The reference: f(elements in row-major order) for each output.
template <class Attribute, class F>
void reference(const Launch& launch, F f) {
  const TensorView &x = launch.operands[0], &result = launch.results[0];
  visit(x.dtype, [&]<class T>(std::type_identity<T>) {
    using N = Number<T>;
    numerics::for_each_reduction<N>(x, launch.as<Attribute>().axes, [&](std::span<const N> row, std::int64_t output) {
      const auto value = f(row);
      reinterpret_cast<std::remove_const_t<decltype(value)>*>(result.data)[output] = value;
    });
  });
}

template <void (*kernel)(const TensorView&, const Shape&, const TensorView&)>
void run(const Launch& launch, Context&) {
  kernel(launch.operands[0], launch.as<AxesAttribute>().axes, launch.results[0]);
}

// The axis of x that is this axis of what the reduction leaves.
int kept_axis(const Signature& s, std::size_t, int axis) {
  for (const std::int64_t reduced : s.as<AxesAttribute>().axes) axis += reduced <= axis;
  return axis;
}

constexpr DType kAllDtypes[] = {DType::f64, DType::f32, DType::bf16, DType::f16, DType::i8,  DType::i16,    DType::i32,
                                DType::i64, DType::u8,  DType::u16,  DType::u32, DType::u64, DType::boolean};

// Every dtype, sets of axes, hard values, rows long enough for blocks and short ones for tails.
template <class Attribute>
void samples(SampleSink& sink) {
  const auto add = [&](DType dtype, const Shape& shape, Fill fill, const Shape& axes) {
    Attribute attribute;
    attribute.axes = axes;
    sink.add({{dtype, shape, fill}}, attribute);
  };
  for (const DType dtype : kAllDtypes) add(dtype, {3, 5, 19}, Fill::normal, {2});
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
    add(dtype, {4, 37}, Fill::edges, {1});
    add(dtype, {37, 9}, Fill::wide, {0});
    add(dtype, {2, 4099}, Fill::normal, {1});
  }
  add(DType::f32, {3, 4, 5, 6}, Fill::normal, {0, 2});
  add(DType::f32, {3, 4, 5}, Fill::normal, {0, 1, 2});
  add(DType::f32, {3, 4}, Fill::normal, {});
  add(DType::i8, {100, 40}, Fill::wide, {0});
}
void samples_with_empty(SampleSink& sink) {
  samples<AxesAttribute>(sink);
  sink.add({{DType::f32, {3, 0}}}, AxesAttribute{{1}});
  sink.add({{DType::i32, {0, 4}}}, AxesAttribute{{0}});
}

Shape all_axes(const Array& x) {
  Shape axes;
  for (int axis = 0; axis < x.rank(); ++axis) axes.push_back(axis);
  return axes;
}

template <class Attribute>
void reduce_batch(Batch& b) {
  Attribute attribute = b.as<Attribute>();
  attribute.axes = ops::behind_batch(attribute.axes);
  b.set(apply(b.primitive(), {b.in()}, attribute));
}

// How many elements each result is made of.
double count_of(const Point& p, const Shape& axes) {
  double count = 1;
  for (const std::int64_t axis : axes) count *= static_cast<double>(p.in().extent(axis));
  return count;
}

// The quotient is exact in f64 but for its last place, whatever the dtype makes of the count.
void mean_vjp(Vjp& g) {
  const Shape& axes = g.as<AxesAttribute>().axes;
  const Array share = convert(g.ct(), DType::f64) / count_of(g, axes);
  g.add(0, spread(convert(share, g.in().dtype()), axes, g.in().shape()));
}

void variance_vjp(Vjp& g) {
  const auto& a = g.as<VarianceAttribute>();
  const Array x = convert(g.in(), DType::f64), ct = spread(convert(g.ct(), DType::f64), a.axes, x.shape());
  const Array slope = (x - mean(x, a.axes, true)) * (2 / (count_of(g, a.axes) - a.ddof));
  g.add(0, convert(ops::through(ct, ops::times(slope)), g.in().dtype()));
}

void prod_vjp(Vjp& g) {
  const Shape& axes = g.as<AxesAttribute>().axes;
  const Array& x = g.in();
  if (x.elements() == 0) return g.add_canonical(0, zeros_like(x));
  // The reduced axes as one, last.
  Shape order, rows;
  for (int axis = 0; axis < x.rank(); ++axis)
    if (std::find(axes.begin(), axes.end(), axis) == axes.end()) {
      order.push_back(axis);
      rows.push_back(x.shape()[axis]);
    }
  for (const std::int64_t axis : axes) order.push_back(axis);
  const Array moved = transpose(convert(x, DType::f64), order);
  rows.push_back(axes.empty() ? 1 : static_cast<std::int64_t>(count_of(g, axes)));
  const Array flat = reshape(moved, rows);
  const int last = flat.rank() - 1;
  const ops::Scaled factors = ops::scaled(flat), before = ops::products_before(factors);
  const auto reversed = [&](const ops::Scaled& each) {
    return ops::Scaled{reverse(each.significand, {last}), reverse(each.exponent, {last})};
  };
  const ops::Scaled others = before * reversed(ops::products_before(reversed(factors)));
  const ops::Scaled ct = ops::scaled(broadcast_to(expand_dims(convert(g.ct(), DType::f64), -1), rows));
  Shape back = order;
  for (int i = 0; i < order.rank(); ++i) back[static_cast<int>(order[i])] = i;
  const Array slope = transpose(reshape(ops::value_of(ops::through(ct, others)), moved.shape()), back);
  g.add(0, convert(slope, x.dtype()));
}

// Those equal to the extreme share its cotangent; where it is NaN, the NaNs do.
void extreme_vjp(Vjp& g) {
  const Shape& axes = g.as<AxesAttribute>().axes;
  const Array& x = g.in();
  const Array wins = logical_or(equal(x, spread(g.out(), axes, x.shape())), is_nan(x));
  const Array share = convert(g.ct(), DType::f64) / convert(sum(wins, axes), DType::f64);
  g.add(0, where(wins, spread(convert(share, x.dtype()), axes, x.shape()), zeros_like(x)));
}

template <class Attribute>
Array reduce(const Primitive& primitive, const Array& x, Attribute attribute, bool keepdims) {
  attribute.axes = ops::normalize_axes(primitive.name, attribute.axes, x.rank());
  const Array result = apply(primitive, {x}, attribute);
  if (!keepdims) return result;
  Shape shape = x.shape();
  for (const std::int64_t axis : attribute.axes) shape[static_cast<int>(axis)] = 1;
  return reshape(result, shape);
}

}  // namespace

constinit const Primitive prim::sum{
    .name = "sum",
    .summary = "The exact sum, rounded once; integers and bool modulo 2^64.",
    .attributes = &kAttributesOf<AxesAttribute>,
    .infer = [](const Signature& s) { return infer<AxesAttribute, sum_dtype, false>("sum", s); },
    .reference =
        [](const Launch& launch) {
          reference<AxesAttribute>(launch, []<class T>(std::span<const T> row) {
            if constexpr (FloatingElement<T>)
              return numerics::exact_sum(row);
            else
              return numerics::integer_sum(row);
          });
        },
    .run = Kernel{run<kernels::sum>, kept_axis},
    .vjp = [](Vjp& g) { g.add_canonical(0, spread(g.ct(), g.as<AxesAttribute>().axes, g.in().shape())); },
    .jvp = ops::linear_jvp,
    .batch = reduce_batch<AxesAttribute>,
    .samples = samples_with_empty};

constinit const Primitive prim::mean{
    .name = "mean",
    .summary = "The exact mean, rounded once; of integers and bool in f32, of nothing NaN.",
    .attributes = &kAttributesOf<AxesAttribute>,
    .infer = [](const Signature& s) { return infer<AxesAttribute, mean_dtype, false>("mean", s); },
    .reference =
        [](const Launch& launch) {
          reference<AxesAttribute>(launch, []<class T>(std::span<const T> row) {
            return numerics::exact_mean<std::conditional_t<FloatingElement<T>, T, float>>(row);
          });
        },
    .run = Kernel{run<kernels::mean>, kept_axis},
    .vjp = mean_vjp,
    .jvp = ops::linear_jvp,
    .batch = reduce_batch<AxesAttribute>,
    .samples = samples_with_empty};

constinit const Primitive prim::variance{
    .name = "variance",
    .summary = "The mean squared distance from the mean, in f64 in the row sum's order, rounded once.",
    .attributes = &kAttributesOf<VarianceAttribute>,
    .infer = [](const Signature& s) { return infer<VarianceAttribute, mean_dtype, false>("variance", s); },
    .reference =
        [](const Launch& launch) {
          reference<VarianceAttribute>(launch, [&]<class T>(std::span<const T> row) {
            using Result = std::conditional_t<FloatingElement<T>, T, float>;
            return numerics::variance<Result, T>(row, launch.as<VarianceAttribute>().ddof);
          });
        },
    .run = Kernel{[](const Launch& launch, Context&) {
      const auto& a = launch.as<VarianceAttribute>();
      kernels::variance(launch.operands[0], a.axes, a.ddof, launch.results[0]);
    }},
    .vjp = variance_vjp,
    .batch = reduce_batch<VarianceAttribute>,
    .samples =
        [](SampleSink& sink) {
          samples<VarianceAttribute>(sink);
          sink.add({{DType::f32, {5, 70}}}, VarianceAttribute{{1}, 1});
          sink.add({{DType::f32, {5, 1}}}, VarianceAttribute{{1}, 1});
        }};

constinit const Primitive prim::prod{
    .name = "prod",
    .summary = "The product: significands in f64 in the row sum's order, exponents as integers, rounded once.",
    .attributes = &kAttributesOf<AxesAttribute>,
    .infer = [](const Signature& s) { return infer<AxesAttribute, sum_dtype, false>("prod", s); },
    .reference =
        [](const Launch& launch) {
          reference<AxesAttribute>(launch, []<class T>(std::span<const T> row) {
            if constexpr (FloatingElement<T>)
              return numerics::prod(row);
            else
              return numerics::integer_prod(row);
          });
        },
    .run = Kernel{run<kernels::prod>, kept_axis},
    .vjp = prod_vjp,
    .batch = reduce_batch<AxesAttribute>,
    .samples = samples_with_empty};

constinit const Primitive prim::max{
    .name = "max",
    .summary = "The maximum; NaN if there is one, -0 below +0.",
    .attributes = &kAttributesOf<AxesAttribute>,
    .infer = [](const Signature& s) { return infer<AxesAttribute, same_dtype, true>("max", s); },
    .reference =
        [](const Launch& launch) {
          reference<AxesAttribute>(launch, []<class T>(std::span<const T> row) { return numerics::max(row); });
        },
    .run = Kernel{run<kernels::max>, kept_axis},
    .vjp = extreme_vjp,
    .batch = reduce_batch<AxesAttribute>,
    .samples = samples<AxesAttribute>};

constinit const Primitive prim::min{
    .name = "min",
    .summary = "The minimum; NaN if there is one, -0 below +0.",
    .attributes = &kAttributesOf<AxesAttribute>,
    .infer = [](const Signature& s) { return infer<AxesAttribute, same_dtype, true>("min", s); },
    .reference =
        [](const Launch& launch) {
          reference<AxesAttribute>(launch, []<class T>(std::span<const T> row) { return numerics::min(row); });
        },
    .run = Kernel{run<kernels::min>, kept_axis},
    .vjp = extreme_vjp,
    .batch = reduce_batch<AxesAttribute>,
    .samples = samples<AxesAttribute>};

constinit const Primitive prim::argmax{
    .name = "argmax",
    .summary = "The index of the maximum: the first NaN, else the lowest; row-major over the axes.",
    .attributes = &kAttributesOf<AxesAttribute>,
    .infer = [](const Signature& s) { return infer<AxesAttribute, index_dtype, true>("argmax", s); },
    .reference =
        [](const Launch& launch) {
          reference<AxesAttribute>(launch, []<class T>(std::span<const T> row) { return numerics::argmax(row); });
        },
    .run = Kernel{run<kernels::argmax>, kept_axis},
    .batch = reduce_batch<AxesAttribute>,
    .samples = samples<AxesAttribute>};

constinit const Primitive prim::argmin{
    .name = "argmin",
    .summary = "The index of the minimum: the first NaN, else the lowest; row-major over the axes.",
    .attributes = &kAttributesOf<AxesAttribute>,
    .infer = [](const Signature& s) { return infer<AxesAttribute, index_dtype, true>("argmin", s); },
    .reference =
        [](const Launch& launch) {
          reference<AxesAttribute>(launch, []<class T>(std::span<const T> row) { return numerics::argmin(row); });
        },
    .run = Kernel{run<kernels::argmin>, kept_axis},
    .batch = reduce_batch<AxesAttribute>,
    .samples = samples<AxesAttribute>};

constinit const Primitive prim::any{
    .name = "any",
    .summary = "Whether some element is not zero (NaN is not).",
    .attributes = &kAttributesOf<AxesAttribute>,
    .infer = [](const Signature& s) { return infer<AxesAttribute, bool_dtype, false>("any", s); },
    .reference =
        [](const Launch& launch) {
          reference<AxesAttribute>(launch, []<class T>(std::span<const T> row) { return numerics::any(row); });
        },
    .run = Kernel{run<kernels::any>, kept_axis},
    .batch = reduce_batch<AxesAttribute>,
    .samples = samples_with_empty};

constinit const Primitive prim::all{
    .name = "all",
    .summary = "Whether no element is zero (NaN is not).",
    .attributes = &kAttributesOf<AxesAttribute>,
    .infer = [](const Signature& s) { return infer<AxesAttribute, bool_dtype, false>("all", s); },
    .reference =
        [](const Launch& launch) {
          reference<AxesAttribute>(launch, []<class T>(std::span<const T> row) { return numerics::all(row); });
        },
    .run = Kernel{run<kernels::all>, kept_axis},
    .batch = reduce_batch<AxesAttribute>,
    .samples = samples_with_empty};

Array sum(const Array& x, const Shape& axes, bool keepdims) {
  return reduce(prim::sum, x, AxesAttribute{axes}, keepdims);
}
Array sum(const Array& x) {
  return sum(x, all_axes(x));
}
Array mean(const Array& x, const Shape& axes, bool keepdims) {
  return reduce(prim::mean, x, AxesAttribute{axes}, keepdims);
}
Array mean(const Array& x) {
  return mean(x, all_axes(x));
}
Array variance(const Array& x, const Shape& axes, double ddof, bool keepdims) {
  return reduce(prim::variance, x, VarianceAttribute{axes, ddof}, keepdims);
}
Array variance(const Array& x) {
  return variance(x, all_axes(x));
}
Array prod(const Array& x, const Shape& axes, bool keepdims) {
  return reduce(prim::prod, x, AxesAttribute{axes}, keepdims);
}
Array prod(const Array& x) {
  return prod(x, all_axes(x));
}
Array max(const Array& x, const Shape& axes, bool keepdims) {
  return reduce(prim::max, x, AxesAttribute{axes}, keepdims);
}
Array max(const Array& x) {
  return max(x, all_axes(x));
}
Array min(const Array& x, const Shape& axes, bool keepdims) {
  return reduce(prim::min, x, AxesAttribute{axes}, keepdims);
}
Array min(const Array& x) {
  return min(x, all_axes(x));
}
Array any(const Array& x, const Shape& axes, bool keepdims) {
  return reduce(prim::any, x, AxesAttribute{axes}, keepdims);
}
Array any(const Array& x) {
  return any(x, all_axes(x));
}
Array all(const Array& x, const Shape& axes, bool keepdims) {
  return reduce(prim::all, x, AxesAttribute{axes}, keepdims);
}
Array all(const Array& x) {
  return all(x, all_axes(x));
}
Array argmax(const Array& x, std::int64_t axis, bool keepdims) {
  return reduce(prim::argmax, x, AxesAttribute{{axis}}, keepdims);
}
Array argmax(const Array& x) {
  return reduce(prim::argmax, x, AxesAttribute{all_axes(x)}, false);
}
Array argmin(const Array& x, std::int64_t axis, bool keepdims) {
  return reduce(prim::argmin, x, AxesAttribute{{axis}}, keepdims);
}
Array argmin(const Array& x) {
  return reduce(prim::argmin, x, AxesAttribute{all_axes(x)}, false);
}

}  // namespace eadem
