#include <utility>

#include "eadem/numerics/elementary.h"
#include "eadem/numerics/elementary_functions.h"
#include "eadem/numerics/rounding.h"

// pow, atan2 and hypot.

namespace eadem::numerics {
namespace {

using core::kInfinity;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

bool is_integer(double y) {
  return std::fabs(y) >= 0x1p52 || static_cast<double>(static_cast<std::int64_t>(y)) == y;
}
bool is_odd(double y) {
  return std::fabs(y) < 0x1p53 && is_integer(y) && (static_cast<std::int64_t>(y) & 1) != 0;
}

/// Annex F's special cases of pow; otherwise x and y are finite, x is not 0, y is not 0, and x > 0 or y is an integer.
bool special_pow(double x, double y, double& z) {
  if (y == 0 || x == 1) return z = 1, true;
  if (x != x || y != y) return z = kNan, true;
  const double a = std::fabs(x);
  if (std::fabs(y) == kInfinity) {
    z = a == 1 ? 1 : (a > 1) == (y > 0) ? kInfinity : 0;
    return true;
  }
  if (x == 0 || a == kInfinity) {
    z = (x == 0) == (y > 0) ? 0 : kInfinity;
    if (std::signbit(x) && is_odd(y)) z = -z;
    return true;
  }
  if (x < 0 && !is_integer(y)) return z = kNan, true;
  return false;
}

double sign_of_pow(double x, double y) {
  return x < 0 && is_odd(y) ? -1 : 1;
}

core::Enclosure enclose_pow(double x, double y) {
  double t = y * core::log(std::fabs(x));  // an error of at most 6 u |t|
  t = t > 700 ? 700 : t < -700 ? -700 : t;
  const double z = sign_of_pow(x, y) * core::exp(t);
  return {z, std::fabs(z) * core::kErrorBound * (1 + std::fabs(t) / 4)};
}

/// |x|^y from a relative error below 2^-88; an exact value or a tie of 24 bits or fewer, which no other power comes
/// that near to, is snapped to.
template <FloatingElement T>
[[gnu::noinline, gnu::cold]] T accurate_pow(double x, double y) {
  const DoubleDouble z = core::exp(core::log(DoubleDouble(std::fabs(x))) * y) * sign_of_pow(x, y);
  const double unit = std::fabs(z.hi) * 0x1.8p27, candidate = (z.hi + unit) - unit;  // 25 bits
  const double gap = (z.hi - candidate) + z.lo;
  if (std::fabs(gap) < std::fabs(z.hi) * 0x1p-80) return round_to<T>(candidate);
  return round_to<T>(z);
}

template <FloatingElement T>
T pow_of(T base, T exponent) {
  const double x = to_double(base), y = to_double(exponent);
  double z;
  if (special_pow(x, y, z)) return round_to<T>(z);
  if constexpr (std::same_as<T, double>) {
    const DoubleDouble t = core::log(DoubleDouble(std::fabs(x))) * y;
    const double sign = sign_of_pow(x, y);
    if (!(t.hi < 710)) return sign * kInfinity;
    if (t.hi < -746) return sign * 0.0;
    const int bias = t.hi > 600 ? -64 : t.hi < -600 ? 512 : 0;
    return sign * (core::exp(t, bias).hi * core::power_of_two(-bias));
  } else {
    const core::Enclosure e = enclose_pow(x, y);
    const T below = round_to<T>(e.y - e.d), above = round_to<T>(e.y + e.d);
    if (same_bits(below, above)) [[likely]]
      return above;
    return accurate_pow<T>(x, y);
  }
}

/// Annex F's special cases of atan2; otherwise both are finite and not 0.
bool special_atan2(double y, double x, double& z) {
  if (x != x || y != y) return z = kNan, true;
  const bool left = std::signbit(x);
  const double a = std::fabs(y), b = std::fabs(x);
  if (a == 0)
    z = left ? core::kPi.hi : 0;
  else if (a == kInfinity && b == kInfinity)
    z = left ? 3 * core::kQuarterPi.hi : core::kQuarterPi.hi;
  else if (a == kInfinity || b == 0)
    z = core::kHalfPi.hi;
  else if (b == kInfinity)
    z = left ? core::kPi.hi : 0;
  else
    return false;
  z = std::copysign(z, y);
  return true;
}

DoubleDouble accurate_atan2(double y, double x) {
  const double a = std::fabs(y), b = std::fabs(x);
  DoubleDouble angle;
  if (a < b * 0x1p-60) {  // q - q^3/3: a quotient that is a tie lies above it
    angle = DoubleDouble(a) / DoubleDouble(b);
    if (x > 0) angle.lo -= angle.hi * 0x1p-104;
  } else {
    angle = core::atan(DoubleDouble(a), DoubleDouble(b));
  }
  return core::with_sign_of(x < 0 ? core::kPi - angle : angle, y);
}

template <FloatingElement T>
T atan2_of(T ordinate, T abscissa) {
  double y = to_double(ordinate), x = to_double(abscissa), z;
  if (special_atan2(y, x, z)) return round_to<T>(z);
  if constexpr (std::same_as<T, double>) {
    const double a = std::fabs(y), b = std::fabs(x);
    if (a < b * 0x1p-60 && x > 0) return y / x;
    if (a > 0x1p500 || b > 0x1p500)
      x *= 0x1p-600, y *= 0x1p-600;  // the smaller one is not lost: it would not matter
    else if (a < 0x1p-400 && b < 0x1p-400)
      x *= 0x1p600, y *= 0x1p600;
    if (x == 0) return core::with_sign_of(core::kHalfPi.hi, y);
    if (y == 0) return std::copysign(core::kPi.hi, to_double(ordinate));
    return accurate_atan2(y, x).hi;
  } else {
    const double angle = core::atan(std::fabs(y), std::fabs(x));
    const double v = core::with_sign_of(x < 0 ? core::kPi.hi - angle : angle, y), d = std::fabs(v) * core::kErrorBound;
    const T below = round_to<T>(v - d), above = round_to<T>(v + d);
    if (same_bits(below, above)) [[likely]]
      return above;
    return round_to<T>(accurate_atan2(y, x));
  }
}

template <FloatingElement T>
T hypot_of(T first, T second) {
  double x = std::fabs(to_double(first)), y = std::fabs(to_double(second));
  if (x == kInfinity || y == kInfinity) return round_to<T>(kInfinity);
  if (x != x || y != y) return canonical_nan<T>();
  if constexpr (std::same_as<T, double>) {
    if (x < y) std::swap(x, y);
    if (y <= x * 0x1p-60) return x + y;
    double scale = 1;
    if (x > 0x1p500)
      x *= 0x1p-600, y *= 0x1p-600, scale = 0x1p600;
    else if (y < 0x1p-400)
      x *= 0x1p600, y *= 0x1p600, scale = 0x1p-600;
    return square_root(two_product(x, x) + two_product(y, y)).hi * scale;
  } else {
    return round_to<T>(std::sqrt(x * x + y * y));
  }
}

template <Function2 f, FloatingElement T>
T of(T x, T y) {
  if constexpr (f == Function2::pow)
    return pow_of(x, y);
  else if constexpr (f == Function2::atan2)
    return atan2_of(x, y);
  else
    return hypot_of(x, y);
}

constexpr std::string_view kNames2[] = {"pow", "atan2", "hypot"};
static_assert(std::size(kNames2) == kFunction2Count);

}  // namespace

std::string_view name_of(Function2 function) {
  return kNames2[static_cast<int>(function)];
}

template <Function2 f>
double Elementary2<f>::operator()(double x, double y) const noexcept {
  return round_to<double>(of<f>(x, y));
}
template <Function2 f>
float Elementary2<f>::operator()(float x, float y) const noexcept {
  return of<f>(x, y);
}
template <Function2 f>
bfloat16 Elementary2<f>::operator()(bfloat16 x, bfloat16 y) const noexcept {
  return of<f>(x, y);
}
template <Function2 f>
float16 Elementary2<f>::operator()(float16 x, float16 y) const noexcept {
  return of<f>(x, y);
}

template struct Elementary2<Function2::pow>;
template struct Elementary2<Function2::atan2>;
template struct Elementary2<Function2::hypot>;

}  // namespace eadem::numerics
