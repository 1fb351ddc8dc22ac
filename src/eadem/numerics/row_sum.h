#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

// The row sum of numerics.md section 3, the order of every fold inside a composite, and the tree of section 4.3.

namespace eadem::numerics {

inline constexpr std::int64_t kRowLanes = 16;
inline constexpr std::int64_t kRowBlock = 4096;

/// The tree of section 4.3 as a binary counter: values arrive in order; equal-sized neighbours are combined at once.
template <class Value, class Combine>
class BinaryTree {
 public:
  explicit BinaryTree(Combine combine) : combine_(combine) {}

  void add(Value value) {
    // A set bit i of the count says that a node over 2^i values waits at level i.
    int level = 0;
    for (; (count_ >> level) & 1; ++level) value = combine_(levels_[static_cast<std::size_t>(level)], value);
    levels_[static_cast<std::size_t>(level)] = value;
    ++count_;
  }

  /// The fold of all values: sum(first p) + sum(rest), p the largest power of two below their number. At least one
  /// value must have been added.
  Value result() const {
    int level = std::countr_zero(count_);
    Value value = levels_[static_cast<std::size_t>(level)];
    for (++level; (count_ >> level) != 0; ++level) {
      if ((count_ >> level) & 1) value = combine_(levels_[static_cast<std::size_t>(level)], value);
    }
    return value;
  }
  bool empty() const { return count_ == 0; }

 private:
  Combine combine_;
  std::uint64_t count_ = 0;
  std::array<Value, 60> levels_{};
};

/// Folds i = 0..n-1 in row-sum order: per block of 4096, 16 chains acc = step(acc, i) (i mod 16) from `identity`,
/// folded 8 4 2 1 by combine(lower, upper), then the tree over blocks. `identity` for n = 0.
template <class Value, class Step, class Combine>
Value row_fold(std::int64_t n, Value identity, Step step, Combine combine) {
  BinaryTree<Value, Combine> tree(combine);
  for (std::int64_t block = 0; block < n; block += kRowBlock) {
    std::array<Value, kRowLanes> chain;
    chain.fill(identity);
    const std::int64_t end = std::min(n, block + kRowBlock);
    for (std::int64_t i = block; i < end; ++i) {
      Value& lane = chain[static_cast<std::size_t>(i % kRowLanes)];
      lane = step(lane, i);
    }
    for (std::size_t half = kRowLanes / 2; half > 0; half /= 2) {
      for (std::size_t lane = 0; lane < half; ++lane) chain[lane] = combine(chain[lane], chain[lane + half]);
    }
    tree.add(chain[0]);
  }
  return tree.empty() ? identity : tree.result();
}

/// The row sum in f64: step(acc, i) is acc + x_i, or fma(x_i, y_i, acc).
template <class Step>
double row_sum(std::int64_t n, Step step) {
  return row_fold(n, 0.0, step, [](double a, double b) { return a + b; });
}

}  // namespace eadem::numerics
