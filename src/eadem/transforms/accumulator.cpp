#include <algorithm>
#include <atomic>
#include <cmath>

#include "eadem/array/rules.h"
#include "eadem/numerics/rounding.h"
#include "eadem/ops/ops.h"

namespace eadem {
namespace {

std::atomic<bool> narrow_accumulators = false, canonical_checked = false;

// +0 where x is -0.
Array without_negative_zero(const Array& x) {
  return x + 0.0;
}

}  // namespace

DType wide_dtype(DType dtype) {
  return narrow_accumulators.load(std::memory_order_relaxed) ? dtype : DType::f64;
}
void set_narrow_accumulators(bool narrow) {
  narrow_accumulators = narrow;
}

void set_canonical_checked(bool checked) {
  canonical_checked = checked;
}
void check_canonical(std::string_view primitive, const Array& contribution) {
  if (!canonical_checked || contribution.traced()) return;
  const Array dense = contiguous(contribution);
  visit_floating(dense.dtype(), [&]<class T>(std::type_identity<T>) {
    for (const T x : dense.data<T>())
      if (numerics::to_double(x) == 0 && std::signbit(numerics::to_double(x)))
        fail<ValueError>("[grad] the rule of {} calls a contribution canonical that holds -0, {}", primitive,
                         contribution.type());
  });
}

Accumulator Accumulator::from_wide(const Array& sum) {
  Accumulator accumulator;
  accumulator.wide_ = sum;
  return accumulator;
}

void Accumulator::add_window(const Array& contribution, int axis, std::int64_t start, const Shape& shape) {
  const auto end_of = [&](const Window& window) { return window.start + window.array.shape()[axis]; };
  const auto next = std::find_if(windows_.begin(), windows_.end(), [&](const Window& w) { return w.start >= start; });
  const std::int64_t end = start + contribution.shape()[axis];
  const bool apart = windows_.empty() || (window_axis_ == axis && (next == windows_.end() || end <= next->start) &&
                                          (next == windows_.begin() || end_of(*(next - 1)) <= start));
  if (!wide_ && few_.empty() && apart) {
    windows_.insert(next, {start, contribution});
    window_axis_ = axis;
    window_shape_ = shape;
    return;
  }
  Shape low = Shape::filled(shape.rank(), 0), high = low;
  low[axis] = start;
  high[axis] = shape[axis] - end;
  add(pad(contribution, zeros({}, contribution.dtype()), low, high), true);
}

void Accumulator::join_windows() {
  if (windows_.empty()) return;
  Arrays parts;
  std::int64_t covered = 0;
  const auto fill_to = [&](std::int64_t end) {
    if (end == covered) return;
    Shape gap = window_shape_;
    gap[window_axis_] = end - covered;
    parts.push_back(zeros(gap, windows_[0].array.dtype()));
  };
  for (const Window& window : windows_) {
    fill_to(window.start);
    parts.push_back(window.array);
    covered = window.start + window.array.shape()[window_axis_];
  }
  fill_to(window_shape_[window_axis_]);
  const Array joined = parts.size() == 1 ? parts[0] : concatenate(parts, window_axis_);
  windows_.clear();
  few_.push_back({joined, true});
}

void Accumulator::add(const Array& contribution, bool canonical) {
  join_windows();
  if (wide_) {
    wide_ = *wide_ + convert(contribution, wide_->dtype());
    return;
  }
  few_.push_back({contribution, canonical});
  if (few_.size() > 2) widen(contribution.dtype());
}

void Accumulator::append(const Accumulator& other, DType dtype) {
  if (empty()) {
    *this = other;
    return;
  }
  join_windows();
  if (!wide_) widen(dtype);
  wide_ = *wide_ + other.wide(dtype);
}

void Accumulator::widen(DType dtype) {
  const DType wide = wide_dtype(dtype);
  for (const Contribution& each : few_) {
    const Array x = convert(each.array, wide);
    wide_ = wide_ ? *wide_ + x : each.canonical ? x : without_negative_zero(x);
  }
  few_.clear();
}

Array Accumulator::rounded(DType dtype) const {
  if (!windows_.empty()) {
    Accumulator copy = *this;
    copy.join_windows();
    return copy.rounded(dtype);
  }
  if (wide_) return convert(*wide_, dtype);
  const auto& [first, canonical] = few_[0];
  const Array start = canonical || (few_.size() == 2 && few_[1].canonical) ? first : without_negative_zero(first);
  return few_.size() == 1 ? start : start + few_[1].array;
}

Array Accumulator::wide(DType dtype) const {
  Accumulator copy = *this;
  copy.join_windows();
  if (!copy.wide_) copy.widen(dtype);
  return *copy.wide_;
}

}  // namespace eadem
