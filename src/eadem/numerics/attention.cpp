#include "eadem/numerics/attention.h"

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "eadem/numerics/attention_query.h"
#include "eadem/numerics/attention_vjp.h"
#include "eadem/numerics/contraction.h"
#include "eadem/numerics/cotangent.h"

namespace eadem::numerics {
namespace {

constexpr double kNone = -std::numeric_limits<double>::infinity();  // the maximum before any visible key

// What a query has gathered from some of its keys: a chunk's, or a subtree's of chunks.
template <class W>
struct State {
  double maximum = kNone;
  bool nan = false;
  W sum = 0;
  std::vector<W> acc;
};

template <class W>
State<W> operator+(const State<W>& a, const State<W>& b) {
  if (a.maximum == kNone) return {b.maximum, a.nan || b.nan, b.sum, b.acc};
  if (b.maximum == kNone) return {a.maximum, a.nan || b.nan, a.sum, a.acc};
  const State<W>& hi = a.maximum >= b.maximum ? a : b;
  const State<W>& lo = a.maximum >= b.maximum ? b : a;
  const W scale = rescaling<W>(lo.maximum, hi.maximum);
  State<W> both{hi.maximum, a.nan || b.nan, std::fma(lo.sum, scale, hi.sum), hi.acc};
  for (std::size_t d = 0; d < both.acc.size(); ++d) both.acc[d] = std::fma(lo.acc[d], scale, hi.acc[d]);
  return both;
}

// One query of one head, forward.
template <class T>
class Query : AttentionQuery<T> {
 public:
  using Base = AttentionQuery<T>;
  using W = Wide<T>;
  using Base::Base;

  void run(const AttentionResiduals* residuals) {
    const KeyRange range = visible_keys(x_, options_, b_, i_);
    constexpr std::int64_t kChunk = kKeyBlock * kChunkBlocks;
    BlockTree<State<W>> tree;
    // Chunks before the first visible key hold nothing; they are added as whole subtrees, for `start` may be far off.
    const std::int64_t nothing = (range.first - range.start) / kChunk;
    for (int level = 48; level-- > 0;)
      if ((nothing >> level) & 1) tree.add_subtree(State<W>{}, level);
    for (std::int64_t first = range.start + nothing * kChunk; first < range.end; first += kChunk)
      tree.add(chunk(first, range));
    const State<W> all = tree.sum();
    for (std::int64_t d = 0; d < head_size_; ++d) {
      T y{};
      if (all.nan)
        y = canonical_nan<T>();
      else if (all.maximum != kNone)
        y = round_cotangent<T>(mean(all, d));
      *Base::template at<T>(x_.y, b_, h_, i_, d) = y;
    }
    if (residuals) keep(all, *residuals);
  }

 private:
  using Base::b_;
  using Base::h_;
  using Base::head_size_;
  using Base::i_;
  using Base::options_;
  using Base::score;
  using Base::value;
  using Base::x_;

  static double mean(const State<W>& all, std::int64_t d) {
    return static_cast<double>(all.acc[static_cast<std::size_t>(d)]) * (1 / static_cast<double>(all.sum));
  }

  void keep(const State<W>& all, const AttentionResiduals& to) const {
    const std::int64_t row = (b_ * x_.q.shape[1] + h_) * x_.q.shape[2] + i_;
    const bool none = all.maximum == kNone;
    to.maximum.template as<double>()[row] = all.nan ? 0 : all.maximum + 0.0;
    to.sum.template as<W>()[row] = all.nan ? canonical_nan<W>() : none ? W{0} : all.sum;
    for (std::int64_t d = 0; d < head_size_; ++d)
      to.output.template as<W>()[row * head_size_ + d] = all.nan ? canonical_nan<W>()
                                                         : none  ? W{0}
                                                                 : round_cotangent<W>(mean(all, d));
  }

  State<W> chunk(std::int64_t first, const KeyRange& range) const {
    State<W> state;
    if (first + kKeyBlock * kChunkBlocks <= range.first) return state;  // trimmed or outside the window: nothing
    state.acc.assign(static_cast<std::size_t>(head_size_), 0);
    for (std::int64_t block = 0; block < kChunkBlocks; ++block) apply_block(state, first + block * kKeyBlock, range);
    return state;
  }

  void apply_block(State<W>& state, std::int64_t first, const KeyRange& range) const {
    std::array<std::optional<Exponential<W>>, kKeyBlock> e;  // nothing: invisible
    double maximum = state.maximum;
    for (std::int64_t k = 0; k < kKeyBlock; ++k) {
      const std::int64_t j = first + k;
      if (j < range.first || j >= range.end) continue;
      const auto found = score(j);
      if (!found) continue;
      const W s = found->final;
      if (!(s <= std::numeric_limits<W>::max())) {
        state.nan = true;
        continue;
      }
      e[k] = split_exponential(s);
      maximum = std::max(maximum, e[k]->n);
    }
    if (std::none_of(e.begin(), e.end(), [](const auto& each) { return each.has_value(); })) return;

    std::array<W, kKeyBlock> p{};
    for (std::int64_t k = 0; k < kKeyBlock; ++k)
      if (e[k] && e[k]->n - maximum >= ExponentialConstants<W>::kNegligible)
        p[k] = std::ldexp(e[k]->f, static_cast<int>(e[k]->n - maximum));

    const W scale = rescaling<W>(state.maximum, maximum);
    state.maximum = maximum;
    state.sum = std::fma(state.sum, scale, block_sum(p));
    for (std::int64_t d = 0; d < head_size_; ++d) {
      const auto v = [&](std::int64_t k) { return e[k] ? widen(value(first + k, d)) : W{0}; };
      W& acc = state.acc[static_cast<std::size_t>(d)];
      acc = std::fma(acc, scale, block_product(p, v));
    }
  }

  static W block_sum(const std::array<W, kKeyBlock>& p) {
    std::array<W, 16> chain{};
    for (std::size_t k = 0; k < p.size(); ++k) chain[k % 16] += p[k];
    for (std::size_t half = 8; half > 0; half /= 2)
      for (std::size_t c = 0; c < half; ++c) chain[c] += chain[c + half];
    return chain[0];
  }

  template <class V>
  static W block_product(const std::array<W, kKeyBlock>& p, const V& v) {
    if constexpr (std::same_as<T, bfloat16>) {
      const auto split = [&](std::int64_t k) {
        const float hi = to_float(to_bfloat16(p[k % kKeyBlock]));
        return k < kKeyBlock ? hi : to_float(to_bfloat16(p[k % kKeyBlock] - hi));
      };
      return contraction_block<T>(
          split, [&](std::int64_t k) { return v(k % kKeyBlock); }, 0, 2 * kKeyBlock);
    } else {
      return contraction_block<W>([&](std::int64_t k) { return p[k]; }, v, 0, kKeyBlock);
    }
  }
};

}  // namespace

Shape key_page_shape(DType dtype, std::int64_t pages, std::int64_t kv_heads, std::int64_t head_size) {
  if (!is_16_bit_float(dtype)) return {pages, kv_heads, head_size, kKeyBlock};
  return {pages, kv_heads, (head_size + 1) / 2, kKeyBlock, 2};
}

Shape value_page_shape(DType dtype, std::int64_t pages, std::int64_t kv_heads, std::int64_t head_size) {
  if (!is_16_bit_float(dtype)) return {pages, kv_heads, kKeyBlock, head_size};
  return {pages, kv_heads, kKeyBlock / 2, head_size, 2};
}

std::int64_t page_at(const TensorView& pages, std::int64_t b, std::int64_t position, std::int64_t pool) {
  if (position < 0 || position / kKeyBlock >= pages.shape[1]) return -1;
  const std::int64_t name = pages.as<std::int32_t>()[b * pages.strides[0] + position / kKeyBlock * pages.strides[1]];
  return name >= 0 && name < pool ? name : -1;
}

std::int64_t integer_at(const TensorView& vector, std::int64_t b, std::int64_t absent) {
  if (!vector.data) return absent;
  const std::int64_t offset = b * vector.strides[0];
  return vector.dtype == DType::i32 ? vector.as<std::int32_t>()[offset] : vector.as<std::int64_t>()[offset];
}

KeyRange visible_keys(const AttentionOperands& x, const AttentionOptions& options, std::int64_t b, std::int64_t i) {
  const std::int64_t keys = x.pages.data ? x.pages.shape[1] * kKeyBlock : x.k.shape[2];
  // Positions beyond 2^40 mean no more than 2^40; so sums below cannot overflow.
  const auto bounded = [](std::int64_t n) {
    return std::clamp<std::int64_t>(n, -(std::int64_t{1} << 40), std::int64_t{1} << 40);
  };
  KeyRange range;
  range.start = bounded(integer_at(x.start, b, 0));
  const std::int64_t length = std::clamp<std::int64_t>(integer_at(x.length, b, keys), 0, keys);
  range.first = std::max<std::int64_t>(range.start, 0);
  range.end = length;
  if (options.causal != Causal::none) {
    const std::int64_t aligned = options.causal == Causal::lower_right ? length - x.q.shape[2] : 0;
    const std::int64_t position = bounded(integer_at(x.position, b, aligned)) + i;
    range.end = std::min(range.end, position + 1);
    if (options.window > 0)
      range.first = std::max(range.first, position - std::min(options.window, std::int64_t{1} << 41) + 1);
  }
  range.end = std::max(range.end, range.first);
  return range;
}

namespace {
void run_queries(const AttentionOperands& x, const AttentionOptions& options, const AttentionResiduals* residuals) {
  visit_floating(x.q.dtype, [&]<class T>(std::type_identity<T>) {
    for (std::int64_t b = 0; b < x.q.shape[0]; ++b)
      for (std::int64_t h = 0; h < x.q.shape[1]; ++h)
        for (std::int64_t i = 0; i < x.q.shape[2]; ++i) Query<T>(x, options, b, h, i).run(residuals);
  });
}
}  // namespace

void attention(const AttentionOperands& x, const AttentionOptions& options) {
  run_queries(x, options, nullptr);
}

void attention_saving(const AttentionOperands& x, const AttentionOptions& options,
                      const AttentionResiduals& residuals) {
  run_queries(x, options, &residuals);
}

void append_to_pages(const PageAppend& x) {
  const std::int64_t heads = x.fresh.shape[1], rows = x.fresh.shape[2], head_size = x.fresh.shape[3];
  const bool paired = paired_pages(x.pool);
  visit_floating(x.fresh.dtype, [&]<class T>(std::type_identity<T>) {
    for (std::int64_t b = 0; b < x.fresh.shape[0]; ++b) {
      const std::int64_t first = integer_at(x.position, b, 0);
      const std::int64_t count = std::clamp<std::int64_t>(integer_at(x.count, b, rows), 0, rows);
      for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t position = first + i;
        const std::int64_t page = page_at(x.pages, b, position, x.pool.shape[0]);
        if (page < 0) continue;
        const auto index = x.values ? value_page_index : key_page_index;
        for (std::int64_t h = 0; h < heads; ++h) {
          const T* from = x.fresh.as<T>() + b * x.fresh.strides[0] + h * x.fresh.strides[1] + i * x.fresh.strides[2];
          const auto to = [&](std::int64_t d) -> T& {
            return x.pool.as<T>()[index(paired, heads, head_size, page, h, position % kKeyBlock, d)];
          };
          for (std::int64_t d = 0; d < head_size; ++d) to(d) = from[d * x.fresh.strides[3]];
          if (!x.values && paired && head_size % 2) to(head_size) = T{};
        }
      }
    }
  });
}

}  // namespace eadem::numerics
