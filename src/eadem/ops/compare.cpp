// Comparisons and tests: the result is bool. Floats compare by value, NaN unequal to everything.

#include "eadem/numerics/compare.h"

#include "eadem/ops/catalog.h"
#include "eadem/ops/elementwise.h"
#include "eadem/ops/ops.h"
#include "eadem/ops/rules.h"

namespace eadem {

constinit const Primitive prim::equal =
    ops::discrete(ops::elementwise<"equal", numerics::Equal, 2>("a == b.", kernels::equal));
constinit const Primitive prim::not_equal =
    ops::discrete(ops::elementwise<"not_equal", numerics::NotEqual, 2>("a != b.", kernels::not_equal));
constinit const Primitive prim::less =
    ops::discrete(ops::elementwise<"less", numerics::Less, 2>("a < b.", kernels::less));
constinit const Primitive prim::less_equal =
    ops::discrete(ops::elementwise<"less_equal", numerics::LessEqual, 2>("a <= b.", kernels::less_equal));
constinit const Primitive prim::greater =
    ops::discrete(ops::elementwise<"greater", numerics::Greater, 2>("a > b.", kernels::greater));
constinit const Primitive prim::greater_equal =
    ops::discrete(ops::elementwise<"greater_equal", numerics::GreaterEqual, 2>("a >= b.", kernels::greater_equal));
constinit const Primitive prim::is_nan =
    ops::discrete(ops::elementwise<"is_nan", numerics::IsNan, 1>("Whether x is NaN.", kernels::is_nan));
constinit const Primitive prim::is_inf =
    ops::discrete(ops::elementwise<"is_inf", numerics::IsInf, 1>("Whether x is an infinity.", kernels::is_inf));
constinit const Primitive prim::is_finite = ops::discrete(ops::elementwise<"is_finite", numerics::IsFinite, 1>(
    "Whether x is neither NaN nor an infinity.", kernels::is_finite));

Array equal(const Array& a, const Array& b) {
  return ops::apply_binary(prim::equal, a, b);
}
Array not_equal(const Array& a, const Array& b) {
  return ops::apply_binary(prim::not_equal, a, b);
}
Array less(const Array& a, const Array& b) {
  return ops::apply_binary(prim::less, a, b);
}
Array less_equal(const Array& a, const Array& b) {
  return ops::apply_binary(prim::less_equal, a, b);
}
Array greater(const Array& a, const Array& b) {
  return ops::apply_binary(prim::greater, a, b);
}
Array greater_equal(const Array& a, const Array& b) {
  return ops::apply_binary(prim::greater_equal, a, b);
}
Array is_nan(const Array& x) {
  return apply(prim::is_nan, {x});
}
Array is_inf(const Array& x) {
  return apply(prim::is_inf, {x});
}
Array is_finite(const Array& x) {
  return apply(prim::is_finite, {x});
}

Array logical_and(const Array& a, const Array& b) {
  return bitwise_and(convert(a, DType::boolean), convert(b, DType::boolean));
}
Array logical_or(const Array& a, const Array& b) {
  return bitwise_or(convert(a, DType::boolean), convert(b, DType::boolean));
}
Array logical_xor(const Array& a, const Array& b) {
  return bitwise_xor(convert(a, DType::boolean), convert(b, DType::boolean));
}
Array logical_not(const Array& x) {
  return bitwise_not(convert(x, DType::boolean));
}

}  // namespace eadem
