#pragma once

#include "eadem/numerics/rounding.h"

namespace eadem::numerics {

/// x with the one zero +0: no cotangent is -0 (numerics.md section 6).
template <FloatingElement T>
constexpr T without_negative_zero(T x) {
  return to_double(x) == 0 ? T{} : x;
}

/// RN_T(x), never -0.
template <FloatingElement T>
constexpr T round_cotangent(double x) {
  return without_negative_zero(round_to<T>(x));
}

}  // namespace eadem::numerics
