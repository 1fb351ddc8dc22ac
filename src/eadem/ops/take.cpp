#include <cstring>

#include "eadem/base/parallel.h"
#include "eadem/kernels/move/copy.h"
#include "eadem/ops/catalog.h"
#include "eadem/ops/gather.h"
#include "eadem/ops/infer.h"
#include "eadem/ops/ops.h"
#include "eadem/ops/rules.h"

namespace eadem {
namespace {

using ops::AxisAttribute;
using ops::row_of;

Types infer(const Signature& s) {
  ops::require_operands("take", s, 2);
  const TensorType &x = s.operands[0], &indices = s.operands[1];
  ops::require_axis("take", s.as<AxisAttribute>().axis, x.shape.rank());
  const int axis = static_cast<int>(s.as<AxisAttribute>().axis);
  if (indices.dtype != DType::i64) fail<TypeError>("[take] indices must be i64, got {}", indices);
  if (x.shape[axis] == 0 && indices.shape.elements() != 0)
    fail<ShapeError>("[take] axis {} of {} is empty: there is nothing to take", axis, x);
  Shape shape;
  for (int i = 0; i < axis; ++i) shape.push_back(x.shape[i]);
  for (const std::int64_t extent : indices.shape) shape.push_back(extent);
  for (int i = axis + 1; i < x.shape.rank(); ++i) shape.push_back(x.shape[i]);
  checked_elements("take", shape);
  return {{x.dtype, shape}};
}

void reference(const Launch& launch) {
  const TensorView &x = launch.operands[0], &indices = launch.operands[1], &result = launch.results[0];
  const int axis = static_cast<int>(launch.as<AxisAttribute>().axis), rank = indices.shape.rank();
  ops::for_each_index(result.shape, [&](const Shape& at) {
    Shape from, which;
    for (int i = 0; i < axis; ++i) from.push_back(at[i]);
    for (int i = 0; i < rank; ++i) which.push_back(at[axis + i]);
    from.push_back(row_of(*reinterpret_cast<const std::int64_t*>(ops::element_at(indices, which)), x.shape[axis]));
    for (int i = axis + rank; i < at.rank(); ++i) from.push_back(at[i]);
    ops::move_element(x.dtype, ops::element_at(x, from), ops::element_at(result, at));
  });
}

// A window copy for each index; the windows are [outer axes..., inner axes...].
void run(const Launch& launch, Context&) {
  const TensorView &x = launch.operands[0], &indices = launch.operands[1], &result = launch.results[0];
  const int axis = static_cast<int>(launch.as<AxisAttribute>().axis), rank = indices.shape.rank();
  const auto size = static_cast<std::int64_t>(size_of(x.dtype));
  const std::int64_t count = indices.elements();
  if (result.elements() == 0) return;
  TensorView from = x, to = result;
  from.shape.erase(axis);
  from.strides.erase(axis);
  to.shape = from.shape;
  to.strides = Shape();
  for (int i = 0; i < result.shape.rank(); ++i)
    if (i < axis || i >= axis + rank) to.strides.push_back(result.strides[i]);
  const std::int64_t step = rank == 0 ? 0 : result.strides[axis + rank - 1];  // from one index to the next
  const Shape index_strides = contiguous_strides(indices.shape);
  const bool single = from.shape.elements() == 1;
  parallel_for(count, std::max<std::int64_t>(1, 4096 / std::max<std::int64_t>(1, from.shape.elements())),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t i = begin; i < end; ++i) {
                   std::int64_t offset = 0;
                   for (int k = 0; k < rank; ++k)
                     offset += i / index_strides[k] % indices.shape[k] * indices.strides[k];
                   TensorView row = from, place = to;
                   row.data += row_of(indices.as<const std::int64_t>()[offset], x.shape[axis]) * x.strides[axis] * size;
                   place.data += i * step * size;
                   if (single)
                     ops::move_element(x.dtype, row.data, place.data);
                   else
                     kernels::copy(row, place);
                 }
               });
}

void vjp(Vjp& g) {
  g.add_canonical(0, apply(prim::scatter_add, {zeros_like(g.in(0)), g.in(1), g.ct()}, g.as<AxisAttribute>()));
}
void jvp(Jvp& j) {
  if (j.has(0)) j.add_canonical(apply(prim::take, {j.tangent(0), j.in(1)}, j.as<AxisAttribute>()));
}

// One set of indices, or one x, serves every slice; where each has its own, x's rows are laid side by side.
void batch(Batch& b) {
  AxisAttribute a = b.as<AxisAttribute>();
  const Array &x = b.in(0), &indices = b.in(1);
  if (!b.batched(1)) {
    ++a.axis;
    b.set(apply(prim::take, {x, indices}, a));
  } else if (!b.batched(0)) {
    b.set(move_axis(apply(prim::take, {x, indices}, a), a.axis, 0));
  } else {
    const Array rows = ops::indices_side_by_side(indices, x.extent(a.axis + 1));
    b.set(move_axis(apply(prim::take, {ops::side_by_side(x, a.axis), rows}, a), a.axis, 0));
  }
}

}  // namespace

constinit const Primitive prim::take{
    .name = "take",
    .summary = "Slices along an axis at given indices.",
    .attributes = &kAttributesOf<AxisAttribute>,
    .infer = infer,
    .reference = reference,
    .run = Kernel{run},
    .vjp = vjp,
    .jvp = jvp,
    .batch = batch,
    .samples = [](SampleSink& sink) {
      sink.add({{DType::f32, {5, 7}, Fill::edges}, {DType::i64, {4}, Fill::indices, 5}}, AxisAttribute{0});
      sink.add({{DType::i16, {3, 6, 2}, Fill::wide}, {DType::i64, {2, 3}, Fill::indices, 6}}, AxisAttribute{1});
      sink.add({{DType::bf16, {9}}, {DType::i64, {}, Fill::indices, 9}}, AxisAttribute{0});
      sink.add({{DType::u8, {4, 3}, Fill::wide}, {DType::i64, {0}}}, AxisAttribute{1});
    }};

Array take(const Array& x, const Array& indices, std::int64_t axis) {
  const int at = normalize_axis("take", axis, x.rank());
  return apply(prim::take, {x, ops::indices_in_range("take", indices, x, at)}, AxisAttribute{at});
}

}  // namespace eadem
