#include "eadem/numerics/normalization.h"

#include <vector>

#include "eadem/kernels/rows/packed.h"
#include "eadem/kernels/rows/rows.h"
#include "eadem/kernels/rows/types.h"
#include "eadem/kernels/target.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "eadem/kernels/rows/normalization.cpp"
#include "hwy/foreach_target.h"
// foreach_target comes first
#include "eadem/kernels/rows/rows-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace eadem::kernels::HWY_NAMESPACE {
#if EADEM_HWY_TARGET
namespace hn = hwy::HWY_NAMESPACE;

template <class C>
void layer_norm(const RowArgs& args) {
  using T = typename C::Element;
  using P = typename C::Parameter;
  const hn::ScalableTag<double> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto* gamma = reinterpret_cast<const P*>(args.in[1]);
  const auto* beta = reinterpret_cast<const P*>(args.in[2]);
  const double epsilon = static_cast<const EpsilonAttribute*>(args.attributes)->epsilon;
  const std::int64_t n = args.length;
  for (std::int64_t row = 0; row < args.rows; ++row) {
    const T* x = reinterpret_cast<const T*>(args.in[0]) + row * n;
    T* y = reinterpret_cast<T*>(args.out[0]) + row * n;
    const double mean = sum_of(x, n) / static_cast<double>(n);
    const double r = 1 / std::sqrt(sum_of_squares(x, n, mean) / static_cast<double>(n) + epsilon);
    const auto m = hn::Set(d, mean), scale = hn::Set(d, r);
    std::int64_t i = 0;
    for (; i + lanes <= n; i += lanes) {
      const auto normalized = hn::Mul(hn::Sub(load_f64(d, x + i), m), scale);
      store_rounded(d, hn::MulAdd(normalized, load_f64(d, gamma + i), load_f64(d, beta + i)), y + i);
    }
    for (; i < n; ++i) {
      const double normalized = (numerics::to_double(x[i]) - mean) * r;
      y[i] = numerics::round_to<T>(std::fma(normalized, numerics::to_double(gamma[i]), numerics::to_double(beta[i])));
    }
  }
}

template <class C>
void rms_norm(const RowArgs& args) {
  using T = typename C::Element;
  using P = typename C::Parameter;
  const hn::ScalableTag<double> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto* gamma = reinterpret_cast<const P*>(args.in[1]);
  const double epsilon = static_cast<const EpsilonAttribute*>(args.attributes)->epsilon;
  const std::int64_t n = args.length;
  for (std::int64_t row = 0; row < args.rows; ++row) {
    const T* x = reinterpret_cast<const T*>(args.in[0]) + row * n;
    T* y = reinterpret_cast<T*>(args.out[0]) + row * n;
    const double r = 1 / std::sqrt(sum_of_squares(x, n, 0.0) / static_cast<double>(n) + epsilon);
    const auto scale = hn::Set(d, r);
    std::int64_t i = 0;
    for (; i + lanes <= n; i += lanes) {
      store_rounded(d, hn::Mul(hn::Mul(load_f64(d, x + i), scale), load_f64(d, gamma + i)), y + i);
    }
    for (; i < n; ++i) y[i] = numerics::round_to<T>(numerics::to_double(x[i]) * r * numerics::to_double(gamma[i]));
  }
}

// One group: `channels` runs of `spatial` elements, each with its own gamma and beta.
template <class T>
void group(const T* x, std::int64_t channels, std::int64_t spatial, const double* gamma, const double* beta,
           double epsilon, T* y) {
  const hn::ScalableTag<double> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t n = channels * spatial;
  const double mean = sum_of(x, n) / static_cast<double>(n);
  const double r = 1 / std::sqrt(sum_of_squares(x, n, mean) / static_cast<double>(n) + epsilon);
  const auto m = hn::Set(d, mean), scale = hn::Set(d, r);
  for (std::int64_t c = 0; c < channels; ++c, x += spatial, y += spatial) {
    const auto g = hn::Set(d, gamma[c]), b = hn::Set(d, beta[c]);
    std::int64_t i = 0;
    for (; i + lanes <= spatial; i += lanes) {
      store_rounded(d, hn::MulAdd(hn::Mul(hn::Sub(load_f64(d, x + i), m), scale), g, b), y + i);
    }
    for (; i < spatial; ++i) {
      y[i] = numerics::round_to<T>(std::fma((numerics::to_double(x[i]) - mean) * r, gamma[c], beta[c]));
    }
  }
}

#endif
}  // namespace eadem::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eadem::kernels {
namespace {

template <class P>
std::vector<double> widened(const std::byte* data, std::int64_t n) {
  std::vector<double> out(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = numerics::to_double(reinterpret_cast<const P*>(data)[i]);
  return out;
}

template <class C, bool centered>
void scalar(const RowArgs& args) {
  using T = typename C::Element;
  using P = typename C::Parameter;
  const double epsilon = static_cast<const EpsilonAttribute*>(args.attributes)->epsilon;
  const auto n = static_cast<std::size_t>(args.length);
  const auto gamma = widened<P>(args.in[1], args.length);
  std::vector<double> beta;
  if (centered) beta = widened<P>(args.in[2], args.length);
  for (std::size_t row = 0; row < static_cast<std::size_t>(args.rows); ++row) {
    const std::span<const T> x(reinterpret_cast<const T*>(args.in[0]) + row * n, n);
    const std::span<T> y(reinterpret_cast<T*>(args.out[0]) + row * n, n);
    if constexpr (centered)
      numerics::layer_norm<T>(x, gamma, beta, epsilon, y);
    else
      numerics::rms_norm<T>(x, gamma, epsilon, y);
  }
}
template <class C>
void scalar_layer_norm(const RowArgs& args) {
  scalar<C, true>(args);
}
template <class C>
void scalar_rms_norm(const RowArgs& args) {
  scalar<C, false>(args);
}

template <class T>
void scalar_group(const T* x, std::int64_t channels, std::int64_t spatial, const double* gamma, const double* beta,
                  double epsilon, T* y) {
  const auto n = static_cast<std::size_t>(channels * spatial), c = static_cast<std::size_t>(channels);
  numerics::group_norm<T>({x, n}, spatial, {gamma, c}, {beta, c}, epsilon, {y, n});
}

std::vector<double> widened_view(const TensorView& view) {
  std::vector<double> out(static_cast<std::size_t>(view.shape[0]));
  visit_floating(view.dtype, [&]<class T>(std::type_identity<T>) {
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i] = numerics::to_double(view.as<const T>()[static_cast<std::int64_t>(i) * view.strides[0]]);
    }
  });
  return out;
}

}  // namespace

void group_norm(const TensorView& x, const TensorView& gamma, const TensorView& beta, std::int64_t groups,
                double epsilon, const TensorView& result) {
  if (x.elements() == 0) return;
  const auto scale = widened_view(gamma), shift = widened_view(beta);
  const std::int64_t channels = x.shape[1] / groups, spatial = x.elements() / (x.shape[0] * x.shape[1]);
  const std::int64_t n = channels * spatial;
  visit_floating(x.dtype, [&]<class T>(std::type_identity<T>) {
    const auto body = EADEM_PER_TARGET(scalar_group<T>, group<T>).pick();
    parallel_for(x.shape[0] * groups, std::max<std::int64_t>(1, 8192 / n), [&](std::int64_t begin, std::int64_t end) {
      std::vector<T> packed, normalized;
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t first = i % groups * channels;
        const TensorView from = part_of(part_of(x, 0, i / groups, 1), 1, first, channels);
        const TensorView to = part_of(part_of(result, 0, i / groups, 1), 1, first, channels);
        const T* in = from.as<const T>();
        T* out = to.as<T>();
        if (!is_contiguous(from)) {
          packed.resize(static_cast<std::size_t>(n));
          copy(from, contiguous_view(packed.data(), x.dtype, from.shape));
          in = packed.data();
        }
        if (!is_contiguous(to)) {
          normalized.resize(static_cast<std::size_t>(n));
          out = normalized.data();
        }
        body(in, channels, spatial, scale.data() + first, shift.data() + first, epsilon, out);
        if (!is_contiguous(to)) copy(contiguous_view(out, x.dtype, to.shape), to);
      }
    });
  });
}

RowFn layer_norm_rows(const Signature& s) {
  return with_row_types(s.operands[0].dtype, s.operands[1].dtype,
                        []<class C>(C) { return EADEM_PER_TARGET(scalar_layer_norm<C>, layer_norm<C>).pick(); });
}
RowFn rms_norm_rows(const Signature& s) {
  return with_row_types(s.operands[0].dtype, s.operands[1].dtype,
                        []<class C>(C) { return EADEM_PER_TARGET(scalar_rms_norm<C>, rms_norm<C>).pick(); });
}

}  // namespace eadem::kernels
#endif
