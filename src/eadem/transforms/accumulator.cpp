#include <atomic>

#include "eadem/array/rules.h"
#include "eadem/ops/ops.h"

namespace eadem {
namespace {

std::atomic<bool> narrow_accumulators = false;

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

Accumulator Accumulator::from_wide(const Array& sum) {
  Accumulator accumulator;
  accumulator.wide_ = sum;
  return accumulator;
}

void Accumulator::add(const Array& contribution, bool canonical) {
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
  if (wide_) return convert(*wide_, dtype);
  const auto& [first, canonical] = few_[0];
  const Array start = canonical || (few_.size() == 2 && few_[1].canonical) ? first : without_negative_zero(first);
  return few_.size() == 1 ? start : start + few_[1].array;
}

Array Accumulator::wide(DType dtype) const {
  Accumulator copy = *this;
  if (!copy.wide_) copy.widen(dtype);
  return *copy.wide_;
}

}  // namespace eadem
