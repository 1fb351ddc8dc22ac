#pragma once

#include "eadem/array/rules.h"

// Rules that families of primitives share.

namespace eadem::ops {

/// A partial derivative of an elementwise primitive: a factor of the cotangent (tangent) on the way through it.
struct Factor {
  enum class Kind : std::uint8_t { zero, one, minus_one, times, over } kind = Kind::zero;
  std::optional<Array> value;  ///< of times and over
};
inline Factor times(const Array& value) {
  return {Factor::Kind::times, value};
}
inline Factor over(const Array& value) {
  return {Factor::Kind::over, value};
}
/// The partial derivative by one operand, at a point.
using Partial = Factor (*)(const Point&);
inline constexpr Partial kZero = [](const Point&) { return Factor{}; };
inline constexpr Partial kOne = [](const Point&) { return Factor{Factor::Kind::one, {}}; };
inline constexpr Partial kMinusOne = [](const Point&) { return Factor{Factor::Kind::minus_one, {}}; };

/// The cotangent (tangent) times the factor, never -0; +0 where the cotangent is, whatever the factor (numerics.md
/// section 6). Not of a zero factor.
Array through(const Array& cotangent, const Factor& factor);

void elementwise_batch(Batch&);
template <Partial... partials>
void elementwise_vjp(Vjp& g) {
  constexpr Partial all[] = {partials...};
  for (std::size_t i = 0; i < sizeof...(partials); ++i) {
    if (!g.wants(i)) continue;
    const Factor factor = all[i](g);
    if (factor.kind != Factor::Kind::zero) g.add_canonical(i, through(g.ct(), factor));
  }
}
template <Partial... partials>
void elementwise_jvp(Jvp& j) {
  constexpr Partial all[] = {partials...};
  for (std::size_t i = 0; i < sizeof...(partials); ++i) {
    if (!j.has(i)) continue;
    const Factor factor = all[i](j);
    if (factor.kind != Factor::Kind::zero) j.add_canonical(through(j.tangent(i), factor));
  }
}

/// An elementwise record with its rules, derived from its partial derivatives, one for each operand. A kernel of
/// derivative zero (floor, sign) has kZero.
template <Partial... partials>
consteval Primitive differentiable(Primitive primitive) {
  primitive.vjp = elementwise_vjp<partials...>;
  primitive.jvp = elementwise_jvp<partials...>;
  primitive.batch = elementwise_batch;
  return primitive;
}
/// An elementwise record whose results are no reals: comparisons, integers, bits.
consteval Primitive discrete(Primitive primitive) {
  primitive.vjp = [](Vjp&) {};
  primitive.jvp = [](Jvp&) {};
  primitive.batch = elementwise_batch;
  return primitive;
}

/// Of a primitive that is linear in its one operand: the tangent goes through the primitive itself.
void linear_jvp(Jvp&);
/// The same where it only moves elements, so that it makes no -0.
void moved_jvp(Jvp&);
/// Adds a contraction, which is never -0 in f32 and f64, but may be where it is rounded to 16 bits.
inline void add_contraction(Vjp& g, std::size_t operand, const Array& x) {
  is_16_bit_float(x.dtype()) ? g.add(operand, x) : g.add_canonical(operand, x);
}
inline void add_contraction(Jvp& j, const Array& x) {
  is_16_bit_float(x.dtype()) ? j.add(x) : j.add_canonical(x);
}

/// Axes of an operand as they are with a batch axis before them.
Shape behind_batch(const Shape& axes);

}  // namespace eadem::ops
