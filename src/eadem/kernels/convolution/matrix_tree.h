#pragma once

#include <cstdint>
#include <vector>

namespace eadem::kernels {

/// Sums of chunks of a contraction, each an array of partial results, by the tree of numerics.md section 4.
template <class W>
class MatrixTree {
 public:
  /// Takes the memory's contents.
  void add(std::vector<W>& sum) {
    std::size_t level = 0;
    for (; (count_ >> level) & 1; ++level) {
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = pending_[level][i] + sum[i];
      pending_[level].clear();
    }
    if (level == pending_.size()) pending_.emplace_back();
    std::swap(pending_[level], sum);
    ++count_;
  }
  /// Empty if there were none.
  std::vector<W> sum() {
    std::vector<W> result;
    for (std::vector<W>& each : pending_) {
      if (each.empty()) continue;
      for (std::size_t i = 0; i < result.size(); ++i) each[i] = each[i] + result[i];
      std::swap(result, each);
    }
    return result;
  }

 private:
  std::uint64_t count_ = 0;
  std::vector<std::vector<W>> pending_;
};

}  // namespace eadem::kernels
