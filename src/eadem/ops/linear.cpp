#include "eadem/kernels/contraction/contraction.h"
#include "eadem/numerics/contraction.h"
#include "eadem/ops/catalog.h"
#include "eadem/ops/infer.h"
#include "eadem/ops/matrix.h"
#include "eadem/ops/ops.h"
#include "eadem/ops/rules.h"
#include "eadem/runtime/context.h"

namespace eadem {
namespace {

struct LinearAttribute {
  std::optional<DType> result;
  static constexpr auto fields() { return std::tuple(field("result", &LinearAttribute::result)); }
};

Types infer(const Signature& s) {
  if (s.operands.size() != 2 && s.operands.size() != 3)
    fail<ValueError>("[linear] takes 2 or 3 operands, got {}", s.operands.size());
  const TensorType &x = s.operands[0], &w = s.operands[1];
  const int rank = x.shape.rank();
  if (rank < 1 || w.shape.rank() != 2)
    fail<ShapeError>("[linear] x must be [.., K] and w [N, K], got x {} and w {}", x, w);
  if (x.dtype != w.dtype || !is_floating(x.dtype))
    fail<TypeError>("[linear] x and w must have one floating dtype, got x {} and w {}", x, w);
  if (x.shape[rank - 1] != w.shape[1])
    fail<ShapeError>("[linear] contracted sizes differ: x {} axis {} is {}, w {} axis 1 is {}", x, rank - 1,
                     x.shape[rank - 1], w, w.shape[1]);
  if (s.operands.size() == 3) {
    const TensorType& bias = s.operands[2];
    if (bias.shape != Shape{w.shape[0]}) fail<ShapeError>("[linear] the bias must be [{}], got {}", w.shape[0], bias);
    if (!is_floating(bias.dtype)) fail<TypeError>("[linear] the bias must be floating, got {}", bias);
  }
  Shape shape = x.shape;
  shape.back() = w.shape[0];
  checked_elements("linear", shape);
  // Under the FP64 referee, whose operands are f64, the result is f64 whatever the program declared.
  const DType result = s.as<LinearAttribute>().result.value_or(x.dtype);
  if (!is_floating(result)) fail<TypeError>("[linear] the result must be floating, got {}", result);
  return {{x.dtype == DType::f64 ? x.dtype : result, shape}};
}

// Calls f(a, b, c, bias) with x as one matrix [M, K], or as matrices [.., M, K] where strides do not join them, and w
// as [.., K, N], the same for each of them.
template <class F>
void with_matrices(const Launch& launch, F&& f) {
  TensorView a = launch.operands[0], c = launch.results[0];
  if (a.shape.rank() == 1) {
    a.shape.insert(0, 1), a.strides.insert(0, 0);
    c.shape.insert(0, 1), c.strides.insert(0, 0);
  }
  if (ops::joins_rows(a)) a = ops::as_matrix(a), c = ops::as_matrix(c);
  const TensorView& w = launch.operands[1];
  TensorView b = w;
  b.shape = {w.shape[1], w.shape[0]};
  b.strides = {w.strides[1], w.strides[0]};
  for (int axis = 0; axis < a.shape.rank() - 2; ++axis) {
    b.shape.insert(axis, a.shape[axis]);
    b.strides.insert(axis, 0);
  }
  f(a, b, c, launch.operands.size() == 3 ? &launch.operands[2] : nullptr);
}

void run(const Launch& launch, Context& context) {
  with_matrices(launch, [&](const TensorView& a, const TensorView& b, const TensorView& c, const TensorView* bias) {
    kernels::matmul(a, b, c, bias, true, context.epilogue());
  });
}

Cost cost(const Signature& s, const Types& results) {
  double bytes = 0;
  for (const TensorType& t : s.operands)
    bytes += static_cast<double>(t.shape.elements()) * static_cast<double>(size_of(t.dtype));
  const TensorType& y = results[0];
  bytes += static_cast<double>(y.shape.elements()) * static_cast<double>(size_of(y.dtype));
  return {bytes, 2 * static_cast<double>(y.shape.elements()) * static_cast<double>(s.operands[0].shape.back())};
}

void vjp(Vjp& g) {
  const Array &x = g.in(0), &w = g.in(1), &ct = g.ct();
  Shape rows;
  for (int axis = 0; axis + 1 < ct.rank(); ++axis) rows.push_back(axis);
  if (g.wants(0)) ops::add_contraction(g, 0, dot_general(ct, w, {-1}, {0}, {}, {}, x.dtype()));
  if (g.wants(1)) ops::add_contraction(g, 1, dot_general(ct, x, rows, rows, {}, {}, w.dtype()));
  if (g.operands() == 3 && g.wants(2)) {
    // Summed in the wider of the two dtypes: one rounding when that is the bias's.
    const DType bias = g.in(2).dtype();
    g.add(2, convert(sum(convert(ct, promote(ct.dtype(), bias)), rows), bias));
  }
}

void jvp(Jvp& j) {
  const DType result = j.out().dtype();
  if (j.has(0)) ops::add_contraction(j, linear(j.tangent(0), j.in(1), std::nullopt, result));
  if (j.has(1)) ops::add_contraction(j, linear(j.in(0), j.tangent(1), std::nullopt, result));
  if (j.operands() == 3 && j.has(2)) j.add(broadcast_to(convert(j.tangent(2), result), j.out().shape()));
}

// Rows of x are independent; weights of each slice's own are one contraction with a batch axis.
void batch(Batch& b) {
  const bool with_bias = b.operands() == 3;
  if (!b.batched(1) && !(with_bias && b.batched(2))) {
    const Array operands[] = {b.in(0), b.in(1), with_bias ? b.in(2) : Array()};
    b.set(apply(prim::linear, std::span(operands).first(b.operands()), &b.as<LinearAttribute>()));
  } else if (!with_bias) {
    const Array x = b.with_axis(0), w = b.in(1);
    const DType result = b.as<LinearAttribute>().result.value_or(x.dtype());
    b.set(dot_general(x, w, {-1}, {2}, {0}, {0}, result));
  } else {
    b.set_by_slices();
  }
}

}  // namespace

constinit const Primitive prim::linear{
    .name = "linear",
    .summary = "x w^T + bias, rounded once.",
    .attributes = &kAttributesOf<LinearAttribute>,
    .infer = infer,
    .reference =
        [](const Launch& launch) {
          with_matrices(launch, [](const TensorView& a, const TensorView& b, const TensorView& c,
                                   const TensorView* bias) { numerics::matmul(a, b, c, bias); });
        },
    .run = Kernel{.run = run, .hands_on = [](const Signature&) { return true; }},
    .vjp = vjp,
    .jvp = jvp,
    .batch = batch,
    .samples =
        [](SampleSink& sink) {
          for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64}) {
            sink.add({{dtype, {17, 67}}, {dtype, {35, 67}}, {dtype, {35}}}, LinearAttribute{});
            sink.add({{dtype, {2, 3, 300}}, {dtype, {20, 300}}}, LinearAttribute{});
            sink.add({{dtype, {300}}, {dtype, {20, 300}}, {DType::f32, {20}}}, LinearAttribute{});
          }
          const SampleOperand x{DType::f32, {5, 40}, Fill::edges}, w{DType::f32, {9, 40}, Fill::edges};
          sink.add({x, w, {DType::f32, {9}, Fill::edges}}, LinearAttribute{});
          sink.add({{DType::bf16, {5, 40}, Fill::edges}, {DType::bf16, {9, 40}, Fill::edges}}, LinearAttribute{});
          sink.add({{DType::f32, {3, 0}}, {DType::f32, {4, 0}}, {DType::f32, {4}}}, LinearAttribute{});
          sink.add({{DType::bf16, {2, 1, 67}}, {DType::bf16, {33, 67}}}, LinearAttribute{DType::f32});
        },
    .cost = cost};

Array linear(const Array& x, const Array& w, const std::optional<Array>& bias, std::optional<DType> result) {
  const DType dtype = promote(x.dtype(), w.dtype());
  const Array a = convert(x, dtype), b = convert(w, dtype);
  const LinearAttribute attributes{result};
  return bias ? apply(prim::linear, {a, b, *bias}, attributes) : apply(prim::linear, {a, b}, attributes);
}

}  // namespace eadem
