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
    const auto pick = [&] { return values[random() % values.size()]; };
    for (int i = 0; i < count; ++i) {
      const std::uint64_t which = random() % kOperations;
      const Array a = pick(), b = pick();
      values.push_back(operation(which, a, b, w));
    }
    const Array total = sum(values.back(), {0, 1});
    if (random() % 2) return total;
    const Array a = pick(), b = pick();
    return total + sum(a * b, {0, 1});
  }

  // A scan over a's rows, with a carry.
  static Array rows_in_turn(const Array& a, const Array& b) {
    const auto body = [](const Array& carry, const Array& row) {
      const Array next = carry * 0.5 + row * 2.0;
      return std::pair(next, next * row);
    };
    return scan(body, first_row(b), a).second;
  }
  // Carries that change places, one that is a constant.
  static Array rows_that_exchange(const Array& a, const Array& b) {
    using Carry = std::tuple<Array, Array, Array>;
    const Array start = first_row(b);
    const auto body = [&](const Carry& carry, const Array& row) {
      const auto& [p, q, r] = carry;
      return std::pair(Carry(q, p * row + r, start), sin(p) * q);
    };
    const auto [carry, ys] = scan(body, Carry(start, start * 0.5, start), a, {.reverse = true});
    return ys + std::get<1>(carry);
  }
  static Array first_row(const Array& a) { return reshape(slice_axis(a, 0, {0, 1}), {kColumns}); }
  static Array along(const Array& reduced, const Array& a) { return broadcast_to(reduced, a.shape()); }

  static constexpr std::uint64_t kOperations = 54;
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
      case 11: return along(sum(a, {1}, true) * 0.1, a);
      case 12: return transpose(reshape(transpose(a), {kColumns, kRows}));
      case 13: return concatenate(std::vector<Array>{slice_axis(a, 0, {1, kRows}), slice_axis(b, 0, {0, 1})}, 0);
      case 14: return fma(sin(a), cos(b), a);
      case 15: return clamp(a, full_like(a, -1), full_like(a, 1));
      case 16: return slice(concatenate(std::vector<Array>{a, b}, 1), {Slice{}, Slice{0, 2 * kColumns, 2}});
      case 17: return exp(-(a * a));
      case 18: return rows_in_turn(a, b);
      case 19: return negate(a);
      case 20: return softmax(a);
      case 21: return log_softmax(a, 0);
      case 22: return layer_norm(a);
      case 23: return rms_norm(a, first_row(w));
      case 24: return along(logsumexp(a, 1, true), a);
      case 25: return cumsum(a, 1) * 0.3;
      case 26: return cumprod(a, 0);
      case 27: return cummax(a, 1);
      case 28: return sort(a, 1);
      case 29: return take(a, Array::from<std::int64_t>({2, 0, 2}), 0);
      case 30: return scatter_add(a, Array::from<std::int64_t>({1, 1}), slice_axis(b, 0, {0, 2}), 0);
      case 31: return along(prod(a, {1}, true), a);
      case 32: return along(max(a, {0}, true), a);
      case 33: return along(mean(a, {0, 1}, true) + variance(b, {0, 1}, 0, true), a);
      case 34: return minimum(abs(a), sqrt(b * b + 1.0));
      case 35: return tril(a) + triu(b, 1);
      case 36:
        return dynamic_slice(concatenate(std::vector<Array>{a, b}, 0), slice_axis(argmax(a, 0), 0, {0, 2}), a.shape());
      case 37: return convert(convert(a, DType::f32), a.dtype()) * 1.5;
      case 38: return atan2(a, b * b + 0.5);
      case 39: return logaddexp(a, b);
      case 40: return silu(a) + relu(b);
      case 41: return log1p(a * a);
      case 42: return einsum("ij,kj,kl->il", {a, b, a}) * 0.05;
      case 43: return pad(slice_axis(a, 1, {1, kColumns}), zeros({}, a.dtype()), {0, 1}, {0, 0});
      case 44: return along(norm(a, {1}, 2, true), a);
      case 45: return rows_that_exchange(a, b);
      case 46:
        return cond(
            less(sum(a, {0, 1}), zeros({}, a.dtype())), [](const Array& u, const Array& v) { return u * v; },
            [](const Array& u, const Array& v) { return erf(u) + v * 0.5; }, a, b);
      case 47:
        return remat([](const Array& u, const Array& v) { return sin(checkpoint_name(matmul(u, v), "p")) + u; },
                     checkpoint_policies::save_only_these_names({"p"}))(a, w);
      case 48:
        return custom_vjp([](const Array& u) { return u * u; }, [](const Array& u) { return std::pair(u * u, u); },
                          [](const Array& u, const Array& ct) { return std::tuple(ct * u * 1.9); })(a);
      case 49: return vmap([](const Array& row, const Array& other) { return row * sum(other, {0}); })(a, b);
      case 50: return stop_gradient(a) * b;
      case 51: return linear(a, w, first_row(w));
      case 52: return map([](const Array& row) { return softmax(row) * row; }, a);
      default: return transpose(broadcast_to(dot_general(a, b, {1}, {1}, {0}, {0}) * 0.1, {kColumns, kRows}));
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
  // The gradient under remat, with the policies in turn.
  const RematPolicy policies[] = {checkpoint_policies::nothing_saveable(), checkpoint_policies::everything_saveable(),
                                  checkpoint_policies::dots_saveable()};
  const auto thrifty = remat(f, policies[f.seed % 3]);
  if (!same_bits(leaves(value_and_grad(thrifty)(x, w)), leaves(eager))) return "remat == plain";
  // Forward mode: compiled, and over a batch.
  const auto directional = [f](const Array& a, const Array& b) {
    return jvp(f, std::tuple(a, b), std::tuple(a * 0.5, b));
  };
  const auto forward = directional(x, w);
  if (!same_bits(leaves(compile(directional)(x, w)), leaves(forward))) return "compiled jvp == eager jvp";
  const auto rows = vmap(directional, {0, std::nullopt})(xs, w);
  const auto one = directional(slice_of(0), w), other = directional(slice_of(1), w);
  if (!same_bits(leaves(rows), {stack(std::vector<Array>{one.first, other.first}),
                                stack(std::vector<Array>{one.second, other.second})}))
    return "vmap of jvp == stacked slices";
  // As the body of a scan, against the loop written out.
  const auto looped = [&](const auto& run) {
    return [&](const Array& all, const Array& b) {
      const auto body = [&](const Array& carry, const Array& slice) {
        const Array value = f(slice, b);
        const Array next = carry * 0.5 + value;
        return std::pair(next, next * value);
      };
      return run(body, zeros({}, dtype), all);
    };
  };
  const auto by_scan = looped([](const auto& body, const Array& carry, const Array& all) {
    const auto [last, ys] = scan(body, carry, all);
    return last + sum(ys, {0});
  });
  const auto by_loop = looped([](const auto& body, Array carry, const Array& all) {
    std::vector<Array> ys;
    for (std::int64_t i = 0; i < all.shape()[0]; ++i) {
      auto [next, y] = body(carry, squeeze(slice_axis(all, 0, {i, i + 1}), 0));
      carry = next;
      ys.push_back(y);
    }
    return carry + sum(stack(ys), {0});
  });
  const auto of_scan = value_and_grad<1>(by_scan)(xs, w), of_loop = value_and_grad<1>(by_loop)(xs, w);
  if (!same_bits(leaves(of_scan), leaves(of_loop))) return "scan == the loop";
  if (!same_bits(leaves(value_and_grad<0>(by_scan)(xs, w)), leaves(value_and_grad<0>(by_loop)(xs, w))))
    return "scan == the loop, by its slices";
  return "";
}

// What of the function and its gradient is joined.
Executable::Statistics statistics_of(const RandomFunction& f, DType dtype) {
  const auto both = [f](const Arrays& in) { return leaves(value_and_grad(f)(in[0], in[1])); };
  const Traced traced = trace("random", {{dtype, {kRows, kColumns}}, {dtype, {kColumns, kColumns}}}, both);
  return Executable(*traced.program).statistics();
}

TEST(RandomPrograms, ObeyTheLaws) {
  const char* asked = std::getenv("EADEM_RANDOM_PROGRAMS");
  set_canonical_checked(true);
  const int programs = asked ? std::atoi(asked) : 300;
  const std::int64_t least = set_least_region_bytes(0);
  std::size_t regions = 0, products = 0;
  for (int i = 0; i < programs; ++i) {
    const DType dtype = std::array{DType::f32, DType::bf16, DType::f64, DType::f16}[static_cast<std::size_t>(i % 4)];
    set_narrow_accumulators(i % 3 == 0);
    RandomFunction f{static_cast<std::uint64_t>(1000 + 7 * i), 1 + i % 24};
    std::string law = broken_law(f, dtype);
    const Executable::Statistics statistics = statistics_of(f, dtype);
    regions += statistics.regions;
    products += statistics.products;
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
  EXPECT_GE(regions, static_cast<std::size_t>(programs));
  EXPECT_GE(products, static_cast<std::size_t>(programs) / 10);
  set_least_region_bytes(least);
  set_narrow_accumulators(false);
  set_canonical_checked(false);
}

}  // namespace
}  // namespace eadem
