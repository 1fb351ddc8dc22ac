#include <array>

#include "eadem/kernels/rows/rows.h"
#include "eadem/numerics/reduction.h"
#include "eadem/numerics/reduction_views.h"
#include "eadem/ops/catalog.h"
#include "eadem/ops/gather.h"
#include "eadem/ops/ops.h"
#include "eadem/ops/reductions.h"
#include "eadem/ops/rules.h"

namespace eadem {
namespace {

using ops::Number;

// Layouts of the kernels' attributes, with their names.
struct ReverseAttribute : kernels::ReverseAttribute {
  static constexpr auto fields() { return std::tuple(field("reverse", &kernels::ReverseAttribute::reverse)); }
};
struct CountAttribute : kernels::CountAttribute {
  static constexpr auto fields() { return std::tuple(field("k", &kernels::CountAttribute::k)); }
};
ReverseAttribute reverse_attribute(bool reverse) {
  ReverseAttribute attribute;
  attribute.reverse = reverse;
  return attribute;
}
CountAttribute count_attribute(std::int64_t k) {
  CountAttribute attribute;
  attribute.k = k;
  return attribute;
}

Types infer_cumsum(const Signature& s) {
  ops::require_operands("cumsum", s, 1);
  TensorType type = s.operands[0];
  if (type.shape.empty()) fail<ShapeError>("[cumsum] needs at least one axis, got the scalar {}", type);
  if (!is_floating(type.dtype)) type.dtype = is_unsigned_integer(type.dtype) ? DType::u64 : DType::i64;
  return {type};
}

Types infer_top_k(const Signature& s) {
  ops::require_operands("top_k", s, 1);
  TensorType type = s.operands[0];
  const std::int64_t k = s.as<CountAttribute>().k;
  if (type.shape.empty()) fail<ShapeError>("[top_k] needs at least one axis, got the scalar {}", type);
  if (k < 0 || k > type.shape.back()) {
    fail<ValueError>("[top_k] k must be from 0 to {}, the last axis of {}, got {}", type.shape.back(), type, k);
  }
  type.shape.back() = k;
  return {type, {DType::i64, type.shape}};
}

template <class F>
void for_each_row(const TensorView& x, F f) {
  visit(x.dtype, [&]<class T>(std::type_identity<T>) {
    using N = Number<T>;
    numerics::for_each_reduction<N>(x, {x.shape.rank() - 1},
                                    [&](std::span<const N> row, std::int64_t index) { f(row, index); });
  });
}

void rows_batch(Batch& b) {
  b.set(apply_all(b.primitive(), std::array{b.in()}, b.equation().attributes.get()));
}

// Each value's cotangent goes back to where its index says; the rows are laid end to end.
void top_k_vjp(Vjp& g) {
  const Shape& shape = g.in().shape();
  const Array& indices = g.out(1);
  const std::int64_t n = shape.back(), k = indices.extent(-1);
  if (g.in().elements() == 0 || k == 0) return g.add_canonical(0, zeros_like(g.in()));
  const std::int64_t rows = g.in().elements() / n;
  const Array places = reshape(ops::indices_side_by_side(reshape(indices, {rows, k}), n), {rows * k});
  const Array found = apply(prim::scatter_add, {zeros({rows * n}, g.ct().dtype()), places, reshape(g.ct(), {rows * k})},
                            ops::AxisAttribute{0});
  g.add_canonical(0, reshape(found, shape));
}

constexpr DType kAllDtypes[] = {DType::f64, DType::f32, DType::bf16, DType::f16, DType::i8,  DType::i16,    DType::i32,
                                DType::i64, DType::u8,  DType::u16,  DType::u32, DType::u64, DType::boolean};

}  // namespace

constinit const Primitive prim::cumsum{
    .name = "cumsum",
    .summary = "Running sums along the last axis: an ascending f64 chain, each prefix rounded; integers modulo 2^64.",
    .attributes = &kAttributesOf<ReverseAttribute>,
    .infer = infer_cumsum,
    .reference =
        [](const Launch& launch) {
          const bool reverse = launch.as<ReverseAttribute>().reverse;
          for_each_row(launch.operands[0], [&]<class T>(std::span<const T> row, std::int64_t index) {
            const std::int64_t at = index * static_cast<std::int64_t>(row.size());
            if constexpr (FloatingElement<T>) {
              numerics::cumsum<T>(row, std::span(launch.results[0].as<T>() + at, row.size()), reverse);
            } else {
              using Wide = numerics::WideInteger<T>;
              numerics::integer_cumsum<T>(row, std::span(launch.results[0].as<Wide>() + at, row.size()), reverse);
            }
          });
        },
    .run = Row{kernels::cumsum_rows},
    .vjp =
        [](Vjp& g) {
          const bool reverse = g.as<ReverseAttribute>().reverse;
          g.add_canonical(0, apply(prim::cumsum, {g.ct()}, reverse_attribute(!reverse)));
        },
    .jvp = ops::linear_jvp,
    .batch = rows_batch,
    .samples =
        [](SampleSink& sink) {
          for (const DType dtype : kAllDtypes) sink.add({{dtype, {3, 4, 21}}}, reverse_attribute(false));
          for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
            sink.add({{dtype, {5, 33}, Fill::edges}}, reverse_attribute(true));
          }
        }};

constinit const Primitive prim::top_k{
    .name = "top_k",
    .summary = "The k largest along the last axis, descending, NaN first, ties by index; and their indices.",
    .attributes = &kAttributesOf<CountAttribute>,
    .infer = infer_top_k,
    .reference =
        [](const Launch& launch) {
          const std::int64_t k = launch.as<CountAttribute>().k;
          for_each_row(launch.operands[0], [&]<class T>(std::span<const T> row, std::int64_t index) {
            numerics::top_k<T>(
                row, std::span(launch.results[0].as<T>() + index * k, static_cast<std::size_t>(k)),
                std::span(launch.results[1].as<std::int64_t>() + index * k, static_cast<std::size_t>(k)));
          });
        },
    .run = Row{kernels::top_k_rows},
    .vjp = top_k_vjp,
    .batch = rows_batch,
    .samples =
        [](SampleSink& sink) {
          for (const DType dtype : kAllDtypes) sink.add({{dtype, {3, 29}}}, count_attribute(5));
          sink.add({{DType::f32, {4, 50}, Fill::edges}}, count_attribute(50));
          sink.add({{DType::bf16, {4, 50}, Fill::edges}}, count_attribute(0));
        }};

Array cumsum(const Array& x, std::int64_t axis, bool reverse) {
  return ops::along_axis("cumsum", x, axis,
                         [&](const Array& rows) { return apply(prim::cumsum, {rows}, reverse_attribute(reverse)); });
}

std::pair<Array, Array> top_k(const Array& x, std::int64_t k, std::int64_t axis) {
  const int at = normalize_axis("top_k", axis, x.rank());
  const Arrays both = apply_all(prim::top_k, {ops::move_axis_last(x, at)}, count_attribute(k));
  return {ops::move_axis_back(both[0], at), ops::move_axis_back(both[1], at)};
}

}  // namespace eadem
