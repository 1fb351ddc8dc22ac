#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "eadem/kernels/reduce/sum_bodies.h"

namespace eadem::kernels {

/// The sum of two sums of different elements.
inline PairSum combined(PairSum a, const PairSum& b) {
  const double sum = a.hi + b.hi, part = sum - a.hi;
  a.lo += ((a.hi - (sum - part)) + (b.hi - part)) + b.lo;
  a.hi = sum;
  if (!(b.largest <= a.largest)) a.largest = a.largest != a.largest ? a.largest : b.largest;
  a.smallest = std::min(a.smallest, b.smallest);
  a.depth = std::max(a.depth, b.depth) + 2;
  a.chain = std::max(a.chain, b.chain);
  return a;
}

/// The sums of neighbouring columns of f64, rows coming in any portions: what run_reduction asks of its Columns.
class PairColumns {
 public:
  void start(std::int64_t width) {
    hi_.assign(static_cast<std::size_t>(width), 0.0);
    lo_ = hi_;
    largest_.assign(hi_.size(), 0);
    rows_ = 0;
  }
  void add(const double* x, std::int64_t stride, std::int64_t rows) {
    bodies_->pair_columns(x, stride, rows, width(), hi_.data(), lo_.data(), largest_.data());
    rows_ += rows;
  }
  /// The smallest addend is not known: zero stands for it.
  PairSum state(std::int64_t column) const {
    const auto c = static_cast<std::size_t>(column);
    return {hi_[c], lo_[c], std::bit_cast<double>(largest_[c]), 0, rows_ + 2, 0};
  }
  std::int64_t width() const { return static_cast<std::int64_t>(hi_.size()); }

 private:
  const FloatSumBodies<double>* bodies_ = float_sum_bodies<double>();
  std::vector<double> hi_, lo_;
  std::vector<std::int64_t> largest_;
  std::int64_t rows_ = 0;
};

}  // namespace eadem::kernels
