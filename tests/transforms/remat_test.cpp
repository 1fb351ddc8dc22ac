// The policies of remat: what each keeps, how much memory that takes, and that no bit depends on it.

#include <gtest/gtest.h>

#include <map>

#include "eadem/array/rules.h"
#include "eadem/base/allocations.h"
#include "eadem/ops/catalog.h"
#include "eadem/transforms/compile.h"
#include "eadem/transforms/control.h"
#include "tests/support/bits.h"
#include "tests/support/laws.h"

namespace eadem {
namespace {

using namespace eadem::testing;
namespace policies = checkpoint_policies;

Array random(std::uint64_t seed, const Shape& shape, DType dtype = DType::f32) {
  return normal(random_key(seed), shape, dtype);
}
Array total(const Array& x) {
  Shape axes;
  for (int i = 0; i < x.rank(); ++i) axes.push_back(i);
  return sum(x, axes);
}

const RematPolicy kPolicies[] = {policies::nothing_saveable(), policies::everything_saveable(),
                                 policies::dots_saveable(), policies::dots_with_no_batch_dims_saveable(),
                                 policies::save_only_these_names({"hidden", "scores"})};

using Weights = std::pair<Array, Array>;
// Two products without batch axes, two with, a named value, and a loop over the batch.
Array block(const Weights& w, const Array& x) {  // x [b, n, d], w [d, d]
  const Array h = checkpoint_name(tanh(matmul(x, w.first)), "hidden");
  const Array scores = matmul(h, transpose(h, {0, 2, 1}));
  const Array rows =
      scan([](const Array& c, const Array& s) { return std::pair(sin(c * s) + c, c * s); }, sum(h, {0}), h).second;
  return tanh(matmul(matmul(scores, x), w.second)) + rows;
}

class Remat : public testing::AccumulatorTest {};
INSTANTIATE_TEST_SUITE_P(Types, Remat,
                         ::testing::Combine(::testing::Values(DType::f64, DType::f32, DType::bf16), ::testing::Bool()),
                         testing::accumulator_test_name);

TEST_P(Remat, IsPlainUnderEveryPolicy) {
  const Weights w(random(1, {4, 4}, dtype()), random(2, {4, 4}, dtype()));
  const Array x = random(3, {2, 3, 4}, dtype());
  const auto loss = [](const auto& f) {
    return [f](const std::pair<Weights, Array>& in) { return total(f(in.first, f(in.first, in.second)) * in.second); };
  };
  const auto layers = [](const auto& f) {
    return [f](const std::pair<Weights, Array>& in) {
      const Array stacked = stack(std::vector<Array>{in.first.first, in.first.second, in.first.first});
      const auto body = [&f, &in](const Array& h, const Array& each) {
        const Array next = f(Weights(each, in.first.second), h);
        return std::pair(next, total(next));
      };
      const auto [h, ys] = scan(body, in.second, stacked);
      return total(h) + total(ys);
    };
  };
  const std::pair<Weights, Array> in(w, x);
  for (const RematPolicy& policy : kPolicies) {
    SCOPED_TRACE(policy.name);
    const auto kept = remat(block, policy);
    const auto of_plain = loss(block);
    const auto of_kept = loss(kept);
    const auto expected = value_and_grad(of_plain)(in);
    expect_same(value_and_grad(of_kept)(in), expected);
    expect_same(value_and_grad(loss(remat(kept, policy)))(in), expected);
    const auto gradient = [&](const std::pair<Weights, Array>& v) { return value_and_grad(of_kept)(v); };
    expect_same(compile(gradient)(in), expected);
    expect_same(value_and_grad(layers(kept))(in), value_and_grad(layers(block))(in));
    const auto point = std::make_tuple(in);
    expect_same(jvp(of_kept, point, point), jvp(of_plain, point, point));
    const auto doubled = map_leaves([](const Array& v) { return stack(std::vector<Array>{v, v * 0.5}); }, in);
    expect_same(vmap(gradient)(doubled), vmap([&](const auto& v) { return value_and_grad(of_plain)(v); })(doubled));
  }
}

// ---- What is kept: the further results of the equation that is the forward pass.

struct Seen {
  std::map<std::string, int> equations;  // of the whole program, by primitive
  std::vector<std::string> kept;         // the types of the remat equation's results after its own
};
void count_equations(const Program& program, Seen& seen) {
  for (const Equation& equation : program.equations) {
    ++seen.equations[std::string(equation.primitive->name)];
    if (equation.primitive == &prim::remat)
      for (std::size_t r = 1; r < equation.results.size(); ++r)
        seen.kept.push_back(fmt::format("{}", program.type(equation.results[r])));
    if (equation.attributes)
      for (const ProgramRef& inner : equation.primitive->attributes->programs(equation.attributes.get()))
        count_equations(*inner, seen);
  }
}
Seen gradient_under(const RematPolicy& policy) {
  const auto f = remat(
      [](const Array& w, const Array& x) {
        const Array h = checkpoint_name(tanh(matmul(x, w)), "hidden");  // [2, 3, 5]
        const Array scores = sin(matmul(h, transpose(h, {0, 2, 1})));   // [2, 3, 3]
        return checkpoint_name(exp(matmul(scores, h)), "other");        // [2, 3, 5]
      },
      policy);
  const Types types{{DType::f32, {4, 5}}, {DType::f32, {2, 3, 4}}};
  Seen seen;
  count_equations(
      *trace("test", types,
             [&](const Arrays& in) { return Arrays{grad([&](const Array& w) { return total(f(w, in[1])); })(in[0])}; })
           .program,
      seen);
  return seen;
}

TEST(RematKeeps, WhatThePolicySays) {
  using Types = std::vector<std::string>;
  const Seen nothing = gradient_under(policies::nothing_saveable());
  EXPECT_EQ(nothing.kept, Types{});
  EXPECT_EQ(nothing.equations.at("tanh"), 2);
  EXPECT_EQ(nothing.equations.at("exp"), 2);
  const int products = nothing.equations.at("matmul");

  const Seen everything = gradient_under(policies::everything_saveable());
  EXPECT_EQ(everything.equations.at("tanh"), 1);
  EXPECT_EQ(everything.equations.at("exp"), 1);
  EXPECT_EQ(everything.equations.at("matmul"), products - 3);

  const Seen dots = gradient_under(policies::dots_saveable());
  EXPECT_EQ(dots.kept, (Types{"f32[2,3,5]", "f32[2,3,3]", "f32[2,3,5]"}));
  EXPECT_EQ(dots.equations.at("tanh"), 2);
  EXPECT_EQ(dots.equations.at("matmul"), products - 3);

  const Seen unbatched = gradient_under(policies::dots_with_no_batch_dims_saveable());
  EXPECT_EQ(unbatched.kept, (Types{"f32[2,3,5]"}));
  EXPECT_EQ(unbatched.equations.at("matmul"), products - 1);

  const Seen named = gradient_under(policies::save_only_these_names({"hidden"}));
  EXPECT_EQ(named.kept, (Types{"f32[2,3,5]"}));
  EXPECT_EQ(named.equations.at("checkpoint_name"), 3);  // that of "other" is computed again
  EXPECT_EQ(gradient_under(policies::save_only_these_names({"nobody"})).kept, Types{});
}

// ---- Memory.

// The most bytes alive while the gradient of `layers` blocks in a row is computed, beyond those before.
std::int64_t peak_of_gradient(int layers, const std::optional<RematPolicy>& policy) {
  const Array w = random(1, {64, 64}) * 0.1, x = random(2, {64, 64});
  const auto plain = [&](const Array& v, const Array& h) {
    const Array y = checkpoint_name(matmul(h, v), "product");
    return tanh(sin(cos(exp(y * 0.01) * 0.5) + 1.0) * 0.5);  // eight values of 16 KiB beside the product
  };
  const auto kept = remat(plain, policy.value_or(RematPolicy()));
  const auto loss = [&](const Array& v) {
    Array h = x;
    for (int i = 0; i < layers; ++i) h = policy ? kept(v, h) : plain(v, h);
    return total(h);
  };
  grad(loss)(w);  // what is made once
  const std::int64_t before = live_bytes();
  reset_peak_bytes();
  grad(loss)(w);
  return peak_bytes() - before;
}

TEST(RematMemory, IsAsThePolicySays) {
  constexpr std::int64_t kValue = 64 * 64 * 4;
  // What a layer more costs, in values.
  const auto per_layer = [&](const std::optional<RematPolicy>& policy) {
    return static_cast<double>(peak_of_gradient(24, policy) - peak_of_gradient(8, policy)) / 16 / kValue;
  };
  const double plain = per_layer(std::nullopt);
  EXPECT_GE(plain, 8);
  EXPECT_NEAR(per_layer(policies::everything_saveable()), plain, 0.1);
  EXPECT_NEAR(per_layer(policies::nothing_saveable()), 1, 0.1);  // the layer's argument
  EXPECT_NEAR(per_layer(policies::dots_saveable()), 2, 0.1);     // and the product
  EXPECT_NEAR(per_layer(policies::dots_with_no_batch_dims_saveable()), 2, 0.1);
  EXPECT_NEAR(per_layer(policies::save_only_these_names({"product"})), 2, 0.1);
  EXPECT_NEAR(per_layer(policies::save_only_these_names({"nobody"})), 1, 0.1);
}

TEST(RematErrors, NameThePolicyOrTheName) {
  const Array x = random(1, {3});
  const auto message = [&](const auto& f) -> std::string {
    try {
      f();
    } catch (const ValueError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(message([&] { remat([](const Array& v) { return v; }, {"some_saveable"})(x); }).find("some_saveable"),
            std::string::npos);
  EXPECT_NE(message([&] { checkpoint_name(x, "a b"); }).find("a b"), std::string::npos);
  EXPECT_NE(message([&] { checkpoint_name(x, ""); }).find("empty"), std::string::npos);
  EXPECT_NE(message([&] {
              remat([](const Array& v) { return v; }, policies::save_only_these_names({"a,b"}))(x);
            }).find("a,b"),
            std::string::npos);
}

}  // namespace
}  // namespace eadem
