#include "eadem/numerics/cumulative_extreme.h"

#include <array>

#include "eadem/kernels/target.h"
#include "eadem/numerics/reduction_views.h"
#include "eadem/ops/catalog.h"
#include "eadem/ops/ops.h"
#include "eadem/ops/reductions.h"
#include "eadem/ops/rules.h"

// cummax and cummin, and the primitive by which derivatives pass through them.

namespace eadem {
namespace {

using ops::Number;

struct DirectionAttribute {
  bool reverse = false;
  static constexpr auto fields() { return std::tuple(field("reverse", &DirectionAttribute::reverse)); }
};
struct ShareAttribute {
  bool minimum = false, reverse = false, transposed = false;
  static constexpr auto fields() {
    using A = ShareAttribute;
    return std::tuple(field("minimum", &A::minimum), field("reverse", &A::reverse),
                      field("transposed", &A::transposed));
  }
};

Types infer(std::string_view name, const Signature& s) {
  ops::require_operands(name, s, 1);
  if (s.operands[0].shape.empty())
    fail<ShapeError>("[{}] needs at least one axis, got the scalar {}", name, s.operands[0]);
  return {s.operands[0]};
}
Types infer_share(const Signature& s) {
  ops::require_operands("cumulative_extreme_share", s, 2);
  ops::require_floating_rows("cumulative_extreme_share", s.operands[0]);
  if (s.operands[0] != s.operands[1])
    fail<ShapeError>("[cumulative_extreme_share] takes two operands of one type, got {} and {}", s.operands[0],
                     s.operands[1]);
  return {s.operands[0]};
}

template <bool minimum>
void reference(const Launch& launch) {
  const TensorView& x = launch.operands[0];
  visit(x.dtype, [&]<class T>(std::type_identity<T>) {
    using N = Number<T>;
    numerics::for_each_reduction<N>(x, {x.shape.rank() - 1}, [&](std::span<const N> row, std::int64_t index) {
      N* y = reinterpret_cast<N*>(launch.results[0].data) + index * x.shape.back();
      numerics::cumulative_extreme<minimum, N>(row, launch.as<DirectionAttribute>().reverse, {y, row.size()});
    });
  });
}
void reference_share(const Launch& launch) {
  const TensorView &x = launch.operands[0], &t = launch.operands[1];
  const auto& a = launch.as<ShareAttribute>();
  const Shape last{x.shape.rank() - 1};
  visit_floating(x.dtype, [&]<class T>(std::type_identity<T>) {
    numerics::for_each_reduction<T>(x, last, [&](std::span<const T> row, std::int64_t index) {
      std::vector<T> tangents(row.size());
      for (std::int64_t i = 0; i < x.shape.back(); ++i)
        tangents[static_cast<std::size_t>(i)] =
            t.as<const T>()[numerics::offset_of(index * x.shape.back() + i, t.shape, t.strides)];
      numerics::extreme_share<T>(row, tangents, a.minimum, a.reverse, a.transposed,
                                 {launch.results[0].as<T>() + index * x.shape.back(), row.size()});
    });
  });
}

// A running extreme is one chain whatever the target.
template <bool minimum, class N>
void rows(const kernels::RowArgs& args) {
  const auto n = static_cast<std::size_t>(args.length);
  const bool reverse = static_cast<const DirectionAttribute*>(args.attributes)->reverse;
  for (std::size_t row = 0; row < static_cast<std::size_t>(args.rows); ++row)
    numerics::cumulative_extreme<minimum, N>({reinterpret_cast<const N*>(args.in[0]) + row * n, n}, reverse,
                                             {reinterpret_cast<N*>(args.out[0]) + row * n, n});
}
template <bool minimum>
kernels::RowFn pick(const Signature& s) {
  kernels::record_ran(kernels::Target::scalar);
  return visit(s.operands[0].dtype,
               []<class T>(std::type_identity<T>) -> kernels::RowFn { return &rows<minimum, Number<T>>; });
}
template <class T>
void share_rows(const kernels::RowArgs& args) {
  const auto n = static_cast<std::size_t>(args.length);
  const auto& a = *static_cast<const ShareAttribute*>(args.attributes);
  for (std::size_t row = 0; row < static_cast<std::size_t>(args.rows); ++row) {
    const auto operand = [&](std::size_t i) { return std::span(reinterpret_cast<const T*>(args.in[i]) + row * n, n); };
    numerics::extreme_share<T>(operand(0), operand(1), a.minimum, a.reverse, a.transposed,
                               {reinterpret_cast<T*>(args.out[0]) + row * n, n});
  }
}

Array share(const Point& p, const Array& x, const Array& t, bool minimum, bool transposed) {
  return apply(prim::cumulative_extreme_share, {x, t},
               ShareAttribute{minimum, p.as<DirectionAttribute>().reverse, transposed});
}
template <bool minimum>
void vjp(Vjp& g) {
  g.add_canonical(0, share(g, g.in(), g.ct(), minimum, true));
}
template <bool minimum>
void jvp(Jvp& j) {
  j.add_canonical(share(j, j.in(), j.tangent(), minimum, false));
}
// It is linear in the tangents, and constant in x wherever it has a derivative.
void share_vjp(Vjp& g) {
  ShareAttribute attribute = g.as<ShareAttribute>();
  attribute.transposed = !attribute.transposed;
  if (g.wants(1)) g.add_canonical(1, apply(prim::cumulative_extreme_share, {g.in(0), g.ct()}, attribute));
}
void share_jvp(Jvp& j) {
  if (j.has(1)) j.add_canonical(apply(prim::cumulative_extreme_share, {j.in(0), j.tangent(1)}, j.as<ShareAttribute>()));
}

void rows_batch(Batch& b) {
  b.set(apply_all(b.primitive(), std::array{b.in()}, b.equation().attributes.get()));
}

constexpr DType kFloating[] = {DType::f64, DType::f32, DType::bf16, DType::f16};

void samples(SampleSink& sink) {
  for (int i = 0; i < kDTypeCount; ++i) sink.add({{static_cast<DType>(i), {3, 2, 11}}}, DirectionAttribute{i % 2 == 1});
  for (const DType dtype : kFloating) {
    sink.add({{dtype, {5, 33}, Fill::edges}}, DirectionAttribute{false});
    sink.add({{dtype, {2, 300}}}, DirectionAttribute{true});
  }
  sink.add({{DType::f32, {3, 0}}}, DirectionAttribute{});
}
void share_samples(SampleSink& sink) {
  for (const DType dtype : kFloating)
    for (int i = 0; i < 8; ++i) {
      const ShareAttribute attribute{(i & 1) != 0, (i & 2) != 0, (i & 4) != 0};
      sink.add({{dtype, {3, 17}}, {dtype, {3, 17}}}, attribute);
      sink.add({{dtype, {4, 40}, Fill::edges}, {dtype, {4, 40}}}, attribute);
    }
  sink.add({{DType::f32, {2, 0}}, {DType::f32, {2, 0}}}, ShareAttribute{});
}

Array along(const Primitive& primitive, const Array& x, std::int64_t axis, bool reverse) {
  return ops::along_axis(primitive.name, x, axis,
                         [&](const Array& each) { return apply(primitive, {each}, DirectionAttribute{reverse}); });
}

}  // namespace

constinit const Primitive prim::cummax{.name = "cummax",
                                       .summary = "Running maxima along the last axis; NaN propagates, -0 below +0.",
                                       .attributes = &kAttributesOf<DirectionAttribute>,
                                       .infer = [](const Signature& s) { return infer("cummax", s); },
                                       .reference = reference<false>,
                                       .run = Row{pick<false>},
                                       .vjp = vjp<false>,
                                       .jvp = jvp<false>,
                                       .batch = rows_batch,
                                       .samples = samples};

constinit const Primitive prim::cummin{.name = "cummin",
                                       .summary = "Running minima along the last axis; NaN propagates, -0 below +0.",
                                       .attributes = &kAttributesOf<DirectionAttribute>,
                                       .infer = [](const Signature& s) { return infer("cummin", s); },
                                       .reference = reference<true>,
                                       .run = Row{pick<true>},
                                       .vjp = vjp<true>,
                                       .jvp = jvp<true>,
                                       .batch = rows_batch,
                                       .samples = samples};

constinit const Primitive prim::cumulative_extreme_share{
    .name = "cumulative_extreme_share",
    .summary = "How tangents, or transposed cotangents, pass through cummax and cummin: ties share equally.",
    .attributes = &kAttributesOf<ShareAttribute>,
    .infer = infer_share,
    .reference = reference_share,
    .run = Row{[](const Signature& s) -> kernels::RowFn {
      kernels::record_ran(kernels::Target::scalar);
      return visit_floating(s.operands[0].dtype,
                            []<class T>(std::type_identity<T>) -> kernels::RowFn { return &share_rows<T>; });
    }},
    .vjp = share_vjp,
    .jvp = share_jvp,
    .batch =
        [](Batch& b) {
          b.set(apply(prim::cumulative_extreme_share, {b.with_axis(0), b.with_axis(1)}, b.as<ShareAttribute>()));
        },
    .samples = share_samples};

Array cummax(const Array& x, std::int64_t axis, bool reverse) {
  return along(prim::cummax, x, axis, reverse);
}
Array cummin(const Array& x, std::int64_t axis, bool reverse) {
  return along(prim::cummin, x, axis, reverse);
}

}  // namespace eadem
