#include <algorithm>
#include <bit>
#include <vector>

#include "eadem/kernels/reduce/drive.h"
#include "eadem/kernels/reduce/pair_sum.h"
#include "eadem/kernels/reduce/reduce.h"
#include "eadem/kernels/reduce/settle.h"
#include "eadem/kernels/reduce/sum_bodies.h"
#include "eadem/numerics/exact_sum.h"
#include "eadem/numerics/reduction_views.h"

namespace eadem::kernels {
namespace {

using numerics::to_double;
using numerics::WideInteger;

// Sums arrays of columns in a binary tree, so that rounding errors grow with the logarithm of the number of rows.
class ColumnTree {
 public:
  void start(std::int64_t width) {
    width_ = static_cast<std::size_t>(width);
    leaves_ = 0;
  }
  // Adds `leaf` and leaves garbage in it.
  void add(std::vector<double>& leaf) {
    std::size_t level = 0;
    for (; (leaves_ >> level) & 1; ++level) accumulate(leaf, levels_[level]);
    if (level == levels_.size()) levels_.emplace_back(leaf.size());
    std::swap(levels_[level], leaf);
    ++leaves_;
  }
  // The sum of all leaves, into `out`, which is zero.
  void total(std::vector<double>& out) const {
    for (std::size_t level = 0; (leaves_ >> level) != 0; ++level) {
      if ((leaves_ >> level) & 1) accumulate(out, levels_[level]);
    }
  }
  std::int64_t depth() const { return std::bit_width(leaves_) + 1; }

 private:
  void accumulate(std::vector<double>& to, const std::vector<double>& from) const {
    for (std::size_t c = 0; c < width_; ++c) to[c] += from[c];
  }
  std::size_t width_ = 0;
  std::uint64_t leaves_ = 0;
  std::vector<std::vector<double>> levels_;
};

// Reads an output's elements again, with ever more care: steps 2, 4 and 5.
template <FloatingElement T>
T careful_sum(const Geometry& g, const T* first, std::int64_t n) {
  PairSum pair;
  const auto* bodies = float_sum_bodies<T>();
  for_each_piece(g.reduced, first, [&](const T* x, std::int64_t count) { bodies->pair_row_window(x, count, pair); });
  if (const auto settled = settle_pair<T>(pair, g.count, n)) return *settled;
  numerics::ExactAccumulator exact;
  for_each_piece(g.reduced, first, [&](const T* x, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) exact.add(to_double(x[i]));
  });
  return exact.quotient<T>(n);
}

/// f32, bf16 and f16: f64 accumulation with an error bound first.
template <FloatingElement T>
struct NarrowSum {
  using Element = T;
  struct State {
    double sum = 0;
    Magnitude<T> largest = 0;
    std::int64_t depth = 0;  // the most additions from an element to the sum
    bool quick = false;      // whether some were made in f32
  };

  const Geometry& geometry;
  T* result;
  std::int64_t divisor;
  const FloatSumBodies<T>* bodies = float_sum_bodies<T>();
  // The bound n max |x| grows faster than typical sums do: long ones would seldom be decided.
  bool quick = kQuickLevels<T> > 0 && geometry.count <= 16384;

  State combine(State a, State b) const {
    return {a.sum + b.sum, std::max(a.largest, b.largest), std::max(a.depth, b.depth) + 1, a.quick || b.quick};
  }

  class Row {
   public:
    explicit Row(const NarrowSum& r) : Row(r.bodies, r.quick) {}
    Row(const FloatSumBodies<T>* bodies, bool quick) : add_(quick ? bodies->row_quick : bodies->row), quick_(quick) {}
    // The pieces' sums meet in a binary tree.
    void add(const T* x, std::int64_t n) {
      double sum = add_(x, n, largest_);
      std::size_t level = 0;
      for (; (leaves_ >> level) & 1; ++level) sum += levels_[level];
      levels_[level] = sum;
      ++leaves_;
    }
    State state() const {
      double sum = 0;
      for (std::size_t level = 0; (leaves_ >> level) != 0; ++level) {
        if ((leaves_ >> level) & 1) sum += levels_[level];
      }
      return {sum, largest_, kRowDepth + static_cast<std::int64_t>(std::bit_width(leaves_)) + 1, quick_};
    }

   private:
    decltype(FloatSumBodies<T>::row) add_;
    bool quick_;
    Magnitude<T> largest_ = 0;
    std::uint64_t leaves_ = 0;
    double levels_[64];
  };

  class Columns {
   public:
    explicit Columns(const NarrowSum& r) : bodies_(r.bodies) {}
    void start(std::int64_t width) {
      leaf_.assign(static_cast<std::size_t>(width), 0.0);
      largest_.assign(static_cast<std::size_t>(width), 0);
      tree_.start(width);
      additions_ = 0;
      total_ready_ = false;
    }
    void add(const T* x, std::int64_t stride, std::int64_t rows) {
      const auto width = static_cast<std::int64_t>(largest_.size());
      while (rows > 0) {
        const std::int64_t some = std::min(rows, 8 * (kLeafAdditions - additions_));
        bodies_->columns(x, stride, some, width, leaf_.data(), largest_.data());
        additions_ += (some + 7) / 8;
        x += some * stride;
        rows -= some;
        if (additions_ == kLeafAdditions) flush();
      }
    }
    State state(std::int64_t column) {
      if (!total_ready_) {
        tree_.total(leaf_);
        total_ready_ = true;
      }
      const auto c = static_cast<std::size_t>(column);
      return {leaf_[c], largest_[c], kLeafAdditions + 8 + tree_.depth() + 1, false};
    }

   private:
    static constexpr std::int64_t kLeafAdditions = 64;
    void flush() {
      const std::size_t width = leaf_.size();
      tree_.add(leaf_);
      leaf_.assign(width, 0.0);
      additions_ = 0;
    }
    const FloatSumBodies<T>* bodies_;
    std::vector<double> leaf_;
    std::vector<Magnitude<T>> largest_;
    ColumnTree tree_;
    std::int64_t additions_ = 0;
    bool total_ready_ = false;
  };

  void finish(const State& state, const T* first, std::int64_t output) const { result[output] = settle(state, first); }
  T settle(const State& state, const T* first) const {
    const double largest = to_double(std::bit_cast<T>(state.largest));
    // A quick state began in f32, where neighbours of an infinity may have overflowed: it is done again below.
    if (!state.quick && !(largest < __builtin_inf())) {
      // f64 cannot overflow here, so its own rules for infinities and NaN apply.
      return numerics::round_to<T>(state.sum);
    }
    const double bound = static_cast<double>(geometry.count) * largest * (1 + 0x1p-20);
    constexpr double grain = std::is_same_v<T, float16> ? 0x1p-24 : 0;  // all f16 are multiples of it
    if (bound < 0x1p53 * grain || bound == 0) {
      if (const auto exact = settle_exact<T>(state.sum + 0.0, divisor)) return *exact;
    }
    const double unit = static_cast<double>(state.depth + 3) * kUnit + (state.quick ? kQuickLevels<T> * 0x1p-24 : 0.0);
    const double error = unit * (1 + 0x1p-20) * bound;
    if (!state.quick || largest < 0x1p120) {  // above that, f32 could have overflowed
      if (const auto settled = settle_bound<T>(state.sum, error, divisor)) return *settled;
    }
    if (state.quick) {
      Row row(bodies, false);
      for_each_piece(geometry.reduced, first, [&](const T* x, std::int64_t n) { row.add(x, n); });
      return settle(row.state(), first);
    }
    return careful_sum(geometry, first, divisor);
  }
};

/// f64: TwoSum from the start.
struct DoubleSum {
  using Element = double;
  using State = PairSum;

  const Geometry& geometry;
  double* result;
  std::int64_t divisor;

  State combine(const State& a, const State& b) const { return combined(a, b); }

  class Row {
   public:
    explicit Row(const DoubleSum&) {}
    void add(const double* x, std::int64_t n) { bodies_->pair_row(x, n, sum_); }
    State state() const { return sum_; }

   private:
    const FloatSumBodies<double>* bodies_ = float_sum_bodies<double>();
    PairSum sum_;
  };

  class Columns : public PairColumns {
   public:
    explicit Columns(const DoubleSum&) {}
  };

  void finish(const State& state, const double* first, std::int64_t output) const {
    const auto settled = settle_pair<double>(state, geometry.count, divisor);
    result[output] = settled ? *settled : careful_sum(geometry, first, divisor);
  }
};

/// Integers and bool (as u8): modulo 2^64, or exact where the mean needs it.
template <class T>
struct IntegerSum {
  using Element = T;
  using State = std::uint64_t;

  const Geometry& geometry;
  std::uint64_t* sums;  // one of the two results is null
  float* means;

  State combine(State a, State b) const { return a + b; }

  class Row {
   public:
    explicit Row(const IntegerSum&) {}
    void add(const T* x, std::int64_t n) { sum_ += bodies_->row(x, n); }
    State state() const { return sum_; }

   private:
    const IntegerSumBodies<T>* bodies_ = integer_sum_bodies<T>();
    State sum_ = 0;
  };
  class Columns {
   public:
    explicit Columns(const IntegerSum&) {}
    void start(std::int64_t width) { sums_.assign(static_cast<std::size_t>(width), 0); }
    void add(const T* x, std::int64_t stride, std::int64_t rows) {
      bodies_->columns(x, stride, rows, static_cast<std::int64_t>(sums_.size()), sums_.data());
    }
    State state(std::int64_t column) const { return sums_[static_cast<std::size_t>(column)]; }

   private:
    const IntegerSumBodies<T>* bodies_ = integer_sum_bodies<T>();
    std::vector<State> sums_;
  };

  void finish(State state, const T* first, std::int64_t output) const {
    if (sums) {
      sums[output] = state * static_cast<std::uint64_t>(geometry.repeats);
      return;
    }
    // Repeats cancel in the mean. 2^31 elements of 32 bits fit 64; beyond, the accumulator adds them.
    const std::int64_t distinct = geometry.count / geometry.repeats;
    numerics::ExactAccumulator exact;
    if (sizeof(T) <= 4 && distinct <= (std::int64_t{1} << 31)) {
      exact.add(static_cast<WideInteger<T>>(state));
    } else {
      for_each_piece(geometry.reduced, first, [&](const T* x, std::int64_t n) {
        for (std::int64_t i = 0; i < n; ++i) exact.add(static_cast<WideInteger<T>>(x[i]));
      });
    }
    means[output] = exact.quotient<float>(distinct);
  }
};

template <class T>
void reference(const TensorView& x, const Shape& axes, const TensorView& result, bool mean) {
  numerics::for_each_reduction<T>(x, axes, [&](std::span<const T> row, std::int64_t output) {
    if constexpr (FloatingElement<T>) {
      result.as<T>()[output] = mean ? numerics::exact_mean<T>(row) : numerics::exact_sum(row);
    } else if (mean) {
      result.as<float>()[output] = numerics::exact_mean<float>(row);
    } else {
      result.as<WideInteger<T>>()[output] = numerics::integer_sum(row);
    }
  });
}

template <class T>
bool has_bodies() {
  if constexpr (FloatingElement<T>)
    return float_sum_bodies<T>() != nullptr;
  else
    return integer_sum_bodies<T>() != nullptr;
}

template <class T>
void sum_of(const TensorView& x, const Shape& axes, const TensorView& result, bool mean) {
  const Geometry g(x, axes, FloatingElement<T> ? Order::free : Order::counted);
  if (g.outputs == 0) return;
  if (g.count == 0 || !has_bodies<T>()) return reference<T>(x, axes, result, mean);
  const std::int64_t divisor = mean ? g.count : 1;
  if constexpr (std::is_same_v<T, double>) {
    run_reduction(g, x.as<const T>(), DoubleSum{g, result.as<T>(), divisor});
  } else if constexpr (FloatingElement<T>) {
    run_reduction(g, x.as<const T>(), NarrowSum<T>{g, result.as<T>(), divisor});
  } else {
    run_reduction(g, x.as<const T>(),
                  IntegerSum<T>{g, mean ? nullptr : result.as<std::uint64_t>(), mean ? result.as<float>() : nullptr});
  }
}

void dispatch(const TensorView& x, const Shape& axes, const TensorView& result, bool mean) {
  visit(x.dtype, [&]<class T>(std::type_identity<T>) {
    // A bool is a byte of 0 or 1, whose sum has the bits of an i64.
    sum_of<std::conditional_t<std::is_same_v<T, bool>, std::uint8_t, T>>(x, axes, result, mean);
  });
}

}  // namespace

void sum(const TensorView& x, const Shape& axes, const TensorView& result) {
  dispatch(x, axes, result, false);
}
void mean(const TensorView& x, const Shape& axes, const TensorView& result) {
  dispatch(x, axes, result, true);
}

}  // namespace eadem::kernels
