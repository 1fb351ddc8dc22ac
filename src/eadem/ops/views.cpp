#include <numeric>
#include <optional>

#include "eadem/ops/catalog.h"
#include "eadem/ops/infer.h"
#include "eadem/ops/ops.h"
#include "eadem/ops/rules.h"

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
std::optional<TensorView> view_reshape(const Launch& launch) {
  TensorView view = launch.operands[0];
  const Shape& shape = launch.as<ShapeAttribute>().shape;
  const std::optional<Shape> strides = strides_of_reshape(view, shape);
  if (!strides) return std::nullopt;
  view.strides = *strides;
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
std::optional<TensorView> view_transpose(const Launch& launch) {
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
std::optional<TensorView> view_broadcast(const Launch& launch) {
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
std::optional<TensorView> view_slice(const Launch& launch) {
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
std::optional<TensorView> view_reverse(const Launch& launch) {
  TensorView view = launch.operands[0];
  for (const std::int64_t axis : launch.as<AxesAttribute>().axes) {
    const int i = static_cast<int>(axis);
    if (view.shape[i] == 0) continue;
    view.data += (view.shape[i] - 1) * view.strides[i] * static_cast<std::int64_t>(size_of(view.dtype));
    view.strides[i] = -view.strides[i];
  }
  return view;
}

std::optional<TensorView> view_whole(const Launch& launch) {
  return launch.operands[0];
}

// Rules. A cotangent goes back to where its element came from; a batch axis stays in front.

Shape with_batch(const Shape& shape, std::int64_t size) {
  Shape result = shape;
  result.insert(0, size);
  return result;
}

void reshape_vjp(Vjp& g) {
  g.add_canonical(0, reshape(g.ct(), g.in().shape()));
}
void reshape_batch(Batch& b) {
  b.set(reshape(b.in(), with_batch(b.as<ShapeAttribute>().shape, b.size())));
}

void transpose_vjp(Vjp& g) {
  const Shape& axes = g.as<AxesAttribute>().axes;
  Shape back = axes;
  for (int i = 0; i < axes.rank(); ++i) back[static_cast<int>(axes[i])] = i;
  g.add_canonical(0, transpose(g.ct(), back));
}
void transpose_batch(Batch& b) {
  b.set(transpose(b.in(), with_batch(behind_batch(b.as<AxesAttribute>().axes), 0)));
}

void broadcast_vjp(Vjp& g) {
  const Shape &from = g.in().shape(), &to = g.out().shape();
  const int lead = to.rank() - from.rank();
  Shape axes;
  for (int axis = 0; axis < to.rank(); ++axis)
    if (axis < lead || from[axis - lead] != to[axis]) axes.push_back(axis);
  g.add(0, reshape(axes.empty() ? g.ct() : sum(g.ct(), axes), from));
}
void broadcast_batch(Batch& b) {
  const Shape& to = b.as<ShapeAttribute>().shape;
  Shape from = b.in().shape();
  while (from.rank() <= to.rank()) from.insert(1, 1);
  b.set(broadcast_to(reshape(b.in(), from), with_batch(to, b.size())));
}

void slice_vjp(Vjp& g) {
  const auto& a = g.as<SliceAttribute>();
  const Shape& extents = g.in().shape();
  Shape low, high, interior, backward;
  for (int i = 0; i < extents.rank(); ++i) {
    const std::int64_t size = a.size[i], step = size > 1 ? std::abs(a.step[i]) : 1;
    const std::int64_t last = a.start[i] + (size - 1) * a.step[i];
    const std::int64_t first = size == 0 ? extents[i] : std::min(a.start[i], last);
    if (a.step[i] < 0) backward.push_back(i);
    low.push_back(first);
    interior.push_back(step - 1);
    high.push_back(size == 0 ? 0 : extents[i] - std::max(a.start[i], last) - 1);
  }
  // Whole but for a run along one axis, as when a loop takes layer after layer.
  int cut = -1, cuts = 0;
  for (int i = 0; i < extents.rank(); ++i)
    if (a.size[i] != extents[i] || a.step[i] < 0) cut = i, ++cuts;
  if (cuts == 1 && a.size[cut] > 0 && (a.size[cut] == 1 || a.step[cut] == 1))
    return g.add_window(0, g.ct(), cut, a.start[cut]);
  const Array ct = backward.empty() ? g.ct() : reverse(g.ct(), backward);
  g.add_canonical(0, pad(ct, zeros({}, ct.dtype()), low, high, interior));
}
void slice_batch(Batch& b) {
  SliceAttribute a = b.as<SliceAttribute>();
  a.start.insert(0, 0);
  a.size.insert(0, b.size());
  a.step.insert(0, 1);
  b.set(apply(prim::slice, {b.in()}, a));
}

void reverse_vjp(Vjp& g) {
  g.add_canonical(0, reverse(g.ct(), g.as<AxesAttribute>().axes));
}
void reverse_batch(Batch& b) {
  b.set(reverse(b.in(), behind_batch(b.as<AxesAttribute>().axes)));
}

}  // namespace
}  // namespace ops

constinit const Primitive prim::reshape{.name = "reshape",
                                        .summary = "The same elements, row-major, under another shape.",
                                        .attributes = &kAttributesOf<ops::ShapeAttribute>,
                                        .infer = ops::infer_reshape,
                                        .reference = ops::reshape_elements,
                                        .run = View{ops::view_reshape},
                                        .vjp = ops::reshape_vjp,
                                        .jvp = ops::moved_jvp,
                                        .batch = ops::reshape_batch,
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
    .vjp = ops::transpose_vjp,
    .jvp = ops::moved_jvp,
    .batch = ops::transpose_batch,
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
    .vjp = ops::broadcast_vjp,
    .jvp = ops::moved_jvp,
    .batch = ops::broadcast_batch,
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
    .vjp = ops::slice_vjp,
    .jvp = ops::moved_jvp,
    .batch = ops::slice_batch,
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
    .vjp = ops::reverse_vjp,
    .jvp = ops::moved_jvp,
    .batch = ops::reverse_batch,
    .samples = [](SampleSink& sink) {
      sink.add({{DType::f32, {4, 33}, Fill::edges}}, ops::AxesAttribute{{1}});
      sink.add({{DType::i32, {3, 1, 2}, Fill::wide}}, ops::AxesAttribute{{0, 1, 2}});
      sink.add({{DType::f64, {0}}}, ops::AxesAttribute{{0}});
    }};

constinit const Primitive prim::stop_gradient{.name = "stop_gradient",
                                              .summary = "x itself, through which no derivative passes.",
                                              .infer = [](const Signature& s) -> Types {
                                                ops::require_operands("stop_gradient", s, 1);
                                                return {s.operands[0]};
                                              },
                                              .reference = ops::reference_of_view<ops::view_whole>,
                                              .run = View{ops::view_whole},
                                              .vjp = [](Vjp&) {},
                                              .jvp = [](Jvp&) {},
                                              .batch = [](Batch& b) { b.set(eadem::stop_gradient(b.in())); },
                                              .samples =
                                                  [](SampleSink& sink) {
                                                    sink.add({{DType::f32, {3, 4}, Fill::edges}});
                                                    sink.add({{DType::i8, {}, Fill::wide}});
                                                  }};

Array stop_gradient(const Array& x) {
  return apply(prim::stop_gradient, {x});
}

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
  return apply(prim::reshape, {x}, attributes);
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

Array move_axis(const Array& x, std::int64_t from, std::int64_t to) {
  const int source = normalize_axis("move_axis", from, x.rank()), target = normalize_axis("move_axis", to, x.rank());
  if (source == target) return x;
  Shape axes;
  for (int i = 0; i < x.rank(); ++i)
    if (i != source) axes.push_back(i);
  axes.insert(target, source);
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
