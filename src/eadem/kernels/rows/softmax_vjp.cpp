#include "eadem/numerics/softmax_vjp.h"

#include <vector>

#include "eadem/kernels/rows/rows.h"
#include "eadem/kernels/rows/types.h"
#include "eadem/kernels/target.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "eadem/kernels/rows/softmax_vjp.cpp"
#include "hwy/foreach_target.h"
// foreach_target comes first
#include "eadem/kernels/rows/softmax-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace eadem::kernels::HWY_NAMESPACE {
#if EADEM_HWY_TARGET
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
void softmax_vjp(const RowArgs& args) {
  const hn::ScalableTag<double> d;
  const std::int64_t n = args.length;
  for (std::int64_t row = 0; row < args.rows; ++row) {
    const T* y = reinterpret_cast<const T*>(args.in[0]) + row * n;
    const T* dy = reinterpret_cast<const T*>(args.in[1]) + row * n;
    const double sum = sum_of_products(y, dy, n);
    const auto shift = hn::Set(d, sum);
    store_cotangent(
        d, n, reinterpret_cast<T*>(args.out[0]) + row * n,
        [&](std::int64_t i) HWY_ATTR { return hn::Mul(load_f64(d, y + i), hn::Sub(load_f64(d, dy + i), shift)); },
        [&](std::int64_t i) { return numerics::to_double(y[i]) * (numerics::to_double(dy[i]) - sum); });
  }
}

template <class T>
void log_softmax_vjp(const RowArgs& args) {
  const hn::ScalableTag<double> d;
  const std::int64_t n = args.length;
  if (n == 0) return;
  std::vector<double> e(static_cast<std::size_t>(n));
  for (std::int64_t row = 0; row < args.rows; ++row) {
    const T* x = reinterpret_cast<const T*>(args.in[0]) + row * n;
    const T* dy = reinterpret_cast<const T*>(args.in[1]) + row * n;
    T* dx = reinterpret_cast<T*>(args.out[0]) + row * n;
    const double m = row_maximum(x, n);
    if (!std::isfinite(m)) {
      std::fill(dx, dx + n, numerics::canonical_nan<T>());
      continue;
    }
    const double r = 1 / sum_of_exponentials<true>(x, n, m, e.data()), sum = sum_of(dy, n);
    const auto scale = hn::Set(d, r), total = hn::Set(d, sum);
    store_cotangent(
        d, n, dx,
        [&](std::int64_t i)
            HWY_ATTR { return hn::NegMulAdd(hn::Mul(hn::LoadU(d, e.data() + i), scale), total, load_f64(d, dy + i)); },
        [&](std::int64_t i) {
          return std::fma(-(e[static_cast<std::size_t>(i)] * r), sum, numerics::to_double(dy[i]));
        });
  }
}

// dx = RN(dy p), p less one at `label` if that is in the row; m finite.
template <class T>
void scaled_probabilities(const T* x, std::int64_t n, double m, std::int64_t label, double dy, double* p, T* dx) {
  const hn::ScalableTag<double> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const double r = 1 / sum_of_exponentials<true>(x, n, m, p);
  const auto scale = hn::Set(d, r), factor = hn::Set(d, dy);
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(hn::Mul(hn::LoadU(d, p + i), scale), d, p + i);
  for (; i < n; ++i) p[i] *= r;
  if (label >= 0) p[label] -= 1;
  store_cotangent(
      d, n, dx, [&](std::int64_t k) HWY_ATTR { return hn::Mul(factor, hn::LoadU(d, p + k)); },
      [&](std::int64_t k) { return dy * p[k]; });
}

template <class T>
void logsumexp_vjp(const RowArgs& args) {
  const std::int64_t n = args.length;
  if (n == 0) return;
  std::vector<double> p(static_cast<std::size_t>(n));
  for (std::int64_t row = 0; row < args.rows; ++row) {
    const T* x = reinterpret_cast<const T*>(args.in[0]) + row * n;
    T* dx = reinterpret_cast<T*>(args.out[0]) + row * n;
    const double dy = numerics::to_double(reinterpret_cast<const T*>(args.in[1])[row]), m = row_maximum(x, n);
    if (dy == 0 || m == -std::numeric_limits<double>::infinity())
      std::fill(dx, dx + n, T{});
    else if (!std::isfinite(m))
      std::fill(dx, dx + n, numerics::canonical_nan<T>());
    else
      scaled_probabilities(x, n, m, -1, dy, p.data(), dx);
  }
}

template <class C>
void cross_entropy(const RowArgs& args) {
  using T = typename C::Element;
  using R = typename C::Parameter;
  const std::int64_t n = args.length;
  for (std::int64_t row = 0; row < args.rows; ++row) {
    const T* x = reinterpret_cast<const T*>(args.in[0]) + row * n;
    const std::int64_t label = reinterpret_cast<const std::int64_t*>(args.in[1])[row];
    double loss = std::numeric_limits<double>::quiet_NaN();
    if (label >= 0 && label < n) {
      const double m = row_maximum(x, n);
      if (std::isfinite(m)) loss = (m - numerics::to_double(x[label])) + numerics::log(sum_of_exponentials(x, n, m));
    }
    reinterpret_cast<R*>(args.out[0])[row] = numerics::round_to<R>(loss);
  }
}

template <class C>
void cross_entropy_vjp(const RowArgs& args) {
  using T = typename C::Element;
  using R = typename C::Parameter;
  const std::int64_t n = args.length;
  if (n == 0) return;
  std::vector<double> p(static_cast<std::size_t>(n));
  for (std::int64_t row = 0; row < args.rows; ++row) {
    const T* x = reinterpret_cast<const T*>(args.in[0]) + row * n;
    T* dx = reinterpret_cast<T*>(args.out[0]) + row * n;
    const std::int64_t label = reinterpret_cast<const std::int64_t*>(args.in[1])[row];
    const double dy = numerics::to_double(reinterpret_cast<const R*>(args.in[2])[row]);
    if (dy == 0) {
      std::fill(dx, dx + n, T{});
      continue;
    }
    const double m = row_maximum(x, n);
    if (label < 0 || label >= n || !std::isfinite(m))
      std::fill(dx, dx + n, numerics::canonical_nan<T>());
    else
      scaled_probabilities(x, n, m, label, dy, p.data(), dx);
  }
}

#endif
}  // namespace eadem::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eadem::kernels {
namespace {

// f(row number, operand 0's row, result's row).
template <class T, class F>
void for_each_row(const RowArgs& args, F f) {
  const auto n = static_cast<std::size_t>(args.length);
  for (std::size_t row = 0; row < static_cast<std::size_t>(args.rows); ++row)
    f(row, std::span<const T>(reinterpret_cast<const T*>(args.in[0]) + row * n, n),
      std::span<T>(reinterpret_cast<T*>(args.out[0]) + row * n, n));
}
template <class T>
std::span<const T> row_of(const std::byte* data, std::size_t row, std::size_t length) {
  return {reinterpret_cast<const T*>(data) + row * length, length};
}

template <class T>
void scalar_softmax_vjp(const RowArgs& args) {
  for_each_row<T>(args, [&](std::size_t row, std::span<const T> y, std::span<T> dx) {
    numerics::softmax_vjp(y, row_of<T>(args.in[1], row, y.size()), dx);
  });
}
template <class T>
void scalar_log_softmax_vjp(const RowArgs& args) {
  for_each_row<T>(args, [&](std::size_t row, std::span<const T> x, std::span<T> dx) {
    numerics::log_softmax_vjp(x, row_of<T>(args.in[1], row, x.size()), dx);
  });
}
template <class T>
void scalar_logsumexp_vjp(const RowArgs& args) {
  for_each_row<T>(args, [&](std::size_t row, std::span<const T> x, std::span<T> dx) {
    numerics::logsumexp_vjp(x, numerics::to_double(row_of<T>(args.in[1], row, 1)[0]), dx);
  });
}
template <class C>
void scalar_cross_entropy(const RowArgs& args) {
  using T = typename C::Element;
  using R = typename C::Parameter;
  for (std::size_t row = 0; row < static_cast<std::size_t>(args.rows); ++row)
    reinterpret_cast<R*>(args.out[0])[row] =
        numerics::round_to<R>(numerics::cross_entropy(row_of<T>(args.in[0], row, static_cast<std::size_t>(args.length)),
                                                      row_of<std::int64_t>(args.in[1], row, 1)[0]));
}
template <class C>
void scalar_cross_entropy_vjp(const RowArgs& args) {
  using T = typename C::Element;
  using R = typename C::Parameter;
  for_each_row<T>(args, [&](std::size_t row, std::span<const T> x, std::span<T> dx) {
    numerics::cross_entropy_vjp(x, row_of<std::int64_t>(args.in[1], row, 1)[0],
                                numerics::to_double(row_of<R>(args.in[2], row, 1)[0]), dx);
  });
}

}  // namespace

RowFn softmax_vjp_rows(const Signature& s) {
  return visit_floating(s.operands[0].dtype, []<class T>(std::type_identity<T>) {
    return EADEM_PER_TARGET(scalar_softmax_vjp<T>, softmax_vjp<T>).pick();
  });
}
RowFn log_softmax_vjp_rows(const Signature& s) {
  return visit_floating(s.operands[0].dtype, []<class T>(std::type_identity<T>) {
    return EADEM_PER_TARGET(scalar_log_softmax_vjp<T>, log_softmax_vjp<T>).pick();
  });
}
RowFn logsumexp_vjp_rows(const Signature& s) {
  return visit_floating(s.operands[0].dtype, []<class T>(std::type_identity<T>) {
    return EADEM_PER_TARGET(scalar_logsumexp_vjp<T>, logsumexp_vjp<T>).pick();
  });
}
RowFn cross_entropy_rows(const Signature& s) {
  const DType x = s.operands[0].dtype, loss = static_cast<const ResultAttribute*>(s.attributes)->of(x);
  return with_row_types(x, loss,
                        []<class C>(C) { return EADEM_PER_TARGET(scalar_cross_entropy<C>, cross_entropy<C>).pick(); });
}
RowFn cross_entropy_vjp_rows(const Signature& s) {
  return with_row_types(s.operands[0].dtype, s.operands[2].dtype, []<class C>(C) {
    return EADEM_PER_TARGET(scalar_cross_entropy_vjp<C>, cross_entropy_vjp<C>).pick();
  });
}

}  // namespace eadem::kernels
#endif
