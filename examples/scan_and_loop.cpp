// Layers made key by key, run by scan under vmap, against the loop written out: the same bits, forward and backward.
#include <cstdio>
#include <cstring>

#include "eadem/ops/ops.h"
#include "eadem/transforms/compile.h"

using namespace eadem;

namespace {

struct Layer {
  Array w, b;
  static void fields(auto& m, auto f) { f("w", m.w), f("b", m.b); }
  Array operator()(const Array& x) const { return x + tanh(linear(x, w, b)); }
};

constexpr std::int64_t kDepth = 12, kWidth = 16, kBatch = 8;

Array by_scan(const Layer& layers, const Array& x) {
  return scan([](const Array& h, const Layer& layer) { return std::pair(layer(h), std::tuple<>()); }, x, layers).first;
}

Array by_loop(const Layer& layers, const Array& x) {
  Array h = x;
  for (std::int64_t i = 0; i < kDepth; ++i) {
    const auto at = [&](const Array& a) { return squeeze(slice_axis(a, 0, {i, i + 1}), 0); };
    h = Layer{at(layers.w), at(layers.b)}(h);
  }
  return h;
}

std::int64_t differing(const Array& a, const Array& b) {
  const auto x = contiguous(a), y = contiguous(b);
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < x.elements(); ++i) {
    const std::size_t size = size_of(x.dtype()), at = static_cast<std::size_t>(i) * size;
    count += std::memcmp(x.view().data + at, y.view().data + at, size) != 0;
  }
  return count;
}

}  // namespace

int main() {
  std::int64_t total = 0;
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
    const Layer layers{normal(random_key(0), {kDepth, kWidth, kWidth}, dtype) * 0.25,
                       normal(random_key(1), {kDepth, kWidth}, dtype)};
    const Array xs = normal(random_key(2), {kBatch, kWidth}, dtype);
    // Every row on its own, batched by vmap; the gradient of the layers for each row.
    const auto gradient_with = [&](auto run) {
      return value_and_grad([run](const Layer& l, const Array& x) { return sum(run(l, x), {0}); });
    };
    const auto scanned = vmap(compile(gradient_with(by_scan)), {std::nullopt, 0})(layers, xs);
    const auto looped = vmap(gradient_with(by_loop), {std::nullopt, 0})(layers, xs);
    std::int64_t here = 0;
    const Arrays a = leaves(scanned), b = leaves(looped);
    for (std::size_t i = 0; i < a.size(); ++i) here += differing(a[i], b[i]);
    std::printf("%-4s vmap + scan against vmap + loop, value and gradients: %lld differing elements\n",
                std::string(name_of(dtype)).c_str(), static_cast<long long>(here));
    total += here;
  }
  return total == 0 ? 0 : 1;
}
