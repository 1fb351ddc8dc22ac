// Arrays in ten lines.
#include <cstdio>

#include "eadem/array/print.h"
#include "eadem/ops/ops.h"

using namespace eadem;

int main() {
  const Array x = reshape(arange(6, DType::f32), {2, 3});
  const Array y = softmax(x * 0.5) + 1.0;
  const Array z = matmul(y, transpose(x));
  std::printf("%s\n%s\n", to_string(y).c_str(), to_string(z).c_str());
  return z.shape() == Shape{2, 2} ? 0 : 1;
}
