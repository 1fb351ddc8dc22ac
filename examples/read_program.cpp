// What a transform made, as text: printed, read back equal, and run.
#include <cstdio>

#include "eadem/array/print.h"
#include "eadem/ops/catalog.h"
#include "eadem/ops/ops.h"
#include "eadem/transforms/transforms.h"

using namespace eadem;

int main() {
  const auto loss = [](const Array& x) {
    const Scope scope("loss");
    return sum(tanh(x) * x, {0});
  };
  const Array x = arange(3, DType::f32);
  const Traced traced = trace("example", {x.type()}, [&](const Arrays& in) { return Arrays{grad(loss)(in[0])}; });
  const std::string text = print(*traced.program);
  std::printf("%s\n", text.c_str());
  const Program again = parse_program(text, catalog());
  const Array gradient = replay(again, std::vector<Array>{x})[0];
  std::printf("run from the text: %s\n", to_string(gradient).c_str());
  return again == *traced.program ? 0 : 1;
}
