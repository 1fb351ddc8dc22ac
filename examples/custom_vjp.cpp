// A reverse rule of one's own: log(1 + exp(x)) written naively overflows, and with the result infinite its slope
// is lost; the rule is the sigmoid.
#include <cstdio>

#include "eadem/array/print.h"
#include "eadem/ops/ops.h"
#include "eadem/transforms/transforms.h"

using namespace eadem;

int main() {
  const auto naive = [](const Array& x) { return log(exp(x) + 1.0); };
  const auto ruled = custom_vjp(
      naive, [naive](const Array& x) { return std::pair(naive(x), x); },
      [](const Array& x, const Array& ct) { return std::tuple(ct * sigmoid(x)); });
  const Array x = full({}, 100.0);
  const Array wrong = grad(naive)(x), right = grad(ruled)(x);
  std::printf("d/dx log(1 + exp x) at 100: %s naively, %s by the rule\n", to_string(wrong).c_str(),
              to_string(right).c_str());
  return wrong.item<float>() == 0 && right.item<float>() == 1 ? 0 : 1;
}
