#include "eadem/ops/rules.h"

#include "eadem/ops/catalog.h"
#include "eadem/ops/ops.h"

namespace eadem {

Array Batch::with_axis(std::size_t operand) const {
  const Array& x = in(operand);
  if (batched(operand)) return x;
  Shape shape = x.shape();
  shape.insert(0, size_);
  return broadcast_to(x, shape);
}

namespace ops {

Array through(const Array& cotangent, const Factor& factor) {
  switch (factor.kind) {
    case Factor::Kind::one: return cotangent;
    case Factor::Kind::minus_one: return apply(prim::gated_multiply, {cotangent, full_like(cotangent, -1)});
    case Factor::Kind::times: return apply(prim::gated_multiply, {cotangent, *factor.value});
    case Factor::Kind::over: return apply(prim::gated_divide, {cotangent, *factor.value});
    case Factor::Kind::zero: break;
  }
  fail<ValueError>("[through] a zero factor has no product");
}

void linear_jvp(Jvp& j) {
  const Array tangent = j.tangent();
  j.add(apply(j.primitive(), {&tangent, 1}, j.attributes()));
}
void moved_jvp(Jvp& j) {
  const Array tangent = j.tangent();
  j.add_canonical(apply(j.primitive(), {&tangent, 1}, j.attributes()));
}

Shape behind_batch(const Shape& axes) {
  Shape moved;
  for (const std::int64_t axis : axes) moved.push_back(axis + 1);
  return moved;
}

void elementwise_batch(Batch& b) {
  Arrays operands;
  for (std::size_t i = 0; i < b.operands(); ++i) operands.push_back(b.with_axis(i));
  b.set(apply_all(b.primitive(), operands, b.equation().attributes.get()));
}

}  // namespace ops
}  // namespace eadem
