// Laws over random programs: compiled == eager, vmap == stacked slices, parse(print(p)) == p, forward and backward. A
// program that breaks a law is made again with fewer equations until it does not, and the smallest is printed.

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <random>

#include "eadem/array/rules.h"
#include "eadem/ops/catalog.h"
#include "eadem/transforms/compile.h"
#include "tests/support/bits.h"

namespace eadem {
namespace {

using namespace eadem::testing;

constexpr std::int64_t kRows = 3, kColumns = 5;

// A random function of x [rows, columns] and w [columns, columns]: `count` operations on the values so far.
struct RandomFunction {
  std::uint64_t seed;
  int count;

  Array operator()(const Array& x, const Array& w) const {
    std::mt19937_64 random(seed);
    std::vector<Array> values{x, x * 0.5};  // all [rows, columns]
    const auto pick = [&]() -> const Array& { return values[random() % values.size()]; };
    for (int i = 0; i < count; ++i) values.push_back(operation(random() % 20, pick(), pick(), w));
    Array total = sum(values.back(), {0, 1});
    if (random() % 2) total = total + sum(pick() * pick(), {0, 1});
    return total;
  }

  // A scan over a's rows, with a carry.
  static Array rows_in_turn(const Array& a, const Array& b) {
    const auto body = [](const Array& carry, const Array& row) {
      const Array next = carry * 0.5 + row * 2.0;
      return std::pair(next, next * row);
    };
    return scan(body, reshape(slice_axis(b, 0, {0, 1}), {kColumns}), a).second;
  }

  static Array operation(std::uint64_t which, const Array& a, const Array& b, const Array& w) {
    switch (which) {
      case 0: return a + b;
      case 1: return a * b;
      case 2: return a - b;
      case 3: return a / (b * b + 1.0);
      case 4: return tanh(a);
      case 5: return gelu(a);
      case 6: return sigmoid(a) * b;
      case 7: return maximum(a, b);
      case 8: return where(greater(a, b), a * 0.25, b);
      case 9: return matmul(a, w) * 0.3;
      case 10: return reverse(a, {1});
      case 11: return broadcast_to(sum(a, {1}, true) * 0.1, a.shape());
      case 12: return transpose(reshape(transpose(a), {kColumns, kRows}));
      case 13: return concatenate(std::vector<Array>{slice_axis(a, 0, {1, kRows}), slice_axis(b, 0, {0, 1})}, 0);
      case 14: return sin(a) + cos(b);
      case 15: return clamp(a, full_like(a, -1), full_like(a, 1));
      case 16: return slice(concatenate(std::vector<Array>{a, b}, 1), {Slice{}, Slice{0, 2 * kColumns, 2}});
      case 17: return exp(-(a * a));
      case 18: return rows_in_turn(a, b);
      default: return negate(a);
    }
  }
};

Array random(std::uint64_t seed, const Shape& shape, DType dtype) {
  return normal(random_key(seed), shape, dtype);
}

// The first law that the function breaks, or nothing.
std::string broken_law(const RandomFunction& f, DType dtype) {
  const Array x = random(f.seed, {kRows, kColumns}, dtype), w = random(f.seed + 1, {kColumns, kColumns}, dtype);
  const auto both = [f](const Array& a, const Array& b) { return value_and_grad(f)(a, b); };
  const auto eager = both(x, w);
  if (!same_bits(leaves(compile(both)(x, w)), leaves(eager))) return "compiled == eager";
  const Array xs = random(f.seed + 2, {2, kRows, kColumns}, dtype);
  const auto slice_of = [&](std::int64_t i) { return squeeze(slice_axis(xs, 0, {i, i + 1}), 0); };
  const auto first = both(slice_of(0), w), second = both(slice_of(1), w);
  const auto batched = vmap(both, {0, std::nullopt})(xs, w);
  if (!same_bits(leaves(batched), {stack(std::vector<Array>{first.first, second.first}),
                                   stack(std::vector<Array>{first.second, second.second})}))
    return "vmap == stacked slices";
  const Traced traced =
      trace("random", {x.type(), w.type()}, [&](const Arrays& in) { return leaves(both(in[0], in[1])); });
  if (!(parse_program(print(*traced.program), catalog()) == *traced.program)) return "parse(print(p)) == p";
  return "";
}

TEST(RandomPrograms, ObeyTheLaws) {
  const char* asked = std::getenv("EADEM_RANDOM_PROGRAMS");
  set_canonical_checked(true);
  const int programs = asked ? std::atoi(asked) : 300;
  for (int i = 0; i < programs; ++i) {
    const DType dtype = std::array{DType::f32, DType::bf16, DType::f64, DType::f16}[static_cast<std::size_t>(i % 4)];
    set_narrow_accumulators(i % 3 == 0);
    RandomFunction f{static_cast<std::uint64_t>(1000 + 7 * i), 1 + i % 24};
    std::string law = broken_law(f, dtype);
    if (law.empty()) continue;
    for (RandomFunction smaller = f; --smaller.count > 0;)
      if (const std::string still = broken_law(smaller, dtype); !still.empty()) f = smaller, law = still;
    const TensorType type{dtype, {kRows, kColumns}}, square{dtype, {kColumns, kColumns}};
    const Traced traced = trace("random", {type, square}, [&](const Arrays& in) { return Arrays{f(in[0], in[1])}; });
    ADD_FAILURE() << law << " is broken by seed " << f.seed << " with " << f.count << " operations in "
                  << name_of(dtype) << ":\n"
                  << print(*traced.program);
    break;
  }
  set_narrow_accumulators(false);
  set_canonical_checked(false);
}

}  // namespace
}  // namespace eadem
