#include "eadem/ops/products.h"

#include <algorithm>

#include "eadem/ops/ops.h"
#include "eadem/ops/rules.h"

namespace eadem::ops {
namespace {

Array number(double x) {
  return Array::scalar(x, DType::f64);
}

// x 2^exponent with whole exponents, by steps of which only the last may round.
Array times_power(const Array& x, const Array& exponent) {
  const Array first = clamp(exponent, number(-1000), number(1000));
  const Array rest = clamp(exponent - first, number(-1000), number(1000));
  // (In statements of their own: the program must not depend on the compiler's order of operands.)
  const Array begun = x * exp2(first);
  return begun * exp2(rest);
}

}  // namespace

Scaled scaled(const Array& x) {
  const Array magnitude = abs(stop_gradient(x)), finite = is_finite(magnitude);
  const Array ordinary = logical_and(finite, greater(magnitude, number(0)));
  const Array power = floor(log2(where(ordinary, magnitude, number(1))));
  return {times_power(x, negate(power)), power};
}

Array value_of(const Scaled& x) {
  const Scaled own = normalized(x);
  return times_power(own.significand, own.exponent);
}

Scaled normalized(const Scaled& x) {
  const Scaled own = scaled(x.significand);
  return {own.significand, x.exponent + own.exponent};
}

Scaled operator*(const Scaled& a, const Scaled& b) {
  return {a.significand * b.significand, a.exponent + b.exponent};
}

Scaled through(const Scaled& a, const Scaled& b) {
  return {through(a.significand, times(b.significand)), a.exponent + b.exponent};
}

Scaled operator+(const Scaled& a, const Scaled& b) {
  // The larger exponent; a zero's counts for nothing.
  const auto beside = [](const Scaled& x, const Scaled& other) {
    return where(equal(x.significand, number(0)), other.exponent, x.exponent);
  };
  const Array first = beside(a, b), second = beside(b, a), exponent = maximum(first, second);
  // Farther down than this nothing is felt.
  const auto aligned = [&](const Scaled& x) {
    return times_power(x.significand, maximum(x.exponent - exponent, number(-1000)));
  };
  const Array left = aligned(a), right = aligned(b);
  return normalized({left + right, exponent});
}

Array shifted(const Array& x, std::int64_t by, double value) {
  const std::int64_t places = std::clamp(by, -x.extent(-1), x.extent(-1));
  Shape low = Shape::filled(x.rank(), 0), high = low;
  low.back() = places;
  high.back() = -places;
  return pad(x, Array::scalar(value, x.dtype()), low, high);
}

Scaled shifted(const Scaled& x, std::int64_t by, double value) {
  return {shifted(x.significand, by, value), shifted(x.exponent, by, 0)};
}

Scaled products_before(const Scaled& x) {
  Scaled y = shifted(x, 1, 1);
  for (std::int64_t step = 1; step < x.significand.extent(-1); step *= 2) y = normalized(y * shifted(y, step, 1));
  return y;
}

}  // namespace eadem::ops
