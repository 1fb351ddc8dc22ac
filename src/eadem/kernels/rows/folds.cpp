#include <algorithm>
#include <numeric>
#include <vector>

#include "eadem/kernels/rows/packed.h"
#include "eadem/kernels/rows/rows.h"
#include "eadem/kernels/target.h"
#include "eadem/numerics/reduction.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "eadem/kernels/rows/folds.cpp"
#include "hwy/foreach_target.h"
// foreach_target comes first
#include "eadem/kernels/rows/rows-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace eadem::kernels::HWY_NAMESPACE {
#if EADEM_HWY_TARGET

template <class T>
T variance_of(std::span<const T> x, double ddof) {
  const auto n = static_cast<std::int64_t>(x.size());
  if (!(static_cast<double>(n) > ddof)) return numerics::canonical_nan<T>();
  const double mean = sum_of(x.data(), n) / static_cast<double>(n);
  return numerics::round_to<T>(sum_of_squares(x.data(), n, mean) / (static_cast<double>(n) - ddof));
}

#endif
}  // namespace eadem::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eadem::kernels {
namespace {

template <class T>
T scalar_variance(std::span<const T> x, double ddof) {
  return numerics::variance<T>(x, ddof);
}

// A bool is a byte of 0 or 1.
template <class T>
using Number = std::conditional_t<std::is_same_v<T, bool>, std::uint8_t, T>;
template <class T>
using WideNumber = numerics::WideInteger<T>;

template <class T>
void scalar_cumsum(const RowArgs& args) {
  const bool reverse = static_cast<const ReverseAttribute*>(args.attributes)->reverse;
  const auto n = static_cast<std::size_t>(args.length);
  for (std::size_t row = 0; row < static_cast<std::size_t>(args.rows); ++row) {
    const std::span<const Number<T>> x(reinterpret_cast<const Number<T>*>(args.in[0]) + row * n, n);
    if constexpr (FloatingElement<T>) {
      numerics::cumsum<T>(x, std::span(reinterpret_cast<T*>(args.out[0]) + row * n, n), reverse);
    } else {
      using Wide = WideNumber<Number<T>>;  // a sum of bool is below 2^63: u64 and i64 have the same bits
      numerics::integer_cumsum<Number<T>>(x, std::span(reinterpret_cast<Wide*>(args.out[0]) + row * n, n), reverse);
    }
  }
}

// As numerics::top_k, but only the k first are put in order.
template <class T>
void top_k(const RowArgs& args) {
  const auto k = static_cast<std::size_t>(static_cast<const CountAttribute*>(args.attributes)->k);
  const auto n = static_cast<std::size_t>(args.length);
  std::vector<std::int64_t> order(n);
  for (std::size_t row = 0; row < static_cast<std::size_t>(args.rows); ++row) {
    const auto* x = reinterpret_cast<const Number<T>*>(args.in[0]) + row * n;
    auto* values = reinterpret_cast<Number<T>*>(args.out[0]) + row * k;
    auto* indices = reinterpret_cast<std::int64_t*>(args.out[1]) + row * k;
    std::iota(order.begin(), order.end(), std::int64_t{0});
    // Ties by index make the order total: any sorting algorithm gives the same.
    std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(k), order.end(),
                      [&](std::int64_t a, std::int64_t b) {
                        if (numerics::ordered_greater(x[a], x[b])) return true;
                        return !numerics::ordered_greater(x[b], x[a]) && a < b;
                      });
    for (std::size_t i = 0; i < k; ++i) {
      indices[i] = order[i];
      values[i] = numerics::with_canonical_nan(x[order[i]]);
    }
  }
}

}  // namespace

void variance(const TensorView& x, const Shape& axes, double ddof, const TensorView& result) {
  visit(x.dtype, [&]<class T>(std::type_identity<T>) {
    if constexpr (FloatingElement<T>) {
      const auto body = EADEM_PER_TARGET(scalar_variance<T>, variance_of<T>).pick();
      for_each_packed<T>(
          x, axes, [&](std::span<const T> row, std::int64_t output) { result.as<T>()[output] = body(row, ddof); });
    } else {
      record_ran(Target::scalar);
      for_each_packed<Number<T>>(x, axes, [&](std::span<const Number<T>> row, std::int64_t output) {
        result.as<float>()[output] = numerics::variance<float, Number<T>>(row, ddof);
      });
    }
  });
}

void prod(const TensorView& x, const Shape& axes, const TensorView& result) {
  record_ran(Target::scalar);
  visit(x.dtype, [&]<class T>(std::type_identity<T>) {
    for_each_packed<Number<T>>(x, axes, [&](std::span<const Number<T>> row, std::int64_t output) {
      if constexpr (FloatingElement<T>)
        result.as<T>()[output] = numerics::prod<T>(row);
      else
        result.as<WideNumber<Number<T>>>()[output] = numerics::integer_prod<Number<T>>(row);
    });
  });
}

RowFn cumsum_rows(const Signature& s) {
  record_ran(Target::scalar);
  return visit(s.operands[0].dtype, []<class T>(std::type_identity<T>) -> RowFn { return &scalar_cumsum<T>; });
}
RowFn top_k_rows(const Signature& s) {
  record_ran(Target::scalar);
  return visit(s.operands[0].dtype, []<class T>(std::type_identity<T>) -> RowFn { return &top_k<T>; });
}

}  // namespace eadem::kernels
#endif
