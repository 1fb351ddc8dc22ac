#include "eadem/kernels/attention/tile.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "eadem/numerics/cotangent.h"
#include "eadem/numerics/elementary.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "eadem/kernels/attention/tile.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After foreach_target.h, which includes it once for each target.
#include "eadem/kernels/attention/exponential-inl.h"
#include "eadem/kernels/attention/product-inl.h"

HWY_BEFORE_NAMESPACE();
namespace eadem::kernels::HWY_NAMESPACE {
#if EADEM_HWY_TARGET
namespace hn = hwy::HWY_NAMESPACE;
using namespace attention_detail;
using numerics::ExponentialConstants;
using numerics::KeyRange;
using numerics::Wide;

// Keys [lo, hi) of a block.
struct Span {
  std::int64_t lo, hi;
  bool empty() const { return lo >= hi; }
};

// The keys of the block that a row may see.
inline Span visible_in_block(const KeyRange& range, std::int64_t first_key) {
  return {std::max<std::int64_t>(range.first - first_key, 0), std::min<std::int64_t>(range.end - first_key, kKeys)};
}

// 2^(from - to), as numerics::rescaling.
template <class W>
W rescaling(double from, double to) {
  using Bits = std::conditional_t<sizeof(W) == 4, std::int32_t, std::int64_t>;
  const double exponent = from - to;
  if (exponent < ExponentialConstants<W>::kLeastScale) return 0;
  constexpr int kSignificand = std::numeric_limits<W>::digits - 1, kBias = std::numeric_limits<W>::max_exponent - 1;
  return std::bit_cast<W>(static_cast<Bits>(static_cast<Bits>(exponent) + kBias) << kSignificand);
}

// Softcap, bias and mask, which are not part of the common path: one by one.
template <class T>
void adjust_scores(const Problem& g, const Tile& t, std::int64_t row, std::int64_t first_key, Span seen, Wide<T>* s) {
  using W = Wide<T>;
  const std::int64_t h = t.head * g.group + (t.first_row + row) / g.queries, i = (t.first_row + row) % g.queries;
  if (g.options.softcap != 0) {
    const W cap = static_cast<W>(g.options.softcap);
    for (std::int64_t j = seen.lo; j < seen.hi; ++j) s[j] = cap * numerics::tanh(s[j] / cap);
  }
  const auto row_of = [&](const TensorView& view) {
    const auto offset = [&](int axis, std::int64_t index) {
      return view.shape[axis] == 1 ? 0 : index * view.strides[axis];
    };
    return offset(0, t.b) + offset(1, h) + offset(2, i) + offset(3, first_key);
  };
  const auto step_of = [](const TensorView& view) { return view.shape[3] == 1 ? 0 : view.strides[3]; };
  if (g.x.bias.data) {
    const std::int64_t step = step_of(g.x.bias);
    if (g.x.bias.dtype == kDTypeOf<T>) {
      const T* bias = g.x.bias.as<T>() + row_of(g.x.bias);
      for (std::int64_t j = seen.lo; j < seen.hi; ++j) s[j] = s[j] + numerics::widen(bias[j * step]);
    } else {
      const float* bias = g.x.bias.as<float>() + row_of(g.x.bias);
      for (std::int64_t j = seen.lo; j < seen.hi; ++j) s[j] = s[j] + static_cast<W>(bias[j * step]);
    }
  }
  if (g.x.mask.data) {
    const std::int64_t step = step_of(g.x.mask);
    const std::uint8_t* mask = g.x.mask.as<std::uint8_t>() + row_of(g.x.mask);
    for (std::int64_t j = seen.lo; j < seen.hi; ++j) s[j] = mask[j * step] ? s[j] : -kInfinity<W>;
  }
}

template <class W>
W fold(const W* chain) {
  W v[8];
  for (int i = 0; i < 8; ++i) v[i] = chain[i] + chain[i + 8];
  for (int i = 0; i < 4; ++i) v[i] += v[i + 4];
  return (v[0] + v[2]) + (v[1] + v[3]);
}

// Turns scores s[span] into p, brings the row's maximum and sum up to date; returns the rescaling factor. `seen` are
// the keys that the row may see; the others in the span get p = +0. When `invisible` is given, it receives s, -inf
// standing for invisible keys.
template <class T>
Wide<T> soften(const Problem& g, const Tile& t, std::int64_t row, std::int64_t first_key, Span seen, Span span,
               Wide<T>* s, const State& state, Wide<T>* invisible) {
  using W = Wide<T>;
  const hn::ScalableTag<W> d;
  using V = hn::Vec<decltype(d)>;
  constexpr std::int64_t kLanes = hn::MaxLanes(d);
  W* const sum = static_cast<W*>(state.sum) + row;
  const bool extras = g.options.softcap != 0 || g.x.bias.data || g.x.mask.data;

  W scale = static_cast<W>(g.options.scale);
  if (extras || seen.lo > span.lo || seen.hi < span.hi) {
    for (std::int64_t j = span.lo; j < span.hi; j += kLanes)
      hn::Store(hn::Mul(hn::Load(d, s + j), hn::Set(d, scale)), d, s + j);
    if (extras) adjust_scores<T>(g, t, row, first_key, seen, s);
    for (std::int64_t j = span.lo; j < std::min(seen.lo, span.hi); ++j) s[j] = -kInfinity<W>;
    for (std::int64_t j = std::max(seen.hi, span.lo); j < span.hi; ++j) s[j] = -kInfinity<W>;
    scale = 1;
  }
  V greatest = hn::Set(d, -kInfinity<W>);
  auto ordered = hn::Eq(greatest, greatest);
  for (std::int64_t j = span.lo; j < span.hi; j += kLanes) {
    const V x = hn::Mul(hn::Load(d, s + j), hn::Set(d, scale));
    hn::Store(x, d, s + j);
    ordered = hn::And(ordered, hn::Lt(x, hn::Set(d, kInfinity<W>)));
    greatest = hn::Max(greatest, x);
  }
  if (invisible) std::copy(s + span.lo, s + span.hi, invisible + span.lo);
  const W top = hn::GetLane(hn::MaxOfLanes(d, greatest));
  if (!hn::AllTrue(d, ordered)) state.nan[row] = true;
  if (state.nan[row] || top == -kInfinity<W>) {
    std::fill(s + span.lo, s + span.hi, W{0});
    return 1;
  }

  using C = ExponentialConstants<W>;
  const bool ordinary = top > W{-0x1p19} && top < W{0x1p20};
  const double n = ordinary
                       ? static_cast<double>(hn::GetLane(hn::Round(hn::Mul(hn::Set(d, top), hn::Set(d, C::log2_e)))))
                       : numerics::split_exponential(top).n;
  const double maximum = std::max(state.maximum[row], n);
  const W factor = rescaling<W>(state.maximum[row], maximum);
  state.maximum[row] = maximum;

  HWY_ALIGN W chain[16] = {};
  if (ordinary) {
    V partial[16 / kLanes];
    for (V& each : partial) each = hn::Zero(d);
    const V m = hn::Set(d, static_cast<W>(maximum));
    for (std::int64_t j = span.lo; j < span.hi; j += 16)
      for (std::int64_t c = 0; c < 16 / kLanes; ++c) {
        const V p = exponential(d, hn::Load(d, s + j + c * kLanes), m);
        hn::Store(p, d, s + j + c * kLanes);
        partial[c] = hn::Add(partial[c], p);
      }
    for (std::int64_t c = 0; c < 16 / kLanes; ++c) hn::Store(partial[c], d, chain + c * kLanes);
  } else {
    for (std::int64_t j = span.lo; j < span.hi; ++j) {
      s[j] = exponential_of_any(s[j], maximum);
      chain[j % 16] += s[j];
    }
  }
  *sum = hn::GetLane(hn::MulAdd(hn::Set(d, *sum), hn::Set(d, factor), hn::Set(d, fold(chain))));
  return factor;
}

// p = high + low in bf16 (each held as float): high = RN(p), low = RN(p - high).
inline void split(float* p, float* low, Span span) {
  const hn::ScalableTag<float> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const auto rounded = [&](hn::Vec<decltype(d)> x) HWY_ATTR {
    const auto bits = hn::BitCast(du, x);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1u));
    return hn::BitCast(d, hn::And(hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7fffu))), hn::Set(du, 0xffff0000u)));
  };
  for (std::int64_t j = span.lo; j < span.hi; j += static_cast<std::int64_t>(hn::Lanes(d))) {
    const auto x = hn::Load(d, p + j);
    const auto high = rounded(x);
    hn::Store(rounded(hn::Sub(x, high)), d, low + j);
    hn::Store(high, d, p + j);
  }
}

// Scores of `rows` rows from `row` on against keys [panel.lo, panel.hi).
template <class T>
void scores(const Problem& g, const Tile& t, const PackedBlock& block, std::int64_t row, std::int64_t rows,
            Span panel) {
  using W = Wide<T>;
  const std::int64_t head_size = g.head_size;
  const W* k = static_cast<const W*>(block.k) + column_offset(panel.lo, g.key_panel, head_size);
  W* s = static_cast<W*>(t.s) + row * kKeys + panel.lo;
  Factors<W> f{.a = static_cast<const W*>(t.q) + row * head_size,
               .lda = static_cast<std::size_t>(head_size),
               .b = k,
               .ldb = static_cast<std::size_t>(g.key_panel),
               .c = s,
               .ldc = kKeys,
               .first = 0,
               .end = std::min<std::int64_t>(head_size, 256),
               .accumulate = false};
  if (head_size <= 256) return product<Float16<T>>(f, rows, panel.hi - panel.lo);

  // The tree over blocks of 256: a stack of pending sums.
  const hn::ScalableTag<W> d;
  const auto pending = [&](int depth) {
    return static_cast<W*>(t.tree) + (depth * kTileRows + row) * kKeys + panel.lo;
  };
  const auto for_vectors = [&](auto&& each) HWY_ATTR {
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t j = 0; j < panel.hi - panel.lo; j += static_cast<std::int64_t>(hn::Lanes(d)))
        each(r * kKeys + j);
  };
  int depth = 0;
  const auto join = [&]() HWY_ATTR {
    --depth;
    W* into = pending(depth - 1);
    const W* later = pending(depth);
    for_vectors([&](std::int64_t at)
                    HWY_ATTR { hn::Store(hn::Add(hn::Load(d, into + at), hn::Load(d, later + at)), d, into + at); });
  };
  for (std::int64_t count = 1; (count - 1) * 256 < head_size; ++count) {
    f.first = (count - 1) * 256;
    f.end = std::min(head_size, count * 256);
    f.c = pending(depth++);
    product<Float16<T>>(f, rows, panel.hi - panel.lo);
    for (std::int64_t pairs = count; pairs % 2 == 0; pairs /= 2) join();
  }
  while (depth > 1) join();
  const W* total = pending(0);
  for_vectors([&](std::int64_t at) HWY_ATTR { hn::Store(hn::Load(d, total + at), d, s + at); });
}

// p v of rows [row, row + rows) over the keys of the span, into t.product.
template <class T>
void values(const Problem& g, const Tile& t, const void* v, std::int64_t row, std::int64_t rows, Span span,
            Span panel) {
  using W = Wide<T>;
  Factors<W> f{.a = static_cast<const W*>(t.s) + row * kKeys,
               .lda = kKeys,
               .b = static_cast<const W*>(v) + column_offset(panel.lo, g.value_panel, kKeys),
               .ldb = static_cast<std::size_t>(g.value_panel),
               .c = static_cast<W*>(t.product) + row * g.columns + panel.lo,
               .ldc = static_cast<std::size_t>(g.columns),
               .first = span.lo,
               .end = span.hi,
               .accumulate = false};
  product<std::same_as<T, bfloat16>>(f, rows, panel.hi - panel.lo);
  if constexpr (std::same_as<T, bfloat16>) {
    f.a = static_cast<const W*>(t.low) + row * kKeys;
    f.accumulate = true;
    product<true>(f, rows, panel.hi - panel.lo);
  }
}

template <class W>
void accumulate(const Problem& g, const Tile& t, std::int64_t row, W factor, const State& state) {
  const hn::ScalableTag<W> d;
  W* acc = static_cast<W*>(state.acc) + row * g.columns;
  const W* product = static_cast<const W*>(t.product) + row * g.columns;
  for (std::int64_t c = 0; c < g.columns; c += static_cast<std::int64_t>(hn::Lanes(d)))
    hn::Store(hn::MulAdd(hn::Load(d, acc + c), hn::Set(d, factor), hn::Load(d, product + c)), d, acc + c);
}

// The values with zeros for the keys that the row does not see, where `invisible` says so.
template <class W>
const W* visible_values(const Problem& g, const Tile& t, const PackedBlock& block, const W* invisible, Span span) {
  W* spare = static_cast<W*>(t.spare);
  std::memcpy(spare, block.v, static_cast<std::size_t>(kKeys * round_up(g.columns, g.value_panel)) * sizeof(W));
  for (std::int64_t j = span.lo; j < span.hi; ++j)
    for (std::int64_t c = 0; invisible[j] == -kInfinity<W> && c < g.columns; c += g.value_panel)
      std::fill_n(spare + column_offset(c, g.value_panel, kKeys) + j * g.value_panel, g.value_panel, W{0});
  return spare;
}

// Brings the states of all rows of the tile forward by one block.
template <class T>
void apply(const Problem& g, Tile& t, const PackedBlock& block, const BlockPlace& place, const State& state,
           const PairedBody* paired) {
  using W = Wide<T>;
  constexpr std::int64_t kGroups = kTileRows / kGroupRows;
  Span seen[kTileRows], span[kGroups];
  W factor[kTileRows];
  const std::int64_t groups = (t.rows + kGroupRows - 1) / kGroupRows;
  const std::int64_t quads = (g.head_size + 3) / 4;
  for (std::int64_t group = 0; group < groups; ++group) {
    span[group] = {kKeys, 0};
    for (std::int64_t r = group * kGroupRows; r < std::min(t.rows, (group + 1) * kGroupRows); ++r) {
      seen[r] = visible_in_block(t.range[r], place.first_key);
      if (seen[r].empty()) continue;
      span[group].lo = std::min(span[group].lo, seen[r].lo / kPanel * kPanel);
      span[group].hi = std::max(span[group].hi, round_up(seen[r].hi, kPanel));
    }
  }
  const auto rows_in = [&](std::int64_t group) {
    return std::min<std::int64_t>(kGroupRows, t.rows - group * kGroupRows);
  };

  for (std::int64_t lo = 0; lo < kKeys; lo += g.key_panel)
    for (std::int64_t group = 0; group < groups; ++group) {
      const Span panel{std::max(lo, span[group].lo), std::min(lo + g.key_panel, span[group].hi)};
      if (panel.empty()) continue;
      const std::int64_t row = group * kGroupRows;
      if (block.paired)
        paired->product(t.pairs + row * quads * 2, quads * 2,
                        static_cast<const std::uint32_t*>(block.k) + column_offset(panel.lo, g.key_panel, quads * 2),
                        g.key_panel, 0, quads, rows_in(group), panel.hi - panel.lo,
                        static_cast<float*>(t.s) + row * kKeys + panel.lo, kKeys, false);
      else
        scores<T>(g, t, block, row, rows_in(group), panel);
    }

  for (std::int64_t group = 0; group < groups; ++group) {
    if (span[group].empty()) continue;
    for (std::int64_t r = group * kGroupRows; r < group * kGroupRows + rows_in(group); ++r) {
      W* s = static_cast<W*>(t.s) + r * kKeys;
      HWY_ALIGN W invisible[kKeys];
      factor[r] =
          soften<T>(g, t, r, place.first_key, seen[r], span[group], s, state, block.finite ? nullptr : invisible);
      if (block.paired) {
        paired->split(static_cast<float*>(t.s) + r * kKeys, span[group].lo, span[group].hi);
      } else if constexpr (std::same_as<T, bfloat16>) {
        split(s, static_cast<W*>(t.low) + r * kKeys, span[group]);
      }
      if (block.finite || state.nan[r] || seen[r].empty()) continue;
      const W* v = visible_values(g, t, block, invisible, span[group]);
      for (std::int64_t lo = 0; lo < g.columns; lo += g.value_panel)
        values<T>(g, t, v, r, 1, span[group], {lo, std::min(lo + g.value_panel, g.columns)});
      accumulate<W>(g, t, r, factor[r], state);
    }
  }
  if (!block.finite) return;

  for (std::int64_t lo = 0; lo < g.columns; lo += g.value_panel)
    for (std::int64_t group = 0; group < groups; ++group) {
      if (span[group].empty()) continue;
      const Span panel{lo, std::min(lo + g.value_panel, g.columns)};
      const std::int64_t row = group * kGroupRows;
      if (!block.paired) {
        values<T>(g, t, block.v, row, rows_in(group), span[group], panel);
        continue;
      }
      const std::uint32_t* p = static_cast<const std::uint32_t*>(t.s) + row * kKeys;
      const std::uint32_t* v = static_cast<const std::uint32_t*>(block.v) + column_offset(lo, g.value_panel, kKeys / 2);
      float* product = static_cast<float*>(t.product) + row * g.columns + lo;
      for (const bool low : {false, true})
        paired->product(p + (low ? kKeys / 2 : 0), kKeys, v, g.value_panel, span[group].lo / 4, span[group].hi / 4,
                        rows_in(group), panel.hi - panel.lo, product, g.columns, low);
    }
  for (std::int64_t group = 0; group < groups; ++group)
    for (std::int64_t r = group * kGroupRows; !span[group].empty() && r < group * kGroupRows + rows_in(group); ++r)
      accumulate<W>(g, t, r, factor[r], state);
}

template <class W>
void combine(const State& into, const State& later, std::int64_t rows, std::int64_t columns) {
  const hn::ScalableTag<W> d;
  for (std::int64_t r = 0; r < rows; ++r) {
    into.nan[r] = into.nan[r] || later.nan[r];
    if (later.maximum[r] == -kInfinity<double>) continue;
    W* sum = static_cast<W*>(into.sum) + r;
    W* acc = static_cast<W*>(into.acc) + r * columns;
    const W later_sum = static_cast<const W*>(later.sum)[r];
    const W* later_acc = static_cast<const W*>(later.acc) + r * columns;
    if (into.maximum[r] == -kInfinity<double>) {
      into.maximum[r] = later.maximum[r];
      *sum = later_sum;
      std::copy(later_acc, later_acc + columns, acc);
      continue;
    }
    const bool later_leads = later.maximum[r] > into.maximum[r];
    const double lo = later_leads ? into.maximum[r] : later.maximum[r];
    const double hi = later_leads ? later.maximum[r] : into.maximum[r];
    const auto scale = hn::Set(d, rescaling<W>(lo, hi));
    const auto joined = [&](auto a, auto b)
                            HWY_ATTR { return later_leads ? hn::MulAdd(a, scale, b) : hn::MulAdd(b, scale, a); };
    into.maximum[r] = hi;
    *sum = hn::GetLane(joined(hn::Set(d, *sum), hn::Set(d, later_sum)));
    for (std::int64_t c = 0; c < columns; c += static_cast<std::int64_t>(hn::Lanes(d)))
      hn::Store(joined(hn::Load(d, acc + c), hn::Load(d, later_acc + c)), d, acc + c);
  }
}

// RN_t(RN64(acc r)) for `columns` elements, as floats: by round-to-odd in f32, so that the second rounding, to 16 bits,
// decides on the exact value.
template <class T>
void scaled_row(const Wide<T>* acc, double r, std::int64_t columns, T* y) {
  if constexpr (!Float16<T>) {
    for (std::int64_t c = 0; c < columns; ++c) y[c] = static_cast<T>(static_cast<double>(acc[c]) * r);
  } else {
    HWY_ALIGN std::uint32_t odd[16];
    for (std::int64_t c = 0; c < columns; c += 16) {
      for (int i = 0; i < 16; ++i) {
        const double exact = static_cast<double>(acc[c + i]) * r;
        const float near = static_cast<float>(exact);
        const double back = static_cast<double>(near);
        const std::uint32_t bits = std::bit_cast<std::uint32_t>(near == near ? near : numerics::canonical_nan<float>());
        const std::uint32_t toward_zero = bits - static_cast<std::uint32_t>(std::fabs(back) > std::fabs(exact));
        odd[i] = toward_zero | static_cast<std::uint32_t>(back < exact || back > exact);
      }
      for (int i = 0; i < 16; ++i) {
        if constexpr (std::same_as<T, bfloat16>)
          y[c + i] = {static_cast<std::uint16_t>((odd[i] + 0x7fff + ((odd[i] >> 16) & 1)) >> 16)};
      }
      if constexpr (std::same_as<T, float16>) {
        const hn::ScalableTag<float> d;
        const hn::Rebind<hwy::float16_t, decltype(d)> d16;
        for (std::size_t i = 0; i < 16; i += hn::Lanes(d))
          hn::StoreU(hn::DemoteTo(d16, hn::Load(d, reinterpret_cast<const float*>(odd) + i)), d16,
                     reinterpret_cast<hwy::float16_t*>(y + c) + i);
      }
    }
  }
}

// m, l and o of a row.
template <class T>
void keep_residuals(const Problem& g, std::int64_t to, const State& state, std::int64_t row) {
  using W = Wide<T>;
  const numerics::AttentionResiduals& r = *g.residuals;
  W* o = r.output.as<W>() + to * g.head_size;
  if (state.nan[row] || state.maximum[row] == -kInfinity<double>) {
    const W value = state.nan[row] ? numerics::canonical_nan<W>() : W{0};
    r.maximum.as<double>()[to] = state.nan[row] ? 0 : state.maximum[row];
    r.sum.as<W>()[to] = value;
    std::fill_n(o, g.head_size, value);
    return;
  }
  const W sum = static_cast<const W*>(state.sum)[row];
  r.maximum.as<double>()[to] = state.maximum[row] + 0.0;  // never -0
  r.sum.as<W>()[to] = sum;
  const W* acc = static_cast<const W*>(state.acc) + row * g.columns;
  const double scale = 1 / static_cast<double>(sum);
  for (std::int64_t c = 0; c < g.head_size; ++c)
    o[c] = numerics::round_cotangent<W>(static_cast<double>(acc[c]) * scale);
}

// y = RN_t(RN64(acc RN64(1 / l))), +0 for a zero, the canonical NaN for a NaN.
template <class T>
void finish(const Problem& g, const Tile& t, const State& state) {
  using W = Wide<T>;
  for (std::int64_t row = 0; row < t.rows; ++row) {
    const std::int64_t h = t.head * g.group + (t.first_row + row) / g.queries, i = (t.first_row + row) % g.queries;
    T* y = g.x.y.as<T>() + t.b * g.x.y.strides[0] + h * g.x.y.strides[1] + i * g.x.y.strides[2];
    const std::int64_t step = g.x.y.strides[3];
    const bool nan = state.nan[row];
    if (g.residuals) keep_residuals<T>(g, (t.b * g.group * g.kv_heads + h) * g.queries + i, state, row);
    if (nan || state.maximum[row] == -kInfinity<double>) {
      for (std::int64_t c = 0; c < g.head_size; ++c) y[c * step] = nan ? numerics::canonical_nan<T>() : T{};
      continue;
    }
    T* out = static_cast<T*>(t.spare);
    scaled_row<T>(static_cast<const W*>(state.acc) + row * g.columns,
                  1 / static_cast<double>(static_cast<const W*>(state.sum)[row]), g.columns, out);
    for (std::int64_t c = 0; c < g.head_size; ++c) {
      const auto value = numerics::widen(out[c]);
      y[c * step] = value != value ? numerics::canonical_nan<T>() : value == 0 ? T{} : out[c];
    }
  }
}

template <class T>
void pack_queries(const Problem& g, Tile& t) {
  for (std::int64_t row = 0; row < t.rows; ++row) {
    const std::int64_t h = t.head * g.group + (t.first_row + row) / g.queries, i = (t.first_row + row) % g.queries;
    const T* from = g.x.q.as<T>() + t.b * g.x.q.strides[0] + h * g.x.q.strides[1] + i * g.x.q.strides[2];
    Wide<T>* to = static_cast<Wide<T>*>(t.q) + row * g.head_size;
    for (std::int64_t c = 0; c < g.head_size; ++c) to[c] = numerics::widen(from[c * g.x.q.strides[3]]);
  }
}

template <class T>
constexpr Body kBody{pack_queries<T>, apply<T>, combine<Wide<T>>, finish<T>};

const Body* body(DType dtype) {
  return visit_floating(dtype, []<class T>(std::type_identity<T>) { return &kBody<T>; });
}

#endif  // EADEM_HWY_TARGET
}  // namespace eadem::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eadem::kernels {
namespace {
const attention_detail::Body* no_body(DType) {
  return nullptr;
}
}  // namespace

const attention_detail::Body* attention_detail::pick_body(DType dtype, Target target) {
  static constexpr auto kBodies = EADEM_PER_TARGET(no_body, body);
  return kBodies.pick(target)(dtype);
}

}  // namespace eadem::kernels
#endif
