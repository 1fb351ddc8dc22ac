#include <algorithm>
#include <cstring>

#include "eadem/base/parallel.h"
#include "eadem/kernels/move/copy.h"
#include "eadem/ops/catalog.h"
#include "eadem/ops/infer.h"
#include "eadem/ops/ops.h"
#include "eadem/ops/rules.h"

// tril and triu: one triangle of the last two axes, zero bits elsewhere.

namespace eadem {
namespace {

struct DiagonalAttribute {
  std::int64_t k = 0;
  static constexpr auto fields() { return std::tuple(field("k", &DiagonalAttribute::k)); }
};

template <bool lower>
bool kept(std::int64_t row, std::int64_t column, std::int64_t k) {
  return lower ? column - row <= k : column - row >= k;
}

template <bool lower>
Types infer(const Signature& s) {
  ops::require_operands(lower ? "tril" : "triu", s, 1);
  if (s.operands[0].shape.rank() < 2)
    fail<ShapeError>("[{}] needs at least two axes, got {}", lower ? "tril" : "triu", s.operands[0]);
  return {s.operands[0]};
}

template <bool lower>
void reference(const Launch& launch) {
  const TensorView &x = launch.operands[0], &result = launch.results[0];
  const int rank = x.shape.rank();
  ops::for_each_index(x.shape, [&](const Shape& index) {
    std::byte* to = ops::element_at(result, index);
    if (kept<lower>(index[rank - 2], index[rank - 1], launch.as<DiagonalAttribute>().k))
      ops::move_element(x.dtype, ops::element_at(x, index), to);
    else
      std::memset(to, 0, size_of(x.dtype));
  });
}

template <bool lower>
void run(const Launch& launch, Context&) {
  const TensorView& result = launch.results[0];
  kernels::copy(launch.operands[0], result);
  const int rank = result.shape.rank();
  const std::int64_t columns = result.shape[rank - 1], rows = result.shape[rank - 2];
  if (result.elements() == 0) return;
  // Saturated, so that any k is a column bound.
  const std::int64_t k = std::clamp(launch.as<DiagonalAttribute>().k, -rows, columns);
  const auto size = static_cast<std::int64_t>(size_of(result.dtype));
  parallel_for(result.elements() / columns, std::max<std::int64_t>(1, 8192 / columns),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t i = begin; i < end; ++i) {
                   const std::int64_t edge = std::clamp<std::int64_t>(i % rows + k + (lower ? 1 : 0), 0, columns);
                   const std::int64_t first = lower ? edge : 0, last = lower ? columns : edge;
                   std::memset(result.data + (i * columns + first) * size, 0,
                               static_cast<std::size_t>((last - first) * size));
                 }
               });
}

void samples(SampleSink& sink) {
  sink.add({{DType::f32, {5, 7}, Fill::edges}}, DiagonalAttribute{0});
  sink.add({{DType::i16, {2, 6, 3}, Fill::wide}}, DiagonalAttribute{-2});
  sink.add({{DType::bf16, {3, 3}}}, DiagonalAttribute{std::int64_t{1} << 62});
  sink.add({{DType::f64, {0, 3}}}, DiagonalAttribute{1});
}

// The same triangle of a cotangent, a tangent or each slice of a batch.
template <const Primitive& triangle>
void vjp(Vjp& g) {
  g.add_canonical(0, apply(triangle, {g.ct()}, g.as<DiagonalAttribute>()));
}
template <const Primitive& triangle>
void batch(Batch& b) {
  b.set(apply(triangle, {b.in()}, b.as<DiagonalAttribute>()));
}

}  // namespace

constinit const Primitive prim::tril{.name = "tril",
                                     .summary = "The lower triangle of the last two axes.",
                                     .attributes = &kAttributesOf<DiagonalAttribute>,
                                     .infer = infer<true>,
                                     .reference = reference<true>,
                                     .run = Kernel{run<true>},
                                     .vjp = vjp<prim::tril>,
                                     .jvp = ops::moved_jvp,
                                     .batch = batch<prim::tril>,
                                     .samples = samples};
constinit const Primitive prim::triu{.name = "triu",
                                     .summary = "The upper triangle of the last two axes.",
                                     .attributes = &kAttributesOf<DiagonalAttribute>,
                                     .infer = infer<false>,
                                     .reference = reference<false>,
                                     .run = Kernel{run<false>},
                                     .vjp = vjp<prim::triu>,
                                     .jvp = ops::moved_jvp,
                                     .batch = batch<prim::triu>,
                                     .samples = samples};

Array tril(const Array& x, std::int64_t k) {
  return apply(prim::tril, {x}, DiagonalAttribute{k});
}
Array triu(const Array& x, std::int64_t k) {
  return apply(prim::triu, {x}, DiagonalAttribute{k});
}

}  // namespace eadem
