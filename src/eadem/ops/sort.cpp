#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <vector>

#include "eadem/kernels/target.h"
#include "eadem/numerics/reduction.h"
#include "eadem/numerics/reduction_views.h"
#include "eadem/ops/catalog.h"
#include "eadem/ops/gather.h"
#include "eadem/ops/ops.h"
#include "eadem/ops/reductions.h"
#include "eadem/ops/rules.h"

// sort: rows in ascending order, and where each element came from.

namespace eadem {
namespace {

using ops::Number;

Types infer(const Signature& s) {
  ops::require_operands("sort", s, 1);
  const TensorType& x = s.operands[0];
  if (x.shape.empty()) fail<ShapeError>("[sort] needs at least one axis, got the scalar {}", x);
  return {x, {DType::i64, x.shape}};
}

// The order that is the definition: ascending, -0 before +0, NaN last, equal ones by index.
template <class T>
void order_row(const T* x, std::vector<std::int64_t>& order) {
  std::iota(order.begin(), order.end(), std::int64_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int64_t a, std::int64_t b) { return numerics::ordered_greater(x[b], x[a]); });
}

template <class T>
void sort_row(const T* x, std::vector<std::int64_t>& order, T* values, std::int64_t* indices) {
  order_row(x, order);
  for (std::size_t i = 0; i < order.size(); ++i) {
    indices[i] = order[i];
    values[i] = numerics::with_canonical_nan(x[order[i]]);
  }
}

void reference(const Launch& launch) {
  const TensorView& x = launch.operands[0];
  visit(x.dtype, [&]<class T>(std::type_identity<T>) {
    using N = Number<T>;
    std::vector<std::int64_t> order(static_cast<std::size_t>(x.shape.back()));
    numerics::for_each_reduction<N>(x, {x.shape.rank() - 1}, [&](std::span<const N> row, std::int64_t index) {
      const std::int64_t at = index * x.shape.back();
      sort_row<N>(row.data(), order, reinterpret_cast<N*>(launch.results[0].data) + at,
                  launch.results[1].as<std::int64_t>() + at);
    });
  });
}

// Integers that order as the definition does: their ties are equal elements, so sorting (key, index) is the stable
// sort.
template <class T>
void sort_rows(const kernels::RowArgs& args) {
  const auto n = static_cast<std::size_t>(args.length);
  if constexpr (FloatingElement<T>) {
    using Bits = std::conditional_t<sizeof(T) == 8, std::uint64_t,
                                    std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint16_t>>;
    constexpr Bits kSign = static_cast<Bits>(Bits{1} << (8 * sizeof(T) - 1));
    struct Entry {
      Bits key;
      std::int64_t index;
    };
    std::vector<Entry> entries(n);
    for (std::size_t row = 0; row < static_cast<std::size_t>(args.rows); ++row) {
      const T* x = reinterpret_cast<const T*>(args.in[0]) + row * n;
      for (std::size_t i = 0; i < n; ++i) {
        const double value = numerics::to_double(x[i]);
        const Bits bits = std::bit_cast<Bits>(x[i]);
        const Bits key = static_cast<Bits>(bits & kSign ? ~bits : bits | kSign);
        entries[i] = {value != value ? static_cast<Bits>(~Bits{0}) : key, static_cast<std::int64_t>(i)};
      }
      std::sort(entries.begin(), entries.end(),
                [](const Entry& a, const Entry& b) { return a.key != b.key ? a.key < b.key : a.index < b.index; });
      T* values = reinterpret_cast<T*>(args.out[0]) + row * n;
      std::int64_t* indices = reinterpret_cast<std::int64_t*>(args.out[1]) + row * n;
      for (std::size_t i = 0; i < n; ++i) {
        indices[i] = entries[i].index;
        values[i] = numerics::with_canonical_nan(x[entries[i].index]);
      }
    }
  } else {
    std::vector<std::int64_t> order(n);
    for (std::size_t row = 0; row < static_cast<std::size_t>(args.rows); ++row)
      sort_row<T>(reinterpret_cast<const T*>(args.in[0]) + row * n, order, reinterpret_cast<T*>(args.out[0]) + row * n,
                  reinterpret_cast<std::int64_t*>(args.out[1]) + row * n);
  }
}
kernels::RowFn pick(const Signature& s) {
  kernels::record_ran(kernels::Target::scalar);
  return visit(s.operands[0].dtype,
               []<class T>(std::type_identity<T>) -> kernels::RowFn { return &sort_rows<Number<T>>; });
}

// The rows laid end to end are one row; each value's cotangent goes back to where its index says.
void vjp(Vjp& g) {
  const Shape& shape = g.in().shape();
  if (g.in().elements() == 0) return g.add_canonical(0, zeros_like(g.in()));
  const std::int64_t n = shape.back(), count = g.in().elements();
  const Array places = reshape(ops::indices_side_by_side(reshape(g.out(1), {count / n, n}), n), {count});
  const Array found =
      apply(prim::scatter, {zeros({count}, g.ct().dtype()), places, reshape(g.ct(), {count})}, ops::AxisAttribute{0});
  g.add_canonical(0, reshape(found, shape));
}
void batch(Batch& b) {
  b.set(apply_all(prim::sort, std::array{b.in()}, nullptr));
}

}  // namespace

constinit const Primitive prim::sort{
    .name = "sort",
    .summary = "The last axis ascending, NaN last, equal ones in their order; and the indices they come from.",
    .infer = infer,
    .reference = reference,
    .run = Row{pick},
    .vjp = vjp,
    .batch = batch,
    .samples = [](SampleSink& sink) {
      for (int i = 0; i < kDTypeCount; ++i) {
        sink.add({{static_cast<DType>(i), {3, 2, 37}, Fill::edges}});
        sink.add({{static_cast<DType>(i), {2, 150}, Fill::positive}});
      }
      sink.add({{DType::f32, {0}}});
      sink.add({{DType::f32, {0, 3}}});
    }};

std::pair<Array, Array> sort_with_indices(const Array& x, std::int64_t axis) {
  const int at = normalize_axis("sort", axis, x.rank());
  const Arrays both = apply_all(prim::sort, std::array{ops::move_axis_last(x, at)}, nullptr);
  return {ops::move_axis_back(both[0], at), ops::move_axis_back(both[1], at)};
}
Array sort(const Array& x, std::int64_t axis) {
  return sort_with_indices(x, axis).first;
}
Array argsort(const Array& x, std::int64_t axis) {
  return sort_with_indices(x, axis).second;
}

}  // namespace eadem
