#include <numeric>
#include <optional>

#include "eadem/ops/catalog.h"
#include "eadem/ops/infer.h"
#include "eadem/ops/ops.h"

// Views: reshape, transpose, broadcast, slice, reverse. Each result is a window on operand 0's memory.

namespace eadem {
namespace ops {
namespace {

struct ShapeAttribute {
  Shape shape;
  static constexpr auto fields() { return std::tuple(field("shape", &ShapeAttribute::shape)); }
};

// Strides under which `view` has `shape` without moving a byte, or nothing (NumPy's rule): groups of axes with equal
// products are matched, and inside a group the old axes must be joined by one stride.
std::optional<Shape> strides_of_reshape(const TensorView& view, const Shape& shape) {
  if (view.elements() == 0) return contiguous_strides(shape);
  Shape strides = Shape::filled(shape.rank(), 0);
  int from = view.shape.rank() - 1, to = shape.rank() - 1;
  while (to >= 0) {
    if (shape[to] == 1) {
      strides[to--] = 0;
      continue;
    }
    while (view.shape[from] == 1) --from;
    std::int64_t old_product = view.shape[from], new_product = 1;
    const int group = from;
    std::int64_t stride = view.strides[group];
    while (new_product < old_product || old_product % new_product) {
      if (to < 0) return std::nullopt;
      strides[to] = stride * new_product;
      new_product *= shape[to--];
      while (new_product > old_product) {
        do --from;
        while (view.shape[from] == 1);
        if (view.strides[from] != stride * old_product) return std::nullopt;
        old_product *= view.shape[from];
      }
    }
    --from;
  }
  return strides;
}

Types infer_reshape(const Signature& s) {
  require_operands("reshape", s, 1);
  const Shape& shape = s.as<ShapeAttribute>().shape;
  if (checked_elements("reshape", shape) != s.operands[0].shape.elements())
    fail<ShapeError>("[reshape] {} has {} elements, {} would have {}", s.operands[0], s.operands[0].shape.elements(),
                     shape, shape.elements());
  return {{s.operands[0].dtype, shape}};
}
void reshape_elements(const Launch& launch) {
  const TensorView &from = launch.operands[0], &to = launch.results[0];
  std::int64_t i = 0;
  for_each_index(from.shape, [&](const Shape& index) {
    const auto size = static_cast<std::int64_t>(size_of(to.dtype));
    move_element(to.dtype, element_at(from, index), to.data + i++ * size);
  });
}
TensorView view_reshape(const Launch& launch) {
  TensorView view = launch.operands[0];
  const Shape& shape = launch.as<ShapeAttribute>().shape;
  view.strides = *strides_of_reshape(view, shape);  // the public function copies first where there are none
  view.shape = shape;
  return view;
}

Types infer_transpose(const Signature& s) {
  require_operands("transpose", s, 1);
  const TensorType& x = s.operands[0];
  const Shape& axes = s.as<AxesAttribute>().axes;
  if (axes.rank() != x.shape.rank()) fail<ShapeError>("[transpose] {} needs {} axes, got {}", x, x.shape.rank(), axes);
  Shape shape = axes, seen = Shape::filled(axes.rank(), 0);
  for (int i = 0; i < axes.rank(); ++i) {
    require_axis("transpose", axes[i], axes.rank());
    if (seen[static_cast<int>(axes[i])]++) fail<ShapeError>("[transpose] axis {} comes twice in {}", axes[i], axes);
    shape[i] = x.shape[static_cast<int>(axes[i])];
  }
  return {{x.dtype, shape}};
}
TensorView view_transpose(const Launch& launch) {
  const TensorView& x = launch.operands[0];
  TensorView view = x;
  const Shape& axes = launch.as<AxesAttribute>().axes;
  for (int i = 0; i < axes.rank(); ++i) {
    view.shape[i] = x.shape[static_cast<int>(axes[i])];
    view.strides[i] = x.strides[static_cast<int>(axes[i])];
  }
  return view;
}

Types infer_broadcast(const Signature& s) {
  require_operands("broadcast", s, 1);
  const TensorType& x = s.operands[0];
  const Shape& shape = s.as<ShapeAttribute>().shape;
  checked_elements("broadcast", shape);
  const int lead = shape.rank() - x.shape.rank();
  bool fits = lead >= 0;
  for (int i = 0; fits && i < x.shape.rank(); ++i) fits = x.shape[i] == 1 || x.shape[i] == shape[i + lead];
  if (!fits)
    fail<ShapeError>("[broadcast] {} cannot become {}: each axis, from the last, must be equal or 1", x, shape);
  return {{x.dtype, shape}};
}
TensorView view_broadcast(const Launch& launch) {
  const TensorView& x = launch.operands[0];
  TensorView view = x;
  view.shape = launch.as<ShapeAttribute>().shape;
  view.strides = Shape::filled(view.shape.rank(), 0);
  const int lead = view.shape.rank() - x.shape.rank();
  for (int i = 0; i < x.shape.rank(); ++i)
    if (x.shape[i] != 1) view.strides[i + lead] = x.strides[i];
  return view;
}

struct SliceAttribute {
  Shape start, size, step;
  static constexpr auto fields() {
    return std::tuple(field("start", &SliceAttribute::start), field("size", &SliceAttribute::size),
                      field("step", &SliceAttribute::step));
  }
};
Types infer_slice(const Signature& s) {
  require_operands("slice", s, 1);
  const TensorType& x = s.operands[0];
  const auto& a = s.as<SliceAttribute>();
  const int rank = x.shape.rank();
  if (a.start.rank() != rank || a.size.rank() != rank || a.step.rank() != rank)
    fail<ShapeError>("[slice] {} needs {} starts, sizes and steps", x, rank);
  for (int i = 0; i < rank; ++i) {
    if (a.step[i] == 0) fail<ValueError>("[slice] the step of axis {} is zero", i);
    if (a.size[i] < 0) fail<ShapeError>("[slice] the size of axis {} is {}", i, a.size[i]);
    if (a.size[i] == 0) continue;
    std::int64_t span = 0, last = 0;
    const bool overflow =
        __builtin_mul_overflow(a.size[i] - 1, a.step[i], &span) || __builtin_add_overflow(a.start[i], span, &last);
    if (overflow || std::min(a.start[i], last) < 0 || std::max(a.start[i], last) >= x.shape[i])
      fail<ShapeError>("[slice] start {}, size {}, step {} leave axis {} of {}", a.start[i], a.size[i], a.step[i], i,
                       x);
  }
  return {{x.dtype, a.size}};
}
TensorView view_slice(const Launch& launch) {
  TensorView view = launch.operands[0];
  const auto& a = launch.as<SliceAttribute>();
  view.shape = a.size;
  const bool empty = a.size.elements() == 0;
  for (int i = 0; i < view.shape.rank(); ++i) {
    if (!empty) view.data += a.start[i] * view.strides[i] * static_cast<std::int64_t>(size_of(view.dtype));
    // One element has no next one: stride zero would be as right, but keeps no sign to go wrong (public report C17).
    view.strides[i] = a.size[i] <= 1 ? 0 : view.strides[i] * a.step[i];
  }
  return view;
}

Types infer_reverse(const Signature& s) {
  require_operands("reverse", s, 1);
  for (const std::int64_t axis : s.as<AxesAttribute>().axes) require_axis("reverse", axis, s.operands[0].shape.rank());
  return {s.operands[0]};
}
TensorView view_reverse(const Launch& launch) {
  TensorView view = launch.operands[0];
  for (const std::int64_t axis : launch.as<AxesAttribute>().axes) {
    const int i = static_cast<int>(axis);
    if (view.shape[i] == 0) continue;
    view.data += (view.shape[i] - 1) * view.strides[i] * static_cast<std::int64_t>(size_of(view.dtype));
    view.strides[i] = -view.strides[i];
  }
  return view;
}

}  // namespace
}  // namespace ops

constinit const Primitive prim::reshape{.name = "reshape",
                                        .summary = "The same elements, row-major, under another shape.",
                                        .attributes = &kAttributesOf<ops::ShapeAttribute>,
                                        .infer = ops::infer_reshape,
                                        .reference = ops::reshape_elements,
                                        .run = View{ops::view_reshape},
                                        .samples = [](SampleSink& sink) {
                                          sink.add({{DType::f32, {4, 6}}}, ops::ShapeAttribute{{2, 2, 3, 2}});
                                          sink.add({{DType::i8, {3, 1, 5}, Fill::wide}}, ops::ShapeAttribute{{15}});
                                          sink.add({{DType::bf16, {1}, Fill::edges}}, ops::ShapeAttribute{{}});
                                          sink.add({{DType::f64, {0, 3}}}, ops::ShapeAttribute{{7, 0}});
                                        }};
constinit const Primitive prim::transpose{
    .name = "transpose",
    .summary = "Permutes the axes.",
    .attributes = &kAttributesOf<ops::AxesAttribute>,
    .infer = ops::infer_transpose,
    .reference = ops::reference_of_view<ops::view_transpose>,
    .run = View{ops::view_transpose},
    .samples = [](SampleSink& sink) {
      sink.add({{DType::f32, {3, 67}, Fill::edges}}, ops::AxesAttribute{{1, 0}});
      sink.add({{DType::u16, {2, 3, 5, 4}, Fill::wide}}, ops::AxesAttribute{{3, 1, 0, 2}});
      sink.add({{DType::boolean, {}}}, ops::AxesAttribute{{}});
    }};
constinit const Primitive prim::broadcast{
    .name = "broadcast",
    .summary = "Repeats along new axes and axes of extent one.",
    .attributes = &kAttributesOf<ops::ShapeAttribute>,
    .infer = ops::infer_broadcast,
    .reference = ops::reference_of_view<ops::view_broadcast>,
    .run = View{ops::view_broadcast},
    .samples = [](SampleSink& sink) {
      sink.add({{DType::f32, {3, 1}, Fill::edges}}, ops::ShapeAttribute{{2, 3, 5}});
      sink.add({{DType::i64, {}, Fill::wide}}, ops::ShapeAttribute{{4}});
      sink.add({{DType::f16, {1}}}, ops::ShapeAttribute{{0}});
    }};
constinit const Primitive prim::slice{
    .name = "slice",
    .summary = "A strided window: start, size and step (any sign) of each axis.",
    .attributes = &kAttributesOf<ops::SliceAttribute>,
    .infer = ops::infer_slice,
    .reference = ops::reference_of_view<ops::view_slice>,
    .run = View{ops::view_slice},
    .samples = [](SampleSink& sink) {
      sink.add({{DType::f32, {7, 9}, Fill::edges}}, ops::SliceAttribute{{6, 1}, {3, 4}, {-2, 2}});
      sink.add({{DType::u8, {5}, Fill::wide}}, ops::SliceAttribute{{4}, {1}, {-9}});
      sink.add({{DType::bf16, {5, 2}}}, ops::SliceAttribute{{0, 0}, {0, 2}, {1, 1}});
    }};
constinit const Primitive prim::reverse{
    .name = "reverse",
    .summary = "Reverses the order along axes.",
    .attributes = &kAttributesOf<ops::AxesAttribute>,
    .infer = ops::infer_reverse,
    .reference = ops::reference_of_view<ops::view_reverse>,
    .run = View{ops::view_reverse},
    .samples = [](SampleSink& sink) {
      sink.add({{DType::f32, {4, 33}, Fill::edges}}, ops::AxesAttribute{{1}});
      sink.add({{DType::i32, {3, 1, 2}, Fill::wide}}, ops::AxesAttribute{{0, 1, 2}});
      sink.add({{DType::f64, {0}}}, ops::AxesAttribute{{0}});
    }};

Array reshape(const Array& x, const Shape& wanted) {
  Shape shape = wanted;
  int free = -1;
  std::int64_t known = 1;
  bool overflow = false;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] != -1)
      overflow |= __builtin_mul_overflow(known, std::max<std::int64_t>(shape[i], 0), &known);
    else if (free >= 0)
      fail<ShapeError>("[reshape] only one extent can be -1, got {}", wanted);
    else
      free = i;
  }
  if (free >= 0) {
    if (overflow || known == 0 || x.elements() % known != 0)
      fail<ShapeError>("[reshape] {} cannot fill {}: {} elements are not a multiple of {}", x.type(), wanted,
                       x.elements(), known);
    shape[free] = x.elements() / known;
  }
  if (shape == x.shape()) return x;
  const ops::ShapeAttribute attributes{shape};
  const TensorType type = x.type();
  ops::infer_reshape({{&type, 1}, &attributes});
  return apply(prim::reshape, {ops::strides_of_reshape(x.view(), shape) ? x : contiguous(x)}, attributes);
}

Array transpose(const Array& x, const Shape& axes) {
  Shape normal;
  for (const std::int64_t axis : axes) normal.push_back(normalize_axis("transpose", axis, x.rank()));
  return apply(prim::transpose, {x}, ops::AxesAttribute{normal});
}
Array transpose(const Array& x) {
  Shape axes;
  for (int i = x.rank(); i-- > 0;) axes.push_back(i);
  return transpose(x, axes);
}
Array swap_axes(const Array& x, std::int64_t a, std::int64_t b) {
  Shape axes = Shape::filled(x.rank(), 0);
  std::iota(axes.begin(), axes.end(), 0);
  std::swap(axes[normalize_axis("swap_axes", a, x.rank())], axes[normalize_axis("swap_axes", b, x.rank())]);
  return transpose(x, axes);
}

Array broadcast_to(const Array& x, const Shape& shape) {
  return shape == x.shape() ? x : apply(prim::broadcast, {x}, ops::ShapeAttribute{shape});
}

Array expand_dims(const Array& x, std::int64_t axis) {
  Shape shape = x.shape();
  shape.insert(normalize_axis("expand_dims", axis, x.rank() + 1), 1);
  return reshape(x, shape);
}
Array squeeze(const Array& x, std::int64_t axis) {
  const int at = normalize_axis("squeeze", axis, x.rank());
  if (x.shape()[at] != 1)
    fail<ShapeError>("[squeeze] axis {} of {} has extent {}, not 1", axis, x.type(), x.shape()[at]);
  Shape shape = x.shape();
  shape.erase(at);
  return reshape(x, shape);
}

Array slice(const Array& x, std::span<const Slice> ranges) {
  if (ranges.size() > x.shape().size())
    fail<ShapeError>("[slice] {} has {} axes, got {} ranges", x.type(), x.rank(), ranges.size());
  ops::SliceAttribute attributes{Shape::filled(x.rank(), 0), x.shape(), Shape::filled(x.rank(), 1)};
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const int axis = static_cast<int>(i);
    const std::int64_t extent = x.shape()[axis], step = ranges[i].step;
    if (step == 0) fail<ValueError>("[slice] the step of axis {} is zero", axis);
    // Python's rule: negative bounds count from the end, then both are clamped to the axis.
    const std::int64_t low = step > 0 ? 0 : -1, high = step > 0 ? extent : extent - 1;
    const auto bound = [&](std::optional<std::int64_t> wanted, std::int64_t otherwise) {
      if (!wanted) return otherwise;
      return std::clamp(*wanted < 0 ? *wanted + extent : *wanted, low, high);
    };
    const std::int64_t start = bound(ranges[i].start, step > 0 ? low : high);
    const std::int64_t stop = bound(ranges[i].stop, step > 0 ? high : low);
    const std::int64_t distance = step > 0 ? stop - start : start - stop;
    const std::uint64_t stride = step > 0 ? static_cast<std::uint64_t>(step) : 0 - static_cast<std::uint64_t>(step);
    attributes.start[axis] = start;
    attributes.size[axis] =
        distance <= 0 ? 0 : static_cast<std::int64_t>((static_cast<std::uint64_t>(distance) - 1) / stride + 1);
    attributes.step[axis] = step;
  }
  return apply(prim::slice, {x}, attributes);
}
Array slice_axis(const Array& x, std::int64_t axis, Slice range) {
  std::vector<Slice> ranges(static_cast<std::size_t>(normalize_axis("slice", axis, x.rank())) + 1);
  ranges.back() = range;
  return slice(x, ranges);
}

Array reverse(const Array& x, const Shape& axes) {
  Shape normal;
  for (const std::int64_t axis : axes) {
    const int at = normalize_axis("reverse", axis, x.rank());
    if (std::find(normal.begin(), normal.end(), at) != normal.end())
      fail<ShapeError>("[reverse] axis {} comes twice in {}", axis, axes);
    normal.push_back(at);
  }
  return apply(prim::reverse, {x}, ops::AxesAttribute{normal});
}

}  // namespace eadem
