#include "eadem/kernels/convolution/depthwise.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "eadem/base/parallel.h"
#include "eadem/kernels/convolution/matrix_tree.h"
#include "eadem/kernels/target.h"
#include "eadem/numerics/contraction.h"
#include "eadem/numerics/rounding.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "eadem/kernels/convolution/depthwise.cpp"
#include "hwy/foreach_target.h"
// foreach_target comes first
#include "eadem/kernels/rows/rows-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace eadem::kernels::HWY_NAMESPACE {
#if EADEM_HWY_TARGET
namespace hn = hwy::HWY_NAMESPACE;

// As many lanes as f64 has, so that results are rounded from f64 vectors.
template <class W>
using Lanes = hn::Rebind<W, hn::ScalableTag<double>>;

template <class T, class D>
HWY_INLINE hn::Vec<D> load_wide(D d, const T* x) {
  if constexpr (std::is_same_v<T, double>)
    return hn::LoadU(d, x);
  else
    return load_f32(d, x);
}

template <class Out, class D, class V>
HWY_INLINE void store_wide(D d, V v, Out* y) {
  const hn::ScalableTag<double> d64;
  if constexpr (std::is_same_v<hn::TFromD<D>, double>)
    store_rounded(d64, v, y);
  else if constexpr (std::is_same_v<Out, float>)
    hn::StoreU(hn::IfThenElse(hn::Eq(v, v), v, hn::Set(d, numerics::canonical_nan<float>())), d, y);
  else
    store_rounded(d64, hn::PromoteTo(d64, v), y);
}

// One output of each channel.
template <class T, class Out>
void channels(const T* const* x, const numerics::Wide<T>* w, const numerics::Wide<T>* bias, std::int64_t taps,
              std::int64_t count, Out* y) {
  using W = numerics::Wide<T>;
  const Lanes<W> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t c = 0;
  for (; c + lanes <= count; c += lanes) {
    auto even = hn::Zero(d), odd = hn::Zero(d);
    for (std::int64_t t = 0; t < taps; ++t) {
      const auto a = load_wide(d, x[t] + c), b = hn::LoadU(d, w + t * count + c);
      if (Float16<T> && t % 2 == 1)
        odd = hn::MulAdd(a, b, odd);
      else
        even = hn::MulAdd(a, b, even);
    }
    if constexpr (Float16<T>) even = hn::Add(even, odd);
    auto sum = hn::Add(hn::Zero(d), even);  // the block; never -0
    if (bias) sum = hn::Add(sum, hn::LoadU(d, bias + c));
    store_wide<Out>(d, sum, y + c);
  }
  for (; c < count; ++c) {
    W sum = numerics::contract<T>([&](std::int64_t t) { return numerics::widen(x[t][c]); },
                                  [&](std::int64_t t) { return w[t * count + c]; }, taps);
    if (bias) sum = sum + bias[c];
    y[c] = numerics::round_to<Out>(sum);
  }
}

template <class T>
void channels_narrow(const T* const* x, const numerics::Wide<T>* w, const numerics::Wide<T>* bias, std::int64_t taps,
                     std::int64_t count, T* y) {
  channels(x, w, bias, taps, count, y);
}
template <class T>
void channels_f32(const T* const* x, const numerics::Wide<T>* w, const numerics::Wide<T>* bias, std::int64_t taps,
                  std::int64_t count, float* y) {
  channels(x, w, bias, taps, count, y);
}

// chain[c] = fma(x, dy, chain) for neighbouring channels.
template <class T>
void add_products(const T* x, const T* dy, std::int64_t count, numerics::Wide<T>* chain) {
  using W = numerics::Wide<T>;
  const Lanes<W> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t c = 0;
  for (; c + lanes <= count; c += lanes)
    hn::StoreU(hn::MulAdd(load_wide(d, x + c), load_wide(d, dy + c), hn::LoadU(d, chain + c)), d, chain + c);
  for (; c < count; ++c) chain[c] = std::fma(numerics::widen(x[c]), numerics::widen(dy[c]), chain[c]);
}

#endif
}  // namespace eadem::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eadem::kernels {
namespace {

constexpr std::int64_t kStrip = 64;  // channels of a kernel's gradient at a time: their chains stay in L1

template <class T, class Out>
void scalar_channels(const T* const* x, const numerics::Wide<T>* w, const numerics::Wide<T>* bias, std::int64_t taps,
                     std::int64_t count, Out* y) {
  for (std::int64_t c = 0; c < count; ++c) {
    numerics::Wide<T> sum = numerics::contract<T>([&](std::int64_t t) { return numerics::widen(x[t][c]); },
                                                  [&](std::int64_t t) { return w[t * count + c]; }, taps);
    if (bias) sum = sum + bias[c];
    y[c] = numerics::round_to<Out>(sum);
  }
}
template <class T>
void scalar_channels_narrow(const T* const* x, const numerics::Wide<T>* w, const numerics::Wide<T>* bias,
                            std::int64_t taps, std::int64_t count, T* y) {
  scalar_channels(x, w, bias, taps, count, y);
}
template <class T>
void scalar_channels_f32(const T* const* x, const numerics::Wide<T>* w, const numerics::Wide<T>* bias,
                         std::int64_t taps, std::int64_t count, float* y) {
  scalar_channels(x, w, bias, taps, count, y);
}
template <class T, class Out>
auto channels_body() {
  if constexpr (std::is_same_v<T, Out>)
    return EADEM_PER_TARGET(scalar_channels_narrow<T>, channels_narrow<T>).pick();
  else
    return EADEM_PER_TARGET(scalar_channels_f32<T>, channels_f32<T>).pick();
}

template <class T>
void scalar_add_products(const T* x, const T* dy, std::int64_t count, numerics::Wide<T>* chain) {
  for (std::int64_t c = 0; c < count; ++c) chain[c] = std::fma(numerics::widen(x[c]), numerics::widen(dy[c]), chain[c]);
}

// What an output's taps meet: the input, or zeros.
template <class T>
struct Met {
  const Patches& patches;
  std::vector<T> zeros;
  std::vector<const std::byte*> places;
  std::vector<const T*> at;

  Met(const Patches& p, std::int64_t taps, std::int64_t channels)
      : patches(p),
        zeros(static_cast<std::size_t>(channels)),
        places(static_cast<std::size_t>(taps)),
        at(static_cast<std::size_t>(taps)) {}
  const T* const* of(std::int64_t row) {
    patches.places(row, places.data());
    for (std::size_t t = 0; t < at.size(); ++t)
      at[t] = places[t] ? reinterpret_cast<const T*>(places[t]) : zeros.data();
    return at.data();
  }
};

template <class W>
std::vector<W> widened(const TensorView& x, std::int64_t stride) {
  std::vector<W> all(static_cast<std::size_t>(x.elements()));
  visit_floating(x.dtype, [&]<class T>(std::type_identity<T>) {
    for (std::size_t i = 0; i < all.size(); ++i)
      all[i] = static_cast<W>(numerics::widen(x.as<const T>()[static_cast<std::int64_t>(i) * stride]));
  });
  return all;
}

template <class T, class Out>
void run_depthwise(const Patches& patches, const TensorView& w, const TensorView* bias, const TensorView& y) {
  using W = numerics::Wide<T>;
  const std::int64_t channels = w.shape.back(), taps = w.elements() / channels;
  const std::vector<W> weights = widened<W>(w, 1);
  std::vector<W> shift;
  if (bias) shift = widened<W>(*bias, bias->strides[0]);
  const auto body = channels_body<T, Out>();
  parallel_for(patches.rows(), std::max<std::int64_t>(1, 16384 / (channels * taps)),
               [&](std::int64_t begin, std::int64_t end) {
                 Met<T> met(patches, taps, channels);
                 for (std::int64_t row = begin; row < end; ++row)
                   body(met.of(row), weights.data(), bias ? shift.data() : nullptr, taps, channels,
                        y.as<Out>() + row * channels);
               });
}

template <class T>
void run_vjp_kernel(const Patches& patches, const TensorView& dy, const TensorView& dw) {
  using W = numerics::Wide<T>;
  const std::int64_t channels = dw.shape.back(), taps = dw.elements() / channels, rows = patches.rows();
  const auto body = EADEM_PER_TARGET(scalar_add_products<T>, add_products<T>).pick();
  const std::int64_t strips = (channels + kStrip - 1) / kStrip;
  std::vector<W> total(static_cast<std::size_t>(dw.elements()));
  parallel_for(strips, 1, [&](std::int64_t begin, std::int64_t end) {
    Met<T> met(patches, taps, channels);
    for (std::int64_t strip = begin; strip < end; ++strip) {
      const std::int64_t first = strip * kStrip, width = std::min(kStrip, channels - first);
      const auto size = static_cast<std::size_t>(taps * width);
      MatrixTree<W> tree;
      std::vector<W> block, chains[2];
      for (std::int64_t row = 0; row < rows;) {
        block.assign(size, 0);
        for (const std::int64_t block_end = std::min(rows, row + numerics::kBlockTerms); row < block_end;) {
          for (std::vector<W>& chain : chains) chain.assign(size, 0);
          for (const std::int64_t step_end = std::min(block_end, row + numerics::kStepTerms); row < step_end; ++row) {
            const T* const* x = met.of(row);
            std::vector<W>& chain = chains[Float16<T> ? row % 2 : 0];
            for (std::int64_t t = 0; t < taps; ++t)
              body(x[t] + first, dy.as<const T>() + row * channels + first, width, chain.data() + t * width);
          }
          for (std::size_t i = 0; i < size; ++i)
            block[i] = block[i] + (Float16<T> ? chains[0][i] + chains[1][i] : chains[0][i]);
        }
        tree.add(block);
      }
      const std::vector<W> sum = tree.sum();
      for (std::int64_t i = 0; i < (sum.empty() ? 0 : taps * width); ++i)
        total[static_cast<std::size_t>(i / width * channels + first + i % width)] = sum[static_cast<std::size_t>(i)];
    }
  });
  visit_floating(dw.dtype, [&]<class Out>(std::type_identity<Out>) {
    for (std::size_t i = 0; i < total.size(); ++i) dw.as<Out>()[i] = numerics::round_to<Out>(total[i] + W{0});
  });
}

}  // namespace

bool depthwise_admits(const TensorView& x, std::int64_t taps, std::int64_t outputs, std::int64_t groups, DType result) {
  return groups > 1 && x.shape.back() == groups && outputs == groups && taps <= numerics::kStepTerms &&
         x.strides.back() == 1 && (result == x.dtype || result == DType::f32);
}

void depthwise(const Patches& patches, const TensorView& x, const TensorView& w, const TensorView* bias,
               const TensorView& y) {
  visit_floating(x.dtype, [&]<class T>(std::type_identity<T>) {
    if (y.dtype == x.dtype)
      run_depthwise<T, T>(patches, w, bias, y);
    else
      run_depthwise<T, float>(patches, w, bias, y);
  });
}

void depthwise_vjp_kernel(const Patches& patches, const TensorView& x, const TensorView& dy, const TensorView& dw) {
  visit_floating(x.dtype, [&]<class T>(std::type_identity<T>) { run_vjp_kernel<T>(patches, dy, dw); });
}

}  // namespace eadem::kernels
#endif
