#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "eadem/kernels/elementwise/bitwise.cpp"
#include "hwy/foreach_target.h"
// foreach_target comes first.
#include "eadem/kernels/elementwise/loops-inl.h"

#if HWY_ONCE
#include "eadem/kernels/elementwise/elementwise.h"
#include "eadem/kernels/elementwise/table-inl.h"

namespace eadem::kernels {

template <>
inline constexpr bool kSignless<numerics::BitwiseAnd> = true;
template <>
inline constexpr bool kSignless<numerics::BitwiseOr> = true;
template <>
inline constexpr bool kSignless<numerics::BitwiseXor> = true;
template <>
inline constexpr bool kSignless<numerics::ShiftLeft> = true;
template <>
inline constexpr bool kSignless<numerics::ShiftRightLogical> = true;
template <>
inline constexpr bool kSignless<numerics::PopulationCount> = true;
template <>
inline constexpr bool kSignless<numerics::CountLeadingZeros> = true;

namespace {
template <class Operation, int operands>
constexpr TileTable kTable = table_of<Operation, operands>();
}

TileFn bitwise_and(const Signature& s) {
  return pick_from(kTable<numerics::BitwiseAnd, 2>, s);
}
TileFn bitwise_or(const Signature& s) {
  return pick_from(kTable<numerics::BitwiseOr, 2>, s);
}
TileFn bitwise_xor(const Signature& s) {
  return pick_from(kTable<numerics::BitwiseXor, 2>, s);
}
TileFn shift_left(const Signature& s) {
  return pick_from(kTable<numerics::ShiftLeft, 2>, s);
}
TileFn shift_right_logical(const Signature& s) {
  return pick_from(kTable<numerics::ShiftRightLogical, 2>, s);
}
TileFn shift_right_arithmetic(const Signature& s) {
  return pick_from(kTable<numerics::ShiftRightArithmetic, 2>, s);
}
TileFn bitwise_not(const Signature& s) {
  return pick_from(kTable<numerics::BitwiseNot, 1>, s);
}
TileFn population_count(const Signature& s) {
  return pick_from(kTable<numerics::PopulationCount, 1>, s);
}
TileFn count_leading_zeros(const Signature& s) {
  return pick_from(kTable<numerics::CountLeadingZeros, 1>, s);
}

}  // namespace eadem::kernels
#endif
