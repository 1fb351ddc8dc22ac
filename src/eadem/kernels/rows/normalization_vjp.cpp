#include "eadem/numerics/normalization_vjp.h"

#include <cstring>
#include <vector>

#include "eadem/base/parallel.h"
#include "eadem/kernels/move/copy.h"
#include "eadem/kernels/reduce/reduce.h"
#include "eadem/kernels/reduce/settle.h"
#include "eadem/kernels/rows/packed.h"
#include "eadem/kernels/rows/rows.h"
#include "eadem/kernels/rows/types.h"
#include "eadem/kernels/target.h"
#include "eadem/numerics/exact_sum.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "eadem/kernels/rows/normalization_vjp.cpp"
#include "hwy/foreach_target.h"
// foreach_target comes first
#include "eadem/kernels/rows/rows-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace eadem::kernels::HWY_NAMESPACE {
#if EADEM_HWY_TARGET
namespace hn = hwy::HWY_NAMESPACE;

template <class T, bool centered>
numerics::Moments moments(const T* x, std::int64_t n, double epsilon) {
  const double mean = centered ? sum_of(x, n) / static_cast<double>(n) : 0.0;
  return {mean, 1 / std::sqrt(sum_of_squares(x, n, mean) / static_cast<double>(n) + epsilon)};
}

// dx from g = dy gamma, which is held in f64.
template <class T, bool centered>
void from_scaled(const T* x, const double* g, std::int64_t n, double epsilon, T* dx) {
  const hn::ScalableTag<double> d;
  const numerics::Moments row = moments<T, centered>(x, n, epsilon);
  const double mean = row.mean, r = row.reciprocal_deviation;
  const auto m = hn::Set(d, mean), scale = hn::Set(d, r);
  const auto normalized = [&](std::int64_t i) { return (numerics::to_double(x[i]) - mean) * r; };
  const double products = row_sum(
      d, n,
      [&](auto acc, std::int64_t i)
          HWY_ATTR { return hn::MulAdd(hn::LoadU(d, g + i), hn::Mul(hn::Sub(load_f64(d, x + i), m), scale), acc); },
      [&](double acc, std::int64_t i) { return std::fma(g[i], normalized(i), acc); });
  const double b = products / static_cast<double>(n);
  const double a = centered ? sum_of(g, n) / static_cast<double>(n) : 0.0;
  const auto b_all = hn::Set(d, b), a_all = hn::Set(d, a);
  store_cotangent(
      d, n, dx,
      [&](std::int64_t i) HWY_ATTR {
        auto shifted = hn::LoadU(d, g + i);
        if constexpr (centered) shifted = hn::Sub(shifted, a_all);
        return hn::Mul(scale, hn::NegMulAdd(hn::Mul(hn::Sub(load_f64(d, x + i), m), scale), b_all, shifted));
      },
      [&](std::int64_t i) { return r * std::fma(-normalized(i), b, centered ? g[i] - a : g[i]); });
}

template <class C, bool centered>
void rows_vjp(const RowArgs& args) {
  using T = typename C::Element;
  using P = typename C::Parameter;
  const hn::ScalableTag<double> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto* gamma = reinterpret_cast<const P*>(args.in[1]);
  const double epsilon = static_cast<const EpsilonAttribute*>(args.attributes)->epsilon;
  const std::int64_t n = args.length;
  std::vector<double> g(static_cast<std::size_t>(n));
  for (std::int64_t row = 0; row < args.rows; ++row) {
    const T* dy = reinterpret_cast<const T*>(args.in[2]) + row * n;
    std::int64_t i = 0;
    for (; i + lanes <= n; i += lanes)
      hn::StoreU(hn::Mul(load_f64(d, dy + i), load_f64(d, gamma + i)), d, g.data() + i);
    for (; i < n; ++i) g[static_cast<std::size_t>(i)] = numerics::to_double(dy[i]) * numerics::to_double(gamma[i]);
    from_scaled<T, centered>(reinterpret_cast<const T*>(args.in[0]) + row * n, g.data(), n, epsilon,
                             reinterpret_cast<T*>(args.out[0]) + row * n);
  }
}
template <class C>
void layer_norm_vjp(const RowArgs& args) {
  rows_vjp<C, true>(args);
}
template <class C>
void rms_norm_vjp(const RowArgs& args) {
  rows_vjp<C, false>(args);
}

// One group: gamma of each of its channels, which are runs of `spatial` elements.
template <class T>
void group_vjp(const T* x, const double* gamma, const T* dy, std::int64_t channels, std::int64_t spatial,
               double epsilon, T* dx) {
  const std::int64_t n = channels * spatial;
  std::vector<double> g(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) g[static_cast<std::size_t>(i)] = numerics::to_double(dy[i]) * gamma[i / spatial];
  from_scaled<T, true>(x, g.data(), n, epsilon, dx);
}

// sums[c] += RN32(dy xhat) and magnitudes[c] += |it|, over the elements of channel c of one row or group.
template <class T, bool centered>
numerics::Moments add_gamma_terms(const T* x, const T* dy, std::int64_t channels, std::int64_t spatial, double epsilon,
                                  double* sums, double* magnitudes) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> d32;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto row = moments<T, centered>(x, channels * spatial, epsilon);
  const auto m = hn::Set(d, row.mean), scale = hn::Set(d, row.reciprocal_deviation);
  const auto terms = [&](std::int64_t i) HWY_ATTR {
    const auto normalized = hn::Mul(hn::Sub(load_f64(d, x + i), m), scale);
    return hn::PromoteTo(d, hn::DemoteTo(d32, hn::Mul(load_f64(d, dy + i), normalized)));
  };
  const auto term = [&](std::int64_t i) { return static_cast<double>(numerics::gamma_term(x[i], dy[i], row)); };
  if (spatial == 1) {
    std::int64_t c = 0;
    for (; c + lanes <= channels; c += lanes) {
      const auto t = terms(c);
      hn::StoreU(hn::Add(hn::LoadU(d, sums + c), t), d, sums + c);
      hn::StoreU(hn::Add(hn::LoadU(d, magnitudes + c), hn::Abs(t)), d, magnitudes + c);
    }
    for (; c < channels; ++c) {
      sums[c] += term(c);
      magnitudes[c] += std::fabs(term(c));
    }
    return row;
  }
  for (std::int64_t c = 0; c < channels; ++c) {
    auto sum = hn::Zero(d), magnitude = hn::Zero(d);
    const std::int64_t end = (c + 1) * spatial;
    std::int64_t i = c * spatial;
    for (; i + lanes <= end; i += lanes) {
      const auto t = terms(i);
      sum = hn::Add(sum, t);
      magnitude = hn::Add(magnitude, hn::Abs(t));
    }
    for (; i < end; ++i) {
      sums[c] += term(i);
      magnitudes[c] += std::fabs(term(i));
    }
    sums[c] += hn::GetLane(hn::SumOfLanes(d, sum));
    magnitudes[c] += hn::GetLane(hn::SumOfLanes(d, magnitude));
  }
  return row;
}

template <class T>
numerics::Moments add_layer_norm_terms(const T* x, const T* dy, std::int64_t channels, std::int64_t spatial,
                                       double epsilon, double* sums, double* magnitudes) {
  return add_gamma_terms<T, true>(x, dy, channels, spatial, epsilon, sums, magnitudes);
}
template <class T>
numerics::Moments add_rms_norm_terms(const T* x, const T* dy, std::int64_t channels, std::int64_t spatial,
                                     double epsilon, double* sums, double* magnitudes) {
  return add_gamma_terms<T, false>(x, dy, channels, spatial, epsilon, sums, magnitudes);
}

#endif
}  // namespace eadem::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eadem::kernels {
namespace {

using numerics::Moments;
using numerics::to_double;

template <class C, bool centered>
void scalar_rows_vjp(const RowArgs& args) {
  using T = typename C::Element;
  using P = typename C::Parameter;
  const auto n = static_cast<std::size_t>(args.length);
  std::vector<double> gamma(n);
  for (std::size_t i = 0; i < n; ++i) gamma[i] = to_double(reinterpret_cast<const P*>(args.in[1])[i]);
  for (std::size_t row = 0; row < static_cast<std::size_t>(args.rows); ++row)
    numerics::normalization_vjp<centered, T>({reinterpret_cast<const T*>(args.in[0]) + row * n, n}, gamma,
                                             {reinterpret_cast<const T*>(args.in[2]) + row * n, n},
                                             static_cast<const EpsilonAttribute*>(args.attributes)->epsilon,
                                             {reinterpret_cast<T*>(args.out[0]) + row * n, n});
}
template <class C>
void scalar_layer_norm_vjp(const RowArgs& args) {
  scalar_rows_vjp<C, true>(args);
}
template <class C>
void scalar_rms_norm_vjp(const RowArgs& args) {
  scalar_rows_vjp<C, false>(args);
}
template <class T>
void scalar_group_vjp(const T* x, const double* gamma, const T* dy, std::int64_t channels, std::int64_t spatial,
                      double epsilon, T* dx) {
  const auto n = static_cast<std::size_t>(channels * spatial);
  numerics::normalization_vjp<true, T>({x, n}, {gamma, static_cast<std::size_t>(channels)}, {dy, n}, epsilon, {dx, n},
                                       static_cast<std::size_t>(spatial));
}

template <class T, bool centered>
Moments scalar_add_terms(const T* x, const T* dy, std::int64_t channels, std::int64_t spatial, double epsilon,
                         double* sums, double* magnitudes) {
  const auto n = static_cast<std::size_t>(channels * spatial);
  const Moments row = numerics::moments_of<centered, T>({x, n}, epsilon);
  for (std::size_t i = 0; i < n; ++i) {
    const double t = numerics::gamma_term(x[i], dy[i], row);
    sums[i / static_cast<std::size_t>(spatial)] += t;
    magnitudes[i / static_cast<std::size_t>(spatial)] += std::fabs(t);
  }
  return row;
}
template <class T>
Moments scalar_layer_norm_terms(const T* x, const T* dy, std::int64_t channels, std::int64_t spatial, double epsilon,
                                double* sums, double* magnitudes) {
  return scalar_add_terms<T, true>(x, dy, channels, spatial, epsilon, sums, magnitudes);
}
template <class T>
Moments scalar_rms_norm_terms(const T* x, const T* dy, std::int64_t channels, std::int64_t spatial, double epsilon,
                              double* sums, double* magnitudes) {
  return scalar_add_terms<T, false>(x, dy, channels, spatial, epsilon, sums, magnitudes);
}

// f64: the terms in memory, and the exact sum over them.
void sum_of_terms(const TensorView& x, const TensorView& dy, const GammaLayout& l, double epsilon,
                  const TensorView& result) {
  const std::int64_t n = l.channels * l.spatial;
  std::vector<double> terms(static_cast<std::size_t>(x.elements()));
  const double *in = x.as<const double>(), *cotangent = dy.as<const double>();
  parallel_for(
      l.kept * l.rows * l.groups, std::max<std::int64_t>(1, 8192 / n), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t first = begin * n; first < end * n; first += n) {
          const std::span<const double> row(in + first, static_cast<std::size_t>(n));
          const Moments moments =
              l.centered ? numerics::moments_of<true>(row, epsilon) : numerics::moments_of<false>(row, epsilon);
          for (std::int64_t i = first; i < first + n; ++i)
            terms[static_cast<std::size_t>(i)] = numerics::gamma_term(in[i], cotangent[i], moments);
        }
      });
  TensorView sums = result;
  sums.shape = {l.kept, l.groups, l.channels};
  sums.strides = contiguous_strides(sums.shape);
  sum(contiguous_view(terms.data(), DType::f64, {l.kept, l.rows, l.groups, l.channels, l.spatial}), {1, 4}, sums);
}

// Narrower: column sums in f64 with a bound on their error; columns that it leaves undecided are summed exactly.
template <class T, class R>
class ColumnSums {
 public:
  ColumnSums(const TensorView& x, const TensorView& dy, const GammaLayout& l, double epsilon, R* result)
      : x_(x), dy_(dy), l_(l), epsilon_(epsilon), result_(result) {
    const std::int64_t block = l.channels * l.spatial;
    chunk_ = std::clamp<std::int64_t>(65536 / block, 1, 1024);
    chunks_ = (l.rows + chunk_ - 1) / chunk_;
    moments_.resize(static_cast<std::size_t>(l.kept * l.groups * l.rows));
    sums_.resize(static_cast<std::size_t>(l.kept * l.groups * chunks_ * l.channels));
    magnitudes_.resize(sums_.size());
  }

  void run() {
    const auto add = l_.centered ? EADEM_PER_TARGET(scalar_layer_norm_terms<T>, add_layer_norm_terms<T>).pick()
                                 : EADEM_PER_TARGET(scalar_rms_norm_terms<T>, add_rms_norm_terms<T>).pick();
    parallel_for(l_.kept * l_.groups * chunks_, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t part = i / chunks_, first = i % chunks_ * chunk_;
        for (std::int64_t r = first; r < std::min(l_.rows, first + chunk_); ++r)
          moments_[static_cast<std::size_t>(part * l_.rows + r)] =
              add(block<T>(x_, part, r), block<T>(dy_, part, r), l_.channels, l_.spatial, epsilon_,
                  sums_.data() + i * l_.channels, magnitudes_.data() + i * l_.channels);
      }
    });
    parallel_for(l_.kept * l_.groups * l_.channels, std::max<std::int64_t>(1, 8192 / chunks_),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t i = begin; i < end; ++i) result_[i] = settle(i / l_.channels, i % l_.channels);
                 });
  }

 private:
  template <class E>
  const E* block(const TensorView& x, std::int64_t part, std::int64_t r) const {
    const std::int64_t k = part / l_.groups, g = part % l_.groups;
    return x.as<const E>() + ((k * l_.rows + r) * l_.groups + g) * l_.channels * l_.spatial;
  }

  R settle(std::int64_t part, std::int64_t channel) const {
    double sum = 0, magnitude = 0;
    for (std::int64_t c = 0; c < chunks_; ++c) {
      const auto at = static_cast<std::size_t>((part * chunks_ + c) * l_.channels + channel);
      sum += sums_[at];
      magnitude += magnitudes_[at];
    }
    if (!(magnitude < std::numeric_limits<double>::infinity())) return numerics::round_to<R>(sum);
    if (magnitude == 0) return R{};
    const double depth = static_cast<double>(chunk_ + chunks_ + l_.spatial + 16);
    if (const auto settled = settle_bound<R>(sum, (depth + 3) * kUnit * (1 + 0x1p-20) * magnitude, 1)) return *settled;
    numerics::ExactAccumulator exact;
    for (std::int64_t r = 0; r < l_.rows; ++r) {
      const T *x = block<T>(x_, part, r), *dy = block<T>(dy_, part, r);
      for (std::int64_t i = channel * l_.spatial; i < (channel + 1) * l_.spatial; ++i)
        exact.add(static_cast<double>(
            numerics::gamma_term(x[i], dy[i], moments_[static_cast<std::size_t>(part * l_.rows + r)])));
    }
    return exact.sum<R>();
  }

  const TensorView &x_, &dy_;
  const GammaLayout& l_;
  double epsilon_;
  R* result_;
  std::int64_t chunk_, chunks_;
  std::vector<Moments> moments_;           // of each (part, row)
  std::vector<double> sums_, magnitudes_;  // of each (part, chunk of rows, channel)
};

}  // namespace

RowFn layer_norm_vjp_rows(const Signature& s) {
  return with_row_types(s.operands[0].dtype, s.operands[1].dtype, []<class C>(C) {
    return EADEM_PER_TARGET(scalar_layer_norm_vjp<C>, layer_norm_vjp<C>).pick();
  });
}
RowFn rms_norm_vjp_rows(const Signature& s) {
  return with_row_types(s.operands[0].dtype, s.operands[1].dtype,
                        []<class C>(C) { return EADEM_PER_TARGET(scalar_rms_norm_vjp<C>, rms_norm_vjp<C>).pick(); });
}

void gamma_vjp(const TensorView& x, const TensorView& dy, const GammaLayout& layout, double epsilon,
               const TensorView& result) {
  if (result.elements() == 0) return;
  if (x.elements() == 0) {
    std::memset(result.data, 0, static_cast<std::size_t>(result.elements()) * size_of(result.dtype));
    return;
  }
  std::vector<std::byte> memory[2];
  const auto dense = [&](const TensorView& view, std::vector<std::byte>& copied) {
    if (is_contiguous(view)) return view;
    copied.resize(static_cast<std::size_t>(view.elements()) * size_of(view.dtype));
    const TensorView to = contiguous_view(copied.data(), view.dtype, view.shape);
    copy(view, to);
    return to;
  };
  const TensorView in = dense(x, memory[0]), cotangent = dense(dy, memory[1]);
  visit_floating(x.dtype, [&]<class T>(std::type_identity<T>) {
    if constexpr (std::is_same_v<T, double>)
      sum_of_terms(in, cotangent, layout, epsilon, result);
    else if (result.dtype == x.dtype)
      ColumnSums<T, T>(in, cotangent, layout, epsilon, result.as<T>()).run();
    else
      ColumnSums<T, float>(in, cotangent, layout, epsilon, result.as<float>()).run();
  });
}

void group_norm_vjp(const TensorView& x, const TensorView& gamma, const TensorView& dy, std::int64_t groups,
                    double epsilon, const TensorView& result) {
  if (x.elements() == 0) return;
  std::vector<double> scale(static_cast<std::size_t>(gamma.shape[0]));
  visit_floating(gamma.dtype, [&]<class P>(std::type_identity<P>) {
    for (std::size_t i = 0; i < scale.size(); ++i)
      scale[i] = to_double(gamma.as<const P>()[static_cast<std::int64_t>(i) * gamma.strides[0]]);
  });
  const std::int64_t channels = x.shape[1] / groups, spatial = x.elements() / (x.shape[0] * x.shape[1]);
  const std::int64_t n = channels * spatial;
  visit_floating(x.dtype, [&]<class T>(std::type_identity<T>) {
    const auto body = EADEM_PER_TARGET(scalar_group_vjp<T>, group_vjp<T>).pick();
    parallel_for(x.shape[0] * groups, std::max<std::int64_t>(1, 8192 / n), [&](std::int64_t begin, std::int64_t end) {
      std::vector<T> packed[2];
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t first = i % groups * channels;
        const auto block = [&](const TensorView& view, std::vector<T>& memory) {
          const TensorView from = part_of(part_of(view, 0, i / groups, 1), 1, first, channels);
          if (is_contiguous(from)) return from.as<const T>();
          memory.resize(static_cast<std::size_t>(n));
          copy(from, contiguous_view(memory.data(), view.dtype, from.shape));
          return static_cast<const T*>(memory.data());
        };
        body(block(x, packed[0]), scale.data() + first, block(dy, packed[1]), channels, spatial, epsilon,
             result.as<T>() + i * n);
      }
    });
  });
}

}  // namespace eadem::kernels
#endif
