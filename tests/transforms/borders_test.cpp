// Small programs at the borders of transforms: carries that are handed on, exchanged, doubled, slices or constants;
// one value as several operands; keys of compiled functions; chains in place; programs as text; threads.

#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "eadem/array/rules.h"
#include "eadem/ops/catalog.h"
#include "eadem/ops/ops.h"
#include "eadem/transforms/compile.h"
#include "eadem/transforms/transforms.h"
#include "tests/support/bits.h"
#include "tests/support/laws.h"

namespace eadem {
namespace {

using namespace eadem::testing;

Array random(std::uint64_t seed, const Shape& shape, DType dtype) {
  return normal(random_key(seed), shape, dtype);
}
Array total(const Array& x) {
  Shape axes;
  for (int i = 0; i < x.rank(); ++i) axes.push_back(i);
  return sum(x, axes);
}
Array row(const Array& x, std::int64_t i) {
  return squeeze(slice_axis(x, 0, {i, i + 1}), 0);
}

class Borders : public testing::AccumulatorTest {
 protected:
  Array r(std::uint64_t seed, const Shape& s = {64}) const { return random(seed, s, dtype()); }
};
INSTANTIATE_TEST_SUITE_P(Types, Borders,
                         ::testing::Combine(::testing::Values(DType::f64, DType::f32, DType::bf16), ::testing::Bool()),
                         testing::accumulator_test_name);

TEST_P(Borders, RematThatForwardsItsArgument) {
  const Array x = r(1), a = r(2), b = r(3), c = r(4), d = r(5);
  const auto f = [](const Array& v) { return std::tuple(v, v * 0.3, v * 0.3); };
  const auto loss = [&](const auto& g) {
    return [&](const Array& v) {
      const auto [y, z, w] = g(v);
      return total(y * a) + total(v * b) + total(y * c) + total(v * d) + total(z * a) + total(z * c);
    };
  };
  expect_same(grad(loss(f))(x), grad(loss(remat(f)))(x));
}
TEST_P(Borders, RematThatGivesOneValueTwice) {
  const Array x = r(1), a = r(2), b = r(3), c = r(4), d = r(5);
  const auto f = [](const Array& v) {
    const Array y = v * 0.3;
    return std::pair(y, y);
  };
  const auto loss = [&](const auto& g) {
    return [&](const Array& v) {
      const auto [y, z] = g(v);
      return total(y * a) + total(z * b) + total(y * c) + total(z * d);
    };
  };
  expect_same(grad(loss(f))(x), grad(loss(remat(f)))(x));
}
TEST_P(Borders, CondOfOneValueTwice) {
  const Array x = r(1);
  const Array p = Array::scalar(1, DType::boolean);
  const auto yes = [](const Array& a, const Array& b) { return a * sin(b); };
  const auto no = [](const Array& a, const Array& b) { return a + b; };
  expect_same(grad([&](const Array& v) { return total(yes(v, v) * v); })(x),
              grad([&](const Array& v) { return total(cond(p, yes, no, v, v) * v); })(x));
}
TEST_P(Borders, CondWhoseBranchesCaptureOneValue) {
  const Array x = r(1), w = r(2);
  const Array p = Array::scalar(1, DType::boolean);
  const auto loss = [&](const Array& u) {
    return total(cond(
        p, [&](const Array& a) { return a * u; }, [&](const Array& a) { return a + u; }, x));
  };
  expect_same(grad(loss)(w), grad([&](const Array& u) { return total(x * u); })(w));
  const auto loss2 = [&](const Array& u) {
    return total(cond(
                     p, [&](const Array& a) { return a * u; }, [&](const Array& a) { return a + u; }, u) *
                 u);
  };
  expect_same(grad(loss2)(w), grad([&](const Array& u) { return total(u * u * u); })(w));
}

// Everything that a carry may be; the initial values are used afterwards, too.
template <class Body, class Carry>
void scan_law(const Body& body, const Carry& start, const Array& xs, bool reverse, const Array& weights) {
  const std::int64_t n = xs.shape()[0];
  const auto finish = [&](const Carry& first, const Carry& last, const std::optional<Array>& ys, const Array& in) {
    Array sum = zeros({}, in.dtype());
    const Arrays a = leaves(first), b = leaves(last);
    std::int64_t k = 0;
    for (int round = 0; round < 3; ++round)
      for (std::size_t i = 0; i < a.size(); ++i) {
        sum = sum + total(b[i] * row(constant(weights), k++ % weights.shape()[0]));
        sum = sum + total(a[i] * row(constant(weights), k++ % weights.shape()[0]));
      }
    if (ys) sum = sum + total(*ys * *ys);
    return sum + total(in * 0.7);
  };
  const auto of_loop = [&](const std::pair<Carry, Array>& in) {
    Carry c = in.first;
    std::vector<Array> ys(static_cast<std::size_t>(n));
    for (std::int64_t s = 0; s < n; ++s) {
      const std::int64_t i = reverse ? n - 1 - s : s;
      auto [next, y] = body(c, row(in.second, i));
      c = next;
      ys[static_cast<std::size_t>(i)] = y;
    }
    return finish(in.first, c, n ? std::optional(stack(ys)) : std::nullopt, in.second);
  };
  const auto of_scan = [&](const std::pair<Carry, Array>& in) {
    const auto [c, ys] = scan(body, in.first, in.second, {.reverse = reverse});
    return finish(in.first, c, n ? std::optional<Array>(ys) : std::nullopt, in.second);
  };
  const std::pair<Carry, Array> in(start, xs);
  expect_same(value_and_grad(of_loop)(in), value_and_grad(of_scan)(in));
  const std::tuple<std::pair<Carry, Array>> point(in);
  expect_same(jvp(of_loop, point, point), jvp(of_scan, point, point));
  expect_same(compile([&](const std::pair<Carry, Array>& v) { return value_and_grad(of_scan)(v); })(in),
              value_and_grad(of_scan)(in));
  expect_same(value_and_grad(of_loop)(in), value_and_grad(remat(of_scan))(in));
  // batches
  const auto doubled = map_leaves([](const Array& v) { return stack(std::vector<Array>{v, v * 0.5}); }, in);
  const auto both = vmap([&](const std::pair<Carry, Array>& v) { return value_and_grad(of_scan)(v); })(doubled);
  const auto one = value_and_grad(of_loop)(in);
  const auto half = value_and_grad(of_loop)(map_leaves([](const Array& v) { return v * 0.5; }, in));
  expect_same(leaves(map_leaves([](const Array& v) { return contiguous(row(v, 0)); }, both)), leaves(one));
  expect_same(leaves(map_leaves([](const Array& v) { return contiguous(row(v, 1)); }, both)), leaves(half));
}
TEST_P(Borders, ScansOfEveryKindOfCarry) {
  using Two = std::pair<Array, Array>;
  const Array w = r(40, {7, 8});
  for (const std::int64_t n : {0, 1, 2, 5})
    for (const bool reverse : {false, true}) {
      SCOPED_TRACE(fmt::format("length {} reverse {}", n, reverse));
      const Array xs = n ? r(41, {n, 8}) : zeros({0, 8}, dtype()), a = r(42, {8}), b = r(43, {8}), big = r(44, {8});
      const Two ab(a, b);
      {
        SCOPED_TRACE("forwarded");
        scan_law(
            [](const Two& c, const Array& x) { return std::pair(Two(c.first, c.second * x + c.first), c.first * x); },
            ab, xs, reverse, w);
      }
      {
        SCOPED_TRACE("duplicated");
        scan_law(
            [](const Two& c, const Array& x) {
              const Array v = sin(c.first * x) + c.second;
              return std::pair(Two(v, v), v);
            },
            ab, xs, reverse, w);
      }
      {
        SCOPED_TRACE("exchanged");
        scan_law([](const Two& c, const Array& x) { return std::pair(Two(c.second, c.first), c.second * x); }, ab, xs,
                 reverse, w);
      }
      {
        SCOPED_TRACE("shifted");
        scan_law([](const Two& c, const Array& x) { return std::pair(Two(c.second, c.first * x + c.second), c.first); },
                 ab, xs, reverse, w);
      }
      {
        SCOPED_TRACE("slice");
        scan_law([](const Two& c, const Array& x) { return std::pair(Two(x, c.first * x + c.second), x); }, ab, xs,
                 reverse, w);
      }
      {
        SCOPED_TRACE("slice2");
        scan_law([](const Two& c, const Array& x) { return std::pair(Two(x, c.first * sin(x)), c.first * x); }, ab, xs,
                 reverse, w);
      }
      {
        SCOPED_TRACE("constant");
        scan_law([&](const Two& c,
                     const Array& x) { return std::pair(Two(constant(big), c.first * x + c.second), c.first); },
                 ab, xs, reverse, w);
      }
      {
        SCOPED_TRACE("y is carry out");
        scan_law(
            [](const Two& c, const Array& x) {
              const Array v = c.first * x + c.second;
              return std::pair(Two(v, c.second * 0.5), v);
            },
            ab, xs, reverse, w);
      }
      {
        SCOPED_TRACE("y is carry in");
        scan_law(
            [](const Two& c, const Array& x) {
              const Array v = c.first * x + c.second;
              return std::pair(Two(v, c.second * 0.5), c.first);
            },
            ab, xs, reverse, w);
      }
      {
        SCOPED_TRACE("y constant");
        scan_law(
            [&](const Two& c, const Array& x) {
              const Array v = c.first * x + c.second;
              return std::pair(Two(v, c.second * 0.5), constant(big));
            },
            ab, xs, reverse, w);
      }
      {
        SCOPED_TRACE("nested");
        scan_law(
            [&](const Two& c, const Array& x) {
              const Array inner = scan([&](const Array& h, const Array& s) { return std::pair(h * s + total(x), h); },
                                       c.first, c.second)
                                      .first;
              return std::pair(Two(sin(inner), c.second), inner);
            },
            Two(zeros({}, dtype()) + 0.5, b), reshape(r(45, {8 * (n ? n : 1)}), {n ? n : 1, 8}), reverse, w);
      }
    }
}
TEST_P(Borders, ScanWithIntegersInTheCarry) {
  using Two = std::pair<Array, Array>;
  const Array xs = r(1, {4, 3}), start = r(2, {3});
  const auto body = [&](const Two& c, const Array& x) {
    return std::pair(Two(c.first * x + convert(c.second, x.dtype()), c.second + 1), std::pair(c.second, c.first));
  };
  const auto of_loop = [&](const Array& in) {
    Two c(start, zeros({}, DType::i64));
    std::vector<Array> ys;
    for (std::int64_t i = 0; i < 4; ++i) {
      auto [n, y] = body(c, row(in, i));
      c = n;
      ys.push_back(y.second);
    }
    return total(stack(ys)) + total(c.first);
  };
  const auto of_scan = [&](const Array& in) {
    const auto [c, ys] = scan(body, Two(start, zeros({}, DType::i64)), in);
    return total(ys.second) + total(c.first);
  };
  expect_same(value_and_grad(of_loop)(xs), value_and_grad(of_scan)(xs));
  expect_same(jvp(of_loop, std::tuple(xs), std::tuple(xs)), jvp(of_scan, std::tuple(xs), std::tuple(xs)));
  expect_same(grad(of_loop)(xs), compile(grad(of_scan))(xs));
}
TEST_P(Borders, OneValueAsManyOperands) {
  const Array x = r(1, {4, 4}), w = r(2, {4, 4});
  const auto body = [&](const Array& h, const std::pair<Array, Array>& s) {
    return std::pair(h * s.first + s.second * w, h);
  };
  const auto of_loop = [&](const Array& v) {
    Array h = v;
    std::vector<Array> ys;
    for (std::int64_t i = 0; i < 4; ++i) {
      auto [n, y] = body(h, {row(w * 1.5, i), row(w, i)});
      h = n;
      ys.push_back(y);
    }
    return total(h * v) + total(stack(ys));
  };
  const auto of_scan = [&](const Array& v) {
    const auto [h, ys] = scan(body, v, std::pair(w * 1.5, w));
    return total(h * v) + total(ys);
  };
  expect_same(of_loop(x), of_scan(x));
  const auto f = remat([](const Array& a, const Array& b, const Array& c) { return a * b + sin(c) * a; });
  const auto plain = [](const Array& a, const Array& b, const Array& c) { return a * b + sin(c) * a; };
  expect_same(grad([&](const Array& v) { return total(f(v, v, v) * v); })(x),
              grad([&](const Array& v) { return total(plain(v, v, v) * v); })(x));
}
TEST_P(Borders, NegativeZeroTangents) {
  const Array x = r(1, {3}), t = negate(zeros({3}, dtype()));
  const auto id = [](const Array& v) { return transpose(reshape(v, {3, 1})); };
  const auto a = jvp(id, std::tuple(x), std::tuple(t));
  const auto b = jvp(remat(id), std::tuple(x), std::tuple(t));
  expect_same(a, b);
  expect_same(a.second, contiguous(zeros({1, 3}, dtype())));
}

struct Static {
  Array (*f)(const Array&);
  Array x;
  static void fields(auto& m, auto g) { g("f", m.f), g("x", m.x); }
};
struct Names {
  std::string a, b;
  Array x;
  static void fields(auto& m, auto g) { g("a", m.a), g("b", m.b), g("x", m.x); }
};
TEST(CompileKeys, FunctionPointers) {
  const auto f = compile([](const Static& s) { return s.f(s.x); });
  const Array x = full({3}, 0.5);
  expect_same(f(Static{[](const Array& v) { return sin(v); }, x}), sin(x));
  expect_same(f(Static{[](const Array& v) { return cos(v); }, x}), cos(x));
}
TEST(CompileKeys, Strings) {
  const auto f = compile([](const Names& s) { return s.x * static_cast<double>(s.a.size()); });
  const Array x = full({3}, 0.5);
  expect_same(f(Names{"a =b", "c", x}), x * 4.0);
  expect_same(f(Names{"a", "b =c", x}), x * 1.0);
}
TEST(CompileKeys, MapKeys) {
  using M = std::map<std::string, Array>;
  const auto f = compile([](const M& m) {
    M r;
    for (const auto& [k, v] : m) r.emplace(k, v * static_cast<double>(k.size()));
    return r;
  });
  const Array x = full({3}, 0.5);
  const M one = f(M{{"a", x}}), two = f(M{{"bcd", x}});
  EXPECT_TRUE(two.contains("bcd"));
  if (two.contains("bcd")) expect_same(two.at("bcd"), x * 3.0);
  const auto g = compile([](const M& m, const M& n) {
    return m.empty() ? n.begin()->second : m.size() == 2 ? m.begin()->second * 3.0 : n.begin()->second * 2.0;
  });
  expect_same(g(M{{"a", x}, {"b", x}}, M{}), x * 3.0);
  expect_same(g(M{{"a", x}}, M{{"b", x}}), x * 2.0);
}
TEST(CompileKeys, AfterAnException) {
  int calls = 0;
  const auto f = compile([&](const Array& x) {
    if (calls++ == 0) throw std::runtime_error("no");
    return x + 1.0;
  });
  EXPECT_THROW(f(full({3}, 1)), std::runtime_error);
  EXPECT_EQ(Trace::current(), nullptr);
  EXPECT_EQ(f.programs(), 0u);
  expect_same(f(full({3}, 1)), contiguous(full({3}, 2)));
}
TEST(CompileKeys, ArgumentsAsResults) {
  const auto f = compile([](const Array& x, const Array& y) {
    const Array z = x * y;
    return std::tuple(x, z, z, y, full({3}, 2), x);
  });
  const Array x = random(1, {3}, DType::f32), y = random(2, {3}, DType::f32);
  for (int i = 0; i < 3; ++i) expect_same(f(x, y), std::tuple(x, x * y, x * y, y, contiguous(full({3}, 2)), x));
}
TEST(CompileChains, Long) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64})
    for (const std::int64_t n : {0, 1, 17, 511, 513, 5000}) {
      const auto f = [&](const std::vector<Array>& in) {
        Array h = in[0];
        std::vector<Array> outs;
        for (int i = 0; i < 60; ++i) {
          switch (i % 9) {
            case 0: h = h * in[static_cast<std::size_t>(i * 7 % 11)] + in[static_cast<std::size_t>(i % 11)]; break;
            case 1: h = exp(h); break;
            case 2: h = where(greater(h, in[1]), h, in[2] * h); break;
            case 3: h = log(h * h + 0.001); break;
            case 4: h = sin(h) + tanh(in[3]); break;
            case 5:
              h = gelu(h) - h;
              outs.push_back(h);
              break;
            case 6: h = convert(convert(h, DType::f32) * 1.1, h.dtype()); break;
            case 7:
              h = convert(convert(h, DType::i32), h.dtype()) + h;
              outs.push_back(-h);
              break;
            default: h = clamp(h, full_like(h, -2), full_like(h, 2)); break;
          }
        }
        outs.push_back(h);
        return outs;
      };
      std::vector<Array> in;
      for (std::uint64_t i = 0; i < 11; ++i) in.push_back(n ? contiguous(random(i, {n}, dtype)) : zeros({0}, dtype));
      const auto c = compile(f);
      expect_same(c(in), f(in));
      expect_same(c(in), f(in));
    }
}
// In place within a chain: functions that take a slow path for some elements must not read what they have overwritten.
TEST(CompileChains, InPlaceOfSlowPaths) {
  std::vector<float> v;
  for (int i = 0; i < 5000; ++i)
    v.push_back(std::ldexp(1 + static_cast<float>(i) / 5000, (i * 37) % 250 - 125) * (i % 2 ? 1 : -1));
  const Array x = Array::from(v, {5000});
  const auto in_place = [&](auto fn) {
    // reverse makes an array that is released in the chain of fn.
    const auto f = [&](const Array& a) { return fn(contiguous(reverse(a, {0}))); };
    expect_same(compile(f)(x), f(x));
    const auto h = [&](const Array& a) { return fn(cumsum(a, 0)); };
    expect_same(compile(h)(x), h(x));
  };
  in_place([](const Array& a) { return exp(a); });
  in_place([](const Array& a) { return sin(a); });
  in_place([](const Array& a) { return cos(a); });
  in_place([](const Array& a) { return tan(a); });
  in_place([](const Array& a) { return log(a * a); });
  in_place([](const Array& a) { return gelu(a); });
  in_place([](const Array& a) { return silu(a); });
  in_place([](const Array& a) { return tanh(a); });
  in_place([](const Array& a) { return erf(a); });
  in_place([](const Array& a) { return sin(exp(cos(a) * a)); });
}

TEST(Programs, NaNsAndScopesAndEmpty) {
  std::vector<float> v(3);
  const std::uint32_t bits[3] = {0xffc12345u, 0x7f800001u, 0x80000000u};
  std::memcpy(v.data(), bits, sizeof bits);
  const Array nan = Array::from(v, {3}), none = zeros({0, 7}), flag = Array::scalar(1, DType::boolean),
              low = Array::scalar(-128, DType::i8);
  const Array big = Array::from<std::uint64_t>({~0ull});
  const Traced traced = trace("t", {{DType::f32, {3}}}, [&](const Arrays& in) {
    const Scope a("müller;=,%1:x");
    const auto r = scan(
        [&](const Array& c, const Array&) {
          const Scope b("in%3");
          return std::pair(c + nan, std::pair(none, std::tuple(flag, low, big)));
        },
        in[0], ones({2, 1}));
    Arrays out{r.first};
    for (const Array& l : leaves(r.second)) out.push_back(l);
    return out;
  });
  const std::string text = print(*traced.program);
  const Program parsed = parse_program(text, catalog());
  EXPECT_TRUE(parsed == *traced.program) << text;
  EXPECT_EQ(print(parsed), text);
}
// Of two megabytes: reading takes time linear in the text, or this test takes minutes.
TEST(Programs, OfManyEquations) {
  const Traced traced = trace("t", {{DType::f32, {3}}}, [&](const Arrays& in) {
    Array h = in[0];
    for (int i = 0; i < 40000; ++i) h = reverse(h, {0});
    return Arrays{h};
  });
  EXPECT_TRUE(parse_program(print(*traced.program), catalog()) == *traced.program);
}

TEST(Threads, OneCompiledFunction) {
  const auto f = [](const Array& x) {
    return value_and_grad([](const Array& v) {
      return total(
          scan([](const Array& c, const Array& s) { return std::pair(sin(c * s) + c, c); }, row(v, 0), v).second);
    })(x);
  };
  for (int round = 0; round < 20; ++round) {
    const auto c = compile(f);
    const Array x = random(static_cast<std::uint64_t>(round), {6, 40}, DType::f32);
    const auto expected = f(x);
    std::vector<std::thread> threads;
    std::atomic<int> wrong = 0;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&] {
        for (int i = 0; i < 20; ++i) wrong += !same_bits(leaves(c(x)), leaves(expected));
      });
    for (auto& t : threads) t.join();
    EXPECT_EQ(wrong, 0);
  }
}
TEST(Nested, Batches) {
  const Array x = random(1, {3, 4}, DType::f32);
  const auto f = [](const Array& v) {
    return total(cond(
        greater(total(v), zeros({})), [](const Array& a) { return a * a; }, [&](const Array& a) { return sin(a) * v; },
        v));
  };
  const Array got = vmap(grad(f))(x);
  for (int i = 0; i < 3; ++i) expect_same(contiguous(row(got, i)), grad(f)(row(x, i)));
  const auto of_batch = [&](const Array& v) { return total(vmap(f)(v)); };
  expect_same(grad(of_batch)(x), got);
  expect_same(contiguous(vmap(f, {}, -1)(x)), contiguous(vmap(f)(x)));
  const auto w = [](const Array& v) {
    return while_loop([](const Array& c) { return less(c, full({}, 50)); },
                      [](const Array& c) { return c * 1.5 + 1.0; }, v);
  };
  const Array u = Array::from<float>({1, 20, 300});
  const auto both = jvp([&](const Array& v) { return vmap(w)(v); }, std::tuple(u), std::tuple(u));
  for (int i = 0; i < 3; ++i) {
    const auto one = jvp(w, std::tuple(row(u, i)), std::tuple(row(u, i)));
    expect_same(contiguous(row(both.first, i)), contiguous(one.first));
    expect_same(contiguous(row(both.second, i)), contiguous(one.second));
  }
  EXPECT_EQ(vmap(f)(zeros({0, 4})).shape(), (Shape{0}));
  EXPECT_EQ(vmap(grad(f))(zeros({0, 4})).shape(), (Shape{0, 4}));
  // second order through scan, in every mode
  const auto s = [](const Array& v) {
    return total(
        scan([](const Array& c, const Array& q) { return std::pair(sin(c * q), c * c); }, row(v, 0), v).second);
  };
  const Array h = vmap([&](const Array& t) { return jvp(grad(s), std::tuple(x), std::tuple(t)).second; })(
      stack(std::vector<Array>{x, x * 2.0}));
  expect_same(contiguous(row(h, 0)), contiguous(jvp(grad(s), std::tuple(x), std::tuple(x)).second));
  const Array rev = grad([&](const Array& v) { return total(grad(s)(v) * x); })(x);
  for (std::size_t i = 0; i < 12; ++i) EXPECT_NEAR(rev.data<float>()[i], contiguous(row(h, 0)).data<float>()[i], 1e-4);
}
struct Mixed {
  Array w, mask, ids;
  static void fields(auto& m, auto f) { f("w", m.w), f("mask", m.mask), f("ids", m.ids); }
};
TEST(Gradient, OfTreesWithIntegersAndFlags) {
  const Mixed m{random(1, {4}, DType::f32), ones({4}, DType::boolean), arange(4)};
  const auto f = [](const Mixed& a) { return total(where(a.mask, a.w, a.w * 2.0)); };
  const Mixed g = grad(f)(m);
  EXPECT_EQ(g.mask.type(), m.mask.type());
  EXPECT_EQ(g.ids.type(), m.ids.type());
  const auto [v, t] = jvp(f, std::tuple(m), std::tuple(m));
  expect_same(remat(f)(m), f(m));
  expect_same(grad([&](const Mixed& a) { return remat(f)(a); })(m), g);
}
TEST(ForiLoop, CountsFarOut) {
  const std::int64_t far = (std::int64_t{1} << 60) + 1;
  EXPECT_EQ(fori_loop(
                far, far + 1, [](const Array& i, const Array&) { return i; }, zeros({}, DType::i64))
                .item<std::int64_t>(),
            far);
}
}  // namespace
}  // namespace eadem
