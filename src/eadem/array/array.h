#pragma once

#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "eadem/base/buffer.h"
#include "eadem/ir/primitive.h"

namespace eadem {

class Trace;
/// What remains of a trace in the arrays that it made: who traced, and the trace while it is open. Or of a call in the
/// arrays whose memory was donated to it: who took it.
struct TraceMark {
  std::string who;
  Trace* open = nullptr;
  bool donated = false;
};

/// An immutable array: a dtype, a shape and a strided window on counted memory. Copies share the memory. Inside a
/// transform (grad, vmap, compile, ...) an array may instead be traced: a value of the program being recorded, which
/// has a type but no elements yet; reading them throws ValueError that says who traced it.
class Array {
 public:
  /// An empty f32 array of shape [0].
  Array();
  /// A window on `buffer`; `view.data` must lie in it.
  Array(BufferRef buffer, const TensorView& view);

  /// Uninitialised memory of this type, for kernels to write. Throws MemoryError.
  static Array allocate(const TensorType& type);
  /// A copy of `values`, row-major; throws ShapeError unless there are as many as the shape holds.
  template <class T>
  static Array from(std::span<const T> values, const Shape& shape);
  template <class T>
  static Array from(const std::vector<T>& values, const Shape& shape) {
    return from(std::span<const T>(values), shape);
  }
  template <class T>
  static Array from(std::initializer_list<T> values) {
    return from(std::span<const T>(values.begin(), values.size()), {static_cast<std::int64_t>(values.size())});
  }
  /// A scalar (shape []) of the given dtype, rounded once from the double.
  static Array scalar(double value, DType dtype);
  /// As `scalar`, of an integer of any size. Throws ValueError for one that an integer dtype does not hold.
  static Array integer_scalar(std::int64_t value, DType dtype);
  static Array integer_scalar(std::uint64_t value, DType dtype);
  /// What is left of an array whose memory was given away to `who`: reading it throws ValueError.
  static Array donated(const TensorType& type, std::string who);

  DType dtype() const { return view_.dtype; }
  const Shape& shape() const { return view_.shape; }
  int rank() const { return view_.shape.rank(); }
  std::int64_t elements() const { return view_.elements(); }
  TensorType type() const { return view_.type(); }
  const TensorView& view() const {
    if (trace_) [[unlikely]]
      refuse_traced();
    return view_;
  }
  const BufferRef& buffer() const { return buffer_; }
  bool contiguous() const { return is_contiguous(view()); }
  /// Whether it is a value of a program being recorded, without elements.
  bool traced() const { return trace_ != nullptr; }
  /// Extent of an axis, counted from the end when negative.
  std::int64_t extent(std::int64_t axis) const { return shape()[normalize_axis("extent", axis, rank())]; }

  /// Row-major elements; throws TypeError unless T is the dtype, ValueError unless contiguous (see eadem::contiguous).
  template <class T>
  std::span<const T> data() const;
  /// The one element of an array that has one, as T; throws ShapeError or TypeError otherwise.
  template <class T>
  T item() const;

 private:
  friend class Trace;
  Array(std::shared_ptr<const TraceMark> trace, std::int32_t id, const TensorType& type);
  [[noreturn]] void refuse_traced() const;

  BufferRef buffer_;
  TensorView view_;
  std::shared_ptr<const TraceMark> trace_;
  std::int32_t id_ = -1;
};

/// How `apply` runs floating-point primitives on this thread: as declared; all in f64 (the FP64 referee); or `ideal`:
/// in f64 inside, each result rounded once to its declared dtype (the referee for the ratio R of docs/accuracy.md).
enum class Mode : std::uint8_t { declared, f64, ideal };
Mode mode();
class ModeScope {
 public:
  explicit ModeScope(Mode);
  ~ModeScope();
  ModeScope(const ModeScope&) = delete;
  ModeScope& operator=(const ModeScope&) = delete;

 private:
  Mode saved_;
};

/// Makes every `apply` on this thread run the scalar definitions of numerics/ while it lives.
class ReferenceScope {
 public:
  ReferenceScope();
  ~ReferenceScope();
  ReferenceScope(const ReferenceScope&) = delete;
  ReferenceScope& operator=(const ReferenceScope&) = delete;

 private:
  bool saved_;
};

/// Sees the results of every primitive that `apply` runs on this thread while installed: the auditor's bisection.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void observe(const Primitive&, std::span<const Array> results) = 0;
};
class ObserverScope {
 public:
  explicit ObserverScope(Observer*);
  ~ObserverScope();
  ObserverScope(const ObserverScope&) = delete;
  ObserverScope& operator=(const ObserverScope&) = delete;

 private:
  Observer* saved_;
};

/// Whether equations must run one by one on this thread: an observer watches, a referee's mode, the definitions or a
/// replacement are in force.
bool runs_equation_by_equation();

/// Makes `apply` on this thread run another primitive in place of one while it lives: how the auditor's tests plant
/// faults.
class ReplacementScope {
 public:
  ReplacementScope(const Primitive& replaced, const Primitive& replacement);
  ~ReplacementScope();
  ReplacementScope(const ReplacementScope&) = delete;
  ReplacementScope& operator=(const ReplacementScope&) = delete;

 private:
  friend Arrays apply_all(const Primitive&, std::span<const Array>, const void*, bool);
  const Primitive &replaced_, &replacement_;
  const ReplacementScope* outer_;
};

/// Runs a primitive on concrete operands, or records it when a transform is tracing on this thread (see trace.h);
/// throws what its `infer` throws, and MemoryError. With `in_place` (donation) the first result may take the memory of
/// the first operand, when nobody else holds it: for primitives that then write only what changes.
Arrays apply_all(const Primitive&, std::span<const Array> operands, const void* attributes, bool in_place = false);
Array apply(const Primitive&, std::span<const Array> operands, const void* attributes);
inline Array apply(const Primitive& primitive, std::initializer_list<Array> operands) {
  return apply(primitive, std::span<const Array>(operands.begin(), operands.size()), nullptr);
}
template <class A>
Array apply(const Primitive& primitive, std::initializer_list<Array> operands, const A& attributes) {
  return apply(primitive, std::span<const Array>(operands.begin(), operands.size()),
               static_cast<const void*>(&attributes));
}
template <class A>
Arrays apply_all(const Primitive& primitive, std::initializer_list<Array> operands, const A& attributes) {
  return apply_all(primitive, std::span<const Array>(operands.begin(), operands.size()),
                   static_cast<const void*>(&attributes));
}

// ---

template <class T>
Array Array::from(std::span<const T> values, const Shape& shape) {
  if (static_cast<std::int64_t>(values.size()) != checked_elements("array", shape))
    fail<ShapeError>("[array] shape {} holds {} elements, got {}", shape, shape.elements(), values.size());
  Array result = allocate({kDTypeOf<T>, shape});
  std::copy(values.begin(), values.end(), result.view_.as<T>());
  return result;
}

template <class T>
std::span<const T> Array::data() const {
  if (dtype() != kDTypeOf<T>) fail<TypeError>("[data] the array is {}, not {}", type(), kDTypeOf<T>);
  if (!contiguous()) fail<ValueError>("[data] the array {} is strided; take contiguous(x) first", type());
  return {view().as<const T>(), static_cast<std::size_t>(elements())};
}

template <class T>
T Array::item() const {
  if (elements() != 1) fail<ShapeError>("[item] needs an array of one element, got {}", type());
  if (dtype() != kDTypeOf<T>) fail<TypeError>("[item] the array is {}, not {}", type(), kDTypeOf<T>);
  return *view().as<const T>();
}

}  // namespace eadem
