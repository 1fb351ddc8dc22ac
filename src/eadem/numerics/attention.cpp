#include "eadem/numerics/attention.h"

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "eadem/numerics/contraction.h"
#include "eadem/numerics/elementary.h"

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

// One query of one head: the coordinates of all that it reads and writes.
template <class T>
class Query {
 public:
  using W = Wide<T>;

  Query(const AttentionOperands& x, const AttentionOptions& options, std::int64_t b, std::int64_t h, std::int64_t i)
      : x_(x), options_(options), b_(b), h_(h), i_(i) {
    heads_ = x.pages.data ? x.k.shape[1] : x.v.shape[1];
    kv_head_ = h / (x.q.shape[1] / heads_);
    head_size_ = x.q.shape[3];
  }

  void run() {
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
        y = positive_zero(round_to<T>(static_cast<double>(all.acc[static_cast<std::size_t>(d)]) *
                                      (1 / static_cast<double>(all.sum))));
      *at<T>(x_.y, b_, h_, i_, d) = y;
    }
  }

 private:
  template <class E>
  static E* at(const TensorView& t, std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t d) {
    return t.as<E>() + b * t.strides[0] + h * t.strides[1] + i * t.strides[2] + d * t.strides[3];
  }
  // As `at`, where axes of extent one stand for all.
  template <class E>
  static E* broadcast_at(const TensorView& t, std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) {
    const auto index = [&](int axis, std::int64_t k) { return t.shape[axis] == 1 ? 0 : k; };
    return at<E>(t, index(0, b), index(1, h), index(2, i), index(3, j));
  }
  static T positive_zero(T y) { return to_double(y) == 0 ? T{} : y; }

  std::int64_t page(std::int64_t j) const { return page_at(x_.pages, b_, j, x_.k.shape[0]); }
  T key(std::int64_t j, std::int64_t d) const {
    if (!x_.pages.data) return *at<T>(x_.k, b_, kv_head_, j, d);
    return x_.k.as<T>()[key_page_index(paired_pages(x_.k), heads_, head_size_, page(j), kv_head_, j % kKeyBlock, d)];
  }
  T value(std::int64_t j, std::int64_t d) const {
    if (!x_.pages.data) return *at<T>(x_.v, b_, kv_head_, j, d);
    return x_.v.as<T>()[value_page_index(paired_pages(x_.v), heads_, head_size_, page(j), kv_head_, j % kKeyBlock, d)];
  }

  // The score of key j; nothing if it is invisible.
  std::optional<W> score(std::int64_t j) const {
    if (x_.pages.data && page(j) < 0) return std::nullopt;
    if (x_.mask.data && !*broadcast_at<bool>(x_.mask, b_, h_, i_, j)) return std::nullopt;
    const W dot = contract<T>([&](std::int64_t d) { return widen(*at<T>(x_.q, b_, h_, i_, d)); },
                              [&](std::int64_t d) { return widen(key(j, d)); }, head_size_);
    W s = dot * static_cast<W>(options_.scale);
    if (options_.softcap != 0) {
      const W cap = static_cast<W>(options_.softcap);
      s = cap * tanh(s / cap);
    }
    if (x_.bias.data) {
      if (x_.bias.dtype == kDTypeOf<T>)
        s = s + widen(*broadcast_at<T>(x_.bias, b_, h_, i_, j));
      else
        s = s + static_cast<W>(*broadcast_at<float>(x_.bias, b_, h_, i_, j));
    }
    if (s == -std::numeric_limits<W>::infinity()) return std::nullopt;
    return s;
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
      const std::optional<W> s = score(j);
      if (!s) continue;
      if (!(*s <= std::numeric_limits<W>::max())) {
        state.nan = true;
        continue;
      }
      e[k] = split_exponential(*s);
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

  const AttentionOperands& x_;
  const AttentionOptions& options_;
  std::int64_t b_, h_, i_, heads_, kv_head_, head_size_;
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

void attention(const AttentionOperands& x, const AttentionOptions& options) {
  visit_floating(x.q.dtype, [&]<class T>(std::type_identity<T>) {
    for (std::int64_t b = 0; b < x.q.shape[0]; ++b)
      for (std::int64_t h = 0; h < x.q.shape[1]; ++h)
        for (std::int64_t i = 0; i < x.q.shape[2]; ++i) Query<T>(x, options, b, h, i).run();
  });
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
