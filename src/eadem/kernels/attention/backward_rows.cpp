#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "eadem/kernels/attention/backward.h"
#include "eadem/kernels/elementwise/held.h"
#include "eadem/kernels/elementwise/widen.h"
#include "eadem/numerics/contraction.h"
#include "eadem/numerics/elementary.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "eadem/kernels/attention/backward_rows.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After foreach_target.h, which includes it once for each target.
#include "eadem/kernels/attention/exponential-inl.h"

HWY_BEFORE_NAMESPACE();
namespace eadem::kernels::HWY_NAMESPACE {
#if EADEM_HWY_TARGET
namespace hn = hwy::HWY_NAMESPACE;
using namespace attention_detail;
using numerics::Wide;

// Softcap, bias and mask one by one; `capped_from` keeps the scores that enter the softcap.
template <class T>
void adjust(const BackwardRow& row, Wide<T>* s, Wide<T>* capped_from) {
  using W = Wide<T>;
  const numerics::AttentionOperands& x = *row.x;
  if (row.options->softcap != 0) {
    const W cap = static_cast<W>(row.options->softcap);
    std::copy(s + row.lo, s + row.hi, capped_from + row.lo);
    for (std::int64_t j = row.lo; j < row.hi; ++j) s[j] = cap * numerics::tanh(s[j] / cap);
  }
  const auto offset_of = [&](const TensorView& view) {
    const std::int64_t index[4] = {row.b, row.h, row.i, row.first_key};
    std::int64_t offset = 0;
    for (int axis = 0; axis < 4; ++axis)
      if (view.shape[axis] != 1) offset += index[axis] * view.strides[axis];
    return offset;
  };
  const auto step_of = [](const TensorView& view) { return view.shape[3] == 1 ? 0 : view.strides[3]; };
  if (x.bias.data) {
    const std::int64_t step = step_of(x.bias), first = offset_of(x.bias);
    if (x.bias.dtype == kDTypeOf<T>) {
      for (std::int64_t j = row.lo; j < row.hi; ++j) s[j] = s[j] + numerics::widen(x.bias.as<T>()[first + j * step]);
    } else {
      for (std::int64_t j = row.lo; j < row.hi; ++j) s[j] = s[j] + static_cast<W>(x.bias.as<float>()[first + j * step]);
    }
  }
  if (x.mask.data) {
    const std::int64_t step = step_of(x.mask), first = offset_of(x.mask);
    for (std::int64_t j = row.lo; j < row.hi; ++j)
      if (!x.mask.as<std::uint8_t>()[first + j * step]) s[j] = -kInfinity<W>;
  }
}

// The contraction of dy and o in the f32 order.
template <class T>
Wide<T> delta_of(const BackwardRow& r) {
  using W = Wide<T>;
  const T* cotangent = static_cast<const T*>(r.cotangent);
  const W* output = static_cast<const W*>(r.output);
  numerics::BlockTree<W> tree;
  for (std::int64_t block = 0; block < r.head_size; block += numerics::kBlockTerms) {
    const std::int64_t end = std::min(r.head_size, block + numerics::kBlockTerms);
    W sum = 0;
    for (std::int64_t step = block; step < end; step += numerics::kStepTerms) {
      W v = 0;
      for (std::int64_t k = step; k < std::min(end, step + numerics::kStepTerms); ++k)
        v = std::fma(numerics::widen(cotangent[k]), output[k], v);
      sum = sum + v;
    }
    tree.add(sum);
  }
  return tree.sum() + W{0};
}

template <class T>
void row(const BackwardRow& r) {
  using W = Wide<T>;
  const hn::ScalableTag<W> d;
  constexpr auto kLanes = static_cast<std::int64_t>(hn::MaxLanes(d));
  W *s = static_cast<W*>(r.s), *dp = static_cast<W*>(r.dp);
  const W scale = static_cast<W>(r.options->scale), sum = static_cast<W>(r.sum);
  const W delta = delta_of<T>(r);
  const auto clear = [&](W* row) {
    std::fill(row, row + r.lo, W{0});
    std::fill(row + r.hi, row + r.columns, W{0});
  };
  const bool extras = r.options->softcap != 0 || r.x->bias.data || r.x->mask.data;
  std::vector<W> capped_from(r.options->softcap != 0 ? static_cast<std::size_t>(r.columns) : 0);
  for (std::int64_t j = r.lo; j < r.hi; ++j) s[j] = s[j] * scale;
  if (extras) adjust<T>(r, s, capped_from.data());

  const W inverse = 1 / sum;
  const auto one = [&](std::int64_t j) {
    if (s[j] == -kInfinity<W>) {
      s[j] = dp[j] = 0;
    } else if (sum != sum) {
      s[j] = dp[j] = numerics::canonical_nan<W>();
    } else {
      s[j] = exponential_of_any(s[j], r.maximum) * inverse;
      dp[j] = s[j] * (dp[j] - delta);
    }
  };
  std::int64_t j = r.lo;
  if (sum == sum && r.maximum > -0x1p19 && r.maximum < 0x1p20) {
    const auto m = hn::Set(d, static_cast<W>(r.maximum)), factor = hn::Set(d, inverse), shift = hn::Set(d, delta);
    for (; j + kLanes <= r.hi; j += kLanes) {
      const auto x = hn::LoadU(d, s + j);
      const auto p = hn::Mul(exponential(d, x, m), factor);
      const auto ds = hn::Mul(p, hn::Sub(hn::LoadU(d, dp + j), shift));
      hn::StoreU(p, d, s + j);
      hn::StoreU(hn::IfThenZeroElse(hn::Eq(x, hn::Set(d, -kInfinity<W>)), ds), d, dp + j);
    }
  }
  for (; j < r.hi; ++j) one(j);
  clear(s);
  clear(dp);
  if (r.ds) {
    W* ds = static_cast<W*>(r.ds);
    for (j = 0; j < r.columns; ++j) ds[j] = dp[j] + W{0};
  }
  // An invisible key has ds = 0, and tanh' of what its score would be is finite or NaN: it stays 0.
  if (r.options->softcap != 0) {
    const W cap = static_cast<W>(r.options->softcap);
    for (j = r.lo; j < r.hi; ++j)
      if (s[j] != 0 || dp[j] != 0)
        dp[j] = dp[j] * numerics::tanh_derivative(capped_from[static_cast<std::size_t>(j)] / cap);
  }
}

void split_bf16(const float* x, std::int64_t n, bfloat16* high, bfloat16* low) {
  const hn::ScalableTag<float> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const hn::Rebind<std::uint16_t, decltype(d)> d16;
  const auto rounded = [&](hn::Vec<decltype(d)> v) HWY_ATTR {
    const auto bits = hn::BitCast(du, v);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1u));
    const auto up = hn::And(hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7fffu))), hn::Set(du, 0xffff0000u));
    return hn::BitCast(d, hn::IfThenElse(hn::RebindMask(du, hn::Eq(v, v)), up, hn::Set(du, 0x7fc00000u)));
  };
  const auto store = [&](hn::Vec<decltype(d)> v, bfloat16* to) HWY_ATTR {
    hn::StoreU(hn::TruncateTo(d16, hn::ShiftRight<16>(hn::BitCast(du, v))), d16, reinterpret_cast<std::uint16_t*>(to));
  };
  for (std::int64_t j = 0; j < n; j += static_cast<std::int64_t>(hn::Lanes(d))) {
    const auto v = hn::LoadU(d, x + j);
    const auto top = rounded(v);
    store(top, high + j);
    store(rounded(hn::Sub(v, top)), low + j);
  }
}

template <class T>
void finish(const void* sum, std::int64_t n, double scale, void* to) {
  const auto* from = static_cast<const Wide<T>*>(sum);
  auto* out = static_cast<T*>(to);
  if constexpr (!Float16<T>) {
    for (std::int64_t i = 0; i < n; ++i)
      out[i] = numerics::canonical(static_cast<T>(static_cast<double>(from[i]) * scale)) + T{0};  // -0 + +0 = +0
  } else {
    constexpr std::int64_t kPiece = 64;
    float held[kPiece];
    for (std::int64_t first = 0; first < n; first += kPiece) {
      const std::int64_t count = std::min(kPiece, n - first);
      for (std::int64_t i = 0; i < count; ++i) held[i] = hold<T>(static_cast<double>(from[first + i]) * scale) + 0.0f;
      if constexpr (std::same_as<T, bfloat16>)
        widen_fns().narrow_bf16(held, out + first, static_cast<std::size_t>(count));
      else
        widen_fns().narrow_f16(held, out + first, static_cast<std::size_t>(count));
    }
  }
}

template <class T>
constexpr BackwardBody kBackwardBody{row<T>, split_bf16, finish<T>};

const BackwardBody* backward_body(DType dtype) {
  return visit_floating(dtype, []<class T>(std::type_identity<T>) { return &kBackwardBody<T>; });
}

#endif  // EADEM_HWY_TARGET
}  // namespace eadem::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eadem::kernels {
namespace {
const attention_detail::BackwardBody* no_backward_body(DType) {
  return nullptr;
}
}  // namespace

const attention_detail::BackwardBody* attention_detail::pick_backward_body(DType dtype, Target target) {
  static constexpr auto kBodies = EADEM_PER_TARGET(no_backward_body, backward_body);
  return kBodies.pick(target)(dtype);
}

}  // namespace eadem::kernels
#endif
