#include <array>
#include <numeric>

#include "eadem/kernels/move/copy.h"
#include "eadem/kernels/reduce/scatter_add.h"
#include "eadem/numerics/exact_sum.h"
#include "eadem/numerics/reduction_views.h"
#include "eadem/ops/catalog.h"
#include "eadem/ops/gather.h"
#include "eadem/ops/infer.h"
#include "eadem/ops/ops.h"
#include "eadem/ops/rules.h"
#include "eadem/runtime/context.h"

// scatter and scatter_add: the slices of an operand along an axis replaced by, or added to, updates at given indices.

namespace eadem {
namespace {

using ops::AxisAttribute;
using ops::row_of;

template <bool adds>
Types infer(const Signature& s) {
  constexpr std::string_view name = adds ? "scatter_add" : "scatter";
  ops::require_operands(name, s, 3);
  const TensorType &x = s.operands[0], &indices = s.operands[1], &updates = s.operands[2];
  ops::require_axis(name, s.as<AxisAttribute>().axis, x.shape.rank());
  const int axis = static_cast<int>(s.as<AxisAttribute>().axis);
  if (indices.dtype != DType::i64) fail<TypeError>("[{}] indices must be i64, got {}", name, indices);
  if (updates.dtype != x.dtype) fail<TypeError>("[{}] the updates must be {}, got {}", name, x.dtype, updates);
  if (adds && x.dtype == DType::boolean) fail<TypeError>("[{}] bool has no sum", name);
  Shape shape;
  for (int i = 0; i < axis; ++i) shape.push_back(x.shape[i]);
  for (const std::int64_t extent : indices.shape) shape.push_back(extent);
  for (int i = axis + 1; i < x.shape.rank(); ++i) shape.push_back(x.shape[i]);
  if (updates.shape != shape)
    fail<ShapeError>("[{}] indices {} into axis {} of {} need updates of shape {}, got {}", name, indices, axis, x,
                     shape, updates);
  if (x.shape[axis] == 0 && indices.shape.elements() != 0)
    fail<ShapeError>("[{}] axis {} of {} is empty: there is nowhere to scatter to", name, axis, x);
  return {x};
}

// Updates as [outer, count, inner], the operand and the result as [outer, rows, inner].
struct Geometry {
  std::int64_t outer = 1, rows = 0, count = 0, inner = 1;
  explicit Geometry(const Launch& launch) {
    const Shape& x = launch.operands[0].shape;
    const int axis = static_cast<int>(launch.as<AxisAttribute>().axis);
    for (int i = 0; i < axis; ++i) outer *= x[i];
    rows = x[axis];
    count = launch.operands[1].elements();
    for (int i = axis + 1; i < x.rank(); ++i) inner *= x[i];
  }
};

std::int64_t index_at(const TensorView& indices, std::int64_t i, std::int64_t rows) {
  return row_of(indices.as<const std::int64_t>()[numerics::offset_of(i, indices.shape, indices.strides)], rows);
}

// Calls f(address in x, address in the result, addresses of the updates to it, ascending) for every element.
template <class F>
void for_each_element(const Launch& launch, F&& f) {
  const Geometry g(launch);
  const TensorView &x = launch.operands[0], &updates = launch.operands[2], &result = launch.results[0];
  const auto size = static_cast<std::int64_t>(size_of(x.dtype));
  const auto address = [&](const TensorView& view, std::int64_t index) {
    return view.data + numerics::offset_of(index, view.shape, view.strides) * size;
  };
  std::vector<const std::byte*> found;
  for (std::int64_t i = 0; i < g.outer * g.rows * g.inner; ++i) {
    const std::int64_t c = i % g.inner, row = i / g.inner % g.rows, o = i / g.inner / g.rows;
    found.clear();
    for (std::int64_t k = 0; k < g.count; ++k)
      if (index_at(launch.operands[1], k, g.rows) == row)
        found.push_back(address(updates, (o * g.count + k) * g.inner + c));
    f(address(x, i), result.data + i * size, found);
  }
}

void reference_set(const Launch& launch) {
  for_each_element(launch, [&](const std::byte* x, std::byte* to, const std::vector<const std::byte*>& updates) {
    ops::move_element(launch.results[0].dtype, updates.empty() ? x : updates.back(), to);
  });
}
void reference_add(const Launch& launch) {
  visit(launch.results[0].dtype, [&]<class T>(std::type_identity<T>) {
    for_each_element(launch, [](const std::byte* x, std::byte* to, const std::vector<const std::byte*>& updates) {
      std::vector<T> addends{*reinterpret_cast<const T*>(x)};
      for (const std::byte* each : updates) addends.push_back(*reinterpret_cast<const T*>(each));
      if constexpr (FloatingElement<T>)
        *reinterpret_cast<T*>(to) = numerics::exact_sum(std::span<const T>(addends));
      else if constexpr (!std::is_same_v<T, bool>)
        *reinterpret_cast<T*>(to) = static_cast<T>(numerics::integer_sum(std::span<const T>(addends)));
    });
  });
}

std::span<std::int64_t> numbers(Context& context, std::int64_t count) {
  const auto size = static_cast<std::size_t>(count);
  return {reinterpret_cast<std::int64_t*>(context.scratch(size * sizeof(std::int64_t))), size};
}

void run_set(const Launch& launch, Context& context) {
  const Geometry g(launch);
  const TensorView &updates = launch.operands[2], &result = launch.results[0];
  const int axis = static_cast<int>(launch.as<AxisAttribute>().axis), rank = launch.operands[1].shape.rank();
  const auto size = static_cast<std::int64_t>(size_of(result.dtype));
  kernels::copy(launch.operands[0], result);
  if (result.elements() == 0 || g.count == 0) return;
  const std::span<std::int64_t> winners = numbers(context, g.rows);
  std::fill(winners.begin(), winners.end(), -1);
  for (std::int64_t i = 0; i < g.count; ++i)
    winners[static_cast<std::size_t>(index_at(launch.operands[1], i, g.rows))] = i;
  TensorView from = updates, to = result;
  Shape which, which_strides;  // the updates' index axes, in the middle
  for (int k = 0; k < rank; ++k) {
    which.push_back(from.shape[axis]);
    which_strides.push_back(from.strides[axis]);
    from.shape.erase(axis);
    from.strides.erase(axis);
  }
  to.shape.erase(axis);
  to.strides.erase(axis);
  for (std::int64_t row = 0; row < g.rows; ++row) {
    const std::int64_t winner = winners[static_cast<std::size_t>(row)];
    if (winner < 0) continue;
    from.data = updates.data + numerics::offset_of(winner, which, which_strides) * size;
    to.data = result.data + row * result.strides[axis] * size;
    kernels::copy(from, to);
  }
}

void run_add(const Launch& launch, Context& context) {
  const Geometry g(launch);
  // A counting sort of the updates by row keeps their order.
  const std::span<std::int64_t> starts = numbers(context, g.rows + 1), sources = numbers(context, g.count);
  const std::span<std::int64_t> rows = numbers(context, g.count);
  std::fill(starts.begin(), starts.end(), 0);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i] = index_at(launch.operands[1], static_cast<std::int64_t>(i), g.rows);
    ++starts[static_cast<std::size_t>(rows[i]) + 1];
  }
  std::partial_sum(starts.begin(), starts.end(), starts.begin());
  for (std::size_t i = 0; i < rows.size(); ++i)
    sources[static_cast<std::size_t>(starts[static_cast<std::size_t>(rows[i])]++)] = static_cast<std::int64_t>(i);
  for (std::size_t r = starts.size(); r-- > 1;) starts[r] = starts[r - 1];
  starts[0] = 0;
  const auto dense = [&](const TensorView& view) {
    if (is_contiguous(view)) return static_cast<const std::byte*>(view.data);
    std::byte* memory = context.scratch(static_cast<std::size_t>(view.elements()) * size_of(view.dtype));
    kernels::copy(view, contiguous_view(memory, view.dtype, view.shape));
    return static_cast<const std::byte*>(memory);
  };
  kernels::scatter_add(dense(launch.operands[0]), dense(launch.operands[2]), {starts, sources}, g.outer, g.count,
                       g.inner, launch.results[0].dtype, launch.results[0].data);
}

// Bool, of the updates' indices: whether each is the one that stays.
Array stays(const Array& indices, std::int64_t rows) {
  const std::int64_t count = indices.elements();
  const Array flat = reshape(indices, {count}), order = arange(count);
  const Array winners = apply(prim::scatter, {zeros({rows}, DType::i64), flat, order}, AxisAttribute{0});
  return reshape(equal(apply(prim::take, {winners, flat}, AxisAttribute{0}), order), indices.shape());
}

void set_vjp(Vjp& g) {
  const Array &indices = g.in(1), &updates = g.in(2);
  const auto& a = g.as<AxisAttribute>();
  if (g.wants(0)) g.add_canonical(0, apply(prim::scatter, {g.ct(), indices, zeros_like(updates)}, a));
  if (!g.wants(2)) return;
  if (updates.elements() == 0) return g.add_canonical(2, zeros_like(updates));
  Array mask = stays(indices, g.in(0).extent(a.axis));
  Shape shape = mask.shape();
  for (int i = static_cast<int>(a.axis) + 1; i < g.in(0).rank(); ++i) shape.push_back(1);
  mask = broadcast_to(reshape(mask, shape), updates.shape());
  g.add_canonical(2, where(mask, apply(prim::take, {g.ct(), indices}, a), zeros_like(updates)));
}
void add_vjp(Vjp& g) {
  if (g.wants(0)) g.add_canonical(0, g.ct());
  if (!g.wants(2)) return;
  const Array& updates = g.in(2);
  g.add_canonical(
      2, updates.elements() == 0 ? zeros_like(updates) : apply(prim::take, {g.ct(), g.in(1)}, g.as<AxisAttribute>()));
}
void jvp(Jvp& j) {
  j.add_canonical(apply(j.primitive(), {j.tangent(0), j.in(1), j.tangent(2)}, j.as<AxisAttribute>()));
}

// One set of indices serves every slice; sets of their own index the slices' rows laid side by side.
void batch(Batch& b) {
  AxisAttribute a = b.as<AxisAttribute>();
  const Array x = b.with_axis(0), updates = b.with_axis(2);
  if (!b.batched(1)) {
    ++a.axis;
    b.set(apply(b.primitive(), {x, b.in(1), updates}, a));
    return;
  }
  const std::int64_t rows = x.extent(a.axis + 1);
  const Array found =
      apply(b.primitive(),
            {ops::side_by_side(x, a.axis), ops::indices_side_by_side(b.in(1), rows), move_axis(updates, 0, a.axis)}, a);
  b.set(ops::apart(found, a.axis, b.size(), rows));
}

template <bool adds>
void samples(SampleSink& sink) {
  const auto add = [&](DType dtype, const Shape& x, Fill fill, const Shape& indices, std::int64_t axis) {
    Shape updates = x;
    updates.erase(static_cast<int>(axis));
    for (int k = 0; k < indices.rank(); ++k) updates.insert(static_cast<int>(axis) + k, indices[k]);
    sink.add({{dtype, x, fill},
              {DType::i64, indices, Fill::indices, std::max<std::int64_t>(1, x[static_cast<int>(axis)])},
              {dtype, updates, fill}},
             AxisAttribute{axis});
  };
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
    add(dtype, {5, 7}, Fill::edges, {9}, 0);
    add(dtype, {3, 4, 3}, Fill::wide, {2, 7}, 1);
    add(dtype, {11}, Fill::normal, {300}, 0);
    add(dtype, {6, 600}, Fill::unit, {8}, 0);
  }
  for (const DType dtype : {DType::i8, DType::u16, DType::i32, DType::u64}) add(dtype, {4, 3}, Fill::wide, {6}, 0);
  if (!adds) add(DType::boolean, {4, 3}, Fill::normal, {6}, 1);
  add(DType::f32, {4}, Fill::edges, {}, 0);
  add(DType::f32, {4, 2}, Fill::edges, {0}, 0);
  add(DType::f32, {0, 2}, Fill::normal, {0}, 0);
  add(DType::f32, {3, 0}, Fill::normal, {4}, 0);
}

}  // namespace

constinit const Primitive prim::scatter{
    .name = "scatter",
    .summary = "Slices along an axis replaced at given indices; of several at one, the last stays.",
    .attributes = &kAttributesOf<AxisAttribute>,
    .infer = infer<false>,
    .reference = reference_set,
    .run = Kernel{run_set},
    .vjp = set_vjp,
    .jvp = jvp,
    .batch = batch,
    .samples = samples<false>};
constinit const Primitive prim::scatter_add{
    .name = "scatter_add",
    .summary = "Updates added to the slices along an axis at given indices: exact sums, rounded once.",
    .attributes = &kAttributesOf<AxisAttribute>,
    .infer = infer<true>,
    .reference = reference_add,
    .run = Kernel{run_add},
    .vjp = add_vjp,
    .jvp = jvp,
    .batch = batch,
    .samples = samples<true>};

Array scatter(const Array& x, const Array& indices, const Array& updates, std::int64_t axis) {
  const int at = normalize_axis("scatter", axis, x.rank());
  return apply(prim::scatter, {x, ops::indices_in_range("scatter", indices, x, at), updates}, AxisAttribute{at});
}
Array scatter_add(const Array& x, const Array& indices, const Array& updates, std::int64_t axis) {
  const int at = normalize_axis("scatter_add", axis, x.rank());
  return apply(prim::scatter_add, {x, ops::indices_in_range("scatter_add", indices, x, at), updates},
               AxisAttribute{at});
}

}  // namespace eadem
