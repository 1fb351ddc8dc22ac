#include "eadem/kernels/peak.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>

#include "eadem/base/buffer.h"
#include "eadem/base/parallel.h"
#include "eadem/kernels/target.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "eadem/kernels/peak.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace eadem::kernels::HWY_NAMESPACE {
#if EADEM_HWY_TARGET
namespace hn = hwy::HWY_NAMESPACE;

// `rounds` fused multiply-adds in each of twelve chains; returns FLOPs done.
double multiply_add(std::int64_t rounds, float* sink) {
  const hn::ScalableTag<float> d;
  const auto x = hn::Set(d, 0.999f), y = hn::Set(d, 0.001f);
  // Each chain starts elsewhere, or the compiler would make them one.
  const auto start = [&](float offset) { return hn::Set(d, *sink + offset); };
  auto a = start(1), b = start(2), c = start(3), e = start(4), f = start(5), g = start(6), h = start(7), i = start(8);
  auto j = start(9), k = start(10), l = start(11), m = start(12);
  for (std::int64_t r = 0; r < rounds; ++r) {
    a = hn::MulAdd(a, x, y), b = hn::MulAdd(b, x, y), c = hn::MulAdd(c, x, y), e = hn::MulAdd(e, x, y);
    f = hn::MulAdd(f, x, y), g = hn::MulAdd(g, x, y), h = hn::MulAdd(h, x, y), i = hn::MulAdd(i, x, y);
    j = hn::MulAdd(j, x, y), k = hn::MulAdd(k, x, y), l = hn::MulAdd(l, x, y), m = hn::MulAdd(m, x, y);
  }
  const auto sum = hn::Add(hn::Add(hn::Add(a, b), hn::Add(c, e)), hn::Add(hn::Add(f, g), hn::Add(h, i)));
  *sink = hn::GetLane(hn::Add(sum, hn::Add(hn::Add(j, k), hn::Add(l, m))));
  return static_cast<double>(rounds) * 12 * 2 * static_cast<double>(hn::Lanes(d));
}

std::uint64_t read(const std::uint64_t* data, std::int64_t count) {
  const hn::ScalableTag<std::uint64_t> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  auto a = hn::Zero(d), b = a, c = a, e = a;
  for (std::int64_t i = 0; i + 4 * lanes <= count; i += 4 * lanes) {
    a = hn::Xor(a, hn::LoadU(d, data + i));
    b = hn::Xor(b, hn::LoadU(d, data + i + lanes));
    c = hn::Xor(c, hn::LoadU(d, data + i + 2 * lanes));
    e = hn::Xor(e, hn::LoadU(d, data + i + 3 * lanes));
  }
  return hn::GetLane(hn::Xor(hn::Xor(a, b), hn::Xor(c, e)));
}
#endif
}  // namespace eadem::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eadem::kernels {
namespace {

double multiply_add_scalar(std::int64_t rounds, float* sink) {
  float x = 0.001f;
  for (std::int64_t r = 0; r < rounds; ++r) x = std::fma(x, 0.999f, 0.001f);
  *sink = x;
  return 2 * static_cast<double>(rounds);
}
std::uint64_t read_scalar(const std::uint64_t* data, std::int64_t count) {
  std::uint64_t x = 0;
  for (std::int64_t i = 0; i < count; ++i) x ^= data[i];
  return x;
}
constexpr auto kMultiplyAdd = EADEM_PER_TARGET(multiply_add_scalar, multiply_add);
constexpr auto kRead = EADEM_PER_TARGET(read_scalar, read);

// What the loops compute must reach memory, or they would be removed.
std::atomic<std::uint64_t> sink_bits{0};

template <class F>
double best_rate(F&& work) {  // work returns an amount
  double best = 0;
  for (int i = 0; i < 7; ++i) {
    const auto start = std::chrono::steady_clock::now();
    const double amount = work();
    best = std::max(best, amount / std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

}  // namespace

double measure_fma_rate() {
  const auto body = kMultiplyAdd.pick();
  return best_rate([&] {
    std::atomic<double> total{0};
    parallel_for(threads(), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        float sink = 0;
        const double done = body(2'000'000, &sink);
        sink_bits += sink > 0;
        for (double seen = total; !total.compare_exchange_weak(seen, seen + done);) {
        }
      }
    });
    return total.load();
  });
}

double measure_read_bandwidth(std::size_t bytes) {
  const auto body = kRead.pick();
  const BufferRef buffer = Buffer::allocate(bytes);
  auto* data = reinterpret_cast<std::uint64_t*>(buffer->data());
  const auto count = static_cast<std::int64_t>(bytes / sizeof(std::uint64_t));
  std::fill(data, data + count, std::uint64_t{1});
  const auto passes = std::max<std::int64_t>(1, (std::int64_t{64} << 20) / static_cast<std::int64_t>(bytes));
  return best_rate([&] {
    for (std::int64_t pass = 0; pass < passes; ++pass)
      parallel_for(count, (count + threads() - 1) / threads(),
                   [&](std::int64_t begin, std::int64_t end) { sink_bits += body(data + begin, end - begin); });
    return static_cast<double>(passes) * static_cast<double>(bytes);
  });
}

}  // namespace eadem::kernels
#endif
