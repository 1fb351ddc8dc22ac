#include "eadem/kernels/move/copy.h"
#include "eadem/ops/catalog.h"
#include "eadem/ops/infer.h"
#include "eadem/ops/ops.h"
#include "eadem/ops/rules.h"

namespace eadem {
namespace {

using ops::AxisAttribute;

Types infer(const Signature& s) {
  if (s.operands.empty()) fail<ValueError>("[concatenate] needs at least one array");
  TensorType type = s.operands[0];
  ops::require_axis("concatenate", s.as<AxisAttribute>().axis, type.shape.rank());
  const int axis = static_cast<int>(s.as<AxisAttribute>().axis);
  for (std::size_t i = 1; i < s.operands.size(); ++i) {
    const TensorType& next = s.operands[i];
    if (next.dtype != type.dtype)
      fail<TypeError>("[concatenate] arrays must have one dtype, array 0 is {}, array {} is {}", s.operands[0], i,
                      next);
    Shape expected = s.operands[0].shape;
    if (next.shape.rank() == expected.rank()) expected[axis] = next.shape[axis];
    if (next.shape != expected)
      fail<ShapeError>("[concatenate] all axes but {} must agree, array 0 is {}, array {} is {}", axis, s.operands[0],
                       i, next);
    type.shape[axis] += next.shape[axis];
  }
  checked_elements("concatenate", type.shape);
  return {type};
}

// Calls f(operand, its window of the result).
template <class F>
void for_each_part(const Launch& launch, F&& f) {
  const int axis = static_cast<int>(launch.as<AxisAttribute>().axis);
  TensorView window = launch.results[0];
  for (const TensorView& operand : launch.operands) {
    window.shape[axis] = operand.shape[axis];
    f(operand, window);
    window.data += operand.shape[axis] * window.strides[axis] * static_cast<std::int64_t>(size_of(window.dtype));
  }
}

void vjp(Vjp& g) {
  const auto axis = g.as<AxisAttribute>().axis;
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < g.operands(); ++i) {
    const std::int64_t end = begin + g.in(i).extent(axis);
    if (g.wants(i)) g.add_canonical(i, slice_axis(g.ct(), axis, {begin, end}));
    begin = end;
  }
}

void jvp(Jvp& j) {
  Arrays tangents;
  for (std::size_t i = 0; i < j.operands(); ++i) tangents.push_back(j.tangent(i));
  j.add_canonical(concatenate(tangents, j.as<AxisAttribute>().axis));
}

void batch(Batch& b) {
  Arrays operands;
  for (std::size_t i = 0; i < b.operands(); ++i) operands.push_back(b.with_axis(i));
  b.set(concatenate(operands, b.as<AxisAttribute>().axis + 1));
}

}  // namespace

constinit const Primitive prim::concatenate{
    .name = "concatenate",
    .summary = "Joins arrays along an axis.",
    .attributes = &kAttributesOf<AxisAttribute>,
    .infer = infer,
    .reference =
        [](const Launch& launch) {
          for_each_part(launch, [](const TensorView& from, const TensorView& to) {
            ops::for_each_index(from.shape, [&](const Shape& index) {
              ops::move_element(from.dtype, ops::element_at(from, index), ops::element_at(to, index));
            });
          });
        },
    .run = Kernel{[](const Launch& launch, Context&) { for_each_part(launch, kernels::copy); }},
    .vjp = vjp,
    .jvp = jvp,
    .batch = batch,
    .samples =
        [](SampleSink& sink) {
          sink.add({{DType::f32, {2, 3}, Fill::edges}, {DType::f32, {2, 5}}, {DType::f32, {2, 0}}}, AxisAttribute{1});
          sink.add({{DType::i16, {4}, Fill::wide}}, AxisAttribute{0});
          sink.add({{DType::bf16, {1, 3, 2}}, {DType::bf16, {6, 3, 2}}}, AxisAttribute{0});
        }};

Array concatenate(std::span<const Array> arrays, std::int64_t axis) {
  if (arrays.empty()) fail<ValueError>("[concatenate] needs at least one array");
  const AxisAttribute attributes{normalize_axis("concatenate", axis, arrays[0].rank())};
  return apply(prim::concatenate, arrays, &attributes);
}

Array stack(std::span<const Array> arrays, std::int64_t axis) {
  if (arrays.empty()) fail<ValueError>("[stack] needs at least one array");
  const int at = normalize_axis("stack", axis, arrays[0].rank() + 1);
  Arrays expanded;
  for (const Array& each : arrays) {
    if (each.type() != arrays[0].type())
      fail<ShapeError>("[stack] arrays must have one type, got {} and {}", arrays[0].type(), each.type());
    expanded.push_back(expand_dims(each, at));
  }
  return concatenate(expanded, at);
}

}  // namespace eadem
