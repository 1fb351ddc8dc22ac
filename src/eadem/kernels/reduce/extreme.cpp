#include <algorithm>
#include <vector>

#include "eadem/kernels/reduce/drive.h"
#include "eadem/kernels/reduce/extreme_key.h"
#include "eadem/kernels/reduce/reduce.h"
#include "eadem/kernels/target.h"
#include "eadem/numerics/reduction.h"
#include "eadem/numerics/reduction_views.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "eadem/kernels/reduce/extreme.cpp"
#include "hwy/foreach_target.h"
// foreach_target comes first
#include "eadem/kernels/reduce/load-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace eadem::kernels::HWY_NAMESPACE {
#if EADEM_HWY_TARGET
namespace hn = hwy::HWY_NAMESPACE;

// The keys of Lanes(d) elements, as ExtremeKey::of.
template <class Key, class D>
HWY_INLINE hn::Vec<D> load_keys(D d, const typename Key::Element* x) {
  const auto bits = hn::LoadU(d, reinterpret_cast<const typename Key::Type*>(x));
  if constexpr (!Key::kFloat) {
    return bits;
  } else if constexpr (Key::kMagnitude) {
    return hn::And(bits, hn::Set(d, static_cast<typename Key::Type>(Key::kMagnitudeMask)));
  } else {
    const auto magnitude = hn::And(bits, hn::Set(d, Key::kMagnitudeMask));
    const auto ordered = hn::Xor(bits, hn::And(hn::BroadcastSignBit(bits), hn::Set(d, Key::kMagnitudeMask)));
    return hn::IfThenElse(hn::Gt(magnitude, hn::Set(d, Key::infinity())), hn::Set(d, Key::kNan), ordered);
  }
}

template <class Key, class V>
HWY_INLINE V pick(V a, V b) {
  if constexpr (Key::kLargest)
    return hn::Max(a, b);
  else
    return hn::Min(a, b);
}

template <class Key>
struct Picker {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    if constexpr (std::is_integral_v<V>)
      return Key::pick(a, b);
    else
      return pick<Key>(a, b);
  }
};

template <class Key>
typename Key::Type row(const typename Key::Element* x, std::int64_t n) {
  using K = typename Key::Type;
  const hn::ScalableTag<K> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  auto a = hn::Set(d, Key::kIdentity), b = a, c = a, e = a;
  std::int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    a = pick<Key>(a, load_keys<Key>(d, x + i));
    b = pick<Key>(b, load_keys<Key>(d, x + i + lanes));
    c = pick<Key>(c, load_keys<Key>(d, x + i + 2 * lanes));
    e = pick<Key>(e, load_keys<Key>(d, x + i + 3 * lanes));
  }
  for (; i + lanes <= n; i += lanes) a = pick<Key>(a, load_keys<Key>(d, x + i));
  K best = fold_lanes(d, pick<Key>(pick<Key>(a, b), pick<Key>(c, e)), Picker<Key>());
  for (; i < n; ++i) best = Key::pick(best, Key::of(x[i]));
  return best;
}

template <class Key>
void columns(const typename Key::Element* x, std::int64_t stride, std::int64_t rows, std::int64_t width,
             typename Key::Type* keys) {
  const hn::ScalableTag<typename Key::Type> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t k = 0; k < rows; k += 8) {
    const std::int64_t end = std::min(rows, k + 8);
    std::int64_t c = 0;
    for (; c + lanes <= width; c += lanes) {
      auto best = hn::LoadU(d, keys + c);
      for (std::int64_t r = k; r < end; ++r) best = pick<Key>(best, load_keys<Key>(d, x + r * stride + c));
      hn::StoreU(best, d, keys + c);
    }
    for (; c < width; ++c) {
      for (std::int64_t r = k; r < end; ++r) keys[c] = Key::pick(keys[c], Key::of(x[r * stride + c]));
    }
  }
}

template <class Key>
const ExtremeBodies<Key>* bodies() {
  static constexpr ExtremeBodies<Key> table{&row<Key>, &columns<Key>};
  return &table;
}

#endif
}  // namespace eadem::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eadem::kernels {
namespace {

template <class Key>
const ExtremeBodies<Key>* none() {
  return nullptr;
}
// The bodies of the active target; null for the scalar one, which runs numerics/.
template <class Key>
const ExtremeBodies<Key>* active_bodies() {
  return EADEM_PER_TARGET(none<Key>, bodies<Key>).pick()();
}

// max, min, any and all: any order, equal elements once.
template <class Key>
struct Fold {
  using Element = typename Key::Element;
  using State = typename Key::Type;

  std::byte* result;

  State combine(State a, State b) const { return Key::pick(a, b); }

  class Row {
   public:
    explicit Row(const Fold&) {}
    void add(const Element* x, std::int64_t n) { best_ = Key::pick(best_, bodies_->row(x, n)); }
    State state() const { return best_; }

   private:
    const ExtremeBodies<Key>* bodies_ = active_bodies<Key>();
    State best_ = Key::kIdentity;
  };
  class Columns {
   public:
    explicit Columns(const Fold&) {}
    void start(std::int64_t width) { keys_.assign(static_cast<std::size_t>(width), Key::kIdentity); }
    void add(const Element* x, std::int64_t stride, std::int64_t rows) {
      bodies_->columns(x, stride, rows, static_cast<std::int64_t>(keys_.size()), keys_.data());
    }
    State state(std::int64_t column) const { return keys_[static_cast<std::size_t>(column)]; }

   private:
    const ExtremeBodies<Key>* bodies_ = active_bodies<Key>();
    std::vector<State> keys_;
  };

  void finish(State best, const Element*, std::int64_t output) const {
    if constexpr (Key::kMagnitude)
      reinterpret_cast<bool*>(result)[output] = best != 0;
    else
      reinterpret_cast<Element*>(result)[output] = Key::element(best);
  }
};

template <class Key>
void fold(const TensorView& x, const Shape& axes, const TensorView& result) {
  using T = typename Key::Element;
  const Geometry g(x, axes, Order::idempotent);
  if (g.outputs == 0) return;
  if (g.count > 0 && active_bodies<Key>()) {
    return run_reduction(g, x.as<const T>(), Fold<Key>{result.data});
  }
  numerics::for_each_reduction<T>(x, axes, [&](std::span<const T> row, std::int64_t output) {
    if constexpr (Key::kExtreme == Extreme::max)
      result.as<T>()[output] = numerics::max(row);
    else if constexpr (Key::kExtreme == Extreme::min)
      result.as<T>()[output] = numerics::min(row);
    else if constexpr (Key::kExtreme == Extreme::any)
      result.as<bool>()[output] = numerics::any(row);
    else
      result.as<bool>()[output] = numerics::all(row);
  });
}

// The best element so far and where the search for it begins: at the row-major index `from` over the reduced loops.
template <class Key>
struct Candidate {
  typename Key::Type key = Key::kIdentity;
  std::int64_t from = -1;
};

constexpr std::int64_t kSearchRows = 128;

// The row-major index of the first element with that key, at `from` or after; its weight in the reduced axes.
template <class Key>
std::int64_t find(const Geometry& g, const typename Key::Element* first, Candidate<Key> candidate) {
  if (g.reduced.empty()) return 0;
  const Loop& inner = g.reduced.back();
  for (std::int64_t i = candidate.from;;) {
    const LoopNest::Place place = g.reduced.at(i);
    const std::int64_t left = inner.extent - i % inner.extent;
    for (std::int64_t k = 0; k < left; ++k) {
      if (Key::of(first[place.offset + k * inner.stride]) == candidate.key) return place.weight + k * inner.weight;
    }
    i += left;
  }
}

// argmax and argmin: pieces in row-major order; a piece whose best beats all before it is where the answer lies.
template <class Key>
void arg_rows(const Geometry& g, const typename Key::Element* data, std::int64_t* result) {
  const auto* loops = active_bodies<Key>();
  const std::int64_t grain = std::max<std::int64_t>(1, 16384 / g.count);
  parallel_for(g.outputs, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const LoopNest::Place place = g.kept.at(i);
      Candidate<Key> best;
      std::int64_t at = 0;
      for_each_piece(g.reduced, data + place.offset, [&](const typename Key::Element* x, std::int64_t n) {
        const auto key = loops->row(x, n);
        if (best.from < 0 || Key::beats(key, best.key)) best = {key, at};
        at += n;
      });
      result[place.weight] = find(g, data + place.offset, best);
    }
  });
}

template <class Key>
void arg_columns(const Geometry& g, const typename Key::Element* data, std::int64_t* result) {
  const auto* loops = active_bodies<Key>();
  LoopNest outer = g.kept;
  outer.pop_back();
  const Loop column = g.kept.back();
  const std::int64_t fair = (g.outputs + 2 * threads() - 1) / (2 * threads());
  const std::int64_t width = std::clamp((fair + 63) / 64 * 64, std::int64_t{64}, kStripColumns);
  const std::int64_t strips = (column.extent + width - 1) / width;
  parallel_for(outer.steps() * strips, 1, [&](std::int64_t begin, std::int64_t end) {
    std::vector<Candidate<Key>> best;
    std::vector<typename Key::Type> keys;
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const LoopNest::Place place = outer.at(unit / strips);
      const std::int64_t start = unit % strips * width, count = std::min(width, column.extent - start);
      const auto* first = data + place.offset + start;
      best.assign(static_cast<std::size_t>(count), {});
      std::int64_t at = 0;
      for_each_run(g.reduced, first, [&](const typename Key::Element* x, std::int64_t stride, std::int64_t n) {
        for (std::int64_t row = 0; row < n; row += kSearchRows) {
          const std::int64_t some = std::min(kSearchRows, n - row);
          keys.assign(static_cast<std::size_t>(count), Key::kIdentity);
          loops->columns(x + row * stride, stride, some, count, keys.data());
          for (std::size_t c = 0; c < keys.size(); ++c) {
            if (best[c].from < 0 || Key::beats(keys[c], best[c].key)) best[c] = {keys[c], at};
          }
          at += some;
        }
      });
      for (std::int64_t c = 0; c < count; ++c) {
        result[place.weight + (start + c) * column.weight] = find(g, first + c, best[static_cast<std::size_t>(c)]);
      }
    }
  });
}

template <class Key>
void arg(const TensorView& x, const Shape& axes, const TensorView& result) {
  using T = typename Key::Element;
  const Geometry g(x, axes, Order::row_major);
  if (g.outputs == 0) return;
  auto* out = result.as<std::int64_t>();
  if (!active_bodies<Key>()) {
    return numerics::for_each_reduction<T>(x, axes, [&](std::span<const T> row, std::int64_t output) {
      out[output] = Key::kLargest ? numerics::argmax(row) : numerics::argmin(row);
    });
  }
  const bool contiguous_columns = !g.kept.empty() && g.kept.back().stride == 1 && g.kept.back().extent >= 8;
  if (contiguous_columns)
    arg_columns<Key>(g, x.as<const T>(), out);
  else
    arg_rows<Key>(g, x.as<const T>(), out);
}

// bool is a byte of 0 or 1; any and all ask only for the bits but for the sign of a float.
template <class T>
using Comparable = std::conditional_t<std::is_same_v<T, bool>, std::uint8_t, T>;
template <class T>
using TruthBits = std::conditional_t<FloatingElement<T>, T, std::make_unsigned_t<SignedBits<sizeof(T)>>>;

}  // namespace

void max(const TensorView& x, const Shape& axes, const TensorView& result) {
  visit(x.dtype,
        [&]<class T>(std::type_identity<T>) { fold<ExtremeKey<Comparable<T>, Extreme::max>>(x, axes, result); });
}
void min(const TensorView& x, const Shape& axes, const TensorView& result) {
  visit(x.dtype,
        [&]<class T>(std::type_identity<T>) { fold<ExtremeKey<Comparable<T>, Extreme::min>>(x, axes, result); });
}
void any(const TensorView& x, const Shape& axes, const TensorView& result) {
  visit(x.dtype,
        [&]<class T>(std::type_identity<T>) { fold<ExtremeKey<TruthBits<T>, Extreme::any>>(x, axes, result); });
}
void all(const TensorView& x, const Shape& axes, const TensorView& result) {
  visit(x.dtype,
        [&]<class T>(std::type_identity<T>) { fold<ExtremeKey<TruthBits<T>, Extreme::all>>(x, axes, result); });
}
void argmax(const TensorView& x, const Shape& axes, const TensorView& result) {
  visit(x.dtype,
        [&]<class T>(std::type_identity<T>) { arg<ExtremeKey<Comparable<T>, Extreme::max>>(x, axes, result); });
}
void argmin(const TensorView& x, const Shape& axes, const TensorView& result) {
  visit(x.dtype,
        [&]<class T>(std::type_identity<T>) { arg<ExtremeKey<Comparable<T>, Extreme::min>>(x, axes, result); });
}

}  // namespace eadem::kernels
#endif
