#pragma once

#include "eadem/base/dtype.h"
#include "eadem/kernels/tile.h"

namespace eadem::kernels {

/// The types of a row primitive: of the rows, and of what has their dtype or f32 (gamma, beta, a loss).
template <class T, class P>
struct Types {
  using Element = T;
  using Parameter = P;
};

/// Calls f(Types<T, P>) for these dtypes. Rows of f64 have parameters of f64 or f32.
template <class F>
RowFn with_row_types(DType rows, DType parameters, F f) {
  return visit_floating(rows, [&]<class T>(std::type_identity<T>) -> RowFn {
    if (parameters == kDTypeOf<T>) return f(Types<T, T>());
    return f(Types<T, float>());
  });
}

}  // namespace eadem::kernels
