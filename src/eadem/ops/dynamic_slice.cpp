#include <array>

#include "eadem/kernels/move/copy.h"
#include "eadem/ops/catalog.h"
#include "eadem/ops/indices.h"
#include "eadem/ops/infer.h"
#include "eadem/ops/ops.h"
#include "eadem/ops/rules.h"

// dynamic_slice and dynamic_update_slice: windows whose place is data.

namespace eadem {
namespace {

struct SizeAttribute {
  Shape size;
  static constexpr auto fields() { return std::tuple(field("size", &SizeAttribute::size)); }
};

void require_window(std::string_view operation, const TensorType& x, const Shape& size, const TensorType& start) {
  if (start.dtype != DType::i64 || start.shape != Shape{x.shape.rank()})
    fail<TypeError>("[{}] start must be i64[{}], one index for each axis of {}, got {}", operation, x.shape.rank(), x,
                    start);
  bool fits = size.rank() == x.shape.rank();
  for (int i = 0; fits && i < size.rank(); ++i) fits = size[i] >= 0 && size[i] <= x.shape[i];
  if (!fits) fail<ShapeError>("[{}] a window {} does not fit in {}", operation, size, x);
}

// The window of `size` in x whose start is read from `start` and clamped so that it lies inside.
TensorView window_at(TensorView x, const Shape& size, const TensorView& start) {
  for (int i = 0; i < size.rank(); ++i) {
    const std::int64_t wanted = start.as<const std::int64_t>()[i * start.strides[0]];
    const std::int64_t at = std::clamp<std::int64_t>(wanted, 0, x.shape[i] - size[i]);
    x.data += at * x.strides[i] * static_cast<std::int64_t>(size_of(x.dtype));
  }
  x.shape = size;
  return x;
}

TensorView sliced(const Launch& launch) {
  return window_at(launch.operands[0], launch.as<SizeAttribute>().size, launch.operands[1]);
}

void reference_copy(const TensorView& from, const TensorView& to) {
  ops::for_each_index(from.shape, [&](const Shape& index) {
    ops::move_element(from.dtype, ops::element_at(from, index), ops::element_at(to, index));
  });
}

template <auto copy>
void update(const Launch& launch) {
  copy(launch.operands[0], launch.results[0]);
  copy(launch.operands[1], window_at(launch.results[0], launch.operands[1].shape, launch.operands[2]));
}

void slice_vjp(Vjp& g) {
  g.add_canonical(0, dynamic_update_slice(zeros_like(g.in(0)), g.ct(), g.in(1)));
}
void slice_jvp(Jvp& j) {
  j.add_canonical(dynamic_slice(j.tangent(0), j.in(1), j.as<SizeAttribute>().size));
}
void update_vjp(Vjp& g) {
  const Array &update = g.in(1), &start = g.in(2);
  if (g.wants(0)) g.add_canonical(0, dynamic_update_slice(g.ct(), zeros_like(update), start));
  if (g.wants(1)) g.add_canonical(1, dynamic_slice(g.ct(), start, update.shape()));
}
void update_jvp(Jvp& j) {
  j.add_canonical(dynamic_update_slice(j.tangent(0), j.tangent(1), j.in(2)));
}

// One start for all: the window takes the batch axis whole. Starts of each slice's own go slice by slice.
Array start_behind_batch(const Array& start) {
  return concatenate(std::array{zeros({1}, DType::i64), start}, 0);
}
void slice_batch(Batch& b) {
  if (b.batched(1)) return b.set_by_slices();
  Shape size = b.as<SizeAttribute>().size;
  size.insert(0, b.size());
  b.set(dynamic_slice(b.in(0), start_behind_batch(b.in(1)), size));
}
void update_batch(Batch& b) {
  if (b.batched(2)) return b.set_by_slices();
  b.set(dynamic_update_slice(b.with_axis(0), b.with_axis(1), start_behind_batch(b.in(2))));
}

}  // namespace

constinit const Primitive prim::dynamic_slice{
    .name = "dynamic_slice",
    .summary = "A window at a start that is data, clamped inside.",
    .attributes = &kAttributesOf<SizeAttribute>,
    .infer = [](const Signature& s) -> Types {
      ops::require_operands("dynamic_slice", s, 2);
      require_window("dynamic_slice", s.operands[0], s.as<SizeAttribute>().size, s.operands[1]);
      return {{s.operands[0].dtype, s.as<SizeAttribute>().size}};
    },
    .reference = ops::reference_of_view<sliced>,
    .run = Kernel{[](const Launch& launch, Context&) { kernels::copy(sliced(launch), launch.results[0]); }},
    .vjp = slice_vjp,
    .jvp = slice_jvp,
    .batch = slice_batch,
    .samples =
        [](SampleSink& sink) {
          sink.add({{DType::f32, {5, 7}, Fill::edges}, {DType::i64, {2}, Fill::indices, 8}}, SizeAttribute{{2, 3}});
          sink.add({{DType::u16, {9}, Fill::wide}, {DType::i64, {1}, Fill::wide}}, SizeAttribute{{4}});
          sink.add({{DType::bf16, {}}, {DType::i64, {0}}}, SizeAttribute{{}});
        }};
constinit const Primitive prim::dynamic_update_slice{
    .name = "dynamic_update_slice",
    .summary = "An array with a window replaced at a start that is data.",
    .infer = [](const Signature& s) -> Types {
      ops::require_operands("dynamic_update_slice", s, 3);
      if (s.operands[1].dtype != s.operands[0].dtype)
        fail<TypeError>("[dynamic_update_slice] the update must be {}, got {}", s.operands[0].dtype, s.operands[1]);
      require_window("dynamic_update_slice", s.operands[0], s.operands[1].shape, s.operands[2]);
      return {s.operands[0]};
    },
    .reference = update<reference_copy>,
    .run = Kernel{[](const Launch& launch, Context&) { update<kernels::copy>(launch); }},
    .vjp = update_vjp,
    .jvp = update_jvp,
    .batch = update_batch,
    .samples =
        [](SampleSink& sink) {
          sink.add({{DType::f32, {5, 7}, Fill::edges}, {DType::f32, {2, 3}}, {DType::i64, {2}, Fill::indices, 8}});
          sink.add({{DType::i8, {9}, Fill::wide}, {DType::i8, {0}}, {DType::i64, {1}, Fill::wide}});
        }};

Array dynamic_slice(const Array& x, const Array& start, const Shape& size) {
  return apply(prim::dynamic_slice, {x, ops::as_indices("dynamic_slice", start)}, SizeAttribute{size});
}
Array dynamic_update_slice(const Array& x, const Array& update, const Array& start) {
  return apply(prim::dynamic_update_slice, {x, update, ops::as_indices("dynamic_update_slice", start)});
}

}  // namespace eadem
