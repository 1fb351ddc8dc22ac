// What each transform means, on small cases with known answers, and that they nest in any order.

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "eadem/array/rules.h"
#include "eadem/ops/catalog.h"
#include "eadem/transforms/compile.h"
#include "eadem/transforms/promote.h"
#include "tests/support/bits.h"

namespace eadem {
namespace {

using namespace eadem::testing;

Array random(std::uint64_t seed, const Shape& shape, DType dtype = DType::f32) {
  return normal(random_key(seed), shape, dtype);
}

Array total(const Array& x) {
  Shape axes;
  for (int i = 0; i < x.rank(); ++i) axes.push_back(i);
  return sum(x, axes);
}

TEST(Jvp, IsTheDirectionalDerivative) {
  const Array x = random(1, {4}, DType::f64), t = random(2, {4}, DType::f64);
  const auto f = [](const Array& a) { return sin(a) * a; };
  const auto [value, tangent] = jvp(f, std::tuple(x), std::tuple(t));
  expect_same(value, f(x));
  const double h = 1e-6;
  const Array difference = (f(x + t * h) - f(x - t * h)) / full_like(x, 2 * h);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(tangent.data<double>()[i], difference.data<double>()[i], 1e-8);
}

TEST(Jvp, GoesThroughLoops) {
  // 2^n x for the first n at which it exceeds 100: the derivative is 2^n.
  const auto f = [](const Array& x) {
    return while_loop([](const Array& c) { return less(c, full({}, 100)); }, [](const Array& c) { return c * 2.0; }, x);
  };
  const auto [value, tangent] = jvp(f, std::tuple(full({}, 3)), std::tuple(full({}, 1)));
  EXPECT_EQ(value.item<float>(), 192);
  EXPECT_EQ(tangent.item<float>(), 64);
  const auto g = [](const Array& x) {
    return scan([](const Array& c, const Array& s) { return std::pair(c * s, c); }, x, arange(4, DType::f32) + 1.0);
  };
  const auto [outputs, directions] = jvp(g, std::tuple(full({}, 5)), std::tuple(full({}, 1)));
  EXPECT_EQ(outputs.first.item<float>(), 120);
  EXPECT_EQ(directions.first.item<float>(), 24);
  expect_same(directions.second, Array::from<float>({1, 1, 2, 6}));
}

TEST(Jvp, OfOneArgumentThatIsAPair) {
  const Array x = random(1, {4}), y = random(2, {4});
  const auto f = [](const std::pair<Array, Array>& in) { return in.first * in.second; };
  const auto g = [](const std::tuple<Array, Array, Array>& in) { return std::get<0>(in) * std::get<2>(in); };
  const auto separate = [](const Array& a, const Array& b) { return a * b; };
  const auto expected = jvp(separate, std::tuple(x, y), std::tuple(y, x));
  // std::tuple(pair) is a tuple of the pair's two arrays.
  expect_same(jvp(f, std::tuple(std::pair(x, y)), std::tuple(std::pair(y, x))), expected);
  expect_same(jvp(f, std::make_tuple(std::pair(x, y)), std::make_tuple(std::pair(y, x))), expected);
  expect_same(jvp(g, std::tuple(std::tuple(x, x, y)), std::tuple(std::tuple(y, y, x))), expected);
}

TEST(Vjp, MayBeCalledAgain) {
  const Array x = random(3, {3});
  const auto [value, pull] = vjp([](const Array& a) { return a * a; }, x);
  const Array first = std::get<0>(pull(ones_like(x))), second = std::get<0>(pull(ones_like(x)));
  expect_same(first, second);
  expect_same(first, x * 2.0);
}

TEST(Gradient, HasAuxiliaryResultsAndOtherArguments) {
  const auto f = [](const Array& a, const Array& b) { return std::pair(total(a * b), a + b); };
  const Array a = random(4, {3}), b = random(5, {3});
  const auto [results, gradient] = value_and_grad_aux(f)(a, b);
  expect_same(results, f(a, b));
  expect_same(gradient, b);
  expect_same(grad<1>([](const Array& x, const Array& y) { return total(x * y); })(a, b), a);
}

TEST(Gradient, OfAValueThatIsNotReachedIsZero) {
  const Array x = random(6, {3});
  expect_same(grad([](const std::pair<Array, Array>& in) { return total(in.first); })(std::pair(x, x)),
              std::pair(contiguous(ones_like(x)), contiguous(zeros_like(x))));
}

TEST(Gradient, StopsWhereAsked) {
  const Array x = random(7, {3});
  expect_same(grad([](const Array& a) { return total(a * stop_gradient(a)); })(x), x + 0.0);
  const auto [value, tangent] = jvp([](const Array& a) { return stop_gradient(a); }, std::tuple(x), std::tuple(x));
  expect_same(tangent, contiguous(zeros_like(x)));
}

TEST(Jacobian, AndHessian) {
  const Array x = Array::from<double>({1, 2, 3});
  const Array j = jacobian([](const Array& a) { return a * a * 0.5; })(x);
  expect_same(j, where(equal(expand_dims(arange(3), 1), expand_dims(arange(3), 0)), broadcast_to(x, {3, 3}),
                       zeros({3, 3}, DType::f64)));
  const Array h = hessian([](const Array& a) { return total(a * a * a); })(x);
  for (std::int64_t i = 0; i < 3; ++i)
    for (std::int64_t k = 0; k < 3; ++k)
      EXPECT_EQ(contiguous(h).data<double>()[static_cast<std::size_t>(3 * i + k)],
                i == k ? 6 * static_cast<double>(i + 1) : 0);
}

TEST(CustomVjp, ReplacesTheRuleInEveryForm) {
  const auto f = custom_vjp([](const Array& x) { return x * x; }, [](const Array& x) { return std::pair(x * x, x); },
                            [](const Array& x, const Array& ct) { return std::tuple(ct * x * 10.0); });
  const Array x = random(8, {5});
  const auto loss = [f](const Array& a) { return total(f(a)); };
  expect_same(grad(loss)(x), ones_like(x) * x * 10.0);
  expect_same(compile(grad(loss))(x), grad(loss)(x));
  expect_same(vmap(grad(loss))(reshape(x, {5, 1})), reshape(grad(loss)(x), {5, 1}));
}

// x s, the cotangents of s joined to the greatest: over uses, a batch and iterations; one use has its own derivatives.
TEST(CustomVjp, JoinsTheCotangentsOfItsLastArgument) {
  const auto f = custom_vjp(
      [](const Array& x, const Array& s) { return x * s; },
      [](const Array& x, const Array& s) { return std::pair(x * s, std::pair(x, s)); },
      [](const std::pair<Array, Array>& kept, const Array& g) { return std::tuple(g * kept.second, g * kept.first); },
      [](const Array& a, const Array& b) { return maximum(a, b); });
  const auto scalar = [](double value) { return Array::scalar(value, DType::f64); };
  const Array s = scalar(5), xs = Array::from<double>({3, 7, 2});
  const auto x_of = [&](std::int64_t i) { return squeeze(slice_axis(xs, 0, {i, i + 1}), 0); };
  expect_same(grad([&](const Array& v) { return f(x_of(0), v) + f(x_of(1), v) + f(x_of(2), v); })(s), scalar(7));
  expect_same(grad([&](const Array& v) { return sum(vmap(f, {0, std::nullopt})(xs, v), {0}); })(s), scalar(7));
  expect_same(grad([&](const Array& v) {
                return scan([&](const Array& carry, const Array& x) { return std::pair(carry + f(x, v), carry); },
                            scalar(0), xs)
                    .first;
              })(s),
              scalar(7));
  const auto once = [&](const Array& x) { return grad([&](const Array& v) { return f(x, v); })(s); };
  expect_same(grad(once)(scalar(0)), scalar(1));
  expect_same(jvp([&](const Array& v) { return f(scalar(3), v); }, std::tuple(s), std::tuple(scalar(1))).second,
              scalar(3));
}
TEST(Vmap, OverOtherAxesAndNested) {
  const Array a = random(9, {3, 4, 5}), b = random(10, {5, 4});
  const auto f = [](const Array& x, const Array& y) { return x * y; };  // [3, 5] and [5]
  const Array mapped = vmap(f, {1, 1}, 2)(a, b);
  ASSERT_EQ(mapped.shape(), (Shape{3, 5, 4}));
  for (std::int64_t i = 0; i < 4; ++i)
    expect_same(contiguous(slice_axis(mapped, 2, {i, i + 1})),
                contiguous(expand_dims(
                    f(squeeze(slice_axis(a, 1, {i, i + 1}), 1), squeeze(slice_axis(b, 1, {i, i + 1}), 1)), 2)));
  const Array outer = vmap(vmap([](const Array& x, const Array& y) { return x * y; }, {std::nullopt, 0}),
                           {0, std::nullopt})(random(11, {3}), random(12, {4}));
  expect_same(outer, expand_dims(random(11, {3}), 1) * expand_dims(random(12, {4}), 0));
}

TEST(Vmap, OfCondTakesEachRowsBranch) {
  const Array x = Array::from<float>({-1, 2, -3, 4});
  const auto f = [](const Array& v) {
    return cond(
        greater(v, zeros({})), [](const Array& a) { return log(a); }, [](const Array& a) { return a * a; }, v);
  };
  const Array y = vmap(f)(x);
  for (std::int64_t i = 0; i < 4; ++i)
    expect_same(contiguous(squeeze(slice_axis(y, 0, {i, i + 1}), 0)), f(squeeze(slice_axis(x, 0, {i, i + 1}), 0)));
  const Array gradients = vmap(grad(f))(x);
  expect_same(gradients, Array::from<float>({-2, 0.5f, -6, 0.25f}));
}

int count_of(const Program& program, const Primitive& primitive) {
  int count = 0;
  for (const Equation& equation : program.equations) {
    count += equation.primitive == &primitive;
    if (equation.attributes)
      for (const ProgramRef& inner : equation.primitive->attributes->programs(equation.attributes.get()))
        count += count_of(*inner, primitive);
  }
  return count;
}
template <class F>
void expect_rows_of_one_loop(const F& f, const Array& x) {
  const Array y = vmap(f)(x);
  for (std::int64_t i = 0; i < x.shape()[0]; ++i)
    expect_same(contiguous(squeeze(slice_axis(y, 0, {i, i + 1}), 0)), f(squeeze(slice_axis(x, 0, {i, i + 1}), 0)));
  const Traced traced = trace("test", {x.type()}, [&](const Arrays& in) { return Arrays{vmap(f)(in[0])}; });
  EXPECT_EQ(count_of(*traced.program, prim::while_loop), 1);
  EXPECT_EQ(count_of(*traced.program, prim::scan), 0);
  expect_same(compile(vmap(f))(x), y);
}
TEST(Vmap, OfWhileLoopIsOneLoop) {
  // Rows end at different times; those that have ended would overflow or become NaN if they went on.
  const Array starts = Array::from<float>({3, -0.0f, 1e30f, 99, 5e-3f, -7, 100});
  expect_rows_of_one_loop(
      [](const Array& x) {
        return while_loop([](const Array& c) { return less(c * c, full({}, 1e4)); },
                          [](const Array& c) { return (c - full({}, 1)) * 1e9 / (c - c * 1e-30); }, x);
      },
      starts);
  // A condition that no row decides, on a carry that has no batch; the other gets one in the first iteration.
  using Carry = std::tuple<Array, Array, Array>;
  expect_rows_of_one_loop(
      [](const Array& x) {
        return std::get<1>(while_loop([](const Carry& c) { return less(std::get<0>(c), full({}, 6, DType::i64)); },
                                      [&](const Carry& c) {
                                        const auto& [i, a, k] = c;
                                        return Carry(i + full({}, 1, DType::i64), sin(a * x) + k, k);
                                      },
                                      Carry(zeros({}, DType::i64), full({3}, 2), full({3}, 0.5))));
      },
      random(3, {4, 3}));
  // Constants of the condition that have the batch, integers and flags in the carry.
  using Two = std::pair<Array, Array>;
  expect_rows_of_one_loop(
      [](const Array& x) {
        return convert(
            while_loop(
                [&](const Two& c) { return bitwise_and(less(convert(c.first, DType::f32), total(x)), c.second); },
                [](const Two& c) {
                  return Two(c.first + full({}, 1, DType::i64), less(c.first, full({}, 5, DType::i64)));
                },
                Two(zeros({}, DType::i64), ones({}, DType::boolean)))
                .first,
            DType::f32);
      },
      random(4, {5, 3}) * 3.0);
  const auto none = [](const Array& x) {
    return while_loop([](const Array& c) { return less(c, full({}, 9)); }, [](const Array& c) { return c + 1.0; }, x);
  };
  EXPECT_EQ(vmap(none)(zeros({0})).shape(), (Shape{0}));
  // Loops in loops.
  const Array grid = random(5, {2, 3}), both = vmap(vmap(none))(grid);
  for (std::size_t i = 0; i < 6; ++i)
    EXPECT_EQ(contiguous(both).data<float>()[i],
              none(Array::scalar(static_cast<double>(grid.data<float>()[i]), DType::f32)).item<float>());
}
TEST(Vmap, OfCustomVjpBatchesItsRules) {
  const auto f = custom_vjp([](const Array& x, const Array& w) { return sin(x) * w; },
                            [](const Array& x, const Array& w) { return std::pair(sin(x) * w, std::pair(x, w)); },
                            [](const std::pair<Array, Array>& kept, const Array& ct) {
                              return std::tuple(ct * cos(kept.first) * 3.0, ct * kept.second * 0.25);
                            });
  const Array xs = random(6, {4, 3}), w = random(7, {3});
  const auto of_row = [&](const Array& x, const Array& v) {
    return value_and_grad([&](const std::pair<Array, Array>& in) { return total(f(in.first, in.second)); })(
        std::pair(x, v));
  };
  const auto batched = vmap(of_row, {0, std::nullopt})(xs, w);
  std::vector<Array> values, of_x, of_w;
  for (std::int64_t i = 0; i < 4; ++i) {
    const auto [value, gradient] = of_row(squeeze(slice_axis(xs, 0, {i, i + 1}), 0), w);
    values.push_back(value);
    of_x.push_back(gradient.first);
    of_w.push_back(gradient.second);
  }
  expect_same(batched, std::pair(stack(values), std::pair(stack(of_x), stack(of_w))));
  // The gradient of a batch: the rules' contributions, the shared operand's summed over the rows.
  const auto whole = grad([&](const std::pair<Array, Array>& in) {
    return total(vmap(f, {0, std::nullopt})(in.first, in.second));
  })(std::pair(xs, w));
  expect_same(whole.first, stack(of_x));
  expect_same(whole.second, sum(stack(of_w), {0}));
  const Traced traced = trace("test", {xs.type(), w.type()}, [&](const Arrays& in) {
    return Arrays{vmap(f, {0, std::nullopt})(in[0], in[1])};
  });
  EXPECT_EQ(count_of(*traced.program, prim::scan), 0);
  EXPECT_EQ(count_of(*traced.program, prim::custom_vjp), 1);
}

TEST(Cond, ClampsEveryIndex) {
  const auto branches = std::tuple([](const Array& x) { return x + 1.0; }, [](const Array& x) { return x + 2.0; });
  const Array x = full({}, 0);
  const auto chosen = [&](const Array& index) { return switch_case(index, branches, x).template item<float>(); };
  EXPECT_EQ(chosen(Array::scalar(-5, DType::i64)), 1);
  EXPECT_EQ(chosen(Array::scalar(7, DType::i8)), 2);
  EXPECT_EQ(chosen(bitwise_not(zeros({}, DType::u64))), 2);
}

TEST(Map, IsVmapInLessMemory) {
  const Array x = random(13, {4, 3});
  const auto f = [](const Array& row) { return tanh(row) * total(row); };
  expect_same(map(f, x), vmap(f)(x));
}

TEST(ForiLoop, CountsAndDifferentiates) {
  const auto power = [](const Array& x) {
    return fori_loop(
        2, 5, [&](const Array& i, const Array& c) { return c * convert(i, DType::f32); }, x);
  };
  EXPECT_EQ(power(full({}, 1)).item<float>(), 24);
  EXPECT_EQ(grad(power)(full({}, 1)).item<float>(), 24);
  EXPECT_EQ(fori_loop(
                5, 2, [](const Array&, const Array& c) { return c * 9.0; }, full({}, 1))
                .item<float>(),
            1);
}

TEST(Scan, OfNothing) {
  const auto [carry, ys] =
      scan([](const Array& c, const Array& x) { return std::pair(c + x, c); }, full({2}, 3), zeros({0, 2}));
  expect_same(carry, full({2}, 3));
  EXPECT_EQ(ys.shape(), (Shape{0, 2}));
  expect_same(
      grad([](const Array& c) {
        return total(scan([](const Array& h, const Array& x) { return std::pair(h * x, h); }, c, zeros({0, 2})).first);
      })(full({2}, 3)),
      contiguous(ones({2})));
}

// Gradients of a scan in whose body a compiled, rematerialised function is vmapped: against the same written out.
TEST(Transforms, NestInAnyOrder) {
  for (const bool narrow : {false, true}) {
    set_narrow_accumulators(narrow);
    const Array w = random(14, {3, 4}), x = random(15, {4, 4});
    const auto row = [](const Array& h, const Array& weight) { return sin(h * weight) + h * 0.5; };
    const auto nested = [&](const Array& weights) {
      const auto inner = compile(remat(row));
      return total(scan(
                       [&](const Array& h, const Array& weight) {
                         return std::pair(vmap(inner, {0, std::nullopt})(h, weight), std::tuple<>());
                       },
                       x, weights)
                       .first);
    };
    const auto plain = [&](const Array& weights) {
      Array h = x;
      for (std::int64_t i = 0; i < 3; ++i) {
        const Array weight = squeeze(slice_axis(weights, 0, {i, i + 1}), 0);
        h = row(h, broadcast_to(weight, h.shape()));
      }
      return total(h);
    };
    expect_same(value_and_grad(nested)(w), value_and_grad(plain)(w));
    expect_same(compile(grad(nested))(w), grad(nested)(w));
    const Array ws = stack(std::vector<Array>{w, w * 2.0});
    expect_same(vmap(grad(nested))(ws), stack(std::vector<Array>{grad(nested)(w), grad(nested)(w * 2.0)}));
    // Second order: the gradient of a directional derivative.
    const auto directional = [&](const auto& f) {
      return [&f, &w](const Array& v) { return jvp(f, std::tuple(v), std::tuple(w)).second; };
    };
    const auto of_nested = directional(nested);
    const auto of_plain = directional(plain);
    expect_same(of_nested(w), of_plain(w));
    expect_same(compile(grad(of_nested))(w), grad(of_nested)(w));
  }
  set_narrow_accumulators(false);
}

TEST(Promote, IsTheRefereeOfEagerMode) {
  const Array x = random(16, {3, 4}, DType::bf16);
  const auto f = [](const Array& a) {
    const Array h = convert(a, DType::f32);
    return scan([](const Array& c, const Array& r) { return std::pair(tanh(c + r), c * 0.3); }, zeros({4}), h).second;
  };
  const Traced traced = trace("test", {x.type()}, [&](const Arrays& in) { return Arrays{f(in[0])}; });
  const Program wide = promote(*traced.program), once = ideal(*traced.program);
  verify(wide);
  verify(once);
  const auto in_mode = [&](Mode mode) {
    const ModeScope scope(mode);
    return replay(*traced.program, std::vector<Array>{x});
  };
  expect_same(replay(wide, std::vector<Array>{convert(x, DType::f64)}), in_mode(Mode::f64));
  expect_same(replay(once, std::vector<Array>{x}), in_mode(Mode::ideal));
  EXPECT_EQ(wide.output_types()[0].dtype, DType::f64);
  EXPECT_EQ(once.output_types()[0].dtype, DType::f32);
}

TEST(Compile, FusesAndKeepsEveryRounding) {
  const auto f = [](const Array& x) { return gelu(x * 1.5 + 2.0) * sigmoid(x); };
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64}) {
    const Array x = random(17, {70, 33}, dtype);
    const Traced traced = trace("test", {x.type()}, [&](const Arrays& in) { return Arrays{f(in[0])}; });
    const Executable executable(*traced.program);
    EXPECT_EQ(executable.statistics().chains, 1u);
    EXPECT_EQ(executable.statistics().chained, 5u);
    expect_same(executable.run(std::vector<Array>{x}), Arrays{f(x)});
  }
  // C22: a x + b x stays two products, and log(exp 89) stays infinite.
  const auto products = compile([](const Array& x) { return full({}, 1e20) * x + full({}, -1e20) * x; });
  EXPECT_EQ(products(full({}, 1e10)).item<float>(), 0);
  EXPECT_EQ(compile([](const Array& x) { return log(exp(x)); })(full({}, 89)).item<float>(), HUGE_VALF);
}

TEST(Compile, CapturesGiveTheSameBitsAsArguments) {  // C23
  const Array rows = Array::from(std::vector<float>{0, 1, 2, 3, 4, 5}, {6}),
              tokens = stack(std::vector<Array>{rows, rows});
  const Array index = arange(6);
  const auto captured = compile(vmap([&](const Array& row) { return take(row, index, 0) + 1.0; }));
  const Array expected = tokens + 1.0;
  expect_same(captured(tokens), expected);
  const auto scanned = map([&](const Array& row) { return take(row, index, 0) + 1.0; }, tokens);
  expect_same(scanned, expected);
}

TEST(Dump, WritesWhatATransformTakesAndMakes) {
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / "eadem_dump_test";
  std::filesystem::remove_all(folder);
  const Array x = random(18, {3});
  const auto f = [](const Array& a) { return total(a * a); };
  const Array plain = grad(f)(x);
  setenv("EADEM_DUMP", folder.c_str(), 1);
  const Array dumped = grad(f)(x);
  unsetenv("EADEM_DUMP");
  expect_same(dumped, plain);
  const auto files = std::distance(std::filesystem::directory_iterator(folder), {});
  EXPECT_EQ(files, 2);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace eadem
