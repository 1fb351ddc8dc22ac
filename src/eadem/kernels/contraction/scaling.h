#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>

#include "eadem/kernels/contraction/engine.h"

// Which bf16 blocks may be multiplied by instructions that flush subnormals (tdpbf16ps, vdpbf16ps), as they are or
// times a power of two (numerics.md section 4).
//
// A block's sums are chains of f32 additions and FMAs whose addends are products a_k b_k and sums of such. Let u be the
// exponent of the last place of the smallest non-zero product: 2^u divides every product, so, as rounding keeps that
// unless it rounds to a coarser grid, every partial sum.
// - u >= -126: no partial sum is subnormal, nothing is flushed, the instruction computes the definition.
// - u >= -149: where the definition's partial sum is subnormal, it is a multiple of 2^-149 below 2^-126, hence exact;
//   where it is normal, it is rounded to 24 bits. With one operand times 2^t each exact partial value is 2^t times what
//   it was, and it, too, is exact or rounded to 24 bits at the same place: partial sums are exactly 2^t times the
//   definition's, as long as none overflows and none is flushed (u + t >= -126). So are the block's sums, and 2^-t
//   brings them back exactly, subnormal ones included, for they are multiples of 2^-149. They join the sums of other
//   blocks unscaled. (In the definition nothing overflows either then, as t >= 0.)
// - u < -149: a partial sum may be rounded at 2^-149 in the definition and not in the scaled computation: widened FMA.
// The bound -149 holds for blocks with subnormal operands, too: these are multiples of 2^-133.

namespace eadem::kernels::contraction {

/// The exponent of the last place of the bf16 with these bits below the sign: 2^-133 for subnormals.
constexpr int last_place(std::uint16_t magnitude) {
  return std::max(magnitude >> 7, 1) - 127 - 7;
}
/// The exponent of its leading bit; 128 for what is not finite.
constexpr int exponent_of(std::uint16_t magnitude) {
  return magnitude >= 0x80 ? (magnitude >> 7) - 127 : static_cast<int>(std::bit_width(magnitude)) - 134;
}
constexpr bool is_subnormal(std::uint16_t magnitude) {
  return magnitude < 0x80;  // of a smallest magnitude: it is not zero
}

/// Whether no operand, no product and no sum of products of the two blocks is subnormal.
inline bool normal_products(const Magnitudes& a, const Magnitudes& b) {
  if (a.least == Magnitudes::kNoMagnitude || b.least == Magnitudes::kNoMagnitude) return true;
  return !is_subnormal(a.least) && !is_subnormal(b.least) && last_place(a.least) + last_place(b.least) >= -126;
}

/// One of the operands times 2^shift, the sums times 2^-shift.
struct Scaling {
  bool of_b = false;
  int shift = 0;
  bool operator==(const Scaling&) const = default;
};

/// How to scale blocks of `terms` terms whose products are not all normal; none if no power of two serves.
inline std::optional<Scaling> scaling_of(const Magnitudes& a, const Magnitudes& b, std::int64_t terms) {
  const int product = last_place(a.least) + last_place(b.least);
  if (product < -149) return std::nullopt;
  const bool of_b = is_subnormal(b.least);  // then a has none: they would meet below 2^-149
  const Magnitudes &scaled = of_b ? b : a, &other = of_b ? a : b;
  // Products' last places and subnormal operands come up to 2^-126; neither the operand nor `terms` products, each less
  // than 2^(e + f + 2), may overflow, with a factor of two for rounding.
  const int least = std::max(-126 - product, is_subnormal(scaled.least) ? -126 - last_place(scaled.least) : 0);
  const int log_terms = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(terms - 1)));
  const int e = exponent_of(scaled.greatest), f = exponent_of(other.greatest);
  const int most = std::min(127 - e, 127 - 2 - log_terms - e - f);
  if (least > most) return std::nullopt;
  constexpr int kUsual = 32;  // mostly the same for all of a row of tiles, which then share the scaled copy
  return Scaling{of_b, std::clamp(kUsual, least, most)};
}

/// Engine::scale and Engine::unscale for bf16. (x86-64 with AVX-512 only.)
void scale_bf16(const void* packed, std::size_t bytes, int shift, void* out);
void unscale_sums(const void* left, void* sums, int shift, std::int64_t count);

}  // namespace eadem::kernels::contraction
