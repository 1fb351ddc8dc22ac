#include <algorithm>

#include "eadem/base/buffer.h"
#include "eadem/kernels/contraction/contraction.h"
#include "eadem/kernels/move/copy.h"
#include "eadem/numerics/contraction.h"
#include "eadem/ops/catalog.h"
#include "eadem/ops/infer.h"
#include "eadem/ops/ops.h"
#include "eadem/ops/rules.h"
#include "eadem/runtime/context.h"

namespace eadem {
namespace {

using ops::DotAttribute;

bool holds(const Shape& axes, std::int64_t axis) {
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}

// The axes of an operand that are neither contracted nor batch axes, ascending.
Shape free_axes(int rank, const Shape& contracting, const Shape& batch) {
  Shape free;
  for (int axis = 0; axis < rank; ++axis)
    if (!holds(contracting, axis) && !holds(batch, axis)) free.push_back(axis);
  return free;
}

void require_distinct(std::string_view side, const TensorType& type, const Shape& contracting, const Shape& batch) {
  Shape seen;
  for (const Shape* axes : {&batch, &contracting})
    for (const std::int64_t axis : *axes) {
      ops::require_axis("dot_general", axis, type.shape.rank());
      if (holds(seen, axis)) fail<ValueError>("[dot_general] axis {} of {} {} is named twice", axis, side, type);
      seen.push_back(axis);
    }
}

void require_pairs(std::string_view what, const TensorType& lhs, const TensorType& rhs, const Shape& lhs_axes,
                   const Shape& rhs_axes) {
  if (lhs_axes.rank() != rhs_axes.rank())
    fail<ValueError>("[dot_general] {} axes come in pairs, got {} of lhs and {} of rhs", what, lhs_axes, rhs_axes);
  for (int i = 0; i < lhs_axes.rank(); ++i) {
    const auto l = static_cast<int>(lhs_axes[i]), r = static_cast<int>(rhs_axes[i]);
    if (lhs.shape[l] != rhs.shape[r])
      fail<ShapeError>("[dot_general] {} sizes differ: lhs {} axis {} is {}, rhs {} axis {} is {}", what, lhs, l,
                       lhs.shape[l], rhs, r, rhs.shape[r]);
  }
}

DType result_dtype(const TensorType& operand, std::optional<DType> preferred) {
  if (!preferred || *preferred == operand.dtype || operand.dtype == DType::f64) return operand.dtype;
  if (!is_floating(operand.dtype) || !is_floating(*preferred))
    fail<TypeError>("[dot_general] a result of {} cannot be asked of {}: integers wrap in their own dtype", *preferred,
                    operand);
  return *preferred;
}

Types infer(const Signature& s) {
  ops::require_operands("dot_general", s, 2);
  const TensorType &lhs = s.operands[0], &rhs = s.operands[1];
  const auto& a = s.as<DotAttribute>();
  if (lhs.dtype != rhs.dtype)
    fail<TypeError>("[dot_general] operands must have one dtype, got lhs {} and rhs {}", lhs, rhs);
  require_distinct("lhs", lhs, a.lhs_contracting, a.lhs_batch);
  require_distinct("rhs", rhs, a.rhs_contracting, a.rhs_batch);
  require_pairs("contracted", lhs, rhs, a.lhs_contracting, a.rhs_contracting);
  require_pairs("batch", lhs, rhs, a.lhs_batch, a.rhs_batch);
  Shape shape;
  for (const std::int64_t axis : a.lhs_batch) shape.push_back(lhs.shape[static_cast<int>(axis)]);
  for (const std::int64_t axis : free_axes(lhs.shape.rank(), a.lhs_contracting, a.lhs_batch))
    shape.push_back(lhs.shape[static_cast<int>(axis)]);
  for (const std::int64_t axis : free_axes(rhs.shape.rank(), a.rhs_contracting, a.rhs_batch))
    shape.push_back(rhs.shape[static_cast<int>(axis)]);
  checked_elements("dot_general", shape);
  return {{result_dtype(lhs, a.preferred), shape}};
}

// Joins axes [begin, end) of the view into one, row-major; false if no single stride runs through them.
bool merge_axes(TensorView& view, int begin, int end) {
  std::int64_t extent = 1, stride = 1;
  for (int axis = end - 1; axis >= begin; --axis) {
    if (view.shape[axis] == 1) continue;
    if (extent == 1)
      stride = view.strides[axis];
    else if (view.strides[axis] != stride * extent)
      return false;
    extent *= view.shape[axis];
  }
  for (int axis = end; axis-- > begin;) view.shape.erase(axis), view.strides.erase(axis);
  view.shape.insert(begin, extent);
  view.strides.insert(begin, stride);
  return true;
}

// The operand as [batch.., rows, columns], each of these two the row-major index over a list of axes. Where strides
// cannot say that, it is copied to memory from `allocate`.
template <class Allocate>
TensorView as_matrices(const TensorView& x, const Shape& batch, const Shape& rows, const Shape& columns,
                       Allocate&& allocate) {
  TensorView view = x;
  view.shape = view.strides = Shape();
  for (const Shape* axes : {&batch, &rows, &columns})
    for (const std::int64_t axis : *axes) {
      view.shape.push_back(x.shape[static_cast<int>(axis)]);
      view.strides.push_back(x.strides[static_cast<int>(axis)]);
    }
  const int first = batch.rank(), middle = first + rows.rank(), last = view.shape.rank();
  TensorView merged = view;
  if (merge_axes(merged, middle, last) && merge_axes(merged, first, middle)) return merged;
  TensorView packed =
      contiguous_view(allocate(static_cast<std::size_t>(view.elements()) * size_of(x.dtype)), x.dtype, view.shape);
  kernels::copy(view, packed);
  merge_axes(packed, middle, last);
  merge_axes(packed, first, middle);
  return packed;
}

// Calls f(a, b, c) with the product as batched matrices.
template <class Allocate, class F>
void with_matrices(const Launch& launch, Allocate&& allocate, F&& f) {
  const TensorView &lhs = launch.operands[0], &rhs = launch.operands[1];
  const auto& d = launch.as<DotAttribute>();
  const Shape lhs_free = free_axes(lhs.shape.rank(), d.lhs_contracting, d.lhs_batch);
  const Shape rhs_free = free_axes(rhs.shape.rank(), d.rhs_contracting, d.rhs_batch);
  TensorView c = launch.results[0];
  if (c.elements() == 0) return;
  const TensorView a = as_matrices(lhs, d.lhs_batch, lhs_free, d.lhs_contracting, allocate);
  const TensorView b = as_matrices(rhs, d.rhs_batch, d.rhs_contracting, rhs_free, allocate);
  const int first = d.lhs_batch.rank(), middle = first + lhs_free.rank();
  merge_axes(c, middle, c.shape.rank());
  merge_axes(c, first, middle);
  f(a, b, c);
}

void run(const Launch& launch, Context& context) {
  with_matrices(
      launch, [&](std::size_t bytes) { return context.scratch(bytes); },
      [&](const TensorView& a, const TensorView& b, const TensorView& c) {
        kernels::matmul(a, b, c, nullptr, false, context.epilogue());
      });
}

// Each product of a batch is apart.
int axis_of(const Signature& s, std::size_t operand, int axis) {
  const auto& d = s.as<DotAttribute>();
  if (axis >= d.lhs_batch.rank()) return kNoParts;
  return static_cast<int>((operand == 0 ? d.lhs_batch : d.rhs_batch)[axis]);
}

// Columns are one axis where rhs has one that is neither contracted nor of the batch.
bool hands_on(const Signature& s) {
  const auto& d = s.as<DotAttribute>();
  return s.operands[1].shape.rank() == d.rhs_contracting.rank() + d.rhs_batch.rank() + 1;
}

Cost cost(const Signature& s, const Types& results) {
  const TensorType &lhs = s.operands[0], &rhs = s.operands[1], &result = results[0];
  double terms = 1;
  for (const std::int64_t axis : s.as<DotAttribute>().lhs_contracting)
    terms *= static_cast<double>(lhs.shape[static_cast<int>(axis)]);
  const auto bytes = [](const TensorType& t) {
    return static_cast<double>(t.shape.elements()) * static_cast<double>(size_of(t.dtype));
  };
  return {bytes(lhs) + bytes(rhs) + bytes(result), 2 * terms * static_cast<double>(result.shape.elements())};
}

// The cotangent of one operand: that of the result, [batch.., lhs free.., rhs free..], contracted with the other
// operand over the other's free axes, and its axes brought in the operand's order.
Array operand_cotangent(const Array& ct, const Array& other, const Shape& shape, const Shape& contracting,
                        const Shape& batch, const Shape& other_contracting, const Shape& other_batch, bool is_lhs,
                        DType dtype) {
  const Shape free = free_axes(shape.rank(), contracting, batch);
  const Shape other_free = free_axes(other.rank(), other_contracting, other_batch);
  Shape ct_batch, ct_other;
  for (int i = 0; i < batch.rank(); ++i) ct_batch.push_back(i);
  for (int i = 0; i < other_free.rank(); ++i) ct_other.push_back(batch.rank() + (is_lhs ? free.rank() : 0) + i);
  // [batch.., free.., the other's contracted axes in its own order]
  const Array found = dot_general(ct, other, ct_other, other_free, ct_batch, other_batch, dtype);
  Shape axes = Shape::filled(shape.rank(), 0);
  int next = 0;
  for (const std::int64_t axis : batch) axes[static_cast<int>(axis)] = next++;
  for (const std::int64_t axis : free) axes[static_cast<int>(axis)] = next++;
  for (int i = 0; i < contracting.rank(); ++i) {
    int before = 0;
    for (const std::int64_t axis : other_contracting) before += axis < other_contracting[i];
    axes[static_cast<int>(contracting[i])] = next + before;
  }
  return transpose(found, axes);
}

void vjp(Vjp& g) {
  const auto& d = g.as<DotAttribute>();
  const Array &lhs = g.in(0), &rhs = g.in(1);
  if (g.wants(0))
    ops::add_contraction(g, 0,
                         operand_cotangent(g.ct(), rhs, lhs.shape(), d.lhs_contracting, d.lhs_batch, d.rhs_contracting,
                                           d.rhs_batch, true, lhs.dtype()));
  if (g.wants(1))
    ops::add_contraction(g, 1,
                         operand_cotangent(g.ct(), lhs, rhs.shape(), d.rhs_contracting, d.rhs_batch, d.lhs_contracting,
                                           d.lhs_batch, false, rhs.dtype()));
}

void jvp(Jvp& j) {
  const auto& d = j.as<DotAttribute>();
  if (j.has(0)) ops::add_contraction(j, apply(prim::dot_general, {j.tangent(0), j.in(1)}, d));
  if (j.has(1)) ops::add_contraction(j, apply(prim::dot_general, {j.in(0), j.tangent(1)}, d));
}

// The batch is one more batch axis, or a free axis of the operand that has it.
void batch(Batch& b) {
  DotAttribute d = b.as<DotAttribute>();
  if (b.batched(0)) {
    d.lhs_contracting = ops::behind_batch(d.lhs_contracting);
    d.lhs_batch = ops::behind_batch(d.lhs_batch);
  }
  if (b.batched(1)) {
    d.rhs_contracting = ops::behind_batch(d.rhs_contracting);
    d.rhs_batch = ops::behind_batch(d.rhs_batch);
  }
  if (b.batched(0) && b.batched(1)) {
    d.lhs_batch.insert(0, 0);
    d.rhs_batch.insert(0, 0);
    b.set(apply(prim::dot_general, {b.in(0), b.in(1)}, d));
    return;
  }
  const int lhs_free = b.in(0).rank() - d.lhs_contracting.rank() - d.lhs_batch.rank();
  const int place = d.lhs_batch.rank() + (b.batched(0) ? 0 : lhs_free);
  b.set(move_axis(apply(prim::dot_general, {b.in(0), b.in(1)}, d), place, 0));
}

}  // namespace

constinit const Primitive prim::dot_general{
    .name = "dot_general",
    .summary = "Contracts pairs of axes of two arrays, over pairs of batch axes.",
    .attributes = &kAttributesOf<DotAttribute>,
    .infer = infer,
    .reference =
        [](const Launch& launch) {
          std::vector<BufferRef> copies;
          const auto allocate = [&](std::size_t bytes) { return copies.emplace_back(Buffer::allocate(bytes))->data(); };
          with_matrices(launch, allocate, [](const TensorView& a, const TensorView& b, const TensorView& c) {
            numerics::matmul(a, b, c, nullptr);
          });
        },
    .run = Kernel{run, axis_of, hands_on},
    .vjp = vjp,
    .jvp = jvp,
    .batch = batch,
    .samples =
        [](SampleSink& sink) {
          for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64, DType::i32}) {
            sink.add({{dtype, {5, 37}}, {dtype, {37, 18}}}, DotAttribute{{1}, {0}, {}, {}, {}});
            // Two contracted pairs out of order, and an operand that strides alone cannot make a matrix.
            sink.add({{dtype, {2, 4, 3, 10}}, {dtype, {10, 2, 3, 7}}}, DotAttribute{{3, 0}, {0, 1}, {2}, {2}, {}});
          }
          sink.add({{DType::bf16, {3, 2, 300}}, {DType::bf16, {3, 300, 5}}},
                   DotAttribute{{2}, {1}, {0}, {0}, DType::f32});
          sink.add({{DType::f32, {3, 70}, Fill::edges}, {DType::f32, {70, 33}, Fill::edges}},
                   DotAttribute{{1}, {0}, {}, {}, {}});
          sink.add({{DType::f32, {4}}, {DType::f32, {3}}}, DotAttribute{});                          // outer product
          sink.add({{DType::f32, {700}}, {DType::f32, {700}}}, DotAttribute{{0}, {0}, {}, {}, {}});  // inner product
          sink.add({{DType::f32, {3, 0}}, {DType::f32, {0, 2}}}, DotAttribute{{1}, {0}, {}, {}, {}});
          sink.add({{DType::boolean, {3, 6}}, {DType::boolean, {6, 4}}}, DotAttribute{{1}, {0}, {}, {}, {}});
          sink.add({{DType::i8, {3, 40}, Fill::wide}, {DType::i8, {40, 9}, Fill::wide}},
                   DotAttribute{{1}, {0}, {}, {}, {}});
        },
    .cost = cost};

Array dot_general(const Array& lhs, const Array& rhs, const Shape& lhs_contracting, const Shape& rhs_contracting,
                  const Shape& lhs_batch, const Shape& rhs_batch, std::optional<DType> preferred) {
  const auto normal = [](const Shape& axes, const Array& x) {
    Shape result;
    for (const std::int64_t axis : axes) result.push_back(normalize_axis("dot_general", axis, x.rank()));
    return result;
  };
  const DType dtype = promote(lhs.dtype(), rhs.dtype());
  return apply(prim::dot_general, {convert(lhs, dtype), convert(rhs, dtype)},
               DotAttribute{normal(lhs_contracting, lhs), normal(rhs_contracting, rhs), normal(lhs_batch, lhs),
                            normal(rhs_batch, rhs), preferred});
}

}  // namespace eadem
