#pragma once

#include <optional>
#include <vector>

#include "eadem/array/array.h"
#include "eadem/kernels/rows/rows.h"

// What the records of layer_norm, rms_norm and group_norm share with those of their derivatives.

namespace eadem::ops {

/// The kernels' attribute, with its names.
struct EpsilonAttribute : kernels::EpsilonAttribute {
  static constexpr auto fields() { return std::tuple(field("epsilon", &kernels::EpsilonAttribute::epsilon)); }
};
inline EpsilonAttribute epsilon_attribute(double epsilon) {
  EpsilonAttribute attribute;
  attribute.epsilon = epsilon;
  return attribute;
}
struct GroupAttribute {
  std::int64_t groups = 1;
  double epsilon = 1e-5;
  static constexpr auto fields() {
    return std::tuple(field("groups", &GroupAttribute::groups), field("epsilon", &GroupAttribute::epsilon));
  }
};
/// Of what reaches gamma: `kept` leading axes are a batch; the result is of x's dtype unless `result` says f32.
struct GammaAttribute {
  double epsilon = 1e-5;
  std::int64_t groups = 1, kept = 0;
  std::optional<DType> result;
  static constexpr auto fields() {
    using A = GammaAttribute;
    return std::tuple(field("epsilon", &A::epsilon), field("groups", &A::groups), field("kept", &A::kept),
                      field("result", &A::result));
  }
};

void require_epsilon(std::string_view name, double epsilon);
/// gamma and beta, operands 1 and 2 (those below `end`): [length], of one dtype, x's or f32.
void require_parameters(std::string_view name, const Signature& s, std::size_t end, std::int64_t length);
/// x [N, C, ...] whose channels divide into groups.
void require_groups(std::string_view name, const TensorType& x, std::int64_t groups);
/// The elements of a floating vector, exactly.
std::vector<double> widened(const TensorView& vector);

}  // namespace eadem::ops
