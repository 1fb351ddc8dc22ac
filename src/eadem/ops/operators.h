#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>

#include "eadem/ops/ops.h"

// Operators of arrays, and of an array and a C++ number.

namespace eadem {

/// The dtype that a C++ number takes beside an array, as in JAX: the array's own; but a floating number is f32 beside
/// integers and bool, and an integer i32 beside bool. A C++ bool always takes the array's.
constexpr DType dtype_beside(DType array, bool floating_number) {
  if (is_floating(array)) return array;
  return floating_number ? DType::f32 : array == DType::boolean ? DType::i32 : array;
}

/// What operators take as a number beside an array: C++'s, and types that stand for one and have an `as_operand`.
template <class T>
inline constexpr bool kIsNumber = std::is_arithmetic_v<T>;
template <class A, class B>
concept Operands = (std::same_as<A, Array> && std::same_as<B, Array>) || (std::same_as<A, Array> && kIsNumber<B>) ||
                   (kIsNumber<A> && std::same_as<B, Array>);

/// An operator's operand as an array, beside the other operand. Throws ValueError for a number that an integer array's
/// dtype does not hold.
template <class B>
const Array& as_operand(const Array& x, const B&) {
  return x;
}
template <class T>
requires std::is_arithmetic_v<T> Array as_operand(T x, const Array& other) {
  if constexpr (std::is_floating_point_v<T>)
    return Array::scalar(static_cast<double>(x), dtype_beside(other.dtype(), true));
  else if constexpr (std::is_same_v<T, bool>)
    return Array::scalar(x ? 1 : 0, other.dtype());
  else
    return Array::integer_scalar(static_cast<std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>>(x),
                                 dtype_beside(other.dtype(), false));
}

inline Array operator-(const Array& x) {
  return negate(x);
}
template <class A, class B>
requires Operands<A, B> Array operator+(const A& a, const B& b) {
  return add(as_operand(a, b), as_operand(b, a));
}
template <class A, class B>
requires Operands<A, B> Array operator-(const A& a, const B& b) {
  return subtract(as_operand(a, b), as_operand(b, a));
}
template <class A, class B>
requires Operands<A, B> Array operator*(const A& a, const B& b) {
  return multiply(as_operand(a, b), as_operand(b, a));
}
/// Of integers as C's: see `divide`.
template <class A, class B>
requires Operands<A, B> Array operator/(const A& a, const B& b) {
  return divide(as_operand(a, b), as_operand(b, a));
}
/// Elementwise, to bool.
template <class A, class B>
requires Operands<A, B> Array operator==(const A& a, const B& b) {
  return equal(as_operand(a, b), as_operand(b, a));
}
template <class A, class B>
requires Operands<A, B> Array operator!=(const A& a, const B& b) {
  return not_equal(as_operand(a, b), as_operand(b, a));
}
template <class A, class B>
requires Operands<A, B> Array operator<(const A& a, const B& b) {
  return less(as_operand(a, b), as_operand(b, a));
}
template <class A, class B>
requires Operands<A, B> Array operator<=(const A& a, const B& b) {
  return less_equal(as_operand(a, b), as_operand(b, a));
}
template <class A, class B>
requires Operands<A, B> Array operator>(const A& a, const B& b) {
  return greater(as_operand(a, b), as_operand(b, a));
}
template <class A, class B>
requires Operands<A, B> Array operator>=(const A& a, const B& b) {
  return greater_equal(as_operand(a, b), as_operand(b, a));
}
/// Bits of integers and bool, and so the logic of bool arrays.
template <class A, class B>
requires Operands<A, B> Array operator&(const A& a, const B& b) {
  return bitwise_and(as_operand(a, b), as_operand(b, a));
}
template <class A, class B>
requires Operands<A, B> Array operator|(const A& a, const B& b) {
  return bitwise_or(as_operand(a, b), as_operand(b, a));
}
template <class A, class B>
requires Operands<A, B> Array operator^(const A& a, const B& b) {
  return bitwise_xor(as_operand(a, b), as_operand(b, a));
}
inline Array operator~(const Array& x) {
  return bitwise_not(x);
}
/// x = x + y and so on; other holders of x's memory keep their values.
template <class B>
requires Operands<Array, B> Array& operator+=(Array& x, const B& y) {
  return x = x + y;
}
template <class B>
requires Operands<Array, B> Array& operator-=(Array& x, const B& y) {
  return x = x - y;
}
template <class B>
requires Operands<Array, B> Array& operator*=(Array& x, const B& y) {
  return x = x * y;
}
template <class B>
requires Operands<Array, B> Array& operator/=(Array& x, const B& y) {
  return x = x / y;
}

}  // namespace eadem
