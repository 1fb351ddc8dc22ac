#include "eadem/numerics/attention_vjp.h"

#include <vector>

#include "eadem/numerics/attention_query.h"
#include "eadem/numerics/cotangent.h"

namespace eadem::numerics {
namespace {

// The sum over k of x(k) y(k), absent terms having +0 for both; x in the computing type, y widened elements of T.
template <class T, class X, class Y>
Wide<T> contract_with(X&& x, Y&& y, std::int64_t terms) {
  if constexpr (std::same_as<T, bfloat16>) {
    BlockTree<float> tree;
    for (std::int64_t first = 0; first < terms; first += kKeyBlock) {
      const auto split = [&](std::int64_t k) {
        const std::int64_t at = first + k % kKeyBlock;
        const float whole = at < terms ? x(at) : 0, hi = to_float(to_bfloat16(whole));
        return k < kKeyBlock ? hi : to_float(to_bfloat16(whole - hi));
      };
      const auto other = [&](std::int64_t k) {
        const std::int64_t at = first + k % kKeyBlock;
        return at < terms ? y(at) : 0;
      };
      tree.add(contraction_block<T>(split, other, 0, 2 * kKeyBlock));
    }
    return tree.sum() + 0.0f;
  } else {
    return contract<Wide<T>>(x, y, terms);
  }
}

// One query's p and cotangents of scores.
template <class T>
class QueryVjp : public AttentionQuery<T> {
 public:
  using Base = AttentionQuery<T>;
  using W = Wide<T>;

  struct Key {
    bool visible = false;
    W p = 0, ds = 0, dt = 0;
  };

  QueryVjp(const AttentionOperands& x, const AttentionOptions& options, const TensorView& dy,
           const AttentionResiduals& saved, std::int64_t b, std::int64_t h, std::int64_t i)
      : Base(x, options, b, h, i), dy_(dy) {
    const std::int64_t row = (b * x.q.shape[1] + h) * x.q.shape[2] + i;
    maximum_ = std::nearbyint(saved.maximum.template as<double>()[row]);
    sum_ = saved.sum.template as<W>()[row];
    const W* o = saved.output.template as<W>() + row * this->head_size_;
    delta_ =
        contract<W>([&](std::int64_t d) { return dy_at(d); }, [&](std::int64_t d) { return o[d]; }, this->head_size_);
  }

  W dy_at(std::int64_t d) const { return widen(*Base::template at<T>(dy_, this->b_, this->h_, this->i_, d)); }
  W q_at(std::int64_t d) const { return widen(*Base::template at<T>(this->x_.q, this->b_, this->h_, this->i_, d)); }

  std::vector<Key> keys() const {
    std::vector<Key> all(static_cast<std::size_t>(this->x_.k.shape[2]));
    const KeyRange range = visible_keys(this->x_, this->options_, this->b_, this->i_);
    for (std::int64_t j = range.first; j < range.end; ++j)
      if (const auto s = Base::score(j)) all[static_cast<std::size_t>(j)] = cell(j, *s);
    return all;
  }

 private:
  Key cell(std::int64_t j, const typename Base::Score& s) const {
    Key found{.visible = true};
    if (sum_ != sum_) {
      found.p = found.ds = found.dt = canonical_nan<W>();
      return found;
    }
    const auto [n, f] = split_exponential(s.final);
    const double exponent = n - maximum_;
    const W p = exponent >= ExponentialConstants<W>::kNegligible ? std::ldexp(f, static_cast<int>(exponent)) : W{0};
    found.p = p * (1 / sum_);
    const W dp = contract<T>([&](std::int64_t d) { return dy_at(d); },
                             [&](std::int64_t d) { return widen(Base::value(j, d)); }, this->head_size_);
    found.ds = found.p * (dp - delta_);
    found.dt = found.ds;
    if (this->options_.softcap != 0)
      found.dt = found.ds * tanh_derivative(s.capped_from / static_cast<W>(this->options_.softcap));
    return found;
  }

  const TensorView& dy_;
  double maximum_;
  W sum_, delta_;
};

// RN_T(scale sum), never -0.
template <class T>
T scaled(Wide<T> sum, double scale) {
  return round_cotangent<T>(static_cast<double>(sum) * static_cast<double>(static_cast<Wide<T>>(scale)));
}

template <class T>
void vjp(const AttentionOperands& x, const AttentionOptions& options, const TensorView& dy,
         const AttentionResiduals& saved, const AttentionCotangents& out) {
  using W = Wide<T>;
  using Key = typename QueryVjp<T>::Key;
  const std::int64_t kv_heads = x.k.shape[1], group = x.q.shape[1] / kv_heads, queries = x.q.shape[2];
  const std::int64_t keys = x.k.shape[2], head_size = x.q.shape[3];
  for (std::int64_t b = 0; b < x.q.shape[0]; ++b) {
    const std::int64_t start = std::clamp<std::int64_t>(integer_at(x.start, b, 0), 0, x.k.shape[2]);
    const std::int64_t first = queries_before_start(x, options, b);
    for (std::int64_t kv = 0; kv < kv_heads; ++kv) {
      // Row (i - first) G + h; queries before `first` see no key.
      std::vector<QueryVjp<T>> rows;
      std::vector<std::vector<Key>> cells;
      for (std::int64_t i = 0; i < queries; ++i)
        for (std::int64_t h = 0; h < group; ++h) {
          rows.emplace_back(x, options, dy, saved, b, kv * group + h, i);
          cells.push_back(rows.back().keys());
        }
      const auto cell = [&](std::int64_t row, std::int64_t j) -> const Key& {
        return cells[static_cast<std::size_t>(first * group + row)][static_cast<std::size_t>(j)];
      };
      for (std::int64_t row = 0; row < queries * group; ++row) {
        const std::int64_t flat = ((b * kv_heads + kv) * group + row % group) * queries + row / group;
        const auto& own = cells[static_cast<std::size_t>(row)];
        for (std::int64_t j = 0; out.scores.data && j < keys; ++j)
          out.scores.as<W>()[flat * keys + j] = without_negative_zero(own[static_cast<std::size_t>(j)].ds);
        const auto at = [&](std::int64_t k) -> const Key& { return own[static_cast<std::size_t>(start + k)]; };
        for (std::int64_t d = 0; out.q.data && d < head_size; ++d) {
          const W sum = contract_with<T>(
              [&](std::int64_t k) { return at(k).dt; },
              [&](std::int64_t k) {
                return at(k).visible ? widen(rows[static_cast<std::size_t>(row)].key(start + k, d)) : W{0};
              },
              keys - start);
          out.q.as<T>()[flat * head_size + d] = scaled<T>(sum, options.scale);
        }
      }
      const std::int64_t terms = (queries - first) * group;
      for (std::int64_t j = 0; j < keys; ++j)
        for (std::int64_t d = 0; d < head_size; ++d) {
          const std::int64_t flat = ((b * kv_heads + kv) * keys + j) * head_size + d;
          const auto row = [&](std::int64_t k) -> const QueryVjp<T>& {
            return rows[static_cast<std::size_t>(first * group + k)];
          };
          if (out.k.data)
            out.k.as<T>()[flat] = scaled<T>(
                contract_with<T>([&](std::int64_t k) { return cell(k, j).dt; },
                                 [&](std::int64_t k) { return cell(k, j).visible ? row(k).q_at(d) : W{0}; }, terms),
                options.scale);
          if (out.v.data)
            out.v.as<T>()[flat] = scaled<T>(
                contract_with<T>([&](std::int64_t k) { return cell(k, j).p; },
                                 [&](std::int64_t k) { return cell(k, j).visible ? row(k).dy_at(d) : W{0}; }, terms),
                1);
        }
    }
  }
}

}  // namespace

std::int64_t queries_before_start(const AttentionOperands& x, const AttentionOptions& options, std::int64_t b) {
  if (options.causal == Causal::none || !x.start.data) return 0;
  // Where query 0 stands: one before the end of what it may see, were there no length to stop it.
  const std::int64_t keys = x.k.shape[2], queries = x.q.shape[2];
  const std::int64_t length = std::clamp<std::int64_t>(integer_at(x.length, b, keys), 0, keys);
  const std::int64_t aligned = options.causal == Causal::lower_right ? length - queries : 0;
  const std::int64_t position =
      std::clamp<std::int64_t>(integer_at(x.position, b, aligned), -(std::int64_t{1} << 40), std::int64_t{1} << 40);
  const std::int64_t start = std::clamp<std::int64_t>(integer_at(x.start, b, 0), 0, std::int64_t{1} << 40);
  return std::clamp<std::int64_t>(start - position, 0, queries);
}

void attention_vjp(const AttentionOperands& x, const AttentionOptions& options, const TensorView& dy,
                   const AttentionResiduals& saved, const AttentionCotangents& out) {
  visit_floating(x.q.dtype, [&]<class T>(std::type_identity<T>) { vjp<T>(x, options, dy, saved, out); });
}

}  // namespace eadem::numerics
