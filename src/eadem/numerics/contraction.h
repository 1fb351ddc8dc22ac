#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "eadem/base/dtype.h"
#include "eadem/base/tensor_view.h"
#include "eadem/numerics/rounding.h"

// Contractions, numerics.md section 4: one order of additions for every product. C = sum over k of a_k b_k is made of
// steps of 32 k, blocks of 8 steps, and a tree over the blocks. The pieces are open, because products of quantized
// weights and attention build their own sums from them.

namespace eadem::numerics {

/// Consecutive k of one step, and of one block.
inline constexpr std::int64_t kStepTerms = 32;
inline constexpr std::int64_t kBlockTerms = 256;

/// A fused multiply-add chain: v = fma(a(k), b(k), v) for k = first, first + stride, ... below `end`, from v = +0.
/// `a` and `b` give the operands' values in the computing type W (float or double).
template <class W, class A, class B>
W fma_chain(A&& a, B&& b, std::int64_t first, std::int64_t end, std::int64_t stride = 1) {
  W v = 0;
  for (std::int64_t k = first; k < end; k += stride) v = std::fma(a(k), b(k), v);
  return v;
}

/// The step of f32 (f64) operands, k in [first, end): one chain, k ascending.
template <class W, class A, class B>
W one_chain_step(A&& a, B&& b, std::int64_t first, std::int64_t end) {
  return fma_chain<W>(a, b, first, end);
}

/// The step of 16-bit operands (and of codes held exactly in them): a chain e over the even k of the step and a chain
/// o over the odd; v = e + o. `first` is the step's first k, so even and odd count from there.
template <class W, class A, class B>
W two_chain_step(A&& a, B&& b, std::int64_t first, std::int64_t end) {
  const W e = fma_chain<W>(a, b, first, end, 2);
  const W o = fma_chain<W>(a, b, first + 1, end, 2);
  return e + o;
}

/// The step of operands of type T.
template <FloatingElement T, class A, class B>
Wide<T> contraction_step(A&& a, B&& b, std::int64_t first, std::int64_t end) {
  if constexpr (Float16<T>)
    return two_chain_step<float>(a, b, first, end);
  else
    return one_chain_step<Wide<T>>(a, b, first, end);
}

/// The block of operands of type T, k in [first, end), at most 256: acc = acc + step, steps ascending, from +0.
template <FloatingElement T, class A, class B>
Wide<T> contraction_block(A&& a, B&& b, std::int64_t first, std::int64_t end) {
  Wide<T> acc = 0;
  for (std::int64_t k = first; k < end; k += kStepTerms)
    acc = acc + contraction_step<T>(a, b, k, std::min(end, k + kStepTerms));
  return acc;
}

/// The tree over blocks: sum(n blocks) = the block if n = 1, else sum(first p) + sum(rest), p the largest power of two
/// below n. A binary counter holds at most one pending sum for each power of two, so blocks may arrive one by one.
template <class V>
class BlockTree {
 public:
  /// Adds the next block.
  void add(V block) { add_subtree(block, 0); }

  /// Adds the next 2^level blocks, already summed by this tree's rule; the count so far must be a multiple of 2^level.
  void add_subtree(V sum, int level) {
    for (; (count_ >> level) & 1; ++level) {
      sum = pending_[static_cast<std::size_t>(level)] + sum;
      count_ -= std::int64_t{1} << level;
    }
    pending_[static_cast<std::size_t>(level)] = sum;
    count_ += std::int64_t{1} << level;
  }

  /// The sum of all blocks so far; `empty` if there were none.
  V sum(V empty = V{}) const {
    bool any = false;
    V result = empty;
    for (int level = 0; level < kLevels; ++level) {
      if (!((count_ >> level) & 1)) continue;
      const V& each = pending_[static_cast<std::size_t>(level)];
      result = any ? each + result : each;
      any = true;
    }
    return result;
  }

  std::int64_t count() const { return count_; }

 private:
  static constexpr int kLevels = 56;  // 2^56 blocks of 256 terms are more than 2^63 terms
  std::array<V, kLevels> pending_;
  std::int64_t count_ = 0;
};

/// The whole sum over k in [0, terms), never -0; +0 if there are no terms. Not yet canonical if NaN: rounding does
/// that.
template <FloatingElement T, class A, class B>
Wide<T> contract(A&& a, B&& b, std::int64_t terms) {
  BlockTree<Wide<T>> tree;
  for (std::int64_t k = 0; k < terms; k += kBlockTerms)
    tree.add(contraction_block<T>(a, b, k, std::min(terms, k + kBlockTerms)));
  return tree.sum() + Wide<T>{0};  // -0 + +0 = +0
}

/// c[.., m, n] = sum over k of a[.., m, k] b[.., k, n] (+ bias[n]), for every dtype.
///
/// a, b: [B.., M, K] and [B.., K, N] of one dtype, any strides (0 too); c: [B.., M, N], any strides; bias: [N] or null.
/// Floating operands follow the order above; the f32 (f64) sum, plus the bias in f32 (f64), is rounded once to c's
/// dtype, which may be any floating one. The bias is of c's or the operands' dtype.
/// Integers wrap in c's dtype, which is the operands'; bool is the "or" of "and"s.
void matmul(const TensorView& a, const TensorView& b, const TensorView& c, const TensorView* bias);

}  // namespace eadem::numerics
