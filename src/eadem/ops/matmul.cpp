#include "eadem/kernels/contraction/contraction.h"
#include "eadem/numerics/contraction.h"
#include "eadem/ops/catalog.h"
#include "eadem/ops/infer.h"
#include "eadem/ops/ops.h"
#include "eadem/ops/rules.h"
#include "eadem/runtime/context.h"

namespace eadem {
namespace {

Shape batch_of(const Shape& shape) {
  Shape batch = shape;
  batch.pop_back();
  batch.pop_back();
  return batch;
}

Types infer(const Signature& s) {
  ops::require_operands("matmul", s, 2);
  const TensorType &a = s.operands[0], &b = s.operands[1];
  const int rank_a = a.shape.rank(), rank_b = b.shape.rank();
  if (rank_a < 2 || rank_b < 2) fail<ShapeError>("[matmul] operands must be matrices, got lhs {} and rhs {}", a, b);
  if (a.dtype != b.dtype) fail<TypeError>("[matmul] operands must have one dtype, got lhs {} and rhs {}", a, b);
  if (a.shape[rank_a - 1] != b.shape[rank_b - 2])
    fail<ShapeError>("[matmul] contracted sizes differ: lhs {} axis {} is {}, rhs {} axis {} is {}", a, rank_a - 1,
                     a.shape[rank_a - 1], b, rank_b - 2, b.shape[rank_b - 2]);
  Shape shape = broadcast_shapes("matmul", batch_of(a.shape), batch_of(b.shape));
  shape.push_back(a.shape[rank_a - 2]);
  shape.push_back(b.shape[rank_b - 1]);
  checked_elements("matmul", shape);
  return {{a.dtype, shape}};
}

// The operand with the result's batch axes, repeated ones by stride 0.
TensorView with_batch(const TensorView& x, const Shape& result) {
  TensorView view = x;
  while (view.shape.rank() < result.rank()) {
    view.shape.insert(0, 1);
    view.strides.insert(0, 0);
  }
  for (int axis = 0; axis < result.rank() - 2; ++axis)
    if (view.shape[axis] != result[axis]) {
      view.shape[axis] = result[axis];
      view.strides[axis] = 0;
    }
  return view;
}

void run(const Launch& launch, Context& context) {
  const TensorView& c = launch.results[0];
  kernels::matmul(with_batch(launch.operands[0], c.shape), with_batch(launch.operands[1], c.shape), c, nullptr, false,
                  context.epilogue());
}

// Each product of a batch is apart; operands that are repeated are read whole.
int axis_of(const Signature& s, std::size_t operand, int axis) {
  const Shape &a = s.operands[0].shape, &b = s.operands[1].shape;
  const int rank = std::max(a.rank(), b.rank()), in_a = axis - (rank - a.rank()), in_b = axis - (rank - b.rank());
  if (axis + 2 >= rank || in_a < 0 || in_b < 0 || a[in_a] != b[in_b]) return kNoParts;
  return operand == 0 ? in_a : in_b;
}

Cost cost(const Signature& s, const Types& results) {
  const auto bytes = [](const TensorType& t) {
    return static_cast<double>(t.shape.elements()) * static_cast<double>(size_of(t.dtype));
  };
  const TensorType &a = s.operands[0], &b = s.operands[1], &c = results[0];
  return {bytes(a) + bytes(b) + bytes(c),
          2 * static_cast<double>(c.shape.elements()) * static_cast<double>(a.shape.back())};
}

// The cotangent of one operand: that of the result contracted with the other over its free axis and, in one go, over
// the batch axes along which the operand was repeated.
void operand_cotangent(Vjp& g, std::size_t operand) {
  const Array &own = g.in(operand), &ct = g.ct();
  const Shape batch = batch_of(ct.shape());
  const int rank = ct.rank(), lead = rank - own.rank();
  const bool is_lhs = operand == 0;
  const Array& other = g.in(1 - operand);
  Shape shape = batch;
  for (int i = 2; i > 0; --i) shape.push_back(other.shape()[other.rank() - i]);
  Shape repeated, kept;
  for (int axis = 0; axis < batch.rank(); ++axis)
    (axis < lead || own.shape()[axis - lead] != batch[axis] ? repeated : kept).push_back(axis);
  // dA = dC B^T contracts N; dB = A^T dC contracts M, and keeps A's side first.
  Shape ct_axes = repeated, other_axes = repeated;
  ct_axes.push_back(is_lhs ? rank - 1 : rank - 2);
  other_axes.push_back(is_lhs ? rank - 1 : rank - 2);
  const Array wide = broadcast_to(other, shape);
  const Array found = is_lhs ? dot_general(ct, wide, ct_axes, other_axes, kept, kept)
                             : dot_general(wide, ct, other_axes, ct_axes, kept, kept);
  ops::add_contraction(g, operand, reshape(found, own.shape()));
}

// Every operand with the batch and the result's rank, so that axes meet as they did.
void batch(Batch& b) {
  const int rank = std::max(b.rank(0), b.rank(1));
  const auto aligned = [&](std::size_t i) {
    Shape shape = b.in(i).shape();
    const int at = b.batched(i) ? 1 : 0;
    if (b.batched(i))
      while (shape.rank() <= rank) shape.insert(at, 1);
    return reshape(b.in(i), shape);
  };
  b.set(apply(prim::matmul, {aligned(0), aligned(1)}));
}

}  // namespace

constinit const Primitive prim::matmul{
    .name = "matmul",
    .summary = "Matrix product over the last two axes; the others broadcast.",
    .infer = infer,
    .reference =
        [](const Launch& launch) {
          const TensorView& c = launch.results[0];
          numerics::matmul(with_batch(launch.operands[0], c.shape), with_batch(launch.operands[1], c.shape), c,
                           nullptr);
        },
    .run = Kernel{run, axis_of, [](const Signature&) { return true; }},
    .vjp =
        [](Vjp& g) {
          for (const std::size_t i : {0, 1})
            if (g.wants(i)) operand_cotangent(g, i);
        },
    .jvp =
        [](Jvp& j) {
          if (j.has(0)) ops::add_contraction(j, apply(prim::matmul, {j.tangent(0), j.in(1)}));
          if (j.has(1)) ops::add_contraction(j, apply(prim::matmul, {j.in(0), j.tangent(1)}));
        },
    .batch = batch,
    .samples =
        [](SampleSink& sink) {
          for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64, DType::i64}) {
            sink.add({{dtype, {19, 67}}, {dtype, {67, 35}}});
            sink.add({{dtype, {2, 1, 3, 33}}, {dtype, {4, 33, 6}}});
          }
          sink.add({{DType::f32, {1, 530}}, {DType::f32, {530, 70}}});
          sink.add({{DType::bf16, {40, 530}, Fill::edges}, {DType::bf16, {530, 3}, Fill::edges}});
          sink.add({{DType::f32, {4, 0, 3}}, {DType::f32, {3, 2}}});
          sink.add({{DType::f32, {2, 0}}, {DType::f32, {0, 3}}});
        },
    .cost = cost};

Array matmul(const Array& a, const Array& b) {
  if (a.rank() == 0 || b.rank() == 0)
    fail<ShapeError>("[matmul] operands must have at least one axis, got lhs {} and rhs {}", a.type(), b.type());
  const bool row = a.rank() == 1, column = b.rank() == 1;
  if (a.shape().back() != b.shape()[column ? 0 : b.rank() - 2])
    fail<ShapeError>("[matmul] contracted sizes differ: lhs {} axis {} is {}, rhs {} axis {} is {}", a.type(),
                     a.rank() - 1, a.shape().back(), b.type(), column ? 0 : b.rank() - 2,
                     b.shape()[column ? 0 : b.rank() - 2]);
  const DType dtype = promote(a.dtype(), b.dtype());
  const Array left = convert(a, dtype), right = convert(b, dtype);
  Array c = apply(prim::matmul, {row ? expand_dims(left, 0) : left, column ? expand_dims(right, 1) : right});
  if (column) c = squeeze(c, -1);
  if (row) c = squeeze(c, column ? -1 : -2);
  return c;
}

}  // namespace eadem
