#include "eadem/kernels/contraction/contraction.h"

#include "eadem/kernels/target.h"
#include "eadem/numerics/contraction.h"

namespace eadem::kernels {

void matmul(const TensorView& a, const TensorView& b, const TensorView& c, const TensorView* bias, bool) noexcept {
  record_ran(Target::scalar);
  numerics::matmul(a, b, c, bias);
}

}  // namespace eadem::kernels
