#include "eadem/kernels/quantized/quantized.h"

#include "eadem/kernels/move/copy.h"
#include "eadem/numerics/quantized.h"
#include "eadem/ops/catalog.h"
#include "eadem/ops/indices.h"
#include "eadem/ops/infer.h"
#include "eadem/ops/matrix.h"
#include "eadem/ops/ops.h"
#include "eadem/ops/rules.h"

// quantized_linear and quantized_take: products with packed quantized weights, and their rows.

namespace eadem {
namespace {

// What the bytes of a packed matrix mean, and the dtype of the result.
struct QuantizedAttribute {
  std::int64_t rows = 0, columns = 0, bits = 4, group = 32;
  bool symmetric = false;
  DType scales = DType::f16;
  std::optional<DType> result;
  static constexpr auto fields() {
    using Q = QuantizedAttribute;
    return std::tuple(field("rows", &Q::rows), field("columns", &Q::columns), field("bits", &Q::bits),
                      field("group", &Q::group), field("symmetric", &Q::symmetric), field("scales", &Q::scales),
                      field("result", &Q::result));
  }
};

QuantizedAttribute attribute_of(const kernels::PackedQuantized& w, std::optional<DType> result) {
  return {.rows = w.rows,
          .columns = w.columns,
          .bits = w.format.bits,
          .group = w.format.group,
          .symmetric = w.format.symmetric,
          .scales = w.format.scale_dtype,
          .result = result};
}

// Throws for attributes that no packed matrix has.
kernels::PackedQuantized layout_of(const QuantizedAttribute& a) {
  return kernels::layout({static_cast<int>(std::clamp<std::int64_t>(a.bits, 0, 64)),
                          static_cast<int>(std::clamp<std::int64_t>(a.group, 0, 4096)), a.symmetric, a.scales},
                         a.rows, a.columns);
}

kernels::PackedQuantized packed_of(const TensorView& bytes, const QuantizedAttribute& a) {
  kernels::PackedQuantized w = layout_of(a);
  const auto size = static_cast<std::size_t>(bytes.elements());
  if (is_contiguous(bytes) && reinterpret_cast<std::uintptr_t>(bytes.data) % 64 == 0) {
    w.memory = Buffer::borrow(bytes.data, size, nullptr);
  } else {  // nothing that pack() makes, but a program may hand on a window or a copy
    w.memory = Buffer::allocate(size);
    kernels::copy(bytes, contiguous_view(w.memory->data(), DType::u8, bytes.shape));
  }
  return w;
}

void require_packed(std::string_view operation, const TensorType& bytes, const QuantizedAttribute& a) {
  const kernels::PackedQuantized w = layout_of(a);
  const auto panel = static_cast<std::int64_t>(w.panel_bytes);
  if (bytes.dtype != DType::u8 || bytes.shape.rank() != 1 || (panel && bytes.shape[0] / panel != w.panels()) ||
      (panel ? bytes.shape[0] % panel : bytes.shape[0]) != 0)
    fail<ShapeError>("[{}] packed weights [{},{}] of {} bits must be u8 of {} bytes for 16 rows, got {}", operation,
                     a.rows, a.columns, a.bits, panel, bytes);
}

// Under the FP64 referee, whose operands are f64, results are f64 whatever the program declared.
DType result_of(const TensorType& x, const QuantizedAttribute& a) {
  return x.dtype == DType::f64 ? x.dtype : a.result.value_or(x.dtype);
}

Types infer_linear(const Signature& s) {
  if (s.operands.size() != 2 && s.operands.size() != 3)
    fail<ValueError>("[quantized_linear] takes 2 or 3 operands, got {}", s.operands.size());
  const auto& a = s.as<QuantizedAttribute>();
  const TensorType& x = s.operands[0];
  if (!is_floating(x.dtype)) fail<TypeError>("[quantized_linear] x must be floating, got {}", x);
  if (x.shape.rank() < 1 || x.shape.back() != a.columns)
    fail<ShapeError>("[quantized_linear] the last axis of x must be the weight's {} columns, got {}", a.columns, x);
  require_packed("quantized_linear", s.operands[1], a);
  if (s.operands.size() == 3 && (!is_floating(s.operands[2].dtype) || s.operands[2].shape != Shape{a.rows}))
    fail<ShapeError>("[quantized_linear] the bias must be floating [{}], got {}", a.rows, s.operands[2]);
  Shape shape = x.shape;
  shape.back() = a.rows;
  return {{result_of(x, a), shape}};
}

// x as a matrix, its rows copied together when no single stride joins them.
template <class F>
void with_matrix(const TensorView& x, F&& f) {
  if (ops::joins_rows(x)) return f(ops::as_matrix(x));
  const BufferRef memory = Buffer::allocate(static_cast<std::size_t>(x.elements()) * size_of(x.dtype));
  const TensorView packed = contiguous_view(memory->data(), x.dtype, x.shape);
  kernels::copy(x, packed);
  f(ops::as_matrix(packed));
}

void reference_linear(const Launch& launch) {
  const kernels::PackedQuantized w = packed_of(launch.operands[1], launch.as<QuantizedAttribute>());
  const TensorView y = ops::as_matrix(launch.results[0]);
  with_matrix(launch.operands[0], [&](const TensorView& x) {
    numerics::QuantizedRow row;
    for (std::int64_t n = 0; n < w.rows; ++n) {
      kernels::unpack_row(w, n, row);
      visit_floating(x.dtype, [&]<class X>(std::type_identity<X>) {
        for (std::int64_t m = 0; m < x.shape[0]; ++m) {
          numerics::Wide<X> sum =
              numerics::quantized_dot(x.as<const X>() + m * x.strides[0], x.strides[1], w.format, row);
          if (launch.operands.size() == 3) {
            const TensorView& bias = launch.operands[2];
            visit_floating(bias.dtype, [&]<class B>(std::type_identity<B>) {
              sum += static_cast<numerics::Wide<X>>(numerics::to_double(bias.as<const B>()[n * bias.strides[0]]));
            });
          }
          visit_floating(y.dtype, [&]<class Y>(std::type_identity<Y>) {
            y.as<Y>()[m * y.strides[0] + n] = numerics::round_to<Y>(sum);
          });
        }
      });
    }
  });
}

void run_linear(const Launch& launch, Context&) {
  const kernels::PackedQuantized w = packed_of(launch.operands[1], launch.as<QuantizedAttribute>());
  with_matrix(launch.operands[0], [&](const TensorView& x) {
    kernels::quantized_linear(x, w, ops::as_matrix(launch.results[0]),
                              launch.operands.size() == 3 ? &launch.operands[2] : nullptr);
  });
}

Types infer_take(const Signature& s) {
  ops::require_operands("quantized_take", s, 2);
  const auto& a = s.as<QuantizedAttribute>();
  require_packed("quantized_take", s.operands[0], a);
  if (s.operands[1].dtype != DType::i64) fail<TypeError>("[quantized_take] indices must be i64, got {}", s.operands[1]);
  if (a.rows == 0 && s.operands[1].shape.elements() != 0) fail<ShapeError>("[quantized_take] the weight has no rows");
  Shape shape = s.operands[1].shape;
  shape.push_back(a.columns);
  return {{a.result.value_or(DType::f32), shape}};
}

// Indices as `take` reads them: negative ones from the end, the rest clamped.
std::vector<std::int64_t> rows_of(const TensorView& indices, std::int64_t rows) {
  std::vector<std::int64_t> ids;
  ops::for_each_index(indices.shape, [&](const Shape& at) {
    const std::int64_t id = *reinterpret_cast<const std::int64_t*>(ops::element_at(indices, at));
    ids.push_back(std::clamp<std::int64_t>(id < 0 ? id + rows : id, 0, rows - 1));
  });
  return ids;
}

void reference_take(const Launch& launch) {
  const kernels::PackedQuantized w = packed_of(launch.operands[0], launch.as<QuantizedAttribute>());
  const TensorView y = ops::as_matrix(launch.results[0]);
  numerics::QuantizedRow row;
  std::int64_t m = 0;
  for (const std::int64_t id : rows_of(launch.operands[1], w.rows)) {
    kernels::unpack_row(w, id, row);
    visit_floating(y.dtype, [&]<class Y>(std::type_identity<Y>) {
      numerics::dequantize_row(w.format, row, y.as<Y>() + m * w.columns);
    });
    ++m;
  }
}

void run_take(const Launch& launch, Context&) {
  const kernels::PackedQuantized w = packed_of(launch.operands[0], launch.as<QuantizedAttribute>());
  const std::vector<std::int64_t> ids = rows_of(launch.operands[1], w.rows);
  kernels::dequantize_rows(w, ids, ops::as_matrix(launch.results[0]));
}

// The cotangent of x meets the weights dequantized once, in f32 (f64): an ordinary contraction. Codes have none.
void linear_vjp(Vjp& g) {
  const Array &x = g.in(0), &ct = g.ct();
  if (g.wants(0)) {
    QuantizedAttribute rows = g.as<QuantizedAttribute>();
    rows.result = x.dtype() == DType::f64 ? DType::f64 : DType::f32;
    const Array w = apply(prim::quantized_take, {g.in(1), arange(rows.rows)}, rows);
    ops::add_contraction(g, 0, dot_general(ct, w, {-1}, {0}, {}, {}, x.dtype()));
  }
  if (g.operands() == 3 && g.wants(2)) {
    Shape leading;
    for (int axis = 0; axis + 1 < ct.rank(); ++axis) leading.push_back(axis);
    const DType bias = g.in(2).dtype();
    g.add(2, convert(sum(convert(ct, promote(ct.dtype(), bias)), leading), bias));
  }
}
void linear_jvp(Jvp& j) {
  QuantizedAttribute a = j.as<QuantizedAttribute>();
  a.result = j.out().dtype();
  if (j.has(0)) ops::add_contraction(j, apply(prim::quantized_linear, {j.tangent(0), j.in(1)}, a));
  if (j.operands() == 3 && j.has(2)) j.add(broadcast_to(convert(j.tangent(2), j.out().dtype()), j.out().shape()));
}

// Rows of x, and indices, are independent of each other; weights of each slice's own are not one packed matrix.
void linear_batch(Batch& b) {
  if (b.batched(1) || (b.operands() == 3 && b.batched(2))) return b.set_by_slices();
  Arrays operands;
  for (std::size_t i = 0; i < b.operands(); ++i) operands.push_back(b.in(i));
  b.set(apply(prim::quantized_linear, operands, &b.as<QuantizedAttribute>()));
}
void take_batch(Batch& b) {
  if (b.batched(0)) return b.set_by_slices();
  b.set(apply(prim::quantized_take, {b.in(0), b.in(1)}, b.as<QuantizedAttribute>()));
}

// Random bytes are packed weights where a code fills its bits: 4 and 8.
QuantizedAttribute sample_weight(std::int64_t rows, std::int64_t columns, int bits, int group, bool symmetric,
                                 std::optional<DType> result) {
  return {.rows = rows,
          .columns = columns,
          .bits = bits,
          .group = group,
          .symmetric = symmetric,
          .scales = DType::f16,
          .result = result};
}
SampleOperand sample_bytes(const QuantizedAttribute& a) {
  return {DType::u8, {static_cast<std::int64_t>(layout_of(a).bytes())}, Fill::wide};
}

}  // namespace

constinit const Primitive prim::quantized_linear{
    .name = "quantized_linear",
    .summary = "x times the transpose of packed quantized weights, plus a bias.",
    .attributes = &kAttributesOf<QuantizedAttribute>,
    .infer = infer_linear,
    .reference = reference_linear,
    .run = Kernel{run_linear},
    .vjp = linear_vjp,
    .jvp = linear_jvp,
    .batch = linear_batch,
    .samples = [](SampleSink& sink) {
      const QuantizedAttribute q4 = sample_weight(19, 96, 4, 32, false, std::nullopt);
      const QuantizedAttribute q8 = sample_weight(33, 64, 8, 32, true, DType::f32);
      for (const DType dtype : {DType::bf16, DType::f32, DType::f16, DType::f64}) {
        sink.add({{dtype, {2, 3, 96}}, sample_bytes(q4)}, q4);
        sink.add({{dtype, {1, 64}, Fill::edges}, sample_bytes(q8), {DType::f32, {33}}}, q8);
        sink.add({{dtype, {3, 64}}, sample_bytes(q8)}, q8);
      }
      sink.add({{DType::bf16, {0, 96}}, sample_bytes(q4)}, q4);
    }};
constinit const Primitive prim::quantized_take{
    .name = "quantized_take",
    .summary = "Rows of packed quantized weights, dequantized.",
    .attributes = &kAttributesOf<QuantizedAttribute>,
    .infer = infer_take,
    .reference = reference_take,
    .run = Kernel{run_take},
    .batch = take_batch,
    .samples =
        [](SampleSink& sink) {
          for (const DType dtype : {DType::bf16, DType::f32, DType::f16, DType::f64}) {
            const QuantizedAttribute q = sample_weight(19, 96, 4, 32, false, dtype);
            sink.add({sample_bytes(q), {DType::i64, {2, 3}, Fill::indices, 19}}, q);
          }
          const QuantizedAttribute q8 = sample_weight(33, 64, 8, 32, true, DType::bf16);
          sink.add({sample_bytes(q8), {DType::i64, {0}}}, q8);
        },
    .promote = Promote::keep};

Array quantized_linear(const Array& x, const kernels::PackedQuantized& w, const std::optional<Array>& bias,
                       std::optional<DType> result) {
  const Array bytes(w.memory, contiguous_view(w.memory->data(), DType::u8, {static_cast<std::int64_t>(w.bytes())}));
  const QuantizedAttribute attributes = attribute_of(w, result);
  return bias ? apply(prim::quantized_linear, {x, bytes, *bias}, attributes)
              : apply(prim::quantized_linear, {x, bytes}, attributes);
}

Array quantized_take(const kernels::PackedQuantized& w, const Array& indices, DType dtype) {
  const Array wide = ops::as_indices("quantized_take", indices);
  if (!wide.traced()) {
    for (const std::int64_t index : wide.data<std::int64_t>())
      if (index < -w.rows || index >= w.rows)
        fail<ValueError>("[quantized_take] index {} is out of range for {} rows", index, w.rows);
  }
  const Array bytes(w.memory, contiguous_view(w.memory->data(), DType::u8, {static_cast<std::int64_t>(w.bytes())}));
  return apply(prim::quantized_take, {bytes, wide}, attribute_of(w, dtype));
}

}  // namespace eadem
