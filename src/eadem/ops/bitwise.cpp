// Bits of integers and bool, shifts of integers.

#include "eadem/numerics/integer.h"
#include "eadem/ops/catalog.h"
#include "eadem/ops/elementwise.h"
#include "eadem/ops/ops.h"
#include "eadem/ops/rules.h"

namespace eadem {

constinit const Primitive prim::bitwise_and = ops::discrete(
    ops::elementwise<"bitwise_and", numerics::BitwiseAnd, 2>("The bits set in both.", kernels::bitwise_and));
constinit const Primitive prim::bitwise_or = ops::discrete(
    ops::elementwise<"bitwise_or", numerics::BitwiseOr, 2>("The bits set in either.", kernels::bitwise_or));
constinit const Primitive prim::bitwise_xor = ops::discrete(
    ops::elementwise<"bitwise_xor", numerics::BitwiseXor, 2>("The bits set in one only.", kernels::bitwise_xor));
constinit const Primitive prim::bitwise_not = ops::discrete(ops::elementwise<"bitwise_not", numerics::BitwiseNot, 1>(
    "Every bit flipped; of bool, the logical not.", kernels::bitwise_not));
constinit const Primitive prim::shift_left = ops::discrete(ops::elementwise<"shift_left", numerics::ShiftLeft, 2>(
    "a shifted left by b bits; zero from the width on.", kernels::shift_left));
constinit const Primitive prim::shift_right_logical =
    ops::discrete(ops::elementwise<"shift_right_logical", numerics::ShiftRightLogical, 2>(
        "a shifted right by b bits, zeros shifted in.", kernels::shift_right_logical));
constinit const Primitive prim::shift_right_arithmetic =
    ops::discrete(ops::elementwise<"shift_right_arithmetic", numerics::ShiftRightArithmetic, 2>(
        "a shifted right by b bits, the sign shifted in.", kernels::shift_right_arithmetic));
constinit const Primitive prim::population_count =
    ops::discrete(ops::elementwise<"population_count", numerics::PopulationCount, 1>("The number of bits set.",
                                                                                     kernels::population_count));
constinit const Primitive prim::count_leading_zeros =
    ops::discrete(ops::elementwise<"count_leading_zeros", numerics::CountLeadingZeros, 1>(
        "The number of zero bits above the highest one set.", kernels::count_leading_zeros));

Array bitwise_and(const Array& a, const Array& b) {
  return ops::apply_binary(prim::bitwise_and, a, b);
}
Array bitwise_or(const Array& a, const Array& b) {
  return ops::apply_binary(prim::bitwise_or, a, b);
}
Array bitwise_xor(const Array& a, const Array& b) {
  return ops::apply_binary(prim::bitwise_xor, a, b);
}
Array bitwise_not(const Array& x) {
  return apply(prim::bitwise_not, {x});
}
Array shift_left(const Array& a, const Array& b) {
  return ops::apply_binary(prim::shift_left, a, b);
}
Array shift_right_logical(const Array& a, const Array& b) {
  return ops::apply_binary(prim::shift_right_logical, a, b);
}
Array shift_right_arithmetic(const Array& a, const Array& b) {
  return ops::apply_binary(prim::shift_right_arithmetic, a, b);
}
Array population_count(const Array& x) {
  return apply(prim::population_count, {x});
}
Array count_leading_zeros(const Array& x) {
  return apply(prim::count_leading_zeros, {x});
}

}  // namespace eadem
