#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>

#include "eadem/base/tensor_view.h"
#include "eadem/numerics/rounding.h"

// Attention, numerics.md section 5: y = softmax(scale q k^T + bias, over the visible keys) v, as one primitive with one
// rounding at the end. W below is the computing type: double for f64, float for all others.
//
// Which keys a query sees, at which positions, is the operands' and options' matter (visible_keys below). Keys are
// grouped by their position counted from `start`: blocks of 128, chunks of 8 blocks. Per query and visible key:
//   s = RN(dot(q, k) scale), the dot product in the order of contraction.h; softcap: s = RN(c RN(tanh(RN(s / c))));
//   then RN(s + bias). A visible s of -inf makes the key invisible; NaN or +inf makes the whole output row NaN.
//   e^s = f 2^n (split_exponential). m = the running maximum of n over the chunk's blocks so far, this one included.
//   p = f 2^(n - m), +0 when n - m < kNegligible.
// Per block with a visible key: sum = 16 chains of p (key mod 16), folded 8 4 2 1; PV = one block of contraction.h over
// the 128 keys (bf16: over 256 terms, RN(p) v and then RN(p - RN(p)) v; f16: the f32 order), an invisible key having
// +0 for both operands;  l = fma(l, 2^(m_before - m), sum), acc = fma(acc, 2^(m_before - m), PV).
// Chunks combine by the tree of contraction.h: fma(x_lo, 2^(m_lo - m_hi), x_hi), hi having the larger m.
// y = RN_t(RN64(acc RN64(1 / l))), never -0; +0 for a query that sees no key.
// f64 does the same in double with a polynomial of degree 13 and its own limits: the referee's attention.

namespace eadem::numerics {

/// Keys of a block, and blocks of a chunk.
inline constexpr std::int64_t kKeyBlock = 128;
inline constexpr std::int64_t kChunkBlocks = 8;

/// Whether a query sees only keys up to its own position, and where the queries stand among the keys.
enum class Causal : std::uint8_t {
  none,         ///< every query sees every key
  lower_right,  ///< the last query stands at the last key: query i at length - Lq + i
  upper_left,   ///< the first query stands at the first key: query i at i
};

struct AttentionOptions {
  Causal causal = Causal::none;
  std::int64_t window = 0;  ///< how many keys a query sees at most, itself included; 0: all. Only with causal
  double softcap = 0;       ///< s = c tanh(s / c); 0: none. Taken as f32 unless the operands are f64
  double scale = 1;         ///< taken as f32 unless the operands are f64
};

/// The default scale: RN32(1 / sqrt D), for f64 RN64.
inline double attention_scale(DType dtype, std::int64_t head_size) {
  const double scale = 1 / std::sqrt(static_cast<double>(head_size));
  return dtype == DType::f64 ? scale : static_cast<double>(static_cast<float>(scale));
}

/// The operands of attention and its result. Views without data are absent. Strides are free.
///
/// H is a multiple of Hkv; query head h reads key head h / (H / Hkv). start, length and position are i32 or i64.
struct AttentionOperands {
  TensorView q;              ///< [B, H, Lq, D], f64 f32 bf16 f16; k, v and y have its dtype
  TensorView k;              ///< [B, Hkv, Lk, D]; with pages: key pages
  TensorView v;              ///< [B, Hkv, Lk, D]; with pages: value pages
  TensorView y;              ///< [B, H, Lq, D]
  TensorView mask = {};      ///< bool, True = visible; every axis of [B, H, Lq, Lk] may be 1 instead
  TensorView bias = {};      ///< f32 or q's dtype, added to s; every axis of [B, H, Lq, Lk] may be 1 instead
  TensorView start = {};     ///< [B]: keys before it are invisible (left padding) and blocks count from it, so that
                             ///< padding moves no bit; absent: 0; negative: that many keys were trimmed off the front
  TensorView length = {};    ///< [B]: keys from it on are invisible; absent: Lk
  TensorView position = {};  ///< [B]: where query 0 stands, query i at position + i; absent: as `causal` says
  TensorView pages = {};     ///< i32 [B, T]: k and v are a paged cache, below; Lk is 128 T. Not with mask, bias, start
};

// The paged cache: a pool of P pages, each with 128 consecutive keys (values) of one sequence for all Hkv heads.
// pages[b, t] names the page that holds positions 128 t .. 128 t + 127 of sequence b. A name outside [0, P) is an
// absent page: its keys are invisible (a window lets a cache drop pages at the front; positions stay what they were).
//   f32, f64:  key pages [P, Hkv, D, 128],               value pages [P, Hkv, 128, D]
//   bf16, f16: key pages [P, Hkv, ceil(D / 2), 128, 2],  value pages [P, Hkv, 64, D, 2]
// so that the last axis of the 16-bit forms holds elements 2i and 2i + 1 of the head (keys 2i and 2i + 1). What lies in
// a page at or after the sequence's length is never used. Pages are contiguous.

/// The shape of a pool of key pages (value pages) for heads of size D.
Shape key_page_shape(DType dtype, std::int64_t pages, std::int64_t kv_heads, std::int64_t head_size);
Shape value_page_shape(DType dtype, std::int64_t pages, std::int64_t kv_heads, std::int64_t head_size);

/// Whether a pool has the form of the 16-bit dtypes: it has five axes. A pool of f64 may have either form, so that the
/// FP64 referee can take a 16-bit cache as it stands.
inline bool paired_pages(const TensorView& pool) {
  return pool.shape.rank() == 5;
}

/// The element of a pool that holds element d of key (value) `slot` of `page`.
constexpr std::int64_t key_page_index(bool paired, std::int64_t kv_heads, std::int64_t head_size, std::int64_t page,
                                      std::int64_t head, std::int64_t slot, std::int64_t d) {
  const std::int64_t panel = page * kv_heads + head;
  if (!paired) return (panel * head_size + d) * kKeyBlock + slot;
  return ((panel * ((head_size + 1) / 2) + d / 2) * kKeyBlock + slot) * 2 + d % 2;
}
constexpr std::int64_t value_page_index(bool paired, std::int64_t kv_heads, std::int64_t head_size, std::int64_t page,
                                        std::int64_t head, std::int64_t slot, std::int64_t d) {
  const std::int64_t panel = page * kv_heads + head;
  if (!paired) return (panel * kKeyBlock + slot) * head_size + d;
  return ((panel * (kKeyBlock / 2) + slot / 2) * head_size + d) * 2 + slot % 2;
}

/// Writes new keys (or values) into their pages; a permutation of bits.
///
/// pool: the pages, overwritten in place; fresh: [B, Hkv, L, D]; pages: i32 [B, T]; position: [B], where fresh row 0
/// stands; count: [B], rows to write (absent: L; the rest is padding). Rows without a page are dropped. An odd head's
/// spare key element is written +0.
struct PageAppend {
  TensorView pool, fresh, pages, position, count = {};
  bool values = false;  ///< value pages rather than key pages
};
void append_to_pages(const PageAppend&);

/// The definition of attention. Operands must be valid (ops/attention.cpp checks them).
void attention(const AttentionOperands&, const AttentionOptions&);

/// The page that holds `position` of batch row b, or -1 when there is none among the pool's.
std::int64_t page_at(const TensorView& pages, std::int64_t b, std::int64_t position, std::int64_t pool);

/// Element b of an i32 or i64 vector; `absent` when there is none.
std::int64_t integer_at(const TensorView& vector, std::int64_t b, std::int64_t absent);

/// The keys first <= j < end that query i of row b may see, before masks and absent pages; blocks count from `start`.
struct KeyRange {
  std::int64_t start = 0, first = 0, end = 0;
};
KeyRange visible_keys(const AttentionOperands&, const AttentionOptions&, std::int64_t b, std::int64_t i);

/// e^s = f 2^n: n an integer (held as double: it may be large), f in about [0.7, 1.42].
template <class W>
struct Exponential {
  double n;
  W f;
};

/// The constants of split_exponential. Its polynomials are 1 + r + r^2 (c[0] + c[1] r + ...), minimax in relative
/// error.
template <class W>
struct ExponentialConstants;
template <>
struct ExponentialConstants<float> {
  static constexpr float log2_e = 0x1.715476p+0f, ln2_hi = 0x1.62e430p-1f, ln2_lo = -0x1.05c610p-29f;
  /// |f / e^r - 1| <= 6.24e-8 in f32 arithmetic for every f32 |r| <= 0.34658 (checked over all of them).
  static constexpr float c[] = {0x1.fffffcp-2f, 0x1.55548cp-3f, 0x1.5558bap-5f, 0x1.123e5cp-7f, 0x1.6a4b98p-10f};
  static constexpr int kNegligible = -64;   ///< p below 2^this times the maximum counts as +0
  static constexpr int kLeastScale = -126;  ///< a rescaling factor below 2^this counts as +0
};
template <>
struct ExponentialConstants<double> {
  static constexpr double log2_e = 0x1.71547652b82fep+0, ln2_hi = 0x1.62e42fefa39efp-1, ln2_lo = 0x1.abc9e3b39803fp-56;
  static constexpr double c[] = {0x1p-1,
                                 0x1.5555555555555p-3,
                                 0x1.5555555555557p-5,
                                 0x1.1111111111111p-7,
                                 0x1.6c16c16c158f5p-10,
                                 0x1.a01a01a0195e6p-13,
                                 0x1.a01a01aa828e2p-16,
                                 0x1.71de3a5af94e9p-19,
                                 0x1.27e4d2841fc93p-22,
                                 0x1.ae642ad2afd38p-26,
                                 0x1.1f820dbf5e732p-29,
                                 0x1.61c2c1ba3877dp-33};
  static constexpr int kNegligible = -512;
  static constexpr int kLeastScale = -1022;
};

/// Splits e^s, s finite. From |s| = 2^20 on the reduction is done in double; from 2^43 on r = 0.
template <class W>
Exponential<W> split_exponential(W s) {
  using C = ExponentialConstants<W>;
  double n;
  W r;
  if (std::fabs(s) < W{0x1p20}) {
    const W whole = std::nearbyint(s * C::log2_e);
    r = std::fma(whole, -C::ln2_hi, s);
    r = std::fma(whole, -C::ln2_lo, r);
    n = static_cast<double>(whole);
  } else {
    using D = ExponentialConstants<double>;
    const double wide = static_cast<double>(s);
    constexpr double limit = std::numeric_limits<double>::max();  // s near DBL_MAX: n must stay finite
    n = std::clamp(std::nearbyint(wide * D::log2_e), -limit, limit);
    r = std::fabs(s) < W{0x1p43} ? static_cast<W>(std::fma(-n, D::ln2_lo, std::fma(-n, D::ln2_hi, wide))) : W{0};
  }
  W f = C::c[std::size(C::c) - 1];
  for (int i = static_cast<int>(std::size(C::c)) - 2; i >= 0; --i) f = std::fma(f, r, C::c[i]);
  f = std::fma(f, r, W{1});
  f = std::fma(f, r, W{1});
  return {n, f};
}

/// 2^(from - to) for from <= to, exact; +0 below the least normal number, and for from = -inf (nothing before).
template <class W>
W rescaling(double from, double to) {
  const double exponent = from - to;
  return exponent < ExponentialConstants<W>::kLeastScale ? W{0} : std::ldexp(W{1}, static_cast<int>(exponent));
}

}  // namespace eadem::numerics
