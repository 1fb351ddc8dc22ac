// compile: numbers as operands, static arguments, donation, carries in place, the memory planned and used.

#include "eadem/transforms/compile.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <memory>

#include "eadem/base/allocations.h"
#include "eadem/base/buffer.h"
#include "eadem/ops/catalog.h"
#include "tests/support/bits.h"

namespace eadem {
namespace {

using namespace eadem::testing;

Array random(std::uint64_t seed, const Shape& shape, DType dtype = DType::f32) {
  return contiguous(normal(random_key(seed), shape, dtype));
}
Array total(const Array& x) {
  Shape axes;
  for (int i = 0; i < x.rank(); ++i) axes.push_back(i);
  return sum(x, axes);
}
template <class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const ValueError& error) {
    return error.what();
  }
  return "nothing was thrown";
}
bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST(CompileNumbers, AreOperands) {
  // Of a learning rate beside arrays of every dtype, and in arithmetic of its own.
  const auto step = [](const Array& p, const Array& g, const auto& rate, const auto& decay) {
    return p - g * rate - p * (rate * decay) / (1.0 - decay) + rate;
  };
  const auto compiled = compile(step);
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
    const Array p = random(1, {40}, dtype), g = random(2, {40}, dtype);
    for (const double rate : {0.1, 1e-3, 3.0, 1.0 / 3, -1e-30, 1e300})
      for (const double decay : {0.01, 1 - 0x1p-53}) expect_same(compiled(p, g, rate, decay), step(p, g, rate, decay));
  }
  EXPECT_EQ(compiled.programs(), 4u);
  expect_same(compiled(random(1, {40}), random(2, {40}), 0.5f, 0.25f),
              step(random(1, {40}), random(2, {40}), 0.5, 0.25));
  EXPECT_EQ(compiled.programs(), 4u);
}
TEST(CompileNumbers, IntegersAndFlagsAreOperandsToo) {
  const auto f = compile([](const Array& x, const auto& n, const auto& flag) {
    return where(broadcast_to(flag, x.shape()), x * convert(n, x.dtype()), x);
  });
  const Array x = random(1, {5});
  expect_same(f(x, 3, true), x * 3.0);
  expect_same(f(x, 7, true), x * 7.0);
  expect_same(f(x, -7, false), x);
  EXPECT_EQ(f.programs(), 1u);
  expect_same(f(x, 7u, true), x * 7.0);
  EXPECT_EQ(f.programs(), 2u);
}
TEST(CompileNumbers, OtherTransformsTakeThemToo) {
  const auto f = compile([](const Array& x, const auto& scale) { return total(sin(x * scale)); });
  const Array x = random(1, {5});
  const auto plain = [&](const Array& v) { return total(sin(v * 0.3)); };
  expect_same(grad([&](const Array& v) { return f(v, 0.3); })(x), grad(plain)(x));
}
TEST(CompileNumbers, StaticOnesDecideShapes) {
  const auto f = compile([](const Array& x, std::int64_t times, bool twice) {
    const Array y = concatenate(std::vector<Array>(static_cast<std::size_t>(times), x), 0);
    return twice ? y * 2.0 : y;
  });
  const Array x = random(1, {2});
  EXPECT_EQ(f(x, static_arg<std::int64_t>(3), static_arg(false)).shape(), (Shape{6}));
  EXPECT_EQ(f(x, static_arg<std::int64_t>(2), static_arg(false)).shape(), (Shape{4}));
  expect_same(f(x, static_arg<std::int64_t>(1), static_arg(true)), x * 2.0);
  EXPECT_EQ(f.programs(), 3u);
  f(x, static_arg<std::int64_t>(3), static_arg(false));
  EXPECT_EQ(f.programs(), 3u);
}
// The conversion beside an array, which is implicit but warned of.
template <class T>
auto beside(const T& n) {
  if constexpr (std::is_arithmetic_v<T>)
    return static_cast<double>(n);
  else
    return n;
}
// What an array and a number give, on either side.
constexpr auto kAllSides = [](const Array& x, const auto& number) {
  const auto n = beside(number);
  return std::vector<Array>{x + n, x - n, x * n, x / n, n + x, n - x, n * x, n / x};
};
TEST(CompileNumbers, IntegersTakeTheArraysDtypeAsEagerOnesDo) {
  const auto compiled = compile(kAllSides);
  const auto expect_eager = [&](const Array& x, const auto& n) {
    const std::vector<Array> got = compiled(x, n), want = kAllSides(x, n);
    for (std::size_t i = 0; i < want.size(); ++i) {
      EXPECT_EQ(got[i].dtype(), x.dtype());
      expect_same(got[i], want[i]);
    }
  };
  const auto each = [&](const Array& x) {
    for (const int n : {1, 3, 100}) {
      expect_eager(x, n);
      expect_eager(x, static_cast<std::int8_t>(n));
      expect_eager(x, static_cast<std::uint16_t>(n));
      expect_eager(x, static_cast<unsigned>(n));
      expect_eager(x, static_cast<long>(n));
      expect_eager(x, static_cast<std::uint64_t>(n));
    }
    if (name_of(x.dtype())[0] != 'u') expect_eager(x, -7);
    if (!is_floating(x.dtype()) && size_of(x.dtype()) < 8) return;
    expect_eager(x, (std::int64_t{1} << 53) + 1);
  };
  for (const DType dtype :
       {DType::i8, DType::i16, DType::i32, DType::i64, DType::u8, DType::u16, DType::u32, DType::u64})
    each(convert(arange(9), dtype) * 11.0);
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16}) each(random(3, {40}, dtype));
}
TEST(CompileNumbers, IntegersAmongThemselvesAreAsInCpp) {
  const auto f = [](const Array& x, const auto& n, const auto& k) {
    return std::vector<Array>{x * beside(n / 2),       x * beside(n - k), x + beside(n) * 0.5,
                              x + beside((1 - n) * k), x * beside(-k),    x / beside(n + k * 3)};
  };
  const auto compiled = compile(f);
  const auto expect_eager = [&](const Array& x, const auto& n, const auto& k) {
    const std::vector<Array> got = compiled(x, n, k), want = f(x, n, k);
    for (std::size_t i = 0; i < want.size(); ++i) expect_same(got[i], want[i]);
  };
  for (const DType dtype : {DType::f64, DType::f32}) {
    const Array x = random(3, {9}, dtype);
    expect_eager(x, 7, 2);
    expect_eager(x, 7u, 9u);  // wraps at 32 bits
    expect_eager(x, 7u, std::int64_t{9});
    expect_eager(x, -7, 9u);
    expect_eager(x, std::uint8_t{3}, std::uint16_t{9});  // promoted to int
    expect_eager(x, std::int64_t{-7}, std::uint64_t{2});
    expect_eager(x, 7, 0.3);
  }
}
// As eager ones do, whether the program is new or not; what is computed of them in the program becomes the nearest.
TEST(CompileNumbers, ThatTheDtypeDoesNotHoldThrow) {
  const auto add_number = [](const Array& x, const auto& n) { return x + n; };
  const auto f = compile(add_number);
  const Array zero = zeros({2}, DType::i8);
  for (const int n : {300, 127, -128, -129, 128}) {
    if (n == 127 || n == -128) {
      expect_same(f(zero, n), add_number(zero, n));
      continue;
    }
    EXPECT_THROW(add_number(zero, n), ValueError);
    EXPECT_THROW(f(zero, n), ValueError);
    EXPECT_THROW(grad([&](const Array& x) { return sum(x * convert(f(zero, n), DType::f32)); })(ones({2})), ValueError);
  }
  EXPECT_EQ(f.programs(), 1u);
  const Array most = zeros({2}, DType::i64), none = zeros({2}, DType::u64);
  EXPECT_THROW(f(most, ~std::uint64_t{0}), ValueError);
  EXPECT_THROW(f(none, std::int64_t{-1}), ValueError);
  expect_same(f(none, ~std::uint64_t{0}), add_number(none, ~std::uint64_t{0}));
  const auto twice = compile([](const Array& x, const auto& n) { return x + (n + n); });
  expect_same(twice(zero, 100), zero + 127);
  expect_same(twice(zero, -100), zero + -128);
  const auto wide = compile([](const Array& x, const auto& n) { return x + (n + std::uint64_t{1}); });
  expect_same(wide(most, ~std::uint64_t{0} - 1), most + std::numeric_limits<std::int64_t>::max());
}
// What one function asks of a Number is no other's business, nor that of a value that a loop makes of it.
TEST(CompileNumbers, AreRefusedForTheirOwnUsesOnly) {
  const auto add_number = [](const Array& x, const auto& n) { return x + n; };
  const auto narrow = compile(add_number);
  const auto wide = compile([](const Array& x, const auto& n) { return n + x; });
  const Number number(300);
  EXPECT_THROW(narrow(zeros({2}, DType::u8), number), ValueError);
  for (int twice = 0; twice < 2; ++twice) {
    expect_same(wide(zeros({2}, DType::i32), number), zeros({2}, DType::i32) + 300);
    expect_same(wide(zeros({2}, DType::i32), 300), zeros({2}, DType::i32) + 300);
  }
  const auto counted = [](const Array& x, const Number& n) {
    return scan(
               [](const std::pair<Array, Number>& carry, const Array&) {
                 return std::pair(std::pair(carry.first + carry.second, carry.second - 100),
                                  Array::scalar(0, DType::f32));
               },
               std::pair(x, n), zeros({3}, DType::f32))
        .first.first;
  };
  const Array zero = zeros({2}, DType::u8);
  expect_same(compile(counted)(zero, 300), counted(zero, Number(300)));
}
TEST(CompileNumbers, FloatingOnesBesideIntegersAreF32) {
  const auto f = compile([](const Array& x, const auto& n) { return x * n; });
  expect_same(f(arange(3), 0.5), arange(3) * 0.5);
  EXPECT_EQ(f(arange(3), 0.5).dtype(), DType::f32);
}

TEST(CompileDonation, TheMemoryBecomesTheResults) {
  const auto f = compile([](const Array& x, const Array& y) { return sin(x * y) + 1.0; });
  const Array y = random(2, {1000});
  Array x = random(1, {1000});
  const Array expected = sin(x * y) + 1.0;
  const std::byte* memory = x.view().data;
  const Array got = f(std::move(x), y);
  expect_same(got, expected);
  EXPECT_EQ(got.view().data, memory);
  for (const std::string& message : {message_of([&] { x.view(); }), message_of([&] { x + 1.0; }),
                                     message_of([&] { grad([&](const Array& v) { return total(v * x); })(y); })}) {
    EXPECT_TRUE(has(message, "donated")) << message;
    EXPECT_TRUE(has(message, "compile of")) << message;
    EXPECT_TRUE(has(message, "f32[1000]")) << message;
  }
}
TEST(CompileDonation, WhatSomebodyElseHoldsStaysAsItIs) {
  const auto f = compile([](const Array& x) { return exp(x) * 0.5; });
  Array x = random(1, {1000});
  const Array held = x, before = copy(x), expected = exp(before) * 0.5;
  expect_same(f(std::move(x)), expected);
  expect_same(held, before);
  // Memory that was lent (a mapped file) is not ours to write.
  std::vector<float> lent(1000, 0.25f);
  const std::vector<float> same = lent;
  Array mapped(Buffer::borrow(lent.data(), 4000, nullptr),
               contiguous_view(reinterpret_cast<std::byte*>(lent.data()), DType::f32, {1000}));
  expect_same(f(std::move(mapped)), exp(Array::from(same, {1000})) * 0.5);
  EXPECT_EQ(lent, same);
}
TEST(CompileDonation, OfTreesAndTwice) {
  using State = std::pair<Array, std::vector<Array>>;
  const auto step = [](const State& s, const Array& g) {
    std::vector<Array> next;
    for (const Array& m : s.second) next.push_back(m * 0.9 + g);
    return State(s.first - g * 0.1, next);
  };
  const auto compiled = compile(step);
  const Array g = random(3, {3000});
  State eager(random(1, {3000}), {random(2, {3000}), random(4, {3000})}),
      donated(copy(eager.first), {copy(eager.second[0]), copy(eager.second[1])});
  compiled(eager, g);  // what is made once
  for (int i = 0; i < 5; ++i) {
    eager = step(eager, g);
    const std::int64_t before = live_bytes();
    reset_peak_bytes();
    donated = compiled(std::move(donated), g);
    EXPECT_LE(peak_bytes() - before, i == 0 ? 12064 : 64) << "iteration " << i;  // then all in place
    expect_same(donated, eager);
  }
  Array x = random(1, {10});
  const Array& same = x;
  const auto sum_of = compile([](const Array& a, const Array& b) { return a + b; });
  expect_same(sum_of(std::move(x), same), random(1, {10}) * 2.0);
}

TEST(CompileCarries, AreOverwritten) {
  constexpr std::int64_t kBytes = 1 << 20;
  const Array x = random(1, {kBytes / 4}), xs = random(2, {50, 1});
  const auto of_scan = compile([](const Array& c, const Array& in) {
    return scan([](const Array& h,
                   const Array& s) { return std::pair(sin(h * broadcast_to(s, h.shape())), std::tuple<>()); },
                c, in)
        .first;
  });
  const auto of_while = compile([](const Array& c) {
    using Carry = std::pair<Array, Array>;
    return while_loop([](const Carry& v) { return less(v.second, full({}, 50, DType::i64)); },
                      [](const Carry& v) { return Carry(cos(v.first) * 0.5, v.second + full({}, 1, DType::i64)); },
                      Carry(c, zeros({}, DType::i64)))
        .first;
  });
  const auto peak = [&](const auto& f) {
    f();
    const std::int64_t before = live_bytes();
    reset_peak_bytes();
    f();
    return peak_bytes() - before;
  };
  // One carry beside the argument, not two.
  EXPECT_LE(peak([&] { of_scan(x, xs); }), kBytes + 4096);
  EXPECT_LE(peak([&] { of_while(x); }), kBytes + 4096);
}

// What was planned is what a run takes, to the byte; with bodies at least that.
void expect_planned(const std::function<Arrays(const Arrays&)>& f, const Arrays& inputs, bool has_bodies = false) {
  const Traced traced = trace("test", types_of(inputs), f);
  const Executable executable(*traced.program);
  Arrays all = inputs;
  all.insert(all.end(), traced.captures.begin(), traced.captures.end());
  executable.run(all);  // what kernels keep from one use to the next
  const std::int64_t before = live_bytes();
  reset_peak_bytes();
  executable.run(all);
  const std::int64_t taken = peak_bytes() - before;
  EXPECT_GT(taken, 0);
  if (has_bodies) {
    EXPECT_GE(executable.planned_peak_bytes(), taken) << print(*traced.program);
    EXPECT_LE(executable.planned_peak_bytes(), 3 * taken) << print(*traced.program);
  } else {
    EXPECT_EQ(executable.planned_peak_bytes(), taken) << print(*traced.program);
  }
}
TEST(CompileMemory, IsTakenAsPlanned) {
  const Array x = random(1, {64, 48}), y = random(2, {64, 48}), row = random(3, {48});
  // Chains, one after the other; values that are held for later; results that take over memory.
  expect_planned([](const Arrays& in) { return Arrays{sin(in[0] * in[1]) + in[0]}; }, {x, y});
  expect_planned(
      [](const Arrays& in) {
        const Array a = softmax(in[0] * 2.0), b = exp(in[1]) + a, c = softmax(b) * a;
        return Arrays{c, sum(c * b, {0}), tanh(c) - b};
      },
      {x, y});
  // Windows, shared and copied where there is none.
  expect_planned(
      [](const Arrays& in) {
        const Array t = transpose(in[0] + 1.0), flat = reshape(t, {64 * 48});
        return Arrays{flat * 2.0, slice_axis(exp(in[1]), 0, {3, 9}), reverse(t, {0})};
      },
      {x, y});
  expect_planned(
      [](const Arrays& in) {
        return Arrays{layer_norm(in[0] + broadcast_to(in[1], in[0].shape()), in[1], in[1]), in[0]};
      },
      {x, row});
  // A gradient, in several dtypes.
  for (const DType dtype : {DType::f32, DType::bf16, DType::f64})
    expect_planned(
        [](const Arrays& in) {
          const auto loss = [&](const Array& v) { return total(log_softmax(gelu(layer_norm(v) * in[1]) + v) * in[1]); };
          const auto [value, gradient] = value_and_grad(loss)(in[0]);
          return Arrays{value, gradient};
        },
        {convert(x, dtype), convert(y, dtype)});
}
TEST(CompileMemory, IsPlannedForLoopsAndBranchesToo) {
  const Array x = random(1, {64, 48}), y = random(2, {64, 48}), w = random(3, {48, 48});
  const auto layer = [](const Array& h, const Array& row) {
    const Array next = tanh(h * broadcast_to(row, h.shape())) + h;
    return std::pair(next, next * 0.5);
  };
  const auto expect_bound = [](const auto& f, const Arrays& inputs) { expect_planned(f, inputs, true); };
  expect_bound([](const Arrays& in) { return Arrays{map([](const Array& v) { return exp(v) * 2.0; }, in[0])}; }, {x});
  expect_bound(
      [&](const Arrays& in) {
        const auto [last, ys] = scan(layer, in[0], in[1]);
        return Arrays{last, ys};
      },
      {x, y});
  // Slices of a transposed array are not contiguous.
  expect_bound(
      [](const Arrays& in) {
        const auto body = [](const Array& c, const Array& v) {
          return std::pair(c + exp(reshape(v, {32, 2})), sum(v, {0}));
        };
        return Arrays{scan(body, zeros({32, 2}), transpose(reshape(in[0], {48, 8, 8}), {0, 2, 1})).first};
      },
      {x});
  expect_bound(
      [&](const Arrays& in) {
        const auto loss = [&](const Array& v) { return total(scan(layer, v, in[1]).second); };
        return Arrays{grad(loss)(in[0])};
      },
      {x, y});
  expect_bound(
      [](const Arrays& in) {
        return Arrays{cond(
            less(sum(in[0], {0, 1}), zeros({})), [](const Array& u, const Array& v) { return softmax(u * v) + u; },
            [](const Array& u, const Array& v) { return erf(u) + v * 0.5; }, in[0], in[1])};
      },
      {x, y});
  expect_bound(
      [](const Arrays& in) {
        using Carry = std::pair<Array, Array>;
        return Arrays{while_loop([](const Carry& v) { return less(v.second, full({}, 9, DType::i64)); },
                                 [](const Carry& v) {
                                   return Carry(softmax(cos(v.first) * 0.5), v.second + full({}, 1, DType::i64));
                                 },
                                 Carry(in[0], zeros({}, DType::i64)))
                          .first};
      },
      {x});
  expect_bound(
      [](const Arrays& in) {
        const auto block = remat([](const Array& v, const Array& m) { return gelu(matmul(v, m)) + v; });
        return Arrays{grad([&](const Array& v) { return total(block(block(v, in[1]), in[1])); })(in[0])};
      },
      {x, w});
}
TEST(CompileMemory, IsAskedOfACompiledFunction) {
  const auto f = compile([](const Array& a, const auto& rate) { return softmax(a * rate) + a; });
  const Array x = random(1, {64, 48});
  const std::int64_t planned = f.planned_bytes(x, 0.5);
  EXPECT_EQ(f.programs(), 1u);
  f(x, 0.5);
  const std::int64_t before = live_bytes();
  reset_peak_bytes();
  f(x, 0.25);
  EXPECT_EQ(peak_bytes() - before, planned);
  EXPECT_EQ(f.programs(), 1u);
}

TEST(CompileErrors, CallsWithoutEnd) {
  std::function<Array(const Array&)> again;
  const auto f = compile([&](const Array& x) { return again(x) + 1.0; });
  again = [&](const Array& x) { return f(x); };
  const std::string message = message_of([&] { f(random(1, {3})); });
  EXPECT_TRUE(has(message, "call each other")) << message;
  // gcc names a lambda by the function around it, clang by file and line.
  EXPECT_TRUE(has(message, "CallsWithoutEnd") || has(message, "compile_test.cpp:")) << message;
}

}  // namespace
}  // namespace eadem
