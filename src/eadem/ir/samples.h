#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "eadem/base/tensor_view.h"

namespace eadem {

/// How a sample's operand is filled (seeded, the same on every machine). Integers: `normal` and `wide` are random over
/// the type's range, the others small; bool: coin flips.
enum class Fill : std::uint8_t {
  normal,    ///< standard normal
  unit,      ///< uniform in [0, 1)
  positive,  ///< exp of a normal
  wide,      ///< random exponents over most of the range, both signs
  edges,     ///< normal, with zeros of both signs, infinities, NaN, subnormals, extremes and ties mixed in
  indices,   ///< integers in [0, bound)
};

struct SampleOperand {
  DType dtype = DType::f32;
  Shape shape;
  Fill fill = Fill::normal;
  std::int64_t bound = 0;  ///< of Fill::indices
};

/// Receives a primitive's samples.
class SampleSink {
 public:
  virtual ~SampleSink() = default;
  /// One sample: operands, and attributes that live until the call returns (null when the primitive has none).
  virtual void add(const std::vector<SampleOperand>& operands, const void* attributes) = 0;
  void add(const std::vector<SampleOperand>& operands) { add(operands, nullptr); }
  template <class A>
  requires(!std::is_pointer_v<A>) void add(const std::vector<SampleOperand>& operands, const A& attributes) {
    add(operands, static_cast<const void*>(&attributes));
  }
};

}  // namespace eadem
