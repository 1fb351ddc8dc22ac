#pragma once

#include "eadem/numerics/rounding.h"

// Comparisons, tests and select. 16-bit floats compare by value; select moves bits.

namespace eadem::numerics {

namespace detail {
// The value that an element compares by.
template <class T>
constexpr auto comparable(T x) {
  if constexpr (Float16<T>)
    return to_float(x);
  else
    return x;
}
}  // namespace detail

struct Equal {
  template <class T>
  constexpr bool operator()(T a, T b) const {
    return detail::comparable(a) == detail::comparable(b);
  }
};
struct NotEqual {
  template <class T>
  constexpr bool operator()(T a, T b) const {
    return detail::comparable(a) != detail::comparable(b);
  }
};
struct Less {
  template <class T>
  constexpr bool operator()(T a, T b) const {
    return detail::comparable(a) < detail::comparable(b);
  }
};
struct LessEqual {
  template <class T>
  constexpr bool operator()(T a, T b) const {
    return detail::comparable(a) <= detail::comparable(b);
  }
};
struct Greater {
  template <class T>
  constexpr bool operator()(T a, T b) const {
    return detail::comparable(a) > detail::comparable(b);
  }
};
struct GreaterEqual {
  template <class T>
  constexpr bool operator()(T a, T b) const {
    return detail::comparable(a) >= detail::comparable(b);
  }
};

struct IsNan {
  template <FloatingElement T>
  constexpr bool operator()(T x) const {
    return detail::comparable(x) != detail::comparable(x);
  }
};
struct IsFinite {
  template <FloatingElement T>
  constexpr bool operator()(T x) const {
    const auto value = detail::comparable(x);
    return value - value == 0;
  }
};
struct IsInf {
  template <FloatingElement T>
  constexpr bool operator()(T x) const {
    const auto value = detail::comparable(x);
    constexpr auto infinity = std::numeric_limits<decltype(detail::comparable(x))>::infinity();
    return static_cast<int>(value == infinity) | static_cast<int>(value == -infinity);
  }
};

/// a where the predicate holds, else b; bits are kept, those of NaN too.
struct Select {
  template <class T>
  constexpr T operator()(bool predicate, T a, T b) const {
    return predicate ? a : b;
  }
};

inline constexpr Equal equal;
inline constexpr NotEqual not_equal;
inline constexpr Less less;
inline constexpr LessEqual less_equal;
inline constexpr Greater greater;
inline constexpr GreaterEqual greater_equal;
inline constexpr IsNan is_nan;
inline constexpr IsFinite is_finite;
inline constexpr IsInf is_inf;
inline constexpr Select select;

}  // namespace eadem::numerics
