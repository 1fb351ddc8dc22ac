// The gradient of a scan is a scan: whatever its carries do, its program does not grow with the length; and scans
// within scans are traced once a level.

#include <gtest/gtest.h>

#include "eadem/array/rules.h"
#include "eadem/ops/catalog.h"
#include "eadem/ops/ops.h"
#include "eadem/transforms/control.h"
#include "tests/support/loops.h"

namespace eadem {
namespace {

using namespace eadem::testing;

using Three = std::tuple<Array, Array, Array>;

Array random(std::uint64_t seed, const Shape& shape, DType dtype = DType::f32) {
  return normal(random_key(seed), shape, dtype);
}
std::size_t equations_of(const Program& program) {
  std::size_t count = program.equations.size();
  for (const Equation& equation : program.equations)
    if (equation.attributes)
      for (const ProgramRef& inner : equation.primitive->attributes->programs(equation.attributes.get()))
        count += equations_of(*inner);
  return count;
}

// f(runner, w, xs) makes its loop with runner(body, carry, slices). By a scan and written out, values, gradients and
// directional derivatives have the same bits, and so have theirs; and the programs of the first have the same number of
// equations for all lengths from some on.
template <class F>
void check(const F& f, const DType dtype) {
  const auto by_scan = [&](bool reverse) {
    return [&f, reverse](const Two& in) {
      return f([reverse](const auto& body, const auto& carry,
                         const Array& xs) { return scan(body, carry, xs, {.reverse = reverse}); },
               in.first, in.second);
    };
  };
  const auto by_loop = [&](bool reverse) {
    return [&f, reverse](const Two& in) {
      return f(
          [reverse](const auto& body, const auto& carry, const Array& xs) { return loop(body, carry, xs, reverse); },
          in.first, in.second);
    };
  };
  for (const bool narrow : {false, true}) {
    set_narrow_accumulators(narrow);
    for (const std::int64_t n : {1, 2, 3, 4, 7, 12})
      for (const bool reverse : {false, true}) {
        SCOPED_TRACE(fmt::format("{} length {} reverse {} narrow {}", name_of(dtype), n, reverse, narrow));
        const Two in(random(1, {3}, dtype), random(2, {n, 3}, dtype)),
            t(random(3, {3}, dtype), random(4, {n, 3}, dtype));
        const auto expected = value_and_grad(by_loop(reverse))(in);
        expect_same(value_and_grad(by_scan(reverse))(in), expected);
        const auto gradient = [&](const Two& v) { return value_and_grad(by_scan(reverse))(v); };
        expect_same(compile(gradient)(in), expected);
        const auto point = std::make_tuple(in), direction = std::make_tuple(t);
        const auto of_loop = by_loop(reverse);
        const auto of_scan = by_scan(reverse);
        expect_same(jvp(of_scan, point, direction), jvp(of_loop, point, direction));
        if (n > 4 && n != 7) continue;
        expect_same_derivatives(of_scan, of_loop, in, t, n <= 3);
      }
  }
  set_narrow_accumulators(false);
  const auto sizes = [&](std::int64_t n) {
    const Types types{{dtype, {3}}, {dtype, {n, 3}}};
    const auto gradient =
        trace("test", types, [&](const Arrays& in) { return leaves(grad(by_scan(false))(Two(in[0], in[1]))); });
    const auto forward = trace("test", types, [&](const Arrays& in) {
      return leaves(jvp(by_scan(false), std::make_tuple(Two(in[0], in[1])), std::make_tuple(Two(in[0], in[1]))));
    });
    return std::pair(equations_of(*gradient.program), equations_of(*forward.program));
  };
  EXPECT_EQ(sizes(24), sizes(48));
}

class ScanGradients : public ::testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Types, ScanGradients, ::testing::Values(DType::f64, DType::f32, DType::bf16, DType::f16),
                         [](const auto& p) { return std::string(name_of(p.param)); });

// What is made of a carry and the ys in the end.
Array finish(const Two& c, const Array& ys) {
  return total(c.first * c.second) + total(ys * ys);
}
Array finish(const Three& c, const Array& ys) {
  return total(std::get<0>(c) * std::get<1>(c)) + total(std::get<2>(c) * std::get<0>(c)) + total(ys * ys);
}

TEST_P(ScanGradients, CarriesThatExchangePlaces) {
  check(
      [](const auto& run, const Array& w, const Array& xs) {
        const auto body = [](const Two& c, const Array& x) {
          return std::pair(Two(c.second, c.first), sin(c.first) * x);
        };
        const auto [c, ys] = run(body, Two(w, w * 0.5), xs);
        return finish(c, ys);
      },
      GetParam());
}
TEST_P(ScanGradients, CarriesThatExchangePlacesOnlyOneOfThemReached) {
  check(
      [](const auto& run, const Array& w, const Array& xs) {
        const auto body = [](const Two& c, const Array& x) {
          return std::pair(Two(c.second * x, sin(c.first)), x * x);
        };
        const auto [c, ys] = run(body, Two(w, zeros_like(w) + 2.0), xs);
        return total(c.first * 3.0) + total(ys);
      },
      GetParam());
}
TEST_P(ScanGradients, CarriesThatGoRound) {
  check(
      [](const auto& run, const Array& w, const Array& xs) {
        const auto body = [](const Three& c, const Array& x) {
          const auto& [p, q, r] = c;
          return std::pair(Three(q, r, p), p * x + q);
        };
        const auto [c, ys] = run(body, Three(w, w, w * 2.0), xs);
        return finish(c, ys);
      },
      GetParam());
}
TEST_P(ScanGradients, ALineOfCarries) {
  check(
      [](const auto& run, const Array& w, const Array& xs) {
        const auto body = [](const Three& c, const Array& x) {
          const auto& [p, q, r] = c;
          const Array made = p * x + sin(r);
          return std::pair(Three(q, r, made), made * q);
        };
        const auto [c, ys] = run(body, Three(w, w * 0.5, w), xs);
        return finish(c, ys) + total(w * w);
      },
      GetParam());
}
TEST_P(ScanGradients, YsThatAreOneValueOfManyIterations) {
  check(
      [](const auto& run, const Array& w, const Array& xs) {
        const auto body = [](const Three& c, const Array& x) {
          const auto& [p, q, r] = c;
          const Array made = p * x + r;
          return std::pair(Three(q, made, r), stack(std::vector<Array>{p, q, r, made, made, x}));
        };
        const auto [c, ys] = run(body, Three(w, w * 0.5, w * 0.1), xs);
        return finish(c, ys) + total(w * 0.3);
      },
      GetParam());
}
// The same with each y an array of its own, so that they are the values themselves.
TEST_P(ScanGradients, YsThatAreCarriesConstantsAndSlices) {
  using Ys = std::vector<Array>;
  const auto body_of = [](const Array& w) {
    return [&w](const Three& c, const Array& x) {
      const auto& [p, q, r] = c;
      const Array made = p * x + r * w;
      return std::pair(Three(q, made, r), Ys{p, q, r, made, w, x, made, x, w, r});
    };
  };
  const auto loss = [](const Three& c, const Ys& ys) {
    Array sum = total(std::get<0>(c) * std::get<1>(c)) + total(std::get<2>(c));
    double factor = 0.7;
    for (const Array& y : ys) sum = sum + total(y * y * (factor *= 1.1));
    return sum;
  };
  for (const bool narrow : {false, true})
    for (const bool reverse : {false, true})
      for (const std::int64_t n : {1, 2, 3, 5, 9}) {
        set_narrow_accumulators(narrow);
        SCOPED_TRACE(fmt::format("length {} reverse {} narrow {}", n, reverse, narrow));
        const Two in(random(1, {3}, GetParam()), random(2, {n, 3}, GetParam()));
        const auto by_scan = [&](const Two& v) {
          const auto [c, ys] =
              scan(body_of(v.first), Three(v.first, v.first * 0.5, v.first), v.second, {.reverse = reverse});
          return loss(c, ys);
        };
        const auto by_loop = [&](const Two& v) {
          Three c(v.first, v.first * 0.5, v.first);
          std::vector<Ys> all(10, Ys(static_cast<std::size_t>(n)));
          for (std::int64_t s = 0; s < n; ++s) {
            const std::int64_t i = reverse ? n - 1 - s : s;
            auto [next, ys] = body_of(v.first)(c, row(v.second, i));
            c = next;
            for (std::size_t y = 0; y < 10; ++y) all[y][static_cast<std::size_t>(i)] = ys[y];
          }
          Ys stacked;
          for (const Ys& each : all) stacked.push_back(stack(each));
          return loss(c, stacked);
        };
        expect_same(value_and_grad(by_scan)(in), value_and_grad(by_loop)(in));
      }
  set_narrow_accumulators(false);
}
TEST_P(ScanGradients, AConstantAsCarry) {
  check(
      [](const auto& run, const Array& w, const Array& xs) {
        const Array big = w * 1.5;
        const auto body = [&](const Two& c, const Array& x) {
          return std::pair(Two(big, c.first * x + c.second * big), c.first * c.first);
        };
        const auto [c, ys] = run(body, Two(w, w * 0.5), xs);
        return finish(c, ys);
      },
      GetParam());
}
TEST_P(ScanGradients, TwoCarriesThatAreOneValue) {
  check(
      [](const auto& run, const Array& w, const Array& xs) {
        const auto body = [](const Three& c, const Array& x) {
          const auto& [p, q, r] = c;
          const Array made = p * x + q * r;
          return std::pair(Three(made, made, q), p * q);
        };
        const auto [c, ys] = run(body, Three(w, w * 0.5, w), xs);
        return finish(c, ys);
      },
      GetParam());
}
TEST_P(ScanGradients, OneValueAsConstantAndCarries) {
  check(
      [](const auto& run, const Array& w, const Array& xs) {
        const auto body = [&](const Three& c, const Array& x) {
          const auto& [p, q, r] = c;
          return std::pair(Three(p * x + w, q * p, r), q * w);
        };
        const auto [c, ys] = run(body, Three(w, w, w), xs);
        return finish(c, ys) + total(w * w);
      },
      GetParam());
}
TEST_P(ScanGradients, AConstantThatComesAndGoesInACarry) {
  check(
      [](const auto& run, const Array& w, const Array& xs) {
        const auto body = [&](const Two& c, const Array& x) {
          return std::pair(Two(c.second, c.first), c.first * w * x);
        };
        const auto [c, ys] = run(body, Two(w, w * 0.25), xs);
        return finish(c, ys);
      },
      GetParam());
}
TEST_P(ScanGradients, SlicesOfWhatIsAlsoAConstant) {
  check(
      [](const auto& run, const Array& w, const Array& xs) {
        const auto body = [&](const Array& c, const Array& x) {
          const Array next = sin(c * x) + sum(xs * x, {0});
          return std::pair(next, next * x);
        };
        const auto [c, ys] = run(body, w, xs);
        return total(c * w) + total(ys * xs);
      },
      GetParam());
}
TEST_P(ScanGradients, SlicesOfWhatIsAlsoAConstantAndACarryWithoutTangentAtFirst) {
  check(
      [](const auto& run, const Array& w, const Array& xs) {
        const auto body = [&](const Array& c, const Array& x) {
          const Array next = sin(c * x) + sum(xs * x, {0}) * w;
          return std::pair(next, next);
        };
        const auto [c, ys] = run(body, zeros_like(w) + 0.5, xs);
        return total(c * w) + total(ys * xs);
      },
      GetParam());
}
TEST_P(ScanGradients, SlicesAsCarries) {
  check(
      [](const auto& run, const Array& w, const Array& xs) {
        const auto body = [&](const Two& c, const Array& x) {
          return std::pair(Two(x, c.first * c.second + x), c.first);
        };
        const auto [c, ys] = run(body, Two(w, w), xs);
        return finish(c, ys);
      },
      GetParam());
}
TEST_P(ScanGradients, ScansInScans) {
  check(
      [](const auto& run, const Array& w, const Array& xs) {
        const auto inner = [&](const Two& c, const Array& x) {
          return std::pair(Two(c.second, c.first * x + w), c.second * c.first);
        };
        const auto body = [&](const Two& c, const Array& x) {
          const auto [d, zs] = run(inner, Two(c.first, c.first), xs * x);
          return std::pair(Two(sin(d.first) * x, c.first), total(zs) * d.second);
        };
        const auto [c, ys] = run(body, Two(w, w), xs);
        return finish(c, ys);
      },
      GetParam());
}

TEST(ScanGradients, OfASourceThatIsASourceTwice) {
  for (const bool narrow : {false, true}) {
    set_narrow_accumulators(narrow);
    const Array xs = random(1, {5, 3}), w = random(2, {3});
    const auto body = [&](const Array& c, const Two& x) { return std::pair(c * x.first + x.second, c * x.second); };
    const auto by_scan = [&](const Array& v) {
      const auto [c, ys] = scan(body, w, Two(v, v));
      return total(c) + total(ys * v);
    };
    const auto by_loop = [&](const Array& v) {
      Array c = w;
      std::vector<Array> ys;
      for (std::int64_t i = 0; i < 5; ++i) {
        const auto first = row(v, i), second = row(v, i);
        auto [next, y] = body(c, Two(first, second));
        c = next;
        ys.push_back(y);
      }
      return total(c) + total(stack(ys) * v);
    };
    expect_same(value_and_grad(by_scan)(xs), value_and_grad(by_loop)(xs));
  }
  set_narrow_accumulators(false);
}

// ---- Scans in scans are traced once a level.

int rule_calls = 0;
void counting_vjp(Vjp& g) {
  ++rule_calls;
  g.add(0, g.ct() * cos(g.in()));
}
void counting_jvp(Jvp& j) {
  ++rule_calls;
  j.add(j.tangent() * cos(j.in()));
}

Array nested(const Primitive& innermost, int depth, const Array& x, const Array& xs) {
  if (depth == 0) return apply(innermost, {x}) + x * 0.5;
  return scan([&](const Array& c,
                  const Array& s) { return std::pair(nested(innermost, depth - 1, c * s, xs) + c, std::tuple<>()); },
              x, xs)
      .first;
}

TEST(ScanGradients, TraceEachLevelOnce) {
  Primitive counted = prim::sin;
  counted.vjp = counting_vjp;
  counted.jvp = counting_jvp;
  const auto calls = [&](int depth, const auto& transform) {
    const Array x = random(1, {2}), xs = random(2, {3, 2});
    rule_calls = 0;
    trace("test", {x.type()}, [&](const Arrays& in) {
      return Arrays{transform([&](const Array& v) { return total(nested(counted, depth, v, xs)); }, in[0])};
    });
    return rule_calls;
  };
  const auto gradient = [](const auto& f, const Array& x) { return grad(f)(x); };
  const auto directional = [](const auto& f, const Array& x) { return jvp(f, std::tuple(x), std::tuple(x)).second; };
  const auto second = [](const auto& f, const Array& x) {
    return grad([&](const Array& v) { return jvp(f, std::tuple(v), std::tuple(v)).second; })(x);
  };
  EXPECT_EQ(calls(6, gradient), calls(3, gradient));
  EXPECT_EQ(calls(6, directional), calls(3, directional));
  EXPECT_EQ(calls(5, second), calls(3, second));
  EXPECT_LE(calls(6, gradient), 8);
}

}  // namespace
}  // namespace eadem
