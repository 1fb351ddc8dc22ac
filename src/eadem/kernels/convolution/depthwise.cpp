// Highway's order of includes is part of their meaning.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "eadem/kernels/convolution/depthwise.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "eadem/kernels/contraction/tile-inl.h"
#include "eadem/kernels/reduce/load-inl.h"
// clang-format on

#include "eadem/kernels/convolution/depthwise.h"

#include <array>
#include <cstring>
#include <vector>

#include "eadem/base/parallel.h"
#include "eadem/kernels/convolution/matrix_tree.h"
#include "eadem/kernels/convolution/padded_lines.h"
#include "eadem/kernels/target.h"
#include "eadem/numerics/contraction.h"

// Lines of the input are widened once, in strips of two vectors of channels, so that a strip's lines stay in the
// first-level cache while all taps meet them.

#ifndef EADEM_KERNELS_CONVOLUTION_DEPTHWISE_BODIES
#define EADEM_KERNELS_CONVOLUTION_DEPTHWISE_BODIES
namespace eadem::kernels {

// What a target computes with operands of type T.
template <class T>
struct DepthwiseBodies {
  using W = numerics::Wide<T>;
  std::int64_t strip = 0;  // channels
  typename PaddedLines<T, W>::Fill fill = nullptr;
  // `outs` outputs of `channels` channels, y_stride apart: met[t] is where tap t of the first lies, that of the next
  // `step` elements on. w: [taps][strip]; bias: [strip] or null.
  void (*narrow)(const W* const* met, std::int64_t step, const W* w, std::int64_t taps, const W* bias,
                 std::int64_t outs, std::int64_t channels, T* y, std::int64_t y_stride) = nullptr;
  void (*wide)(const W* const* met, std::int64_t step, const W* w, std::int64_t taps, const W* bias, std::int64_t outs,
               std::int64_t channels, float* y, std::int64_t y_stride) = nullptr;
  // first[t][c], second[t][c] = the chains of `count` further places, by turns: fma(met[t] at the place, dy, chain).
  void (*chains)(const W* const* met, std::int64_t step, const W* dy, std::int64_t taps, std::int64_t count, W* first,
                 W* second) = nullptr;
  // block = block + a step, which is the sum of its chains.
  void (*add_step)(const W* even, const W* odd, std::int64_t count, W* block) = nullptr;
};

}  // namespace eadem::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace eadem::kernels::HWY_NAMESPACE {
#if EADEM_HWY_TARGET
namespace hn = hwy::HWY_NAMESPACE;

// Registers hold kPlaces x kVectors sums, or kTaps x kVectors.
inline constexpr bool kManyRegisters = HWY_TARGET != HWY_AVX2;
inline constexpr int kVectors = 2, kPlaces = kManyRegisters ? 6 : 3, kTaps = kManyRegisters ? 5 : 3;
template <class T>
inline constexpr int kChains = Float16<T> ? 2 : 1;

template <class T, class D>
HWY_INLINE hn::Vec<D> LoadWide(D d, const T* x) {
  if constexpr (std::is_same_v<T, double>)
    return hn::LoadU(d, x);
  else
    return load_f32(d, x);
}

template <class T>
void Fill(const T* from, std::int64_t stride, std::int64_t count, std::int64_t channels, numerics::Wide<T>* to,
          std::int64_t to_stride) {
  const hn::ScalableTag<numerics::Wide<T>> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t i = 0; i < count; ++i, from += stride, to += to_stride) {
    __builtin_prefetch(from + 16 * stride);  // the hardware follows no such strides
    __builtin_prefetch(from + 16 * stride + 64 / sizeof(T));
    std::int64_t c = 0;
    for (; c + lanes <= channels; c += lanes) hn::StoreU(LoadWide(d, from + c), d, to + c);
    for (; c < channels; ++c) to[c] = numerics::widen(from[c]);
  }
}

// The sums of `places` outputs; met[t] + at is where tap t of the first lies. `unit`: neighbours lie a strip apart,
// which makes every offset a constant.
template <class T, int places, bool unit, class D, class V = hn::Vec<D>>
HWY_INLINE void Sums(D d, const numerics::Wide<T>* const* met, std::int64_t at, std::int64_t step,
                     const numerics::Wide<T>* w, std::int64_t taps, V (&sum)[places][kVectors]) {
  constexpr int lanes = static_cast<int>(hn::MaxLanes(d)), strip = kVectors * lanes;
  if constexpr (unit) step = strip;
  V even[places][kVectors];
  for (std::int64_t first = 0; first < taps; first += numerics::kStepTerms) {
    const std::int64_t end = std::min(taps, first + numerics::kStepTerms);
    for (int chain = 0; chain < kChains<T>; ++chain) {
      V own[places][kVectors];
#pragma GCC unroll 8
      for (auto& row : own)
#pragma GCC unroll 2
        for (V& v : row) v = hn::Zero(d);
      for (std::int64_t t = first + chain; t < end; t += kChains<T>) {
        const auto* x = met[t] + at;
        __asm__("" : "+r"(x));  // else each place's offset from met[t] takes a register, or the stack
        V ws[kVectors];
#pragma GCC unroll 2
        for (int v = 0; v < kVectors; ++v) ws[v] = hn::LoadU(d, w + t * strip + v * lanes);
#pragma GCC unroll 8
        for (int p = 0; p < places; ++p)
#pragma GCC unroll 2
          for (int v = 0; v < kVectors; ++v)
            own[p][v] = hn::MulAdd(hn::LoadU(d, x + p * step + v * lanes), ws[v], own[p][v]);
      }
#pragma GCC unroll 8
      for (int p = 0; p < places; ++p)
#pragma GCC unroll 2
        for (int v = 0; v < kVectors; ++v) {
          if (chain + 1 < kChains<T>) {
            even[p][v] = own[p][v];
            continue;
          }
          const V value = kChains<T> == 2 ? hn::Add(even[p][v], own[p][v]) : own[p][v];
          sum[p][v] = hn::Add(first == 0 ? hn::Zero(d) : sum[p][v], value);
        }
    }
  }
}

template <class T, class Out, int places, bool unit>
HWY_INLINE void Outputs(const numerics::Wide<T>* const* met, std::int64_t at, std::int64_t step,
                        const numerics::Wide<T>* w, std::int64_t taps, const numerics::Wide<T>* bias,
                        std::int64_t channels, Out* y, std::int64_t y_stride) {
  const hn::ScalableTag<numerics::Wide<T>> d;
  constexpr int lanes = static_cast<int>(hn::MaxLanes(d));
  hn::Vec<decltype(d)> sum[places][kVectors];
  Sums<T, places, unit>(d, met, at, step, w, taps, sum);
  const auto finish = [&](Out* to, int p) HWY_ATTR {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      const auto own = bias ? hn::Add(sum[p][v], hn::LoadU(d, bias + v * lanes)) : sum[p][v];
      contraction::HWY_NAMESPACE::StoreAs<Out>(d, contraction::HWY_NAMESPACE::Canonical(d, own), to + v * lanes);
    }
  };
#pragma GCC unroll 8
  for (int p = 0; p < places; ++p, y += y_stride) {
    if (channels == kVectors * lanes) {
      finish(y, p);
    } else {
      Out strip[kVectors * lanes];
      finish(strip, p);
      std::copy_n(strip, channels, y);
    }
  }
}

template <class T, class Out, bool unit>
void LineOf(const numerics::Wide<T>* const* met, std::int64_t step, const numerics::Wide<T>* w, std::int64_t taps,
            const numerics::Wide<T>* bias, std::int64_t outs, std::int64_t channels, Out* y, std::int64_t y_stride) {
  std::int64_t o = 0;
  for (; o + kPlaces <= outs; o += kPlaces)
    Outputs<T, Out, kPlaces, unit>(met, o * step, step, w, taps, bias, channels, y + o * y_stride, y_stride);
  if (o < outs && outs >= kPlaces) {  // the last ones overlap those before
    o = outs - kPlaces;
    return Outputs<T, Out, kPlaces, unit>(met, o * step, step, w, taps, bias, channels, y + o * y_stride, y_stride);
  }
  for (; o < outs; ++o)
    Outputs<T, Out, 1, unit>(met, o * step, step, w, taps, bias, channels, y + o * y_stride, y_stride);
}

template <class T, class Out>
void Line(const numerics::Wide<T>* const* met, std::int64_t step, const numerics::Wide<T>* w, std::int64_t taps,
          const numerics::Wide<T>* bias, std::int64_t outs, std::int64_t channels, Out* y, std::int64_t y_stride) {
  constexpr int strip = kVectors * static_cast<int>(hn::MaxLanes(hn::ScalableTag<numerics::Wide<T>>()));
  (step == strip ? LineOf<T, Out, true> : LineOf<T, Out, false>)(met, step, w, taps, bias, outs, channels, y, y_stride);
}

template <class W, int chains, int taps>
void TapChains(const W* const* met, std::int64_t step, const W* dy, std::int64_t count, W* first, W* second) {
  const hn::ScalableTag<W> d;
  using V = hn::Vec<decltype(d)>;
  constexpr int lanes = static_cast<int>(hn::MaxLanes(d)), strip = kVectors * lanes;
  for (int c = 0; c < chains; ++c) {
    W* const memory = c == 0 ? first : second;
    V chain[taps][kVectors];
#pragma GCC unroll 8
    for (int t = 0; t < taps; ++t)
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) chain[t][v] = hn::LoadU(d, memory + t * strip + v * lanes);
    for (std::int64_t i = c; i < count; i += chains) {
      V g[kVectors];
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) g[v] = hn::LoadU(d, dy + i * strip + v * lanes);
#pragma GCC unroll 8
      for (int t = 0; t < taps; ++t)
#pragma GCC unroll 2
        for (int v = 0; v < kVectors; ++v)
          chain[t][v] = hn::MulAdd(hn::LoadU(d, met[t] + i * step + v * lanes), g[v], chain[t][v]);
    }
#pragma GCC unroll 8
    for (int t = 0; t < taps; ++t)
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) hn::StoreU(chain[t][v], d, memory + t * strip + v * lanes);
  }
}

template <class T>
void Chains(const numerics::Wide<T>* const* met, std::int64_t step, const numerics::Wide<T>* dy, std::int64_t taps,
            std::int64_t count, numerics::Wide<T>* first, numerics::Wide<T>* second) {
  using W = numerics::Wide<T>;
  using Fn = void (*)(const W* const*, std::int64_t, const W*, std::int64_t, W*, W*);
  static constexpr auto table = []<int... i>(std::integer_sequence<int, i...>) {
    return std::array<Fn, kTaps>{&TapChains<W, kChains<T>, i + 1>...};
  }
  (std::make_integer_sequence<int, kTaps>());
  constexpr int strip = kVectors * static_cast<int>(hn::MaxLanes(hn::ScalableTag<W>()));
  for (std::int64_t t = 0; t < taps; t += kTaps)
    table[static_cast<std::size_t>(std::min<std::int64_t>(kTaps, taps - t) - 1)](met + t, step, dy, count,
                                                                                 first + t * strip, second + t * strip);
}

template <class T>
void AddStep(const numerics::Wide<T>* even, const numerics::Wide<T>* odd, std::int64_t count,
             numerics::Wide<T>* block) {
  const hn::ScalableTag<numerics::Wide<T>> d;
  for (std::int64_t i = 0; i < count; i += static_cast<std::int64_t>(hn::Lanes(d))) {
    auto v = hn::LoadU(d, even + i);
    if constexpr (kChains<T> == 2) v = hn::Add(v, hn::LoadU(d, odd + i));
    hn::StoreU(hn::Add(hn::LoadU(d, block + i), v), d, block + i);
  }
}

template <class T>
DepthwiseBodies<T> Bodies() {
  DepthwiseBodies<T> all;
  all.strip = kVectors * static_cast<std::int64_t>(hn::MaxLanes(hn::ScalableTag<numerics::Wide<T>>()));
  all.fill = &Fill<T>, all.narrow = &Line<T, T>, all.chains = &Chains<T>, all.add_step = &AddStep<T>;
  if constexpr (!std::is_same_v<T, double>) all.wide = &Line<T, float>;
  return all;
}

#endif
}  // namespace eadem::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eadem::kernels {
namespace {

constexpr double kMostMemory = 1 << 22;  // elements of a strip's lines

template <class T>
DepthwiseBodies<T> bodies() {
#if defined(__aarch64__)
  const PerTarget<DepthwiseBodies<T> (*)()> each{.neon = &N_NEON::Bodies<T>};
#else
  const PerTarget<DepthwiseBodies<T> (*)()> each{.avx2 = &N_AVX2::Bodies<T>, .avx512 = &N_AVX3::Bodies<T>};
#endif
  return each.pick()();
}

// Channels [first, first + strip) of the rows of x, widened; zeros past the last.
template <class W>
std::vector<W> strip_of(const TensorView& x, std::int64_t rows, std::int64_t row, std::int64_t column,
                        std::int64_t first, std::int64_t channels, std::int64_t strip) {
  std::vector<W> all(static_cast<std::size_t>(rows * strip));
  visit_floating(x.dtype, [&]<class T>(std::type_identity<T>) {
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t c = 0; c < channels; ++c)
        all[static_cast<std::size_t>(i * strip + c)] =
            static_cast<W>(numerics::widen(x.as<const T>()[i * row + (first + c) * column]));
  });
  return all;
}

// Some strips of channels, whose lines the second-level cache holds together: memory is then read along its rows.
template <class T>
class Strips {
 public:
  using W = numerics::Wide<T>;
  struct Strip {
    std::int64_t first, channels;
    PaddedLines<T, W> lines;
  };

  // As many strips from channel `first` on as fit.
  Strips(const DepthwiseBodies<T>& body, const TensorView& x, const Shape& taps, const Shape& outs,
         const numerics::Convolution& c, std::int64_t first, std::int64_t count) {
    for (const std::int64_t end = std::min(x.shape.back(), first + count * body.strip); first < end;
         first += body.strip) {
      const std::int64_t channels = std::min(body.strip, end - first);
      all_.push_back({first, channels, {x, taps, outs, c, first, channels, body.strip, body.fill}});
    }
  }
  static std::int64_t count_that_fits(const DepthwiseBodies<T>& body, const Shape& taps, const Shape& outs,
                                      const numerics::Convolution& c) {
    const double each = PaddedLines<T, W>::memory(taps, outs, c, body.strip) * sizeof(W);
    return std::max<std::int64_t>(1, static_cast<std::int64_t>(kCachedBytes / each));
  }

  std::vector<Strip>& all() { return all_; }

 private:
  static constexpr double kCachedBytes = 1 << 19;
  std::vector<Strip> all_;
};

template <class T, class Out>
void run_depthwise(const TensorView& x, const Shape& taps, const Shape& outs, const numerics::Convolution& c,
                   const TensorView& w, const TensorView* bias, const TensorView& y) {
  using W = numerics::Wide<T>;
  const DepthwiseBodies<T> body = bodies<T>();
  const std::int64_t channels = w.shape.back(), all_taps = taps.elements(), along = outs.back();
  const std::int64_t strips = (channels + body.strip - 1) / body.strip, lines = y.elements() / channels / along;
  std::vector<std::vector<W>> weights, shifts;
  for (std::int64_t first = 0; first < channels; first += body.strip) {
    const std::int64_t width = std::min(body.strip, channels - first);
    weights.push_back(strip_of<W>(w, all_taps, channels, 1, first, width, body.strip));
    if (bias) shifts.push_back(strip_of<W>(*bias, 1, 0, bias->strides[0], first, width, body.strip));
  }
  const std::int64_t together = std::min(strips, Strips<T>::count_that_fits(body, taps, outs, c));
  const std::int64_t groups = (strips + together - 1) / together;
  // Parts of so many lines that what they widen again is little.
  const std::int64_t parts = std::min<std::int64_t>((lines + 15) / 16, (4 * threads() + groups - 1) / groups);
  parallel_for(groups * parts, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t task = begin; task < end; ++task) {
      const std::int64_t part = task % parts;
      Strips<T> own(body, x, taps, outs, c, task / parts * together * body.strip, together);
      for (std::int64_t line = lines * part / parts; line < lines * (part + 1) / parts; ++line)
        for (auto& strip : own.all()) {
          const auto at = static_cast<std::size_t>(strip.first / body.strip);
          const W* const shift = bias ? shifts[at].data() : nullptr;
          Out* const out = y.as<Out>() + line * along * channels + strip.first;
          const auto run = [&](auto f) {
            f(strip.lines.met(line), strip.lines.step(), weights[at].data(), all_taps, shift, along, strip.channels,
              out, channels);
          };
          if constexpr (std::is_same_v<Out, T>)
            run(body.narrow);
          else
            run(body.wide);
        }
    }
  });
}

// Sums of one strip's chains in the order of numerics.md section 4: [taps][strip].
template <class W>
struct PlaceSums {
  MatrixTree<W> tree;
  std::vector<W> block, chains[2];
};

// The sums of the places [begin, end) of each strip, begin at a block's border.
template <class T, class W = numerics::Wide<T>>
std::vector<std::vector<W>> sums_of_places(const DepthwiseBodies<T>& body, Strips<T>& strips, const TensorView& dy,
                                           std::int64_t taps, std::int64_t outs, std::int64_t begin, std::int64_t end) {
  const std::int64_t channels = dy.shape.back();
  const auto size = static_cast<std::size_t>(taps * body.strip);
  std::vector<PlaceSums<W>> sums(strips.all().size());
  std::vector<W> cotangents(static_cast<std::size_t>(numerics::kStepTerms * body.strip));
  for (std::int64_t step = begin; step < end; step += numerics::kStepTerms) {
    const std::int64_t step_end = std::min(end, step + numerics::kStepTerms);
    const bool block_begins = (step - begin) % numerics::kBlockTerms == 0;
    const bool block_ends = step_end == end || (step_end - begin) % numerics::kBlockTerms == 0;
    for (std::size_t i = 0; i < sums.size(); ++i) {
      auto& strip = strips.all()[i];
      PlaceSums<W>& sum = sums[i];
      if (block_begins) sum.block.assign(size, 0);
      for (std::vector<W>& chain : sum.chains) chain.assign(size, 0);
      // A step may go on in the next line.
      for (std::int64_t place = step; place < step_end;) {
        const std::int64_t line = place / outs, at = place % outs, count = std::min(step_end - place, outs - at);
        const std::size_t odd = Float16<T> ? static_cast<std::size_t>((place - step) % 2) : 0;
        body.fill(dy.as<const T>() + place * channels + strip.first, channels, count, strip.channels, cotangents.data(),
                  body.strip);
        body.chains(strip.lines.met(line, at), strip.lines.step(), cotangents.data(), taps, count,
                    sum.chains[odd].data(), sum.chains[1 - odd].data());
        place += count;
      }
      body.add_step(sum.chains[0].data(), sum.chains[1].data(), taps * body.strip, sum.block.data());
      if (block_ends) sum.tree.add(sum.block);
    }
  }
  std::vector<std::vector<W>> all;
  for (PlaceSums<W>& sum : sums) all.push_back(sum.tree.sum());
  return all;
}

template <class T>
void run_vjp_kernel(const TensorView& x, const Shape& taps, const Shape& outs, const numerics::Convolution& c,
                    const TensorView& dy, const TensorView& dw) {
  using W = numerics::Wide<T>;
  const DepthwiseBodies<T> body = bodies<T>();
  const std::int64_t channels = dw.shape.back(), all_taps = taps.elements(), places = x.shape[0] * outs.elements();
  if (places == 0) {
    std::memset(dw.data, 0, static_cast<std::size_t>(dw.shape.elements()) * size_of(dw.dtype));
    return;
  }
  const std::int64_t strips = (channels + body.strip - 1) / body.strip;
  const std::int64_t together = std::min(strips, Strips<T>::count_that_fits(body, taps, outs, c));
  const std::int64_t groups = (strips + together - 1) / together;
  // Parts are nodes of the tree: as many places as a power of two of blocks.
  std::int64_t part = numerics::kBlockTerms;
  while (part < places && groups * (places / part) > 4 * threads()) part *= 2;
  const std::int64_t parts = (places + part - 1) / part;
  std::vector<std::vector<std::vector<W>>> sums(static_cast<std::size_t>(groups * parts));
  parallel_for(groups * parts, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t task = begin; task < end; ++task) {
      const std::int64_t from = task % parts * part;
      Strips<T> own(body, x, taps, outs, c, task / parts * together * body.strip, together);
      sums[static_cast<std::size_t>(task)] =
          sums_of_places<T>(body, own, dy, all_taps, outs.back(), from, std::min(places, from + part));
    }
  });
  visit_floating(dw.dtype, [&]<class Out>(std::type_identity<Out>) {
    for (std::int64_t strip = 0; strip < strips; ++strip) {
      MatrixTree<W> tree;
      for (std::int64_t i = 0; i < parts; ++i)
        tree.add(
            sums[static_cast<std::size_t>(strip / together * parts + i)][static_cast<std::size_t>(strip % together)]);
      const std::vector<W> total = tree.sum();
      const std::int64_t first = strip * body.strip, width = std::min(body.strip, channels - first);
      for (std::int64_t t = 0; t < all_taps; ++t)
        for (std::int64_t i = 0; i < width; ++i)
          dw.as<Out>()[t * channels + first + i] = numerics::round_to<Out>(
              total.empty() ? W{0} : total[static_cast<std::size_t>(t * body.strip + i)] + W{0});
    }
  });
}

}  // namespace

bool depthwise_admits(const TensorView& x, const Shape& taps, const Shape& outs, const numerics::Convolution& c,
                      std::int64_t outputs, DType result) {
  return active_target() != Target::scalar && c.groups > 1 && x.shape.back() == c.groups && outputs == c.groups &&
         taps.elements() <= numerics::kBlockTerms && x.strides.back() == 1 &&
         (result == x.dtype || result == DType::f32) &&
         PaddedLines<float, float>::memory(taps, outs, c, 32) <= kMostMemory;
}

void depthwise(const TensorView& x, const Shape& taps, const Shape& outs, const numerics::Convolution& c,
               const TensorView& w, const TensorView* bias, const TensorView& y) {
  visit_floating(x.dtype, [&]<class T>(std::type_identity<T>) {
    if (std::is_same_v<T, double> || y.dtype == x.dtype) return run_depthwise<T, T>(x, taps, outs, c, w, bias, y);
    if constexpr (!std::is_same_v<T, double>) run_depthwise<T, float>(x, taps, outs, c, w, bias, y);
  });
}

void depthwise_vjp_kernel(const TensorView& x, const Shape& taps, const Shape& outs, const numerics::Convolution& c,
                          const TensorView& dy, const TensorView& dw) {
  visit_floating(x.dtype, [&]<class T>(std::type_identity<T>) { run_vjp_kernel<T>(x, taps, outs, c, dy, dw); });
}

}  // namespace eadem::kernels
#endif
