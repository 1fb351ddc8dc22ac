#include "eadem/numerics/norm.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "eadem/kernels/reduce/drive.h"
#include "eadem/kernels/reduce/pair_sum.h"
#include "eadem/kernels/reduce/reduce.h"
#include "eadem/kernels/reduce/settle.h"
#include "eadem/kernels/reduce/sum_bodies.h"
#include "eadem/numerics/reduction_views.h"

namespace eadem::kernels {
namespace {

using numerics::to_double;

// Squares are exact in f64 but for those of f64, which are a double and its rest.
template <class T>
inline constexpr std::int64_t kParts = std::is_same_v<T, double> ? 2 : 1;

// part[0, n) and, of f64, part[n, 2n) add up to the squares.
template <FloatingElement T>
void squares_of(const T* x, std::int64_t n, double* part) {
  for (std::int64_t i = 0; i < n; ++i) {
    const double value = to_double(x[i]);
    part[i] = value * value;
    if constexpr (kParts<T> == 2) part[n + i] = std::fma(value, value, -part[i]);
  }
}

/// Sums of squares by TwoSum, whose error bound the root's f64 operand needs.
template <FloatingElement T>
struct Squares {
  using Element = T;
  using State = PairSum;

  const Geometry& geometry;
  T* result;

  State combine(State a, const State& b) const { return combined(a, b); }

  class Row {
   public:
    explicit Row(const Squares&) {}
    void add(const T* x, std::int64_t n) {
      alignas(64) double part[kParts<T> * kPiece];
      squares_of(x, n, part);
      for (std::int64_t i = 0; i < kParts<T>; ++i) bodies_->pair_row(part + i * n, n, sum_);
    }
    State state() const { return sum_; }

   private:
    const FloatSumBodies<double>* bodies_ = float_sum_bodies<double>();
    PairSum sum_;
  };

  class Columns {
   public:
    explicit Columns(const Squares&) {}
    void start(std::int64_t width) {
      sums_.start(width);
      part_.resize(static_cast<std::size_t>(width * kParts<T>));
    }
    void add(const T* x, std::int64_t stride, std::int64_t rows) {
      for (std::int64_t row = 0; row < rows; ++row) {
        squares_of(x + row * stride, sums_.width(), part_.data());
        sums_.add(part_.data(), sums_.width(), kParts<T>);
      }
    }
    State state(std::int64_t column) const { return sums_.state(column); }

   private:
    PairColumns sums_;
    std::vector<double> part_;
  };

  void finish(const State& state, const T* first, std::int64_t output) const {
    const auto squares = settle_pair<double>(state, geometry.count * kParts<T>, 1);
    const bool enough = squares && (kParts<T> == 1 || numerics::squares_in_range(*squares));
    result[output] = enough ? numerics::round_to<T>(std::sqrt(*squares)) : careful(first);
  }

 private:
  // The definition, element by element where they lie.
  T careful(const T* first) const {
    numerics::ExactAccumulator sum;
    double largest = 0;
    each(first, [&](double x) {
      sum.add_square(x);
      largest = std::max(largest, std::fabs(x));
    });
    const double squares = sum.sum<double>();
    if (kParts<T> == 1 || squares != squares || numerics::squares_in_range(squares))
      return numerics::round_to<T>(std::sqrt(squares));
    return numerics::round_to<T>(numerics::scaled_norm(largest, [&](int exponent, numerics::ExactAccumulator& scaled) {
      each(first, [&](double x) { scaled.add_square(std::ldexp(x, -exponent)); });
    }));
  }
  template <class F>
  void each(const T* first, F f) const {
    for_each_piece(geometry.reduced, first, [&](const T* x, std::int64_t n) {
      for (std::int64_t i = 0; i < n; ++i) f(to_double(x[i]));
    });
  }
};

}  // namespace

void norm(const TensorView& x, const Shape& axes, const TensorView& result) {
  visit_floating(x.dtype, [&]<class T>(std::type_identity<T>) {
    const Geometry g(x, axes, Order::free);
    if (g.outputs == 0) return;
    if (g.count == 0 || !float_sum_bodies<double>()) {
      numerics::for_each_reduction<T>(
          x, axes, [&](std::span<const T> row, std::int64_t output) { result.as<T>()[output] = numerics::norm(row); });
      return;
    }
    run_reduction(g, x.as<const T>(), Squares<T>{g, result.as<T>()});
  });
}

}  // namespace eadem::kernels
