// The body of all Highway engines: packing, tiles, sums. Included once for each target by fma.cpp.
#if defined(EADEM_KERNELS_CONTRACTION_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef EADEM_KERNELS_CONTRACTION_TILE_INL_H_
#undef EADEM_KERNELS_CONTRACTION_TILE_INL_H_
#else
#define EADEM_KERNELS_CONTRACTION_TILE_INL_H_
#endif

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>
#include <utility>

#include "eadem/kernels/contraction/engine.h"
#include "eadem/numerics/contraction.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace eadem::kernels::contraction::HWY_NAMESPACE {
#if EADEM_HWY_TARGET
namespace hn = hwy::HWY_NAMESPACE;

using numerics::kBlockTerms;
using numerics::kStepTerms;

// Registers hold rows x vectors accumulators, `vectors` of b and one broadcast of a. More rows than these would fit,
// but the burst of additions and stores at the end of a chain then stalls the next one: on Zen 4, 14 rows run at 95 %
// of the peak for one chain and 87 % for two, 12 and 8 rows at 98 and 99 %.
#if HWY_TARGET == HWY_AVX3
inline constexpr int kOneChainRows = 12, kTwoChainRows = 8, kVectors = 2;
inline constexpr Target kTarget = Target::avx512;
#elif HWY_TARGET == HWY_AVX2
inline constexpr int kOneChainRows = 6, kTwoChainRows = 6, kVectors = 2;
inline constexpr Target kTarget = Target::avx2;
#else
inline constexpr int kOneChainRows = 6, kTwoChainRows = 6, kVectors = 4;
inline constexpr Target kTarget = Target::neon;
#endif

// A *unit* of packed a is what one broadcast takes, a *row* of packed b what one vector load takes from each of its
// columns. Chain c of a step has its own units and rows; the four forms:
//   Whole<T>  f32, f64: one chain; unit k, row k.
//   Half      f16: unit and row u of chain c are k = 2u + c. Units are widened to float, rows stay f16.
//   Pairs     bf16: row p of chain c is k = 4p + c in the high half of 32 bits and k = 4p + 2 + c in the low half (what
//             vdpbf16ps multiplies first is the high half). Units are widened to float, in the order of the chain.
//   PairUnits bf16: units are pairs too, as vdpbf16ps wants them.
template <class T>
struct Whole {
  using Element = T;
  using Wide = T;
  using Unit = T;
  using Row = T;
  static constexpr int kChains = 1, kRowsPerStep = 32, kUnitsPerRow = 1, kUnitsPerStep = 32;
  static constexpr bool kPairs = false, kChecked = false;
  using D = hn::ScalableTag<T>;
  static HWY_INLINE auto A(const Unit* unit, int) { return hn::Set(D(), *unit); }
  static HWY_INLINE auto B(const Row* row, int) { return hn::LoadU(D(), row); }
};

struct Half {
  using Element = std::uint16_t;
  using Wide = float;
  using Unit = float;
  using Row = std::uint16_t;
  static constexpr int kChains = 2, kRowsPerStep = 32, kUnitsPerRow = 1, kUnitsPerStep = 32;
  static constexpr bool kPairs = false, kChecked = false;
  using D = hn::ScalableTag<float>;
  static HWY_INLINE auto A(const Unit* unit, int) { return hn::Set(D(), *unit); }
  static HWY_INLINE auto B(const Row* row, int) {
    const hn::Rebind<hwy::float16_t, D> dh;
    return hn::PromoteTo(D(), hn::LoadU(dh, reinterpret_cast<const hwy::float16_t*>(row)));
  }
};

struct Pairs {
  using Element = std::uint16_t;
  using Wide = float;
  using Unit = float;
  using Row = std::uint32_t;
  static constexpr int kChains = 2, kRowsPerStep = 16, kUnitsPerRow = 2, kUnitsPerStep = 32;
  static constexpr bool kPairs = true, kChecked = false;
  using D = hn::ScalableTag<float>;
  using DU = hn::ScalableTag<std::uint32_t>;
  static HWY_INLINE auto A(const Unit* unit, int half) { return hn::Set(D(), unit[half]); }
  static HWY_INLINE auto B(const Row* row, int half) { return Widen(hn::LoadU(DU(), row), half); }
  template <class V>
  static HWY_INLINE hn::Vec<D> Widen(V pair, int half) {
    return hn::BitCast(D(), half == 0 ? hn::And(pair, hn::Set(DU(), 0xffff0000u)) : hn::ShiftLeft<16>(pair));
  }
};

struct PairUnits : Pairs {
  using Unit = std::uint32_t;
  static constexpr int kUnitsPerStep = 16;
  static constexpr bool kChecked = true;
  static HWY_INLINE auto A(const Unit* unit, int half) { return Widen(hn::Set(DU(), *unit), half); }
};

template <class Op>
inline constexpr int kLanes = static_cast<int>(hn::MaxLanes(typename Op::D()));
template <class Op>
inline constexpr int kRows = Op::kChains == 1 ? kOneChainRows : kTwoChainRows;
template <class Op>
inline constexpr int kColumns = kVectors* kLanes<Op>;
// Units of a row of packed a, padded so that rows do not fall on the same cache sets.
template <class Op>
inline constexpr std::int64_t kUnitStride = Op::kUnitsPerStep*(kBlockTerms / kStepTerms) +
                                            64 / sizeof(typename Op::Unit);
template <class Op>
inline constexpr bool kUnitsArePairs = std::is_same_v<typename Op::Unit, std::uint32_t>;

// Rows of packed b that chain c of a step with `terms` terms uses.
template <class Op>
HWY_INLINE std::int64_t ChainRows(std::int64_t terms, int chain) {
  if constexpr (Op::kChains == 1) return terms;
  const std::int64_t own = (terms + 1 - chain) / 2;
  return Op::kPairs ? (own + 1) / 2 : own;
}

// ---- tiles

template <class Op, int rows, int vectors>
void Tile(const void* packed_a, const void* packed_b, std::int64_t terms, const void* left, void* sums) {
  using D = typename Op::D;
  using V = hn::Vec<D>;
  constexpr D d;
  constexpr int lanes = kLanes<Op>, columns = kColumns<Op>;
  constexpr std::int64_t stride = kUnitStride<Op>;
  constexpr int chain_units = Op::kUnitsPerStep / Op::kChains, chain_rows = Op::kRowsPerStep / Op::kChains;
  constexpr int units = kUnitsArePairs<Op> ? 1 : Op::kUnitsPerRow;
  const auto* a = static_cast<const typename Op::Unit*>(packed_a);
  const auto* b = static_cast<const typename Op::Row*>(packed_b);
  auto* out = static_cast<typename Op::Wide*>(sums);
  const auto* before = static_cast<const typename Op::Wide*>(left);
  alignas(64) typename Op::Wide even[Op::kChains == 2 ? rows * columns : 1];
  for (std::int64_t k = 0; k < terms; k += kStepTerms) {
    const std::int64_t step = std::min(kStepTerms, terms - k);
    const bool join = left && k + kStepTerms >= terms;
    for (int chain = 0; chain < Op::kChains; ++chain) {
      V c[rows][vectors];
#pragma GCC unroll 16
      for (int i = 0; i < rows; ++i)
#pragma GCC unroll 4
        for (int j = 0; j < vectors; ++j) c[i][j] = hn::Zero(d);
      const auto* unit = a + chain * chain_units;
      const auto* row = b + chain * chain_rows * columns;
      const std::int64_t count = ChainRows<Op>(step, chain);
      for (std::int64_t r = 0; r < count; ++r, unit += units, row += columns) {
#pragma GCC unroll 2
        for (int half = 0; half < Op::kUnitsPerRow; ++half) {
          V bs[vectors];
#pragma GCC unroll 4
          for (int j = 0; j < vectors; ++j) bs[j] = Op::B(row + j * lanes, half);
#pragma GCC unroll 16
          for (int i = 0; i < rows; ++i) {
            const V x = Op::A(unit + i * stride, half);
#pragma GCC unroll 4
            for (int j = 0; j < vectors; ++j) c[i][j] = hn::MulAdd(x, bs[j], c[i][j]);
          }
        }
      }
      const bool last = chain == Op::kChains - 1;
#pragma GCC unroll 16
      for (int i = 0; i < rows; ++i)
#pragma GCC unroll 4
        for (int j = 0; j < vectors; ++j) {
          typename Op::Wide* at = out + i * columns + j * lanes;
          typename Op::Wide* saved = even + i * columns + j * lanes;
          if (!last) {
            hn::Store(c[i][j], d, saved);
            continue;
          }
          V v = Op::kChains == 2 ? hn::Add(hn::Load(d, saved), c[i][j]) : c[i][j];
          if (k != 0) v = hn::Add(hn::Load(d, at), v);
          if (join) v = hn::Add(hn::Load(d, before + i * columns + j * lanes), v);
          hn::Store(v, d, at);
        }
    }
    a += Op::kUnitsPerStep;
    b += Op::kRowsPerStep * columns;
  }
}

using TileFn = void (*)(const void*, const void*, std::int64_t, const void*, void*);
template <class Op, int... i>
constexpr std::array<TileFn, sizeof...(i)> TileTable(std::integer_sequence<int, i...>) {
  return {&Tile<Op, i / kVectors + 1, i % kVectors + 1>...};
}

template <class Op>
void AnyTile(const void* a, const void* b, int rows, int columns, std::int64_t terms, const void* left, void* out) {
  static constexpr auto table = TileTable<Op>(std::make_integer_sequence<int, kRows<Op> * kVectors>());
  const int vectors = (columns + kLanes<Op> - 1) / kLanes<Op>;
  table[static_cast<std::size_t>((rows - 1) * kVectors + vectors - 1)](a, b, terms, left, out);
}

// ---- packing

template <class Op>
HWY_INLINE typename Op::Unit ToUnit(typename Op::Element x) {
  if constexpr (std::is_same_v<typename Op::Unit, typename Op::Element>)
    return x;
  else if constexpr (Op::kPairs)
    return to_float(bfloat16{x});
  else
    return to_float(float16{x});
}

// The position in a step of the unit (the half of a pair) that term k of the step is.
template <class Op>
constexpr std::int64_t UnitOf(std::int64_t k) {
  if constexpr (Op::kChains == 1)
    return k;
  else
    return (k % 2) * 16 + k / 2;
}

constexpr std::uint32_t JoinPair(std::uint16_t high, std::uint16_t low) {
  return (std::uint32_t{high} << 16) | low;
}

// 32 consecutive 16-bit terms to the 16 pairs of a step.
HWY_INLINE void PairStep(const std::uint16_t* in, std::uint32_t* out) {
  for (int chain = 0; chain < 2; ++chain)
    for (int p = 0; p < 8; ++p) out[chain * 8 + p] = JoinPair(in[4 * p + chain], in[4 * p + 2 + chain]);
}

// 32 consecutive 16-bit terms, widened: the even ones, then the odd ones.
template <class Op>
HWY_INLINE void WidenStep(const std::uint16_t* in, float* out) {
  const hn::ScalableTag<float> df;
  const hn::ScalableTag<std::uint32_t> du;
  const auto lanes = static_cast<int>(hn::Lanes(du));
  for (int i = 0; i < 16; i += lanes) {
    const auto both = hn::LoadU(du, reinterpret_cast<const std::uint32_t*>(in) + i);
    if constexpr (Op::kPairs) {
      hn::StoreU(hn::BitCast(df, hn::ShiftLeft<16>(both)), df, out + i);
      hn::StoreU(hn::BitCast(df, hn::And(both, hn::Set(du, 0xffff0000u))), df, out + 16 + i);
    } else {
      const hn::Rebind<std::uint16_t, decltype(df)> dh;
      const hn::Rebind<hwy::float16_t, decltype(df)> df16;
      hn::StoreU(hn::PromoteTo(df, hn::BitCast(df16, hn::TruncateTo(dh, both))), df, out + i);
      hn::StoreU(hn::PromoteTo(df, hn::BitCast(df16, hn::TruncateTo(dh, hn::ShiftRight<16>(both)))), df, out + 16 + i);
    }
  }
}

// The magnitudes of 16-bit values, seen in whole vectors of D.
template <class D>
class MagnitudesIn {
 public:
  HWY_INLINE MagnitudesIn() : least_(hn::Set(D(), 0xffff)), greatest_(hn::Zero(D())) {}
  HWY_INLINE void See(hn::Vec<D> x) {
    const hn::Vec<D> magnitude = hn::And(x, hn::Set(d_, 0x7fff));
    // Zero wraps to the largest value, so it never is the minimum.
    least_ = hn::Min(least_, hn::Sub(magnitude, hn::Set(d_, 1)));
    greatest_ = hn::Max(greatest_, magnitude);
  }
  HWY_INLINE void See(const std::uint32_t* words, std::int64_t count) {
    const auto* halves = reinterpret_cast<const std::uint16_t*>(words);
    for (std::int64_t i = 0; i < 2 * count; i += static_cast<std::int64_t>(hn::MaxLanes(d_)))
      See(hn::LoadU(d_, halves + i));
  }
  HWY_INLINE Magnitudes Value() const {
    alignas(64) std::uint16_t each[hn::MaxLanes(D())];
    hn::Store(least_, d_, each);
    unsigned least = Magnitudes::kNoMagnitude - 1, greatest = 0;
    for (const std::uint16_t x : each) least = std::min<unsigned>(least, x);
    hn::Store(greatest_, d_, each);
    for (const std::uint16_t x : each) greatest = std::max<unsigned>(greatest, x);
    return {static_cast<std::uint16_t>(least + 1), static_cast<std::uint16_t>(greatest)};
  }

 private:
  static constexpr D d_{};
  hn::Vec<D> least_, greatest_;
};
using SeenMagnitudes = MagnitudesIn<hn::ScalableTag<std::uint16_t>>;

// The term that unit u of a step is; of a pair the one in the high half.
template <class Op>
constexpr std::int64_t TermOf(std::int64_t u) {
  if constexpr (Op::kChains == 1)
    return u;
  else if constexpr (kUnitsArePairs<Op>)
    return u % 8 * 4 + u / 8;
  else
    return u % 16 * 2 + u / 16;
}

// Rows to columns of squares of 32-bit or, of two rows, 64-bit elements; of two and four rows in each 16-byte block.
template <class D, class V>
HWY_INLINE void TransposeSquare(D d, V (&x)[2]) {
  const V a = x[0], b = x[1];
  x[0] = hn::InterleaveLower(d, a, b), x[1] = hn::InterleaveUpper(d, a, b);
}
template <class D, class V>
HWY_INLINE void TransposeBlocks(D d, V& a, V& b, V& c, V& e) {
  const hn::Repartition<std::uint64_t, D> d64;
  const auto ab0 = hn::BitCast(d64, hn::InterleaveLower(d, a, b)), ab2 = hn::BitCast(d64, hn::InterleaveUpper(d, a, b));
  const auto ce0 = hn::BitCast(d64, hn::InterleaveLower(d, c, e)), ce2 = hn::BitCast(d64, hn::InterleaveUpper(d, c, e));
  a = hn::BitCast(d, hn::InterleaveLower(d64, ab0, ce0)), b = hn::BitCast(d, hn::InterleaveUpper(d64, ab0, ce0));
  c = hn::BitCast(d, hn::InterleaveLower(d64, ab2, ce2)), e = hn::BitCast(d, hn::InterleaveUpper(d64, ab2, ce2));
}
template <class D, class V>
HWY_INLINE void TransposeSquare(D d, V (&x)[4]) {
  TransposeBlocks(d, x[0], x[1], x[2], x[3]);
}
template <class D, class V>
HWY_INLINE void TransposeSquare(D d, V (&x)[8]) {
  TransposeBlocks(d, x[0], x[1], x[2], x[3]);
  TransposeBlocks(d, x[4], x[5], x[6], x[7]);
  for (int i = 0; i < 4; ++i) {
    const V low = x[i], high = x[i + 4];
    x[i] = hn::ConcatLowerLower(d, high, low), x[i + 4] = hn::ConcatUpperUpper(d, high, low);
  }
}

// Steps of at least `side` rows of a that are adjacent in memory: by squares, each line of memory read once. Units past
// `terms` become zeros.
template <class Op, int side>
HWY_INLINE Magnitudes PackColumns(const typename Op::Element* in, std::int64_t stride, int count, std::int64_t terms,
                                  typename Op::Unit* out) {
  using Unit = typename Op::Unit;
  const hn::FixedTag<Unit, side> d;
  const hn::Rebind<typename Op::Element, decltype(d)> de;
  const hn::Repartition<std::uint16_t, decltype(d)> d16;
  [[maybe_unused]] MagnitudesIn<decltype(d16)> seen;
  const auto load = [&](std::int64_t u, std::int64_t end, const typename Op::Element* rows) HWY_ATTR {
    const std::int64_t k = TermOf<Op>(u);
    if (k >= end) return hn::Zero(d);
    const auto* at = rows + k * stride;
    if constexpr (kUnitsArePairs<Op>) {
      const auto high = hn::ShiftLeft<16>(hn::PromoteTo(d, hn::LoadU(de, at)));
      return k + 2 < end ? hn::Or(high, hn::PromoteTo(d, hn::LoadU(de, at + 2 * stride))) : high;
    } else if constexpr (Op::kPairs) {
      const hn::RebindToUnsigned<decltype(d)> du;
      return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du, hn::LoadU(de, at))));
    } else if constexpr (Op::kChains == 2) {
      const hn::Rebind<hwy::float16_t, decltype(d)> dh;
      return hn::PromoteTo(d, hn::LoadU(dh, reinterpret_cast<const hwy::float16_t*>(at)));
    } else {
      return hn::LoadU(d, at);
    }
  };
  for (std::int64_t k = 0; k < terms; k += kStepTerms, in += kStepTerms * stride, out += Op::kUnitsPerStep)
    for (int i = 0; i < count; i += side) {
      const int first = std::min(i, count - side);  // the last square may overlap the one before
      Unit* to = out + first * kUnitStride<Op>;
      for (int u = 0; u < Op::kUnitsPerStep; u += side, to += side) {
        hn::Vec<decltype(d)> x[side];
#pragma GCC unroll 8
        for (int n = 0; n < side; ++n) {
          x[n] = load(u + n, terms - k, in + first);
          if constexpr (Op::kChecked) seen.See(hn::BitCast(d16, x[n]));
        }
        TransposeSquare(d, x);
#pragma GCC unroll 8
        for (int n = 0; n < side; ++n) hn::StoreU(x[n], d, to + n * kUnitStride<Op>);
      }
    }
  return Op::kChecked ? seen.Value() : Magnitudes{};
}

template <class Op>
Magnitudes PackA(const Operand& a, int count, std::int64_t terms, void* packed) {
  using Element = typename Op::Element;
  const auto* base = reinterpret_cast<const Element*>(a.data);
  auto* out = static_cast<typename Op::Unit*>(packed);
  const std::int64_t steps = (terms + kStepTerms - 1) / kStepTerms;
  [[maybe_unused]] SeenMagnitudes seen;
  if (a.row == 1 && a.term != 1) {
    constexpr int side = static_cast<int>(16 / sizeof(typename Op::Unit));
    if constexpr (kUnitsArePairs<Op> && hn::MaxLanes(hn::ScalableTag<typename Op::Unit>()) >= 2 * side)
      if (count >= 2 * side) return PackColumns<Op, 2 * side>(base, a.term, count, terms, out);
    if (count >= side) return PackColumns<Op, side>(base, a.term, count, terms, out);
  }
  for (int i = 0; i < count; ++i, out += kUnitStride<Op>) {
    if (i > 0 && a.row == 0) {  // a row repeated by its stride
      std::copy_n(out - kUnitStride<Op>, steps * Op::kUnitsPerStep, out);
      continue;
    }
    const Element* row = base + i * a.row;
    if constexpr (Op::kChains == 1) {
      if (a.term == 1)
        std::memcpy(out, row, static_cast<std::size_t>(terms) * sizeof(Element));
      else
        for (std::int64_t k = 0; k < terms; ++k) out[k] = row[k * a.term];
    } else {
      for (std::int64_t s = 0; s < steps; ++s) {
        const std::int64_t first = s * kStepTerms, length = std::min(kStepTerms, terms - first);
        Element step[kStepTerms] = {};
        const Element* in = row + first;
        if (a.term != 1 || length < kStepTerms) {
          for (std::int64_t k = 0; k < length; ++k) step[k] = row[(first + k) * a.term];
          in = step;
        }
        if constexpr (kUnitsArePairs<Op>)
          PairStep(in, out + s * Op::kUnitsPerStep);
        else
          WidenStep<Op>(in, out + s * Op::kUnitsPerStep);
      }
      if constexpr (Op::kChecked) seen.See(out, steps * Op::kUnitsPerStep);
    }
  }
  return Op::kChecked ? seen.Value() : Magnitudes{};
}

// One row of packed b: `columns` columns, zeros up to a whole vector. `low` is null when the pair has one term only.
template <class Op>
HWY_INLINE void PackRow(const typename Op::Element* high, const typename Op::Element* low, std::int64_t stride,
                        int columns, typename Op::Row* out) {
  constexpr int lanes = kLanes<Op>;
  int n = 0;
  if (stride == 1) {
    __builtin_prefetch(high + 4 * kColumns<Op>);
    __builtin_prefetch(high + 4 * kColumns<Op> + 64 / sizeof(*high));
    if constexpr (Op::kPairs) {
      const typename Op::DU du;
      const hn::Rebind<std::uint16_t, typename Op::DU> dh;
      for (; n + lanes <= columns; n += lanes) {
        const auto upper = hn::ShiftLeft<16>(hn::PromoteTo(du, hn::LoadU(dh, high + n)));
        hn::StoreU(low ? hn::Or(upper, hn::PromoteTo(du, hn::LoadU(dh, low + n))) : upper, du, out + n);
      }
    } else {
      const hn::Rebind<typename Op::Row, typename Op::D> d;
      for (; n + lanes <= columns; n += lanes) hn::StoreU(hn::LoadU(d, high + n), d, out + n);
    }
  }
  for (; n < columns; ++n) {
    if constexpr (Op::kPairs)
      out[n] = JoinPair(high[n * stride], low ? low[n * stride] : std::uint16_t{0});
    else
      out[n] = high[n * stride];
  }
  for (; n % lanes != 0; ++n) out[n] = 0;
}

// The magnitudes in a packed step.
template <class Op>
HWY_INLINE Magnitudes StepMagnitudes(const typename Op::Row* step, int columns, std::int64_t terms) {
  const int used = (columns + kLanes<Op> - 1) / kLanes<Op> * kLanes<Op>;
  SeenMagnitudes seen;
  for (int chain = 0; chain < Op::kChains; ++chain)
    for (std::int64_t r = 0; r < ChainRows<Op>(terms, chain); ++r)
      seen.See(step + (chain * (Op::kRowsPerStep / Op::kChains) + r) * kColumns<Op>, used);
  return seen.Value();
}

// One step of one panel where k is adjacent in memory: column by column, so that each line of memory is used whole
// while it is near; the rows being written are few enough to stay in the first-level cache.
template <class Op>
HWY_INLINE void PackStepTransposed(const typename Op::Element* base, std::int64_t stride, int columns,
                                   std::int64_t terms, typename Op::Row* out) {
  using Element = typename Op::Element;
  for (int n = 0; n < (columns + kLanes<Op> - 1) / kLanes<Op> * kLanes<Op>; ++n) {
    Element step[kStepTerms] = {};
    const Element* in = base + n * stride;
    if (n >= columns) {
      in = step;
    } else if (Op::kPairs && terms < kStepTerms) {
      std::copy(in, in + terms, step);
      in = step;
    } else {
      __builtin_prefetch(in + 2 * kStepTerms);
    }
    if constexpr (Op::kPairs) {
      std::uint32_t pairs[kStepTerms / 2];
      PairStep(in, pairs);
      for (int r = 0; r < Op::kRowsPerStep; ++r) out[r * kColumns<Op> + n] = pairs[r];
    } else {
      for (std::int64_t k = 0; k < terms; ++k) out[UnitOf<Op>(k) * kColumns<Op> + n] = in[k];
    }
  }
}

// One step of one panel.
template <class Op>
HWY_INLINE void PackStep(const typename Op::Element* base, const Operand& b, int columns, std::int64_t terms,
                         typename Op::Row* out) {
  for (int chain = 0; chain < Op::kChains; ++chain) {
    auto* row = out + chain * (Op::kRowsPerStep / Op::kChains) * kColumns<Op>;
    const std::int64_t rows = ChainRows<Op>(terms, chain);
    for (std::int64_t r = 0; r < rows; ++r, row += kColumns<Op>) {
      const std::int64_t k = Op::kPairs ? 4 * r + chain : Op::kChains * r + chain;
      const bool both = Op::kPairs && k + 2 < terms;
      PackRow<Op>(base + k * b.term, both ? base + (k + 2) * b.term : nullptr, b.row, columns, row);
    }
  }
}

// Step by step across all panels, since rows of b are long runs of memory; panel by panel would touch a page for each
// k and use little of it.
template <class Op>
void PackB(const Operand& b, std::int64_t count, std::int64_t terms, void* packed, std::size_t panel_bytes,
           Magnitudes* magnitudes) {
  const auto* base = reinterpret_cast<const typename Op::Element*>(b.data);
  constexpr std::int64_t step_rows = Op::kRowsPerStep * kColumns<Op>;
  for (std::int64_t first = 0; first < terms; first += kStepTerms) {
    const std::int64_t length = std::min(kStepTerms, terms - first);
    auto* panel = static_cast<std::byte*>(packed);
    for (std::int64_t n = 0; n < count; n += kColumns<Op>, panel += panel_bytes) {
      auto* out = reinterpret_cast<typename Op::Row*>(panel) + first / kStepTerms * step_rows;
      const auto columns = static_cast<int>(std::min<std::int64_t>(kColumns<Op>, count - n));
      const auto* from = base + n * b.row + first * b.term;
      if (b.term == 1 && b.row != 1)
        PackStepTransposed<Op>(from, b.row, columns, length, out);
      else
        PackStep<Op>(from, b, columns, length, out);
      if constexpr (Op::kChecked) {
        Magnitudes& known = magnitudes[n / kColumns<Op>];
        if (first == 0) known = {};
        known.join(StepMagnitudes<Op>(out, columns, length));
      }
    }
  }
}

// ---- sums

template <class Op>
void AddSums(const void* left, const void* right, void* out, std::int64_t count) {
  const typename Op::D d;
  const auto* x = static_cast<const typename Op::Wide*>(left);
  const auto* y = static_cast<const typename Op::Wide*>(right);
  auto* z = static_cast<typename Op::Wide*>(out);
  for (std::int64_t i = 0; i < count; i += kLanes<Op>)
    hn::StoreU(hn::Add(hn::LoadU(d, x + i), hn::LoadU(d, y + i)), d, z + i);
}

template <class D, class V>
HWY_INLINE V Canonical(D d, V v) {
  using T = hn::TFromD<D>;
  return hn::IfThenElse(hn::IsNaN(v), hn::Set(d, numerics::canonical_nan<T>()), v);
}

// Whether vectors of W are stored as Out; the rest goes element by element.
template <class W, class Out>
inline constexpr bool kStoresVectors = std::is_same_v<W, Out> || (std::is_same_v<W, float> && Float16<Out>);

// f32 values in the upper halves of their words, rounded to bf16. The canonical NaN stays itself: its lower half is
// zero.
template <class D, class V>
HWY_INLINE auto RoundedToUpper(D, V v) {
  const hn::RebindToUnsigned<D> du;
  const auto bits = hn::BitCast(du, v);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1));
  return hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7fff)));
}

// Stores a vector of canonical values, rounded to Out.
template <class Out, class D, class V>
HWY_INLINE void StoreAs(D d, V v, Out* at) {
  if constexpr (std::is_same_v<Out, float16>) {
    const hn::Rebind<hwy::float16_t, D> dh;
    hn::StoreU(hn::DemoteTo(dh, v), dh, reinterpret_cast<hwy::float16_t*>(at));
  } else if constexpr (std::is_same_v<Out, bfloat16>) {
    const hn::Rebind<std::uint16_t, D> dh;
    hn::StoreU(hn::TruncateTo(dh, hn::ShiftRight<16>(RoundedToUpper(d, v))), dh, reinterpret_cast<std::uint16_t*>(at));
  } else {
    hn::StoreU(v, d, at);
  }
}

// Finishes whole vectors of a row and returns how many elements these were; value(n) gives those from n on.
template <class Out, class D, class F>
HWY_INLINE int StoreRow(D d, int columns, Out* out, F value) {
  constexpr int lanes = static_cast<int>(hn::MaxLanes(D()));
  int n = 0;
  if constexpr (std::is_same_v<Out, bfloat16>) {
    // The upper halves of two vectors are one.
    const hn::Repartition<std::uint16_t, D> d16;
    for (; n + 2 * lanes <= columns; n += 2 * lanes) {
      const auto first = RoundedToUpper(d, value(n)), second = RoundedToUpper(d, value(n + lanes));
      hn::StoreU(hn::ConcatOdd(d16, hn::BitCast(d16, second), hn::BitCast(d16, first)), d16,
                 reinterpret_cast<std::uint16_t*>(out + n));
    }
  }
  for (; n + lanes <= columns; n += lanes) StoreAs<Out>(d, value(n), out + n);
  return n;
}

template <class Op, class Out>
void FinishAs(const void* sums, std::int64_t stride, int rows, int columns, const Destination& c) {
  using W = typename Op::Wide;
  const typename Op::D d;
  const bool vectors = kStoresVectors<W, Out> && c.column == 1;
  for (int i = 0; i < rows; ++i) {
    const W* in = static_cast<const W*>(sums) + i * stride;
    const W* bias = c.bias ? reinterpret_cast<const W*>(c.bias) + i * c.bias_row : nullptr;
    Out* out = reinterpret_cast<Out*>(c.data) + i * c.row;
    int n = 0;
    if constexpr (kStoresVectors<W, Out>) {
      const auto sum = [&](int at) HWY_ATTR { return hn::Add(hn::LoadU(d, in + at), hn::Zero(d)); };  // -0 + +0 = +0
      if (vectors && !bias)
        n = StoreRow(d, columns, out, [&](int at) HWY_ATTR { return Canonical(d, sum(at)); });
      else if (vectors)
        n = StoreRow(d, columns, out, [&](int at) HWY_ATTR {
          const auto own = c.bias_column == 1 ? hn::LoadU(d, bias + at) : hn::Set(d, *bias);
          return Canonical(d, hn::Add(sum(at), own));
        });
    }
    for (; n < columns; ++n) {
      W v = in[n] + W{0};
      if (bias) v = v + bias[n * c.bias_column];
      out[n * c.column] = numerics::round_to<Out>(v);
    }
  }
}

template <class Op>
void Finish(const void* sums, std::int64_t stride, int rows, int columns, const Destination& c) {
  switch (c.dtype) {
    case DType::f64: return FinishAs<Op, double>(sums, stride, rows, columns, c);
    case DType::bf16: return FinishAs<Op, bfloat16>(sums, stride, rows, columns, c);
    case DType::f16: return FinishAs<Op, float16>(sums, stride, rows, columns, c);
    default: return FinishAs<Op, float>(sums, stride, rows, columns, c);
  }
}

template <class Op>
constexpr Engine MakeEngine(const char* name, DType dtype, const void* form) {
  Engine e;
  e.name = name, e.target = kTarget, e.dtype = dtype, e.form = form;
  e.rows = kRows<Op>, e.columns = kColumns<Op>;
  e.a_bytes = kRows<Op> * kUnitStride<Op> * sizeof(typename Op::Unit);
  e.a_step_bytes = Op::kUnitsPerStep * sizeof(typename Op::Unit);
  if (Op::kChains == 1) e.a_row_bytes = kUnitStride<Op> * sizeof(typename Op::Unit);
  e.b_bytes = Op::kRowsPerStep * (kBlockTerms / kStepTerms) * kColumns<Op> * sizeof(typename Op::Row);
  e.pack_a = &PackA<Op>, e.pack_b = &PackB<Op>, e.tile = &AnyTile<Op>, e.add = &AddSums<Op>, e.finish = &Finish<Op>;
  return e;
}

#endif  // EADEM_HWY_TARGET
}  // namespace eadem::kernels::contraction::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // include guard
