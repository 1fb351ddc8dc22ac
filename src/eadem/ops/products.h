#pragma once

#include "eadem/array/array.h"

// What the gradients of prod and cumprod are made of: numbers whose exponents lie beside them, so that no product on
// the way overflows or underflows. Powers of two are exact, so the bits are those of plain f64 where that does neither.

namespace eadem::ops {

/// significand 2^exponent, both f64 arrays, the exponent whole; derivatives go through the significand alone.
struct Scaled {
  Array significand, exponent;
};
/// x (f64) with significands near 1 in magnitude; zeros, infinities and NaN stay as they are, with exponent 0.
Scaled scaled(const Array& x);
/// Rounded to f64, once.
Array value_of(const Scaled& x);
/// The significand near 1 again.
Scaled normalized(const Scaled& x);
/// Not normalized: at most 2^8 normalized factors may be multiplied before that.
Scaled operator*(const Scaled& a, const Scaled& b);
/// a b, +0 where a is zero.
Scaled through(const Scaled& a, const Scaled& b);
/// Of normalized ones; normalized.
Scaled operator+(const Scaled& a, const Scaled& b);

/// The last axis moved by `by` places (forwards if positive), `value` where nothing comes from.
Array shifted(const Array& x, std::int64_t by, double value);
/// The same, 0 or 1 where nothing comes from.
Scaled shifted(const Scaled& x, std::int64_t by, double value);
/// [..., n] to the products of the elements before each, normalized, by doubling: no division, so that zeros are as
/// good as others.
Scaled products_before(const Scaled& x);

}  // namespace eadem::ops
