#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "eadem/kernels/elementwise/arithmetic.cpp"
#include "hwy/foreach_target.h"
// foreach_target comes first.
#include "eadem/kernels/elementwise/loops-inl.h"

#if HWY_ONCE
#include "eadem/kernels/elementwise/elementwise.h"
#include "eadem/kernels/elementwise/table-inl.h"

namespace eadem::kernels {

template <>
inline constexpr bool kSignless<numerics::Negate> = true;
template <>
inline constexpr bool kSignless<numerics::Add> = true;
template <>
inline constexpr bool kSignless<numerics::Subtract> = true;
template <>
inline constexpr bool kSignless<numerics::Multiply> = true;
template <>
inline constexpr bool kSignless<numerics::Fma> = true;

namespace {
template <class Operation, int operands>
constexpr TileTable kTable = table_of<Operation, operands>();
}

TileFn negate(const Signature& s) {
  return pick_from(kTable<numerics::Negate, 1>, s);
}
TileFn abs(const Signature& s) {
  return pick_from(kTable<numerics::Abs, 1>, s);
}
TileFn sign(const Signature& s) {
  return pick_from(kTable<numerics::Sign, 1>, s);
}
TileFn floor(const Signature& s) {
  return pick_from(kTable<numerics::Floor, 1>, s);
}
TileFn ceil(const Signature& s) {
  return pick_from(kTable<numerics::Ceil, 1>, s);
}
TileFn round(const Signature& s) {
  return pick_from(kTable<numerics::Round, 1>, s);
}
TileFn trunc(const Signature& s) {
  return pick_from(kTable<numerics::Trunc, 1>, s);
}
TileFn add(const Signature& s) {
  return pick_from(kTable<numerics::Add, 2>, s);
}
TileFn subtract(const Signature& s) {
  return pick_from(kTable<numerics::Subtract, 2>, s);
}
TileFn multiply(const Signature& s) {
  return pick_from(kTable<numerics::Multiply, 2>, s);
}
TileFn gated_multiply(const Signature& s) {
  return pick_from(kTable<numerics::GatedMultiply, 2>, s);
}
TileFn gated_divide(const Signature& s) {
  return pick_from(kTable<numerics::GatedDivide, 2>, s);
}
TileFn divide(const Signature& s) {
  return pick_from(kTable<numerics::Divide, 2>, s);
}
TileFn fmod(const Signature& s) {
  return pick_from(kTable<numerics::Fmod, 2>, s);
}
TileFn remainder(const Signature& s) {
  return pick_from(kTable<numerics::Remainder, 2>, s);
}
TileFn maximum(const Signature& s) {
  return pick_from(kTable<numerics::Maximum, 2>, s);
}
TileFn minimum(const Signature& s) {
  return pick_from(kTable<numerics::Minimum, 2>, s);
}
TileFn fma(const Signature& s) {
  return pick_from(kTable<numerics::Fma, 3>, s);
}
TileFn clamp(const Signature& s) {
  return pick_from(kTable<numerics::Clamp, 3>, s);
}
TileFn relu(const Signature& s) {
  return pick_from(kTable<numerics::Relu, 1>, s);
}

}  // namespace eadem::kernels
#endif
