// Derivatives of derivatives of scans have the bits of the loops': random bodies, plain, compiled, under vmap, under
// remat.

#include <gtest/gtest.h>

#include <random>

#include "eadem/array/rules.h"
#include "eadem/transforms/transforms.h"
#include "tests/support/laws.h"
#include "tests/support/loops.h"

namespace eadem {
namespace {

using namespace eadem::testing;

using Carry = std::tuple<Array, Array, Array>;
using Body = std::function<std::pair<Carry, Array>(const Carry&, const Array&)>;
using Runner = std::function<std::pair<Carry, Array>(const Body&, const Carry&, const Array&)>;

// A loss of w [3] and xs [n, 3]: a loop whose body is some operations on carries, slice and constants. What it hands on
// and gives may be any of these values, so that carries change places, are constants, slices, or one value.
struct RandomLoop {
  std::uint64_t seed;

  Array operator()(const Runner& run, const Array& w, const Array& xs, int depth = 2) const {
    const Body body = [&](const Carry& c, const Array& x) {
      std::mt19937_64 random(seed + static_cast<std::uint64_t>(depth));
      std::vector<Array> values{std::get<0>(c), std::get<1>(c), std::get<2>(c), x, w};
      const auto pick = [&] { return values[random() % values.size()]; };
      for (int i = 0; i < 5; ++i) {
        const Array a = pick(), b = pick();
        values.push_back(operation(run, random() % 12, a, b, xs, depth));
      }
      const Array p = pick(), q = pick(), r = pick(), y = pick();
      return std::pair(Carry(p, q, r), y);
    };
    std::mt19937_64 random(seed);
    const Array half = random() % 2 ? w * 0.5 : w, other = random() % 2 ? zeros_like(w) + 0.25 : half;
    const auto [c, ys] = run(body, Carry(w, half, other), xs);
    const auto& [p, q, r] = c;
    return total(p * q) + total(sin(r)) + total(ys * ys) + total(w * 0.3) + total(xs * xs) * 0.1;
  }

  Array operation(const Runner& run, std::uint64_t which, const Array& a, const Array& b, const Array& xs,
                  int depth) const {
    switch (which) {
      case 0: return a + b;
      case 1: return a * b;
      case 2: return a - b * 0.5;
      case 3: return sin(a);
      case 4: return tanh(a) * b;
      case 5: return maximum(a, b);
      case 6: return where(greater(a, b), a * 0.5, b);
      case 7: return a * 0.7 + a * b + b;
      case 8: return sum(xs * a, {0}) * 0.3;
      case 9: return remat([](const Array& u, const Array& v) { return sin(u * v) + u; })(a, b);
      case 10:
        return cond(
            less(total(a), zeros({}, a.dtype())), [](const Array& u, const Array& v) { return u * v; },
            [](const Array& u, const Array& v) { return tanh(u) + v; }, a, b);
      default: return depth == 0 ? a : broadcast_to((*this)(run, a, xs * b, 0) * 0.05, a.shape());
    }
  }
};

class ScanDerivatives : public AccumulatorTest {};
INSTANTIATE_TEST_SUITE_P(Types, ScanDerivatives,
                         ::testing::Combine(::testing::Values(DType::f64, DType::f32, DType::bf16, DType::f16),
                                            ::testing::Bool()),
                         accumulator_test_name);

TEST_P(ScanDerivatives, AreThoseOfTheLoop) {
  for (std::uint64_t seed = 1; seed <= 7; ++seed) {
    const bool reverse = seed % 2 == 0;
    const Runner by_scan = [&](const Body& body, const Carry& carry, const Array& xs) {
      return scan(body, carry, xs, {.reverse = reverse});
    };
    const Runner by_loop = [&](const Body& body, const Carry& carry, const Array& xs) {
      return loop(body, carry, xs, reverse);
    };
    const RandomLoop random{seed * 1000};
    const auto plain = [random](const Runner& run) {
      return [random, run](const Two& v) { return random(run, v.first, v.second); };
    };
    const auto rematted = [random](const Runner& run) {
      return [random, run](const Two& v) {
        return remat([&](const Array& w, const Array& xs) { return random(run, w, xs); })(v.first, v.second);
      };
    };
    for (const std::int64_t n : {0, 1, 2, 3, 7}) {
      SCOPED_TRACE(fmt::format("seed {} length {}", seed, n));
      const auto normals = [](std::uint64_t key, const Shape& shape) {
        return normal(random_key(key), shape, dtype());
      };
      const Two in(normals(1, {3}), normals(2, {n, 3})), direction(normals(3, {3}), normals(4, {n, 3}));
      expect_same_derivatives(plain(by_scan), plain(by_loop), in, direction, n <= 3);
      expect_same_derivatives(rematted(by_scan), rematted(by_loop), in, direction, n == 2);
      if (HasFailure()) return;
    }
  }
}

TEST_P(ScanDerivatives, OfRematAreThoseOfWhatItHolds) {
  const auto f = [](const Two& v) {
    const auto body = [](const Array& c, const Array& x) { return std::pair(sin(c * x) + c, c * x); };
    const auto [c, ys] = scan(body, v.first, v.second);
    return total(c * v.first) + total(ys * ys);
  };
  const auto normals = [](std::uint64_t key, const Shape& shape) { return normal(random_key(key), shape, dtype()); };
  const Two in(normals(1, {3}), normals(2, {3, 3})), direction(normals(3, {3}), normals(4, {3, 3}));
  expect_same_derivatives(remat(f), f, in, direction, true);
}

// A pullback made before anything is known of a gradient to be taken through it.
TEST_P(ScanDerivatives, OfPullbacksFromOutside) {
  const auto normals = [](std::uint64_t key, const Shape& shape) { return normal(random_key(key), shape, dtype()); };
  const Array w = normals(1, {3}), xs = normals(2, {4, 3}), ct = normals(3, {3});
  const auto body = [&](const Array& c, const Array& x) {
    const Array next = sin(c * x) + c;
    return std::pair(next, next);
  };
  const auto slope = [&](bool by_scan) {
    const auto f = [&](const Array& v) {
      const auto [c, ys] = by_scan ? scan(body, v, xs) : loop(body, v, xs, false);
      return c + sum(ys, {0});
    };
    const auto pull = vjp(f, w).second;
    return value_and_grad([&](const Array& cotangent) {
      const Array back = std::get<0>(pull(cotangent));
      return total(back * back);
    })(ct);
  };
  expect_same(slope(true), slope(false));
  const auto loss = [&](bool by_scan) {
    return [&body, by_scan, &xs](const Array& v) {
      const auto [c, ys] = by_scan ? scan(body, v, xs) : loop(body, v, xs, false);
      return total(c * v) + total(ys);
    };
  };
  expect_same(hessian(loss(true))(w), hessian(loss(false))(w));
}

}  // namespace
}  // namespace eadem
