#include "eadem/numerics/softmax_vjp.h"

#include "eadem/kernels/rows/rows.h"
#include "eadem/numerics/reduction_views.h"
#include "eadem/ops/catalog.h"
#include "eadem/ops/indices.h"
#include "eadem/ops/ops.h"
#include "eadem/ops/reductions.h"
#include "eadem/ops/rules.h"

// cross_entropy, and the reverse derivatives of the softmax family as primitives of their own. Higher derivatives go
// through `decompose`, in f64.

namespace eadem {
namespace {

using numerics::to_double;

struct ResultAttribute : kernels::ResultAttribute {
  static constexpr auto fields() { return std::tuple(field("result", &kernels::ResultAttribute::result)); }
};

constexpr DType kFloating[] = {DType::f64, DType::f32, DType::bf16, DType::f16};

// ---- Types ----

Shape with_last_of_one(const TensorType& x) {
  Shape shape = x.shape;
  shape.back() = 1;
  return shape;
}

// x and dy of one type, or dy with one element a row.
template <bool per_row>
Types infer(std::string_view name, const Signature& s) {
  ops::require_operands(name, s, 2);
  const TensorType &x = s.operands[0], &dy = s.operands[1];
  ops::require_floating_rows(name, x);
  const TensorType wanted{x.dtype, per_row ? with_last_of_one(x) : x.shape};
  if (dy != wanted) fail<ShapeError>("[{}] the cotangent must be {} for {}, got {}", name, wanted, x, dy);
  return {x};
}

void require_labels(std::string_view name, const Signature& s) {
  const TensorType &x = s.operands[0], &labels = s.operands[1];
  ops::require_floating_rows(name, x);
  if (labels != TensorType{DType::i64, with_last_of_one(x)})
    fail<ShapeError>("[{}] labels must be {} for {}, got {}", name, TensorType{DType::i64, with_last_of_one(x)}, x,
                     labels);
}

Types infer_cross_entropy(const Signature& s) {
  ops::require_operands("cross_entropy", s, 2);
  require_labels("cross_entropy", s);
  const TensorType& x = s.operands[0];
  const DType result = s.as<ResultAttribute>().of(x.dtype);
  if (result != x.dtype && result != DType::f32)
    fail<TypeError>("[cross_entropy] the loss must be {} (as x) or f32, got {}", x.dtype, result);
  Shape shape = x.shape;
  shape.pop_back();
  return {{result, shape}};
}

Types infer_cross_entropy_vjp(const Signature& s) {
  ops::require_operands("cross_entropy_vjp", s, 3);
  require_labels("cross_entropy_vjp", s);
  const TensorType &x = s.operands[0], &dy = s.operands[2];
  if (dy.shape != with_last_of_one(x))
    fail<ShapeError>("[cross_entropy_vjp] the cotangent must be {} for {}, got {}", with_last_of_one(x), x, dy);
  if (dy.dtype != x.dtype && (dy.dtype != DType::f32 || x.dtype == DType::f64))
    fail<TypeError>("[cross_entropy_vjp] the cotangent must be {} (as x) or f32, got {}", x.dtype, dy);
  return {x};
}

// ---- Meaning ----

// f(row of operand 0, its number, its result) for rows of element type T.
template <class F>
void for_rows(const Launch& launch, F f) {
  const TensorView& x = launch.operands[0];
  visit_floating(x.dtype, [&]<class T>(std::type_identity<T>) {
    numerics::for_each_reduction<T>(x, {x.shape.rank() - 1}, [&](std::span<const T> row, std::int64_t index) {
      const auto n = static_cast<std::int64_t>(row.size());
      f(row, index, std::span(launch.results[0].as<T>() + index * n, row.size()));
    });
  });
}

// The row of that number of an operand with rows.
template <class T>
std::vector<T> row_of(const TensorView& x, std::int64_t index) {
  Shape outer = x.shape, strides = x.strides;
  outer.pop_back();
  strides.pop_back();
  const T* first = x.as<const T>() + numerics::offset_of(index, outer, strides);
  std::vector<T> row(static_cast<std::size_t>(x.shape.back()));
  for (std::size_t i = 0; i < row.size(); ++i) row[i] = first[static_cast<std::int64_t>(i) * x.strides.back()];
  return row;
}

double cotangent_of(const TensorView& dy, std::int64_t row) {
  return visit_floating(dy.dtype, [&]<class T>(std::type_identity<T>) { return to_double(row_of<T>(dy, row)[0]); });
}

// ---- Samples ----

template <bool per_row>
void samples(SampleSink& sink) {
  const auto add = [&](DType dtype, const Shape& shape, Fill fill) {
    Shape cotangent = shape;
    if (per_row) cotangent.back() = 1;
    sink.add({{dtype, shape, fill}, {dtype, cotangent, fill == Fill::wide ? Fill::normal : fill}});
  };
  for (const DType dtype : kFloating) {
    add(dtype, {3, 5, 37}, Fill::normal);
    add(dtype, {8, 16}, Fill::edges);
    add(dtype, {40, 7}, Fill::wide);
    add(dtype, {2, 4099}, Fill::unit);
  }
  add(DType::f32, {1}, Fill::normal);
  add(DType::f32, {3, 0}, Fill::normal);
}

template <bool backward>
void samples_cross_entropy(SampleSink& sink) {
  const auto add = [&](DType dtype, const Shape& shape, Fill fill, std::optional<DType> result) {
    Shape labels = shape;
    labels.back() = 1;
    std::vector<SampleOperand> operands{{dtype, shape, fill},
                                        {DType::i64, labels, Fill::indices, shape.back() + (fill == Fill::edges)}};
    if (backward) operands.push_back({result.value_or(dtype), labels, fill});
    ResultAttribute attribute;
    attribute.result = result;
    backward ? sink.add(operands) : sink.add(operands, attribute);
  };
  for (const DType dtype : kFloating) {
    add(dtype, {3, 5, 37}, Fill::normal, std::nullopt);
    add(dtype, {12, 16}, Fill::edges, std::nullopt);
    add(dtype, {2, 4099}, Fill::normal, std::nullopt);
  }
  for (const DType dtype : {DType::bf16, DType::f16}) add(dtype, {30, 50}, Fill::normal, DType::f32);
  add(DType::f32, {4, 1}, Fill::normal, std::nullopt);
}

// ---- Rules ----

Array wide(const Array& x) {
  return convert(x, DType::f64);
}

// The one-hot rows of labels [.., 1], in f64.
Array one_hot(const Array& labels, std::int64_t length) {
  Shape shape = labels.shape();
  shape.back() = length;
  return convert(equal(broadcast_to(labels, shape), iota(DType::i64, shape, -1)), DType::f64);
}

void cross_entropy_rule(Vjp& g) {
  g.add_canonical(0, apply(prim::cross_entropy_vjp, {g.in(0), g.in(1), expand_dims(g.ct(), -1)}));
}

}  // namespace

constinit const Primitive prim::softmax_vjp{
    .name = "softmax_vjp",
    .summary = "y (dy - sum(y dy)) along the last axis, in f64, rounded once.",
    .infer = [](const Signature& s) { return infer<false>("softmax_vjp", s); },
    .reference =
        [](const Launch& launch) {
          for_rows(launch, [&]<class T>(std::span<const T> y, std::int64_t row, std::span<T> dx) {
            numerics::softmax_vjp<T>(y, row_of<T>(launch.operands[1], row), dx);
          });
        },
    .run = Row{kernels::softmax_vjp_rows},
    .batch = ops::elementwise_batch,
    .decompose =
        [](const Arrays& in, const void*) {
          const Array y = wide(in[0]), dy = wide(in[1]);
          return Arrays{eadem::convert(y * (dy - eadem::sum(y * dy, {-1}, true)), in[0].dtype())};
        },
    .samples = samples<false>};

constinit const Primitive prim::log_softmax_vjp{
    .name = "log_softmax_vjp",
    .summary = "dy - softmax(x) sum(dy) along the last axis, in f64, rounded once.",
    .infer = [](const Signature& s) { return infer<false>("log_softmax_vjp", s); },
    .reference =
        [](const Launch& launch) {
          for_rows(launch, [&]<class T>(std::span<const T> x, std::int64_t row, std::span<T> dx) {
            numerics::log_softmax_vjp<T>(x, row_of<T>(launch.operands[1], row), dx);
          });
        },
    .run = Row{kernels::log_softmax_vjp_rows},
    .batch = ops::elementwise_batch,
    .decompose =
        [](const Arrays& in, const void*) {
          const Array dy = wide(in[1]);
          return Arrays{eadem::convert(dy - eadem::softmax(wide(in[0])) * eadem::sum(dy, {-1}, true), in[0].dtype())};
        },
    .samples = samples<false>};

constinit const Primitive prim::logsumexp_vjp{
    .name = "logsumexp_vjp",
    .summary = "softmax(x) times the row's cotangent, in f64, rounded once; +0 where that is a zero or x is all -inf.",
    .infer = [](const Signature& s) { return infer<true>("logsumexp_vjp", s); },
    .reference =
        [](const Launch& launch) {
          for_rows(launch, [&]<class T>(std::span<const T> x, std::int64_t row, std::span<T> dx) {
            numerics::logsumexp_vjp<T>(x, cotangent_of(launch.operands[1], row), dx);
          });
        },
    .run = Row{kernels::logsumexp_vjp_rows},
    .batch = ops::elementwise_batch,
    .decompose =
        [](const Arrays& in, const void*) {
          return Arrays{eadem::convert(wide(in[1]) * eadem::softmax(wide(in[0])), in[0].dtype())};
        },
    .samples = samples<true>};

constinit const Primitive prim::cross_entropy{
    .name = "cross_entropy",
    .summary = "logsumexp(x) - x[label] along the last axis, in f64, rounded once.",
    .attributes = &kAttributesOf<ResultAttribute>,
    .infer = infer_cross_entropy,
    .reference =
        [](const Launch& launch) {
          const TensorView& loss = launch.results[0];
          for_rows(launch, [&]<class T>(std::span<const T> x, std::int64_t row, std::span<T>) {
            const double value = numerics::cross_entropy(x, row_of<std::int64_t>(launch.operands[1], row)[0]);
            visit_floating(loss.dtype,
                           [&]<class R>(std::type_identity<R>) { loss.as<R>()[row] = numerics::round_to<R>(value); });
          });
        },
    .run = Row{kernels::cross_entropy_rows},
    .vjp = cross_entropy_rule,
    .batch = ops::elementwise_batch,
    .samples = samples_cross_entropy<false>};

constinit const Primitive prim::cross_entropy_vjp{
    .name = "cross_entropy_vjp",
    .summary = "(softmax(x) - [i = label]) times the row's cotangent, in f64, rounded once; +0 where that is a zero.",
    .infer = infer_cross_entropy_vjp,
    .reference =
        [](const Launch& launch) {
          for_rows(launch, [&]<class T>(std::span<const T> x, std::int64_t row, std::span<T> dx) {
            numerics::cross_entropy_vjp<T>(x, row_of<std::int64_t>(launch.operands[1], row)[0],
                                           cotangent_of(launch.operands[2], row), dx);
          });
        },
    .run = Row{kernels::cross_entropy_vjp_rows},
    .batch = ops::elementwise_batch,
    .decompose =
        [](const Arrays& in, const void*) {
          const Array p = eadem::softmax(wide(in[0])) - one_hot(in[1], in[0].shape().back());
          return Arrays{eadem::convert(wide(in[2]) * p, in[0].dtype())};
        },
    .samples = samples_cross_entropy<true>};

Array cross_entropy(const Array& logits, const Array& labels, std::optional<DType> result) {
  ops::require_floating_rows("cross_entropy", logits.type());
  Shape outer = logits.shape();
  outer.pop_back();
  if (labels.shape() != outer)
    fail<ShapeError>("[cross_entropy] labels must be {} for logits {}, got {}", outer, logits.type(), labels.type());
  ResultAttribute attribute;
  attribute.result = result;
  return apply(prim::cross_entropy, {logits, expand_dims(ops::as_indices("cross_entropy", labels), -1)}, attribute);
}

}  // namespace eadem
