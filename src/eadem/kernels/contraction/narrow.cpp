// Highway's order of includes is part of their meaning.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "eadem/kernels/contraction/narrow.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "eadem/kernels/contraction/tile-inl.h"
// clang-format on

#include "eadem/kernels/contraction/narrow.h"

#include <utility>

#include "eadem/base/memory.h"
#include "eadem/base/parallel.h"
#include "eadem/kernels/contraction/driver.h"

// Products with few columns (a matrix times a vector) read a once, so packing it would cost as much as the product.
// Each lane takes a step of its own: 16 lanes are 16 consecutive steps of a row, or fewer of several rows where these
// are short. Squares of a are loaded along k and transposed in registers, so that a vector holds term k of every lane's
// step.

HWY_BEFORE_NAMESPACE();
namespace eadem::kernels::contraction::HWY_NAMESPACE {
#if EADEM_HWY_TARGET

// What is transposed: f32, f64, or pairs of 16-bit terms.
template <class Op>
using Word = std::conditional_t<Op::kChains == 2, std::uint32_t, typename Op::Wide>;
template <class Op>
inline constexpr int kStepWords = static_cast<int>(kStepTerms) / Op::kChains;
// Words in 16 bytes.
template <class W>
inline constexpr int kBlockLanes = 16 / sizeof(W);

// 16 bytes of each of a vector's lanes' steps, those of lane b * kBlockLanes + i in block b.
template <class D, class At>
HWY_INLINE hn::Vec<D> LoadBlocks(D d, At at, int i) {
  using W = hn::TFromD<D>;
  constexpr int lanes = static_cast<int>(hn::MaxLanes(D()));
  if constexpr (lanes == kBlockLanes<W>) {
    return hn::LoadU(d, at(i));
  } else {
    const hn::Half<D> half;
    const auto upper = [&](int lane) HWY_ATTR { return at(lanes / 2 + lane); };
    return hn::Combine(d, LoadBlocks(half, upper, i), LoadBlocks(half, at, i));
  }
}

// The term of a word that belongs to a chain, widened.
template <class Op, class V>
HWY_INLINE hn::Vec<typename Op::D> TermOfWord(V word, int chain) {
  if constexpr (Op::kChains == 1) {
    return word;
  } else if constexpr (Op::kPairs) {
    return Op::Widen(word, 1 - chain);
  } else {
    const typename Op::D d;
    const hn::Rebind<std::uint16_t, typename Op::D> d16;
    const hn::Rebind<hwy::float16_t, typename Op::D> dh;
    return hn::PromoteTo(d, hn::BitCast(dh, hn::TruncateTo(d16, chain == 0 ? word : hn::ShiftRight<16>(word))));
  }
}

// How lanes share rows: `steps` lanes are consecutive steps of one row, kVectorLanes / steps rows go together.
template <class Op>
struct Shares {
  explicit Shares(std::int64_t k) {
    const std::int64_t all = (k + kStepTerms - 1) / kStepTerms;
    while (steps < kLanes<Op> && steps < all) steps *= 2;
    rows = kLanes<Op> / steps;
    groups = (all + steps - 1) / steps;
  }
  int steps = 1, rows = 1;
  std::int64_t groups = 1;  // of `steps` steps, along k
  std::int64_t terms() const { return groups * steps * kStepTerms; }
};

// b as the lanes meet it: [column][group][k of the step][lane], the steps repeated for each row; zeros after the end.
template <class Op>
void SpreadColumns(const Problem& p, const Shares<Op>& shares, typename Op::Wide* out) {
  const auto* b = reinterpret_cast<const typename Op::Element*>(p.b.data);
  for (std::int64_t n = 0; n < p.n; ++n)
    for (std::int64_t g = 0; g < shares.groups; ++g)
      for (std::int64_t t = 0; t < kStepTerms; ++t)
        for (int lane = 0; lane < kLanes<Op>; ++lane) {
          const std::int64_t k = (g * shares.steps + lane % shares.steps) * kStepTerms + t;
          typename Op::Wide x = 0;
          if (k < p.k) {
            const auto element = b[n * p.b.row + k * p.b.term];
            if constexpr (Op::kChains == 1)
              x = element;
            else
              x = ToUnit<Op>(element);
          }
          *out++ = x;
        }
}

// The steps of one group: steps[column][lane]; a(lane) is where the lane's step begins.
template <class Op, int columns, class A>
HWY_INLINE void GroupSteps(A from, const typename Op::Wide* b, std::int64_t b_column, typename Op::Wide* steps) {
  using V = hn::Vec<typename Op::D>;
  constexpr typename Op::D d;
  constexpr hn::ScalableTag<Word<Op>> dw;
  constexpr int lanes = kLanes<Op>, words = kBlockLanes<Word<Op>>;
  V sum[Op::kChains][columns];
  for (auto& each : sum)
    for (V& v : each) v = hn::Zero(d);
#pragma GCC unroll 2
  for (int first = 0; first < kStepWords<Op>; first += words) {
    hn::Vec<decltype(dw)> a[words];
#pragma GCC unroll 4
    for (int i = 0; i < words; ++i)
      a[i] = LoadBlocks(
          dw, [&](int lane) HWY_ATTR { return reinterpret_cast<const Word<Op>*>(from(lane)) + first; }, i);
    TransposeSquare(dw, a);
#pragma GCC unroll 4
    for (int i = 0; i < words; ++i)
#pragma GCC unroll 2
      for (int chain = 0; chain < Op::kChains; ++chain) {
        const V term = TermOfWord<Op>(a[i], chain);
        const auto* at = b + ((first + i) * Op::kChains + chain) * lanes;
#pragma GCC unroll 8
        for (int n = 0; n < columns; ++n)
          sum[chain][n] = hn::MulAdd(term, hn::Load(d, at + n * b_column), sum[chain][n]);
      }
  }
  for (int n = 0; n < columns; ++n)
    hn::Store(Op::kChains == 2 ? hn::Add(sum[0][n], sum[Op::kChains - 1][n]) : sum[0][n], d, steps + n * lanes);
}

inline constexpr int kBlockSteps = kBlockTerms / kStepTerms;

// Adds the `own` steps of a group, the g-th of a row, to the row's blocks.
template <class W>
HWY_INLINE void AddSteps(const W* steps, int own, std::int64_t g, W& block, numerics::BlockTree<W>& tree) {
  constexpr int lanes = static_cast<int>(hn::MaxLanes(hn::ScalableTag<W>())), run = std::min(lanes, kBlockSteps);
  for (int first = 0; first < own; first += run) {
    if ((g * lanes + first) % kBlockSteps == 0) {
      if (g + first > 0) tree.add(block);
      block = 0;
    }
    if (first + run <= own) {
#pragma GCC unroll 8
      for (int s = 0; s < run; ++s) block = block + steps[first + s];
    } else {
      for (int s = first; s < own; ++s) block = block + steps[s];
    }
  }
}

// Rows of c whose lanes they share: `count` of them, from a's row `a` on; their sums go to out[column][some + row].
template <class Op, int columns>
class RowSums {
  using W = typename Op::Wide;
  using Element = typename Op::Element;
  static constexpr int lanes = kLanes<Op>;

 public:
  RowSums(const Problem& p, const W* b) : p_(p), b_(b), shares_(p.k) {
    last_ = p.k % kStepTerms;
    steps_ = (p.k + kStepTerms - 1) / kStepTerms;
    b_column_ = shares_.groups * kStepTerms * lanes;
    std::memset(static_cast<void*>(padded_), 0, sizeof padded_);
  }
  int rows() const { return shares_.rows; }

  void Sum(const Element* a, int count, W* out, std::int64_t stride) {
    if (shares_.rows > 1) return SumRows(a, count, out, stride);
    W block[columns] = {};
    numerics::BlockTree<W> tree[columns];
    alignas(64) W steps[columns * lanes];
    for (std::int64_t g = 0; g < shares_.groups; ++g) {
      const Element* first = a + g * lanes * kStepTerms;
      const W* b = b_ + g * kStepTerms * lanes;
      const auto own = static_cast<int>(std::min<std::int64_t>(lanes, steps_ - g * lanes));
      if ((g + 1) * lanes * kStepTerms <= p_.k) {
        // The hardware sees lanes' accesses as too many streams to follow.
        constexpr std::int64_t group = lanes * kStepTerms, line = 64 / sizeof(Element);
        for (std::int64_t at = 0; at < group; at += line) __builtin_prefetch(first + 2 * group + at);
        GroupSteps<Op, columns>([&](int lane) HWY_ATTR { return first + lane * kStepTerms; }, b, b_column_, steps);
      } else {
        const Element* from[lanes];
        for (int lane = 0; lane < lanes; ++lane) from[lane] = Step(first + lane * kStepTerms, lane, own, 0);
        GroupSteps<Op, columns>([&](int lane) HWY_ATTR { return from[lane]; }, b, b_column_, steps);
      }
      for (int n = 0; n < columns; ++n) AddSteps<W>(steps + n * lanes, own, g, block[n], tree[n]);
    }
    for (int n = 0; n < columns; ++n) {
      tree[n].add(block[n]);
      out[n * stride] = tree[n].sum();
    }
  }

 private:
  // Several rows, of one group and one block each: lanes / 2 steps at most.
  void SumRows(const Element* a, int count, W* out, std::int64_t stride) {
    static_assert(lanes / 2 <= kBlockSteps);
    alignas(64) W steps[columns * lanes];
    const Element* from[lanes];
    const auto own = static_cast<int>(steps_);
    for (int lane = 0; lane < lanes; ++lane) {
      const int row = std::min(lane / shares_.steps, count - 1), step = lane % shares_.steps;
      from[lane] = Step(a + row * p_.a.row + step * kStepTerms, step, own, row);
    }
    GroupSteps<Op, columns>([&](int lane) HWY_ATTR { return from[lane]; }, b_, b_column_, steps);
    for (int n = 0; n < columns; ++n)
      for (int row = 0; row < count; ++row) {
        W block = 0;
        for (int s = 0; s < own; ++s) block = block + steps[n * lanes + row * shares_.steps + s];
        out[n * stride + row] = block;
      }
  }

  // Where the terms of a step may be read: zeros follow one that ends early, and are one that does not exist.
  const Element* Step(const Element* at, int step, int own, int row) {
    if (step >= own) return padded_[lanes];
    if (step + 1 < own || last_ == 0) return at;
    std::memcpy(static_cast<void*>(padded_[row]), at, sizeof(Element) * static_cast<std::size_t>(last_));
    return padded_[row];
  }

  const Problem& p_;
  const W* b_;
  Shares<Op> shares_;
  std::int64_t last_, steps_, b_column_;  // terms of a last step that ends early; steps of a row
  Element padded_[lanes + 1][kStepTerms];
};

// Rows [begin, end) of c.
template <class Op, int columns>
void Rows(const Engine& e, const Problem& p, const typename Op::Wide* b, std::int64_t begin, std::int64_t end) {
  using W = typename Op::Wide;
  constexpr std::int64_t some = 256;  // rows whose sums are finished together
  W* const sums = reinterpret_cast<W*>(task_memory(sizeof(W) * columns * some));
  RowSums<Op, columns> row_sums(p, b);
  const auto* a = reinterpret_cast<const typename Op::Element*>(p.a.data);
  for (std::int64_t m0 = begin; m0 < end; m0 += some) {
    const std::int64_t count = std::min(some, end - m0);
    for (std::int64_t m = 0; m < count; m += row_sums.rows())
      row_sums.Sum(a + (m0 + m) * p.a.row, static_cast<int>(std::min<std::int64_t>(row_sums.rows(), count - m)),
                   sums + m, some);
    // c's columns are rows here, so that vectors of sums are finished.
    Destination c = p.c;
    c.data += m0 * c.row * static_cast<std::int64_t>(size_of(c.dtype));
    if (c.bias) c.bias += m0 * c.bias_row * static_cast<std::int64_t>(sizeof(W));
    std::swap(c.row, c.column);
    std::swap(c.bias_row, c.bias_column);
    e.finish(sums, some, columns, static_cast<int>(count), c);
  }
}

// One product.
template <class Op>
void Narrow(const Engine& e, const Problem& p) {
  using RowsFn = void (*)(const Engine&, const Problem&, const typename Op::Wide*, std::int64_t, std::int64_t);
  static constexpr RowsFn table[kNarrowColumns] = {&Rows<Op, 1>, &Rows<Op, 2>, &Rows<Op, 3>, &Rows<Op, 4>,
                                                   &Rows<Op, 5>, &Rows<Op, 6>, &Rows<Op, 7>, &Rows<Op, 8>};
  static thread_local Scratch memory;
  const Shares<Op> shares(p.k);
  auto* b = reinterpret_cast<typename Op::Wide*>(
      memory.take(sizeof(typename Op::Wide) * static_cast<std::size_t>(p.n * shares.terms() * shares.rows)));
  SpreadColumns<Op>(p, shares, b);
  const std::int64_t grain = std::max<std::int64_t>(shares.rows, 65536 / (p.k * p.n));
  parallel_for(p.m, grain, [&](std::int64_t begin, std::int64_t end) {
    table[static_cast<std::size_t>(p.n - 1)](e, p, b, begin, end);
  });
}

using NarrowFn = void (*)(const Engine&, const Problem&);
NarrowFn NarrowOf(DType dtype) {
  switch (dtype) {
    case DType::f64: return &Narrow<Whole<double>>;
    case DType::bf16: return &Narrow<Pairs>;
    case DType::f16: return &Narrow<Half>;
    default: return &Narrow<Whole<float>>;
  }
}

#endif
}  // namespace eadem::kernels::contraction::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eadem::kernels::contraction {

bool narrow_admits(const Problem& p) {
  return p.n <= kNarrowColumns && p.a.term == 1;
}

void multiply_narrow(const Engine& e, const Problem& p) {
#if defined(__aarch64__)
  const auto narrow = N_NEON::NarrowOf(p.dtype);
#else
  const auto narrow = e.target == Target::avx2 ? N_AVX2::NarrowOf(p.dtype) : N_AVX3::NarrowOf(p.dtype);
#endif
  const std::int64_t batches = p.batch.elements();
  for (std::int64_t i = 0; i < batches; ++i) narrow(e, product_of(p, i));
}

}  // namespace eadem::kernels::contraction
#endif
