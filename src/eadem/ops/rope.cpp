#include "eadem/numerics/rope.h"

#include "eadem/kernels/rows/rows.h"
#include "eadem/numerics/reduction_views.h"
#include "eadem/ops/catalog.h"
#include "eadem/ops/indices.h"
#include "eadem/ops/infer.h"
#include "eadem/ops/ops.h"
#include "eadem/ops/rules.h"

namespace eadem {
namespace {

struct RopeAttribute {
  bool interleaved = false;
  static constexpr auto fields() { return std::tuple(field("interleaved", &RopeAttribute::interleaved)); }
  numerics::RopePairs pairs() const {
    return interleaved ? numerics::RopePairs::interleaved : numerics::RopePairs::half_split;
  }
};

Types infer(const Signature& s) {
  ops::require_operands("rope", s, 3);
  const TensorType &x = s.operands[0], &positions = s.operands[1], &frequencies = s.operands[2];
  if (!is_floating(x.dtype)) fail<TypeError>("[rope] x must be floating-point, got {}", x);
  if (x.shape.empty()) fail<ShapeError>("[rope] x must be [..., D], got the scalar {}", x);
  Shape leading = x.shape;
  leading.pop_back();
  if (positions.dtype != DType::i64) fail<TypeError>("[rope] positions must be i64, got {}", positions);
  if (positions.shape != leading) {
    fail<ShapeError>("[rope] positions must have x's leading shape {}, got {} for x {}", leading, positions, x);
  }
  if (frequencies.dtype != DType::f64 && frequencies.dtype != DType::f32) {
    fail<TypeError>("[rope] frequencies must be f64 or f32, got {}", frequencies);
  }
  if (frequencies.shape.rank() != 1 || 2 * frequencies.shape[0] > x.shape.back()) {
    fail<ShapeError>("[rope] frequencies must be [R/2] with R <= {}, the last axis of x, got {}", x.shape.back(),
                     frequencies);
  }
  return {x};
}

std::vector<double> frequencies_of(const TensorView& view) {
  std::vector<double> out(static_cast<std::size_t>(view.shape[0]));
  visit_floating(view.dtype, [&]<class T>(std::type_identity<T>) {
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i] = numerics::to_double(view.as<const T>()[static_cast<std::int64_t>(i) * view.strides[0]]);
    }
  });
  return out;
}

void reference(const Launch& launch) {
  const TensorView &x = launch.operands[0], &positions = launch.operands[1];
  const auto frequencies = frequencies_of(launch.operands[2]);
  visit_floating(x.dtype, [&]<class T>(std::type_identity<T>) {
    numerics::for_each_reduction<T>(x, {x.shape.rank() - 1}, [&](std::span<const T> row, std::int64_t index) {
      const std::int64_t position =
          positions.as<const std::int64_t>()[numerics::offset_of(index, positions.shape, positions.strides)];
      numerics::rope<T>(row, static_cast<double>(position), frequencies, launch.as<RopeAttribute>().pairs(),
                        std::span(launch.results[0].as<T>() + index * x.shape.back(), row.size()));
    });
  });
}

// The first and second elements of the rotated pairs of [..., D], each [..., R/2].
std::pair<Array, Array> pairs_of(const Array& x, std::int64_t half, bool interleaved) {
  if (interleaved) return {slice_axis(x, -1, {0, 2 * half, 2}), slice_axis(x, -1, {1, 2 * half, 2})};
  return {slice_axis(x, -1, {0, half}), slice_axis(x, -1, {half, 2 * half})};
}

// The transpose of a rotation is the rotation back. By a frequency, the pair (y1, y2) moves along position (-y2, y1).
void vjp(Vjp& g) {
  const Array &x = g.in(0), &positions = g.in(1), &frequencies = g.in(2);
  const auto& a = g.as<RopeAttribute>();
  if (g.wants(0)) g.add(0, apply(prim::rope, {g.ct(), positions, -frequencies}, a));
  if (!g.wants(2)) return;
  const std::int64_t half = frequencies.extent(0);
  const Array y = apply(prim::rope, {convert(x, DType::f64), positions, frequencies}, a);
  const auto [first, second] = pairs_of(y, half, a.interleaved);
  const auto [ct_first, ct_second] = pairs_of(convert(g.ct(), DType::f64), half, a.interleaved);
  const Array turned = ct_second * first - ct_first * second;
  Shape rows;
  for (int axis = 0; axis + 1 < x.rank(); ++axis) rows.push_back(axis);
  const Array position = expand_dims(convert(positions, DType::f64), -1);
  g.add(2, convert(sum(turned * position, rows), frequencies.dtype()));
}

void batch(Batch& b) {
  if (b.batched(2)) return b.set_by_slices();
  b.set(apply(prim::rope, {b.with_axis(0), b.with_axis(1), b.in(2)}, b.as<RopeAttribute>()));
}

}  // namespace

constinit const Primitive prim::rope{
    .name = "rope",
    .summary = "Rotates pairs of the last axis by position times frequency (rotary position embedding).",
    .attributes = &kAttributesOf<RopeAttribute>,
    .infer = infer,
    .reference = reference,
    .run = Kernel{[](const Launch& launch, Context&) {
      kernels::rope(launch.operands[0], launch.operands[1], frequencies_of(launch.operands[2]),
                    launch.as<RopeAttribute>().pairs(), launch.results[0]);
    }},
    .vjp = vjp,
    .batch = batch,
    .samples = [](SampleSink& sink) {
      for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
        for (const bool interleaved : {false, true}) {
          sink.add(
              {{dtype, {2, 3, 5, 36}}, {DType::i64, {2, 3, 5}, Fill::indices, 1000}, {DType::f64, {18}, Fill::unit}},
              RopeAttribute{interleaved});
        }
        sink.add({{dtype, {4, 20}, Fill::edges}, {DType::i64, {4}, Fill::indices, 100}, {DType::f32, {5}, Fill::unit}},
                 RopeAttribute{});
      }
    }};

Array rope(const Array& x, const Array& positions, const Array& frequencies, bool interleaved) {
  if (x.rank() == 0) fail<ShapeError>("[rope] x must be [..., D], got the scalar {}", x.type());
  Shape leading = x.shape();
  leading.pop_back();
  return apply(prim::rope, {x, broadcast_to(ops::as_indices("rope", positions), leading), frequencies},
               RopeAttribute{interleaved});
}
Array rope_frequencies(double theta, std::int64_t rotated) {
  if (!(theta > 0)) fail<ValueError>("[rope_frequencies] theta must be positive, got {}", theta);
  if (rotated < 0 || rotated % 2 != 0) {
    fail<ValueError>("[rope_frequencies] the number of rotated elements must be even, got {}", rotated);
  }
  return Array::from(numerics::rope_frequencies(theta, rotated), {rotated / 2});
}

}  // namespace eadem
