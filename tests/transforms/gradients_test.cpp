// Public cases on which frameworks give wrong gradients (public-reports.md, B to D), as tests of their kinds.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "eadem/ops/ops.h"
#include "eadem/transforms/transforms.h"

namespace eadem {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();
constexpr DType kFloats[] = {DType::f64, DType::f32, DType::bf16, DType::f16};

Array array(const std::vector<double>& values, DType dtype = DType::f32, const Shape& shape = {-1}) {
  return convert(reshape(Array::from(values, {static_cast<std::int64_t>(values.size())}), shape), dtype);
}
std::vector<double> numbers(const Array& x) {
  const Array wide = contiguous(convert(x, DType::f64));
  return {wide.data<double>().begin(), wide.data<double>().end()};
}
Array total(const Array& x) {
  Shape axes;
  for (int axis = 0; axis < x.rank(); ++axis) axes.push_back(axis);
  return sum(x, axes);
}

// The gradient of the sum of f(x), alone, under vmap beside itself, and with the batch on another axis.
template <class F>
void expect_gradient(F f, const std::vector<double>& x, const std::vector<double>& expected) {
  for (const DType dtype : kFloats) {
    const Array in = array(x, dtype);
    const auto gradient = grad([&](const Array& a) { return total(f(a)); });
    EXPECT_EQ(numbers(gradient(in)), expected) << name_of(dtype);
    std::vector<double> twice = expected;
    twice.insert(twice.end(), expected.begin(), expected.end());
    EXPECT_EQ(numbers(vmap(gradient)(stack(std::vector<Array>{in, in}))), twice) << "vmap, " << name_of(dtype);
  }
}

// C11: no division by x.
TEST(Gradients, ProdAtZeros) {
  const auto f = [](const Array& x) { return prod(x); };
  expect_gradient(f, {0, 2, 3}, {6, 0, 0});
  expect_gradient(f, {0, 0, 3}, {0, 0, 0});
  expect_gradient(f, {0}, {1});
  expect_gradient(f, {2, 3, 4, 5, 0, 1, 2}, {0, 0, 0, 0, 240, 0, 0});
  expect_gradient(f, {-1, 2, -3, 4}, {-24, 12, -8, 6});
  // Over several axes, and of each row.
  const Array x = array({1, 2, 0, 4, 5, 6, 7, 8}, DType::f32, {2, 2, 2});
  EXPECT_EQ(numbers(grad([](const Array& a) {
              return total(prod(a, {0, 2}));
            })(x)),
            (std::vector<double>{60, 30, 224, 0, 12, 10, 0, 0}));
  EXPECT_EQ(numbers(grad([](const Array& a) { return total(prod(a, {})); })(x)), std::vector<double>(8, 1));
  EXPECT_EQ(grad([](const Array& a) { return total(prod(a, {0})); })(zeros({0, 3})).shape(), (Shape{0, 3}));
}

TEST(Gradients, CumprodAtZeros) {
  const auto f = [](const Array& x) { return cumprod(x, 0); };
  expect_gradient(f, {0, 2, 3}, {9, 0, 0});
  expect_gradient(f, {2, 3, 0}, {4, 2, 6});
  expect_gradient(f, {2, 0, 0, 3}, {1, 2, 0, 0});
  expect_gradient(f, {2, 0, 3, 4}, {1, 32, 0, 0});
  expect_gradient(f, {0}, {1});
  EXPECT_EQ(numbers(cumprod(array({2, -3, 0, 5}), 0)), (std::vector<double>{2, -6, 0, 0}));
  EXPECT_TRUE(std::signbit(numbers(cumprod(array({2, -3, 0, 5}), 0))[2]));
  // Neither overflow nor underflow on the way.
  EXPECT_EQ(numbers(cumprod(array({0x1p1000, 0x1p1000, 0x1p-1000, 0x1p-1000}, DType::f64), 0))[3], 1);
  const Array huge = array({0x1p100, 0x1p100, 0x1p-100, 0x1p-100});
  EXPECT_EQ(numbers(cumprod(huge, 0)), (std::vector<double>{0x1p100, kInf, 0x1p100, 1}));
}

// Partial products and cotangents beyond the range of f64, the gradient within it.
TEST(Gradients, ProductsNeitherOverflowNorUnderflow) {
  constexpr double up = 0x1.8p1000, down = 0x1p-1000;
  const Array x = array({up, up, down, down}, DType::f64);
  const auto product = [](const Array& a) { return prod(a); };
  EXPECT_EQ(numbers(grad(product)(x)), (std::vector<double>{0x1.8p-1000, 0x1.8p-1000, 0x1.2p1001, 0x1.2p1001}));
  // Of f32 whose partial products leave f64, too.
  std::vector<double> many(64, 0x1p100);
  std::fill_n(many.begin() + 32, 32, 0x1p-100);
  std::vector<double> want(64, 0x1p-100);
  std::fill_n(want.begin() + 32, 32, 0x1p100);
  EXPECT_EQ(numbers(grad(product)(array(many))), want);
  // A gradient that is subnormal is rounded once: 3 2^-1074 2^-1 = 1.5 2^-1073, to even.
  EXPECT_EQ(numbers(grad(product)(array({1, 0x1.8p-537, 0x1p-537}, DType::f64)))[0], 0x1p-1073);
  // An others' product of 2^2000 times a cotangent of 2^-1040.
  const auto small = [](const Array& a) { return prod(a) * Array::scalar(0x1p-1040, DType::f64); };
  EXPECT_EQ(numbers(grad(small)(array({0x1p-900, 0x1p1000, 0x1p1000}, DType::f64)))[0], 0x1p960);
  EXPECT_EQ(numbers(grad(product)(array({0, kInf, 2}, DType::f64)))[0], kInf);
  EXPECT_TRUE(std::isnan(numbers(grad(product)(array({0, kInf, 0}, DType::f64)))[0]));

  // cumprod's: the sum over the places after j of the products without x_j.
  const auto running = [](const Array& weights) {
    return [weights](const Array& a) { return total(cumprod(a, 0) * weights); };
  };
  const Array last = array({0, 0, 0, 1}, DType::f64);
  EXPECT_EQ(numbers(grad(running(last))(x)), numbers(grad(product)(x)));
  const Array mixed = array({0x1p-900, 0x1p1000, 0x1p1000, 3}, DType::f64);
  const Array weights = array({0, 0, 0x1p-1040, 0x1p-1042}, DType::f64);
  EXPECT_EQ(numbers(grad(running(weights))(mixed))[0], 0x1.cp960);
}

TEST(Gradients, PowersOfTwoAreExact) {
  std::vector<double> exponents, powers;
  for (int e = -1074; e <= 1023; ++e) exponents.push_back(e), powers.push_back(std::ldexp(1.0, e));
  EXPECT_EQ(numbers(exp2(array(exponents, DType::f64))), powers);
}

TEST(Gradients, SortedPlacesKeepTheirShare) {
  const auto f = [](const Array& x) { return sort(x) * array({1, 2, 4, 8}, x.dtype()); };
  expect_gradient(f, {3, 1, 2, 1}, {8, 1, 4, 2});
  expect_gradient(f, {kNan, 5, -1, kNan}, {4, 2, 1, 8});
  EXPECT_EQ(numbers(argsort(array({2, kNan, 0.0, -0.0, 2, -kInf}))), (std::vector<double>{5, 3, 2, 0, 4, 1}));
  const Array x = array({3, 1, 2, 6, 5, 4}, DType::f32, {2, 3});
  EXPECT_EQ(numbers(sort(x, 0)), (std::vector<double>{3, 1, 2, 6, 5, 4}));
  EXPECT_EQ(numbers(sort(x, 1)), (std::vector<double>{1, 2, 3, 4, 5, 6}));
}

TEST(Gradients, ProdTwice) {
  // The second derivatives of x y z are the third factor.
  const Array x = array({0, 2, 3}, DType::f64);
  const auto first = grad([](const Array& a) { return prod(a); });
  const auto second = grad([&](const Array& a) { return total(first(a) * array({1, 10, 100}, DType::f64)); });
  EXPECT_EQ(numbers(second(x)), (std::vector<double>{230, 3, 2}));
}

// C13: no NaN where there is nothing; an array's element is what the element alone gives.
TEST(Gradients, LogaddexpOfNothing) {
  const Array x = array({-kInf, -1, 0}, DType::f64), y = array({-kInf, -1, -kInf}, DType::f64);
  const std::vector<double> got = numbers(logaddexp(x, y));
  EXPECT_EQ(got[0], -kInf);
  EXPECT_NEAR(got[1], std::log(2.0) - 1, 1e-15);
  EXPECT_EQ(got[2], 0);
  for (std::int64_t i = 0; i < 3; ++i)
    EXPECT_EQ(numbers(logaddexp(slice_axis(x, 0, {i, i + 1}), slice_axis(y, 0, {i, i + 1})))[0],
              got[static_cast<std::size_t>(i)]);
  const auto of_row = grad([](const Array& row) { return logsumexp(row, 0); });
  EXPECT_EQ(numbers(of_row(array({-kInf, -kInf}, DType::f64))), (std::vector<double>{0, 0}));
  const auto of_pairs = grad([](const Array& v) {
    const auto at = [&](std::int64_t i) { return squeeze(slice_axis(v, 0, {i, i + 1}), 0); };
    return logaddexp(logaddexp(at(0), at(1)), at(2));
  });
  EXPECT_EQ(numbers(of_pairs(array({-kInf, -kInf, 2}, DType::f64))), (std::vector<double>{0, 0, 1}));
  const auto masked = grad([](const Array& v) {
    const Array keep = convert(array({1, 0}), DType::boolean);
    return logsumexp(where(keep, v, full_like(v, -kInf)), 0);
  });
  EXPECT_EQ(numbers(masked(array({0, 100}, DType::f64))), (std::vector<double>{1, 0}));
}

// C14: the branch not taken may be anything.
TEST(Gradients, WhereIgnoresTheBranchNotTaken) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const auto to = [&](double value) { return Array::scalar(value, dtype); };
    const auto of_exp = [&](const Array& x) { return where(less_equal(x, to(10)), exp(x), to(1)); };
    const std::vector<double> got =
        numbers(grad([&](const Array& x) { return total(of_exp(x)); })(array({1, kNan, 1e10}, dtype)));
    EXPECT_NEAR(got[0], std::exp(1.0), 1e-6);
    EXPECT_EQ(got[1], 0);
    EXPECT_EQ(got[2], 0);
    const auto of_root = [&](const Array& x) { return where(greater_equal(x, to(0)), x, sqrt(-x)); };
    EXPECT_EQ(numbers(grad([&](const Array& x) { return total(of_root(x)); })(array({1}, dtype))),
              std::vector<double>{1});
    const auto of_power = [&](const Array& x) { return where(equal(x, to(0)), to(0), x * sqrt(x)); };
    EXPECT_EQ(numbers(grad([&](const Array& x) { return total(of_power(x)); })(array({0}, dtype))),
              std::vector<double>{0});
    // Forward mode too.
    const auto [value, tangent] = jvp(of_power, std::tuple(array({0}, dtype)), std::tuple(array({1}, dtype)));
    EXPECT_EQ(numbers(tangent), std::vector<double>{0});
  }
}

// C16: equal ones share, in every spelling; relu has 0 at 0.
TEST(Gradients, TiesShare) {
  const auto scalar = [](double value, const Array& like) { return full_like(like, value); };
  expect_gradient([](const Array& x) { return min(x); }, {1, 1, 2, 3}, {.5, .5, 0, 0});
  expect_gradient([](const Array& x) { return max(x); }, {3, 1, 3, 3, 3}, {.25, 0, .25, .25, .25});
  expect_gradient([](const Array& x) { return max(x); }, {0.0, -0.0}, {.5, .5});
  expect_gradient([](const Array& x) { return max(x); }, {-kInf, -kInf}, {.5, .5});
  expect_gradient([](const Array& x) { return max(x); }, {1, kNan, 2, kNan}, {0, .5, 0, .5});
  expect_gradient([](const Array& x) { return relu(x); }, {-1, -0.0, 0, 2}, {0, 0, 0, 1});
  expect_gradient([&](const Array& x) { return maximum(x, scalar(0, x)); }, {-1, -0.0, 0, 2}, {0, .5, .5, 1});
  expect_gradient([&](const Array& x) { return clamp(x, scalar(0, x), scalar(1, x)); }, {-1, 0, .5, 1, 2},
                  {0, .5, 1, .5, 0});
  const Array a = array({1, 2}), b = array({1, 1});
  const auto both = grad([](const std::pair<Array, Array>& in) { return total(maximum(in.first, in.second)); });
  const auto [of_a, of_b] = both(std::pair(a, b));
  EXPECT_EQ(numbers(of_a), (std::vector<double>{.5, 1}));
  EXPECT_EQ(numbers(of_b), (std::vector<double>{.5, 0}));
}

// C17: slices of one element, of any step.
TEST(Gradients, StridedSlices) {
  const Array x = zeros({2, 3});
  const auto f = [](const Array& a) {
    return total(slice(a, {{0, std::nullopt, 2}}) * array({1, 2, 3})) +
           total(slice(a, {{1, std::nullopt, 2}}) * array({100, 101, 102}));
  };
  EXPECT_EQ(numbers(grad(f)(x)), (std::vector<double>{1, 2, 3, 100, 101, 102}));
  for (const std::int64_t n : {1, 2, 3, 7}) {
    for (const std::int64_t step : {-9, -2, -1, 1, 2, 9}) {
      for (std::int64_t start = 0; start < n; ++start) {
        const Slice range{start, std::nullopt, step};
        std::vector<double> expected(static_cast<std::size_t>(n), 0);
        std::vector<double> weights;
        for (std::int64_t i = start; i >= 0 && i < n; i += step) {
          weights.push_back(static_cast<double>(10 + i));
          expected[static_cast<std::size_t>(i)] = static_cast<double>(10 + i);
        }
        expect_gradient([&](const Array& a) { return slice(a, {range}) * array(weights, a.dtype()); },
                        std::vector<double>(static_cast<std::size_t>(n), 0), expected);
      }
    }
  }
}

// C20: reversed views, added to and set.
TEST(Gradients, ReversedViews) {
  const Array x = arange(6, DType::f32);
  const auto added = [](const Array& a) { return reverse(reverse(zeros_like(a), {0}) + reverse(a, {0}) * 2.0, {0}); };
  EXPECT_EQ(numbers(added(x)), (std::vector<double>{0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(numbers(grad([&](const Array& a) { return total(added(a) * a); })(x)),
            (std::vector<double>{0, 4, 8, 12, 16, 20}));
  const Array one = array({5}, DType::f32, {1, 1});
  EXPECT_EQ(numbers(reverse(one, {0, 1})), std::vector<double>{5});
}

// C22: what is written is what is computed.
TEST(Gradients, NothingIsFolded) {
  const Array a = array({1e20}), b = array({-1e20}), x = array({1e10});
  EXPECT_EQ(numbers(a * x + b * x), std::vector<double>{0});
  EXPECT_EQ(numbers(log(exp(array({89})))), std::vector<double>{kInf});
  EXPECT_EQ(numbers(sqrt(array({1e20}) * array({1e20}))), std::vector<double>{kInf});
  EXPECT_EQ(numbers(exp(log(array({0})))), std::vector<double>{0});
  const auto f = [](const Array& p, const Array& q, const Array& r) { return p * r + q * r; };
  EXPECT_EQ(numbers(vmap(f)(a, b, x)), std::vector<double>{0});
}

// C23: captured, passed and scanned over, the same array gives the same.
TEST(Gradients, CapturedGathers) {
  const Array tokens = broadcast_to(arange(6), {2, 6});
  const auto row = [](const Array& each) { return take(each, arange(6), 0) + Array::scalar(1, DType::i64); };
  const std::vector<double> expected{1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6};
  EXPECT_EQ(numbers(vmap(row)(tokens)), expected);
  const auto captured = vmap([&](const Array& i) { return row(take(tokens, i, 0)); })(arange(2));
  EXPECT_EQ(numbers(captured), expected);
  const auto [last, scanned] =
      scan([&](const Array& c, const Array& each) { return std::pair(c, row(each)); }, zeros({}), tokens);
  EXPECT_EQ(numbers(scanned), expected);
}

// Repeated indices: each use adds, exactly and rounded once.
TEST(Gradients, RepeatedIndices) {
  for (const DType dtype : kFloats) {
    const Array table = array({1, 2, 3}, dtype), indices = Array::from<std::int64_t>({2, 0, 2, -1});
    const auto f = [&](const Array& t) { return total(take(t, indices, 0) * array({1, 2, 4, 8}, dtype)); };
    EXPECT_EQ(numbers(grad(f)(table)), (std::vector<double>{2, 0, 13}));
  }
  // 4096 + 4096 ones: bf16 additions one by one would stand still at 256.
  const Array updates = ones({8192}, DType::bf16);
  const Array where_to = zeros({8192}, DType::i64);
  EXPECT_EQ(numbers(scatter_add(zeros({2}, DType::bf16), where_to, updates, 0)), (std::vector<double>{8192, 0}));
  // Cancellation: order cannot matter.
  const Array big = array({1e30, 1, -1e30, 1});
  EXPECT_EQ(numbers(scatter_add(zeros({1}), zeros({4}, DType::i64), big, 0)), std::vector<double>{2});
  // scatter: the last update stays, and only it has a gradient.
  const Array into = Array::from<std::int64_t>({1, 0, 1});
  const auto set = [&](const std::pair<Array, Array>& in) {
    return total(scatter(in.first, into, in.second, 0) * array({1, 10, 100}));
  };
  const auto [of_x, of_updates] = grad(set)(std::pair(zeros({3}), array({4, 5, 6})));
  EXPECT_EQ(numbers(of_x), (std::vector<double>{0, 0, 100}));
  EXPECT_EQ(numbers(of_updates), (std::vector<double>{0, 1, 10}));
}

TEST(Gradients, KeysUnderVmapGiveEachKeysBits) {
  const Array keys = split_key(random_key(3), 5);
  const auto draw = [](const Array& key) {
    const Array pair = split_key(key);
    const Array first = squeeze(slice_axis(pair, 0, {0, 1}), 0);
    return std::tuple(normal(first, {7}, DType::bf16), uniform(fold_in(first, 9), {2, 3}), random_bits(key, {}));
  };
  const auto [normals, uniforms, bits] = vmap(draw)(keys);
  for (std::int64_t i = 0; i < 5; ++i) {
    const auto at = [&](const Array& x) { return numbers(squeeze(slice_axis(x, 0, {i, i + 1}), 0)); };
    const auto [n, u, b] = draw(squeeze(slice_axis(keys, 0, {i, i + 1}), 0));
    EXPECT_EQ(at(normals), numbers(n));
    EXPECT_EQ(at(uniforms), numbers(u));
    EXPECT_EQ(at(bits), numbers(b));
  }
}

TEST(Gradients, BadScattersAreRefused) {
  const Array x = zeros({3}), one = Array::from<std::int64_t>({3});
  EXPECT_THROW(scatter_add(x, one, zeros({1}), 0), ValueError);
  EXPECT_THROW(scatter(x, zeros({1}, DType::i64), zeros({2}), 0), ShapeError);
  EXPECT_THROW(scatter(x, zeros({1}, DType::i64), zeros({1}, DType::f64), 0), TypeError);
  EXPECT_THROW(scatter_add(x, zeros({1}), zeros({1}), 0), TypeError);
  EXPECT_THROW(scatter_add(zeros({3}, DType::boolean), zeros({1}, DType::i64), zeros({1}, DType::boolean), 0),
               TypeError);
  EXPECT_THROW(scatter(zeros({0}), zeros({1}, DType::i64), zeros({1}), 0), ValueError);
}

}  // namespace
}  // namespace eadem
