// Highway's order of includes is part of their meaning.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "eadem/kernels/contraction/skinny.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "eadem/kernels/contraction/tile-inl.h"
// clang-format on

#include "eadem/kernels/contraction/skinny.h"

#include <bit>

#include "eadem/base/parallel.h"
#include "eadem/kernels/contraction/driver.h"

// Products with few rows read b once, so packing it would cost as much as the product: b's rows are read where they
// lie, eight at a time along runs of columns, and the sums of a run of columns live in the first-level cache.

HWY_BEFORE_NAMESPACE();
namespace eadem::kernels::contraction::HWY_NAMESPACE {
#if EADEM_HWY_TARGET

// A vector of b's elements, widened.
template <class Op>
HWY_INLINE auto LoadElements(const typename Op::Element* at) {
  const typename Op::D d;
  if constexpr (Op::kChains == 1) {
    return hn::LoadU(d, at);
  } else if constexpr (Op::kPairs) {
    const hn::Rebind<std::uint16_t, typename Op::DU> dh;
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(typename Op::DU(), hn::LoadU(dh, at))));
  } else {
    return Op::B(at, 0);
  }
}

// Where the sums of a run of columns are: [chain][row][column] and [row][column].
template <class Op, int rows>
struct Run {
  static constexpr std::int64_t kWidth = std::max(512, 4096 / rows / 64 * 64);  // whole vectors
  typename Op::Wide* chains;
  typename Op::Wide* block;
};

// Adds `terms` rows of b to the chains: row u to chain (first + u) mod chains; a is [row][256], widened.
template <class Op, int rows, int terms>
HWY_INLINE void AddTerms(const typename Op::Wide* a, const typename Op::Element* b, std::int64_t stride,
                         std::int64_t columns, int first, bool fresh, typename Op::Wide* chains) {
  using V = hn::Vec<typename Op::D>;
  constexpr typename Op::D d;
  constexpr int used = terms == 1 ? 1 : Op::kChains;
  for (std::int64_t n = 0; n < columns; n += kLanes<Op>) {
    V v[used][rows];
#pragma GCC unroll 2
    for (int chain = 0; chain < used; ++chain)
#pragma GCC unroll 16
      for (int i = 0; i < rows; ++i)
        v[chain][i] =
            fresh ? hn::Zero(d)
                  : hn::Load(d, chains + (((first + chain) % Op::kChains) * rows + i) * Run<Op, rows>::kWidth + n);
    // The next rows come from other pages, too briefly for the hardware to see a stream.
    if constexpr (terms > 1)
#pragma GCC unroll 8
      for (int u = 0; u < terms; ++u) __builtin_prefetch(b + (terms + u) * stride + n);
#pragma GCC unroll 8
    for (int u = 0; u < terms; ++u) {
      const V x = LoadElements<Op>(b + u * stride + n);
#pragma GCC unroll 16
      for (int i = 0; i < rows; ++i) v[u % used][i] = hn::MulAdd(hn::Set(d, a[i * kBlockTerms + u]), x, v[u % used][i]);
    }
#pragma GCC unroll 2
    for (int chain = 0; chain < used; ++chain)
#pragma GCC unroll 16
      for (int i = 0; i < rows; ++i)
        hn::Store(v[chain][i], d, chains + (((first + chain) % Op::kChains) * rows + i) * Run<Op, rows>::kWidth + n);
  }
}

// One step of at most 32 terms, added to the block's sums.
template <class Op, int rows>
void AddStep(const typename Op::Wide* a, const typename Op::Element* b, std::int64_t stride, std::int64_t terms,
             std::int64_t columns, bool first_of_block, const Run<Op, rows>& run) {
  constexpr typename Op::D d;
  std::int64_t k = 0;
  for (; k + 8 <= terms; k += 8) AddTerms<Op, rows, 8>(a + k, b + k * stride, stride, columns, 0, k == 0, run.chains);
  for (; k < terms; ++k) {
    const int chain = static_cast<int>(k % Op::kChains);
    AddTerms<Op, rows, 1>(a + k, b + k * stride, stride, columns, chain, k < Op::kChains, run.chains);
  }
  const bool both = Op::kChains == 2 && terms > 1;
  for (int i = 0; i < rows; ++i)
    for (std::int64_t n = 0; n < columns; n += kLanes<Op>) {
      const std::int64_t at = i * Run<Op, rows>::kWidth + n;
      auto v = hn::Load(d, run.chains + at);
      if (both) v = hn::Add(v, hn::Load(d, run.chains + rows * Run<Op, rows>::kWidth + at));
      hn::Store(first_of_block ? v : hn::Add(hn::Load(d, run.block + at), v), d, run.block + at);
    }
}

template <class Op, int rows>
void Columns(const Engine& e, const Problem& p, std::int64_t begin, std::int64_t end) {
  using Wide = typename Op::Wide;
  constexpr std::int64_t width = Run<Op, rows>::kWidth, sums = rows * width;
  const std::int64_t blocks = (p.k + kBlockTerms - 1) / kBlockTerms;
  const auto levels = static_cast<std::int64_t>(std::bit_width(static_cast<std::uint64_t>(blocks)));
  auto* memory = reinterpret_cast<Wide*>(
      task_memory(static_cast<std::size_t>(rows * kBlockTerms + sums * (Op::kChains + 1 + levels)) * sizeof(Wide)));
  Wide* const a = memory;
  const Run<Op, rows> run{a + rows * kBlockTerms, a + rows * kBlockTerms + Op::kChains * sums};
  Wide* const pending = run.block + sums;
  const auto* all_a = reinterpret_cast<const typename Op::Element*>(p.a.data);
  for (std::int64_t n0 = begin; n0 < end; n0 += width) {
    const std::int64_t columns = std::min(width, end - n0);
    const auto* b = reinterpret_cast<const typename Op::Element*>(p.b.data) + n0;
    for (std::int64_t block = 0; block < blocks; ++block) {
      const std::int64_t k0 = block * kBlockTerms, terms = std::min(kBlockTerms, p.k - k0);
      for (int i = 0; i < rows; ++i)
        for (std::int64_t k = 0; k < terms; ++k) {
          const auto x = all_a[i * p.a.row + (k0 + k) * p.a.term];
          if constexpr (Op::kChains == 1)
            a[i * kBlockTerms + k] = x;
          else
            a[i * kBlockTerms + k] = ToUnit<Op>(x);
        }
      for (std::int64_t k = 0; k < terms; k += kStepTerms)
        AddStep<Op, rows>(a + k, b + (k0 + k) * p.b.term, p.b.term, std::min(kStepTerms, terms - k), columns, k == 0,
                          run);
      // The binary counter: a carry for each trailing one, and at the end every pending sum, nearest first.
      const auto before = static_cast<std::uint64_t>(block);
      const int level = std::countr_one(before);
      const bool last = block + 1 == blocks;
      for (std::uint64_t rest = last ? before : before & ((std::uint64_t{1} << level) - 1); rest; rest &= rest - 1)
        e.add(pending + std::countr_zero(rest) * sums, run.block, run.block, sums);
      if (!last) std::memcpy(pending + level * sums, run.block, static_cast<std::size_t>(sums) * sizeof(Wide));
    }
    Destination c = p.c;
    c.data += n0 * p.c.column * static_cast<std::int64_t>(size_of(c.dtype));
    if (c.bias) c.bias += n0 * c.bias_column * static_cast<std::int64_t>(sizeof(Wide));
    e.finish(run.block, width, rows, static_cast<int>(columns), c);
  }
}

using ColumnsFn = void (*)(const Engine&, const Problem&, std::int64_t, std::int64_t);
template <class Op, int... i>
constexpr std::array<ColumnsFn, sizeof...(i)> ColumnsTable(std::integer_sequence<int, i...>) {
  return {&Columns<Op, i + 1>...};
}
template <class Op>
void AnyColumns(const Engine& e, const Problem& p, std::int64_t begin, std::int64_t end) {
  static constexpr auto table = ColumnsTable<Op>(std::make_integer_sequence<int, kSkinnyRows>());
  table[static_cast<std::size_t>(p.m - 1)](e, p, begin, end);
}

ColumnsFn ColumnsOf(DType dtype) {
  switch (dtype) {
    case DType::f64: return &AnyColumns<Whole<double>>;
    case DType::bf16: return &AnyColumns<Pairs>;
    case DType::f16: return &AnyColumns<Half>;
    default: return &AnyColumns<Whole<float>>;
  }
}

#endif
}  // namespace eadem::kernels::contraction::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eadem::kernels::contraction {

bool skinny_admits(const Engine& e, const Problem& p) {
  return p.m <= kSkinnyRows && p.b.row == 1 && p.n >= e.columns;
}

void multiply_in_place(const Engine& e, const Problem& p) {
#if defined(__aarch64__)
  const auto columns = N_NEON::ColumnsOf(p.dtype);
#else
  const auto columns = e.target == Target::avx2 ? N_AVX2::ColumnsOf(p.dtype) : N_AVX3::ColumnsOf(p.dtype);
#endif
  // Columns past the last whole panel go the packed way.
  const std::int64_t panels = p.n / e.columns, whole = panels * e.columns;
  const std::int64_t batches = p.batch.elements();
  const std::int64_t work = std::max<std::int64_t>(1, p.m * p.k * e.columns);
  const std::int64_t grain = std::max<std::int64_t>(1, 131072 / work);
  for (std::int64_t i = 0; i < batches; ++i) {
    const Problem one = product_of(p, i);
    parallel_for(panels, grain,
                 [&](std::int64_t begin, std::int64_t end) { columns(e, one, begin * e.columns, end * e.columns); });
    if (whole < p.n) {
      Problem rest = columns_from(one, whole);
      multiply(e, rest, default_blocking(e, rest, 1));
    }
  }
}

}  // namespace eadem::kernels::contraction
#endif
