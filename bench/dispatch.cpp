#include <benchmark/benchmark.h>

#include "eadem/base/parallel.h"
#include "eadem/ops/ops.h"

// What an eager operation costs when there is nothing to compute, and what a fork and join of threads costs.

namespace {

using eadem::Array;

void tiny_add(benchmark::State& state) {
  const Array x = Array::from<float>({1, 2, 3, 4}), y = Array::from<float>({5, 6, 7, 8});
  for (auto _ : state) benchmark::DoNotOptimize(eadem::add(x, y));
}
BENCHMARK(tiny_add);

void tiny_reshape(benchmark::State& state) {
  const Array x = Array::from<float>({1, 2, 3, 4});
  for (auto _ : state) benchmark::DoNotOptimize(eadem::reshape(x, {2, 2}));
}
BENCHMARK(tiny_reshape);

void fork_and_join(benchmark::State& state) {
  eadem::set_threads(2);
  for (auto _ : state)
    eadem::parallel_for(2, 1, [](std::int64_t begin, std::int64_t) { benchmark::DoNotOptimize(begin); });
  eadem::set_threads(1);
}
BENCHMARK(fork_and_join);

}  // namespace
