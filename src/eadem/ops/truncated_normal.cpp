#include <bit>
#include <cmath>

#include "eadem/numerics/random.h"
#include "eadem/ops/ops.h"

namespace eadem {
namespace {

// The next value of T above (below) x, which is finite.
template <class T>
T neighbour(T x, bool above) {
  using U = std::conditional_t<sizeof(T) == 8, std::uint64_t,
                               std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint16_t>>;
  const double value = numerics::to_double(x);
  constexpr auto sign = static_cast<U>(U{1} << (8 * sizeof(T) - 1));
  if (value == 0) return std::bit_cast<T>(static_cast<U>(above ? 1 : sign | 1));
  const U bits = std::bit_cast<U>(x);
  return std::bit_cast<T>(static_cast<U>((value > 0) == above ? bits + 1 : bits - 1));
}

}  // namespace

Array truncated_normal(const Array& key, double low, double high, const Shape& shape, DType dtype) {
  if (!is_floating(dtype)) fail<TypeError>("[truncated_normal] dtype must be floating, got {}", dtype);
  return visit_floating(dtype, [&]<class T>(std::type_identity<T>) {
    const T first = numerics::round_to<T>(low), last = numerics::round_to<T>(high);
    if (!std::isfinite(numerics::to_double(first)) || !std::isfinite(numerics::to_double(last)))
      fail<ValueError>("[truncated_normal] bounds must be finite in {}, got {} and {}", dtype, low, high);
    const T least = neighbour(first, true), most = neighbour(last, false);
    if (!(numerics::widen(least) <= numerics::widen(most)))
      fail<ValueError>("[truncated_normal] no {} lies between {} and {}", dtype, low, high);
    // JAX's steps in T, or in f32 for the 16-bit types: uniform between the values of erf at the bounds.
    using W = numerics::Wide<T>;
    const auto at = [](double bound) {
      return static_cast<double>(numerics::erf(numerics::round_to<W>(bound) / numerics::round_to<W>(std::sqrt(2.0))));
    };
    const Array z = convert(sqrt2_erfinv(uniform(key, shape, kDTypeOf<W>, at(low), at(high))), dtype);
    const auto scalar = [&](T value) { return Array::scalar(numerics::to_double(value), dtype); };
    return clamp(z, scalar(least), scalar(most));
  });
}

}  // namespace eadem
