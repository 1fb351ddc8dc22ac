#pragma once

#include <span>

#include "eadem/base/tensor_view.h"

namespace eadem {

/// What a primitive is asked to do, before there is memory: operand types and the primitive's attributes.
struct Signature {
  std::span<const TensorType> operands;
  const void* attributes = nullptr;
  template <class A>
  const A& as() const {
    return *static_cast<const A*>(attributes);
  }
};

/// What a primitive is asked to do, with memory: every result is allocated and, but for views, contiguous.
struct Launch {
  std::span<const TensorView> operands;
  std::span<const TensorView> results;
  const void* attributes = nullptr;
  template <class A>
  const A& as() const {
    return *static_cast<const A*>(attributes);
  }
};

}  // namespace eadem
