#pragma once

#include <limits>
#include <optional>

#include "eadem/numerics/attention.h"
#include "eadem/numerics/contraction.h"
#include "eadem/numerics/elementary.h"

namespace eadem::numerics {

/// One query of one head: where everything that it reads and writes lies, and its scores (attention.h).
template <class T>
class AttentionQuery {
 public:
  using W = Wide<T>;

  AttentionQuery(const AttentionOperands& x, const AttentionOptions& options, std::int64_t b, std::int64_t h,
                 std::int64_t i)
      : x_(x), options_(options), b_(b), h_(h), i_(i) {
    heads_ = x.pages.data ? x.k.shape[1] : x.v.shape[1];
    kv_head_ = h / (x.q.shape[1] / heads_);
    head_size_ = x.q.shape[3];
  }

  template <class E>
  static E* at(const TensorView& t, std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t d) {
    return t.as<E>() + b * t.strides[0] + h * t.strides[1] + i * t.strides[2] + d * t.strides[3];
  }
  /// As `at`, where axes of extent one stand for all.
  template <class E>
  static E* broadcast_at(const TensorView& t, std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) {
    const auto index = [&](int axis, std::int64_t k) { return t.shape[axis] == 1 ? 0 : k; };
    return at<E>(t, index(0, b), index(1, h), index(2, i), index(3, j));
  }

  std::int64_t page(std::int64_t j) const { return page_at(x_.pages, b_, j, x_.k.shape[0]); }
  T key(std::int64_t j, std::int64_t d) const {
    if (!x_.pages.data) return *at<T>(x_.k, b_, kv_head_, j, d);
    return x_.k.as<T>()[key_page_index(paired_pages(x_.k), heads_, head_size_, page(j), kv_head_, j % kKeyBlock, d)];
  }
  T value(std::int64_t j, std::int64_t d) const {
    if (!x_.pages.data) return *at<T>(x_.v, b_, kv_head_, j, d);
    return x_.v.as<T>()[value_page_index(paired_pages(x_.v), heads_, head_size_, page(j), kv_head_, j % kKeyBlock, d)];
  }

  /// A visible key's score: final, and as it enters the softcap.
  struct Score {
    W capped_from, final;
  };
  /// The score of key j, which is in the query's range; nothing if it is invisible.
  std::optional<Score> score(std::int64_t j) const {
    if (x_.pages.data && page(j) < 0) return std::nullopt;
    if (x_.mask.data && !*broadcast_at<bool>(x_.mask, b_, h_, i_, j)) return std::nullopt;
    const W dot = contract<T>([&](std::int64_t d) { return widen(*at<T>(x_.q, b_, h_, i_, d)); },
                              [&](std::int64_t d) { return widen(key(j, d)); }, head_size_);
    const W scaled = dot * static_cast<W>(options_.scale);
    W s = scaled;
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
    return Score{scaled, s};
  }

 protected:
  const AttentionOperands& x_;
  const AttentionOptions& options_;
  std::int64_t b_, h_, i_, heads_, kv_head_, head_size_;
};

}  // namespace eadem::numerics
