#include <cmath>
#include <cstring>

#include "eadem/array/trace.h"
#include "eadem/kernels/move/copy.h"

namespace eadem {
namespace {

const Literal& literal_in(const void* attributes) {
  return static_cast<const LiteralAttribute*>(attributes)->value;
}
void write_literal(const Launch& launch) {
  const Literal& literal = literal_in(launch.attributes);
  if (!literal.bytes.empty()) std::memcpy(launch.results[0].data, literal.bytes.data(), literal.bytes.size());
}

}  // namespace

constinit const Primitive prim::literal{
    .name = "literal",
    .summary = "A small array written into the program.",
    .attributes = &kAttributesOf<LiteralAttribute>,
    .infer = [](const Signature& s) -> Types {
      if (!s.operands.empty()) fail<ValueError>("[literal] takes no operands, got {}", s.operands.size());
      const Literal& literal = literal_in(s.attributes);
      const std::int64_t elements = checked_elements("literal", literal.type.shape);
      if (literal.bytes.size() != static_cast<std::size_t>(elements) * size_of(literal.type.dtype))
        fail<ValueError>("[literal] {} does not take {} bytes", literal.type, literal.bytes.size());
      return {literal.type};
    },
    .reference = write_literal,
    .run = Kernel{[](const Launch& launch, Context&) { write_literal(launch); }},
    .batch = nullptr,  // it has no operands, so it is never batched
    .samples =
        [](SampleSink& sink) {
          const auto add = [&](const Array& x) { sink.add({}, LiteralAttribute{literal_of(x)}); };
          add(Array::scalar(0x1.8p-140, DType::f32));
          add(Array::scalar(-0.0, DType::bf16));
          add(Array::from(std::vector<std::uint64_t>{~0ull, 0, 7}, {3, 1}));
          add(Array::from(std::vector<float>{}, {2, 0}));
          add(Array::from(std::vector<double>{1. / 3, -HUGE_VAL, __builtin_nan("0x123")}, {3}));
        },
    .promote = Promote::keep};

Array array_of(const Literal& literal) {
  Array result = Array::allocate(literal.type);
  if (!literal.bytes.empty()) std::memcpy(result.view().data, literal.bytes.data(), literal.bytes.size());
  return result;
}

Literal literal_of(const Array& array) {
  Literal literal{array.type(), {}};
  literal.bytes.resize(static_cast<std::size_t>(array.elements()) * size_of(array.dtype()));
  kernels::copy(array.view(), contiguous_view(literal.bytes.data(), array.dtype(), array.shape()));
  return literal;
}

}  // namespace eadem
