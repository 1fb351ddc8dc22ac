// The laws of transforms, bit by bit: scan == the loop written out, vmap == stacked slices, remat == plain,
// parse(print(p)) == p; each forward and backward, also with narrow accumulators, which wide ones' exactness would
// hide.

#include "tests/support/laws.h"

#include <gtest/gtest.h>

#include "eadem/array/rules.h"
#include "eadem/ops/catalog.h"
#include "eadem/ops/ops.h"
#include "eadem/transforms/compile.h"
#include "eadem/transforms/transforms.h"
#include "tests/support/bits.h"

namespace eadem {
namespace {

using namespace eadem::testing;

Array random(std::uint64_t seed, const Shape& shape, DType dtype) {
  return normal(random_key(seed), shape, dtype);
}

class Laws : public testing::AccumulatorTest {};

INSTANTIATE_TEST_SUITE_P(Types, Laws,
                         ::testing::Combine(::testing::Values(DType::f64, DType::f32, DType::bf16, DType::f16),
                                            ::testing::Bool()),
                         testing::accumulator_test_name);

struct Layer {
  Array w, b;
  static void fields(auto& m, auto f) { f("w", m.w), f("b", m.b); }
};

// Uses the carry three times and the constant twice, so that accumulators have an order to get wrong.
Array step(const Layer& layer, const Array& h, const Array& constant) {
  const Array y = tanh(matmul(h, layer.w) + layer.b) * constant;
  return h + y * sigmoid(h) - constant * 0.25;
}

Array looped(const Layer& layers, const Array& x, const Array& constant, std::vector<Array>* ys = nullptr) {
  Array h = x;
  for (std::int64_t i = 0; i < layers.w.shape()[0]; ++i) {
    const auto at = [&](const Array& a) { return squeeze(slice_axis(a, 0, {i, i + 1}), 0); };
    h = step({at(layers.w), at(layers.b)}, h, constant);
    if (ys) ys->push_back(h * h);
  }
  return h;
}

std::pair<Array, Array> scanned(const Layer& layers, const Array& x, const Array& constant) {
  return scan(
      [&](const Array& h, const Layer& layer) {
        const Array next = step(layer, h, constant);
        return std::pair(next, next * next);
      },
      x, layers);
}

TEST_P(Laws, ScanIsTheLoop) {
  const Layer layers{random(1, {5, 6, 6}, dtype()), random(2, {5, 6}, dtype())};
  const Array x = random(3, {3, 6}, dtype()), constant = random(4, {3, 6}, dtype());
  std::vector<Array> ys;
  const Array by_loop = looped(layers, x, constant, &ys);
  const auto [h, stacked] = scanned(layers, x, constant);
  expect_same(std::pair(by_loop, stack(ys)), std::pair(h, stacked));

  using Inputs = std::tuple<Layer, Array, Array>;
  const auto loss = [](const Array& last, const Array& all) { return sum(sin(last), {0, 1}) + sum(all, {0, 1, 2}); };
  const auto of_loop = [&](const Inputs& in) {
    std::vector<Array> each;
    const Array last = looped(std::get<0>(in), std::get<1>(in), std::get<2>(in), &each);
    return loss(last, stack(each));
  };
  const auto of_scan = [&](const Inputs& in) {
    const auto [last, all] = scanned(std::get<0>(in), std::get<1>(in), std::get<2>(in));
    return loss(last, all);
  };
  const Inputs inputs(layers, x, constant);
  expect_same(value_and_grad(of_loop)(inputs), value_and_grad(of_scan)(inputs));
}

TEST_P(Laws, ScanInReverseIsTheLoopBackwards) {
  const Array xs = random(5, {7, 4}, dtype()), start = random(6, {4}, dtype());
  const auto body = [](const Array& c, const Array& x) { return sin(c * x) + c * 0.5; };
  const auto of_loop = [&](const Array& in) {
    Array c = start;
    std::vector<Array> ys(7);
    for (std::int64_t i = 7; i-- > 0;) {
      c = body(c, squeeze(slice_axis(in, 0, {i, i + 1}), 0));
      ys[static_cast<std::size_t>(i)] = c;
    }
    return sum(stack(ys) * in, {0, 1}) + sum(c, {0});
  };
  const auto of_scan = [&](const Array& in) {
    const auto [c, ys] = scan(
        [&](const Array& carry, const Array& x) {
          const Array next = body(carry, x);
          return std::pair(next, next);
        },
        start, in, {.reverse = true});
    return sum(ys * in, {0, 1}) + sum(c, {0});
  };
  expect_same(value_and_grad(of_loop)(xs), value_and_grad(of_scan)(xs));
}

TEST_P(Laws, ScanWithIrregularCarriesIsTheLoop) {
  // Two carries exchange their places, a third is handed on, and one y is a carry in.
  using Carry = std::tuple<Array, Array, Array>;
  const auto body = [](const Carry& c, const Array& x) {
    const auto& [a, b, k] = c;
    return std::pair(Carry(b, a * x + k, k), a);
  };
  const Array xs = random(7, {4, 3}, dtype());
  const Carry start(random(8, {3}, dtype()), random(9, {3}, dtype()), random(10, {3}, dtype()));
  const auto finish = [](const Carry& c, const Array& ys) {
    return sum(std::get<0>(c) * std::get<1>(c) * std::get<2>(c), {0}) + sum(ys * ys, {0, 1});
  };
  const auto of_loop = [&](const std::pair<Carry, Array>& in) {
    Carry c = in.first;
    std::vector<Array> ys;
    for (std::int64_t i = 0; i < 4; ++i) {
      auto [next, y] = body(c, squeeze(slice_axis(in.second, 0, {i, i + 1}), 0));
      c = next;
      ys.push_back(y);
    }
    return finish(c, stack(ys));
  };
  const auto of_scan = [&](const std::pair<Carry, Array>& in) {
    const auto [c, ys] = scan(body, in.first, in.second);
    return finish(c, ys);
  };
  expect_same(value_and_grad(of_loop)(std::pair(start, xs)), value_and_grad(of_scan)(std::pair(start, xs)));
}

TEST_P(Laws, VmapIsStackedSlices) {
  const Layer layer{random(11, {6, 6}, dtype()), random(12, {6}, dtype())};
  const Array xs = random(13, {5, 3, 6}, dtype());
  const auto f = [&](const Array& x) { return sum(step(layer, x, x), {0, 1}); };
  const auto both = [&](const Array& x) { return value_and_grad(f)(x); };
  const auto batched = vmap(both)(xs);
  std::vector<Array> values, gradients;
  for (std::int64_t i = 0; i < 5; ++i) {
    const auto [value, gradient] = both(squeeze(slice_axis(xs, 0, {i, i + 1}), 0));
    values.push_back(value);
    gradients.push_back(gradient);
  }
  expect_same(batched, std::pair(stack(values), stack(gradients)));
}

TEST_P(Laws, SlicesThatMeetAndPartsThatAreNotSliced) {
  const Array x = random(26, {6, 3}, dtype()), w = random(27, {6, 3}, dtype());
  const auto part = [](const Array& a, std::int64_t begin, std::int64_t end) { return slice_axis(a, 0, {begin, end}); };
  // The same sum of contributions to each element, from slices kept as windows and from padded ones.
  const auto sliced = [&](const Array& a) {
    return sum(part(a, 4, 5) * part(w, 0, 1), {0, 1}) + sum(part(a, 0, 2) * part(w, 2, 4), {0, 1}) +
           sum(part(a, 1, 4) * part(w, 0, 3), {0, 1}) + sum(a * w, {0, 1}) + sum(part(a, 5, 6) * 3.0, {0, 1});
  };
  const auto placed = [&](const Array& v, std::int64_t begin) {
    return pad(v, zeros({}, dtype()), {begin, 0}, {6 - begin - v.shape()[0], 0});
  };
  const auto padded = [&](const Array& a) {
    return sum(a * placed(part(w, 0, 1), 4), {0, 1}) + sum(a * placed(part(w, 2, 4), 0), {0, 1}) +
           sum(a * placed(part(w, 0, 3), 1), {0, 1}) + sum(a * w, {0, 1}) +
           sum(a * placed(full({1, 3}, 3, dtype()), 5), {0, 1});
  };
  expect_same(grad(sliced)(x), grad(padded)(x));
}

TEST_P(Laws, RematIsPlain) {
  const Layer layer{random(14, {6, 6}, dtype()), random(15, {6}, dtype())};
  const Array x = random(16, {3, 6}, dtype());
  const auto plain = [](const Layer& l, const Array& in) { return step(l, step(l, in, in), in); };
  const auto loss = [&](const auto& f) {
    return [&f](const std::pair<Layer, Array>& in) { return sum(f(in.first, in.second) * in.second, {0, 1}); };
  };
  const auto kept = remat(plain);
  expect_same(value_and_grad(loss(plain))(std::pair(layer, x)), value_and_grad(loss(kept))(std::pair(layer, x)));
}

TEST_P(Laws, CompiledIsEager) {
  const Layer layers{random(22, {5, 6, 6}, dtype()), random(23, {5, 6}, dtype())};
  const Array x = random(24, {3, 6}, dtype());
  const auto loss = [](const Layer& l, const Array& in) {
    const auto [h, ys] = scanned(l, in, in);
    return sum(gelu(h * 1.5 + 2.0) * sigmoid(h), {0, 1}) + sum(ys, {0, 1, 2});
  };
  const auto both = [&](const Layer& l, const Array& in) { return value_and_grad(loss)(l, in); };
  const auto compiled = compile(both);
  expect_same(compiled(layers, x), both(layers, x));
  expect_same(compiled(layers, x), both(layers, x));
  EXPECT_EQ(compiled.programs(), 1u);
  const Array wider = random(25, {4, 6}, dtype());
  expect_same(compiled(layers, wider), both(layers, wider));
  EXPECT_EQ(compiled.programs(), 2u);
}

TEST_P(Laws, CondIsTheBranchTaken) {
  const Array x = random(17, {4}, dtype()), y = random(18, {4}, dtype());
  const auto yes = [](const Array& a, const Array& b) { return a * b + a; };
  const auto no = [](const Array& a, const Array& b) { return log(-(a * a)) * b; };  // NaN: must not be seen
  const Array holds = Array::scalar(1, DType::boolean);
  const auto chosen = [&](const std::pair<Array, Array>& in) {
    return sum(cond(holds, yes, no, in.first, in.second) * in.first, {0});
  };
  const auto plain = [&](const std::pair<Array, Array>& in) { return sum(yes(in.first, in.second) * in.first, {0}); };
  expect_same(value_and_grad(plain)(std::pair(x, y)), value_and_grad(chosen)(std::pair(x, y)));
}

TEST_P(Laws, ProgramsPrintAndParse) {
  const Array x = random(19, {3, 6}, dtype());
  const Layer layers{random(20, {4, 6, 6}, dtype()), random(21, {4, 6}, dtype())};
  const Traced traced = trace("test", {x.type()}, [&](const Arrays& in) {
    const auto loss = [&](const Array& a) {
      const auto [h, ys] = scanned(layers, a, a);
      return sum(cond(
                     less(sum(h, {0, 1}), zeros({}, dtype())), [](const Array& v) { return v * 2.0; },
                     [](const Array& v) { return exp(v); }, h),
                 {0, 1});
    };
    const auto [value, gradient] = value_and_grad(loss)(in[0]);
    return Arrays{value, gradient};
  });
  verify(*traced.program);
  const std::string text = print(*traced.program);
  const Program parsed = parse_program(text, catalog());
  EXPECT_TRUE(parsed == *traced.program) << text;
  EXPECT_EQ(print(parsed), text);
  // The program gives the bits of the function.
  Arrays inputs{x};
  inputs.insert(inputs.end(), traced.captures.begin(), traced.captures.end());
  const auto loss = [&](const Array& a) {
    const auto [h, ys] = scanned(layers, a, a);
    return sum(cond(
                   less(sum(h, {0, 1}), zeros({}, dtype())), [](const Array& v) { return v * 2.0; },
                   [](const Array& v) { return exp(v); }, h),
               {0, 1});
  };
  const auto [value, gradient] = value_and_grad(loss)(x);
  expect_same(replay(parsed, inputs), Arrays{value, gradient});
}

}  // namespace
}  // namespace eadem
