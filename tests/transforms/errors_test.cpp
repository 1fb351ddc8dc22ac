// Bad input to transforms: each is refused with an error that names the transform, the user's function and the types.

#include <gtest/gtest.h>

#include <cmath>

#include "eadem/array/rules.h"
#include "eadem/ops/catalog.h"
#include "eadem/transforms/compile.h"
#include "eadem/transforms/control.h"
#include "tests/support/bits.h"

namespace eadem {
namespace {

using namespace eadem::testing;

// What f throws, which must be an E.
template <class E, class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const E& error) {
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another kind of error: " << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

void expect_all_in(const std::string& message, std::initializer_list<std::string_view> parts) {
  for (const std::string_view part : parts)
    EXPECT_NE(message.find(part), std::string::npos) << "'" << part << "' is not in: " << message;
}

Array total(const Array& x) {
  Shape axes;
  for (int i = 0; i < x.rank(); ++i) axes.push_back(i);
  return sum(x, axes);
}

const Array kVector = full({3}, 2.0);

TEST(TransformErrors, ATracedValueThatLeaks) {
  Array leaked;
  grad([&](const Array& x) {
    leaked = x * 2.0;
    return total(x);
  })(kVector);
  EXPECT_TRUE(leaked.traced());
  expect_all_in(message_of<ValueError>([&] { leaked.view(); }), {"f32[3]", "grad of", "ended"});
  expect_all_in(message_of<ValueError>([&] { leaked + 1.0; }), {"f32[3]", "ended"});
  expect_all_in(message_of<ValueError>([&] { vmap([&](const Array& x) { return x + leaked; })(kVector); }),
                {"f32[3]", "ended"});
}

TEST(TransformErrors, ATracedValueThatIsRead) {
  expect_all_in(message_of<ValueError>([] {
                  grad([](const Array& x) { return x * static_cast<double>(total(x).item<float>()); })(kVector);
                }),
                {"read while", "grad of", "f32[]"});
}

TEST(TransformErrors, ALossThatIsNoFloatingScalar) {
  expect_all_in(message_of<ShapeError>([] { grad([](const Array& x) { return x; })(kVector); }), {"scalar", "f32[3]"});
  expect_all_in(message_of<TypeError>([] { grad([](const Array& x) { return argmax(x); })(kVector); }), {"i64[]"});
}

TEST(TransformErrors, AGradientOfIntegers) {
  expect_all_in(
      message_of<TypeError>([] { grad([](const Array& x) { return total(convert(x, DType::f32)); })(arange(3)); }),
      {"nothing to differentiate", "i64[3]"});
}

TEST(TransformErrors, BranchesOfDifferentTypes) {
  const Array yes = ones({}, DType::boolean);
  expect_all_in(message_of<TypeError>([&] {
                  cond(
                      yes, [](const Array& x) { return x; }, [](const Array& x) { return total(x); }, kVector);
                }),
                {"cond of", "branch", "f32[3]", "f32[]"});
  expect_all_in(message_of<TypeError>([&] {
                  cond(
                      kVector, [](const Array& x) { return x; }, [](const Array& x) { return x; }, kVector);
                }),
                {"predicate", "bool[]", "f32[3]"});
}

TEST(TransformErrors, ACarryThatChanges) {
  expect_all_in(message_of<TypeError>([] {
                  scan(
                      [](const Array& c, const Array& x) {
                        return std::pair(concatenate(std::vector<Array>{c, x}, 0), x);
                      },
                      kVector, ones({4, 3}));
                }),
                {"scan of", "carry 0", "f32[3]", "f32[6]"});
  expect_all_in(message_of<TypeError>([] {
                  while_loop([](const Array& c) { return less(total(c), full({}, 9)); },
                             [](const Array& c) { return convert(c, DType::bf16); }, kVector);
                }),
                {"while_loop of", "f32[3]", "bf16[3]"});
}

TEST(TransformErrors, SlicesThatDisagree) {
  expect_all_in(message_of<ShapeError>([] {
                  scan(
                      [](const Array& c, const std::pair<Array, Array>& x) { return std::pair(c + x.first, x.second); },
                      kVector, std::pair(ones({4, 3}), ones({5, 3})));
                }),
                {"length 4", "f32[5,3]"});
  expect_all_in(message_of<ValueError>([] {
                  scan([](const Array& c, std::tuple<>) { return std::pair(c, c); }, kVector, std::tuple<>());
                }),
                {"length"});
}

TEST(TransformErrors, BatchAxesThatDisagree) {
  const auto f = [](const Array& a, const Array& b) { return a + b; };
  expect_all_in(message_of<ShapeError>([&] {
                  vmap(f)(ones({4, 3}), ones({5, 3}));
                }),
                {"vmap of", "4", "5", "f32[5,3]"});
  expect_all_in(message_of<ShapeError>([&] { vmap(f, {2, 0})(ones({4, 3}), ones({4, 3})); }), {"axis 2"});
  expect_all_in(message_of<ValueError>([&] { vmap(f, {0})(ones({4, 3}), ones({4, 3})); }), {"in_axes", "1", "2"});
  expect_all_in(message_of<ShapeError>([&] { vmap(f)(ones({}), ones({})); }), {"f32[]"});
}

TEST(TransformErrors, ALargeConcreteCaptureInCompile) {
  const Array table = contiguous(normal(random_key(1), {40}));
  const auto f = compile([&](const Array& x) { return x + table; });
  const Scope scope("model");
  expect_all_in(message_of<ValueError>([&] { f(zeros({40})); }), {"compile of", "f32[40]", "160 bytes", "constant"});
  const auto permitted = compile([&](const Array& x) { return x + constant(table); });
  expect_same(permitted(zeros({40})), table);
}

TEST(TransformErrors, WhileHasNoReverseMode) {
  expect_all_in(message_of<ValueError>([] {
                  grad([](const Array& x) {
                    return total(while_loop([](const Array& c) { return less(total(c), full({}, 9)); },
                                            [](const Array& c) { return c * 2.0; }, x));
                  })(kVector);
                }),
                {"while_loop", "no reverse mode", "fori_loop"});
}

TEST(TransformErrors, ACustomRuleThatDoesNotFit) {
  const auto f = [](const Array& x) { return sin(x); };
  expect_all_in(message_of<TypeError>([&] {
                  custom_vjp(
                      f, [](const Array& x) { return std::pair(sin(x), x); },
                      [](const Array&, const Array& ct) { return std::tuple(convert(ct, DType::f64)); })(kVector);
                }),
                {"custom_vjp", "f32[3]", "f64[3]"});
  const Array outside = contiguous(ones({40}));
  expect_all_in(message_of<ValueError>([&] {
                  custom_vjp([&](const Array& x) { return x * outside; },
                             [&](const Array& x) { return std::pair(x * outside, x); },
                             [](const Array&, const Array& ct) { return std::tuple(ct); })(ones({40}));
                }),
                {"custom_vjp of", "captures", "f32[40]"});
}

struct Endless {
  Array operator()(const Array& x) const { return total(grad(Endless{})(x)); }
};

TEST(TransformErrors, RecursionTooDeep) {
  expect_all_in(message_of<ValueError>([] { grad(Endless{})(kVector); }), {"nest deeper than", "Endless"});
}

TEST(TransformErrors, AfterAnErrorNothingIsTracing) {
  EXPECT_THROW(grad([](const Array& x) { return x; })(kVector), ShapeError);
  EXPECT_EQ(Trace::current(), nullptr);
  EXPECT_TRUE(Scope::path().empty());
  EXPECT_FALSE((kVector + 1.0).traced());
}

// Rules that give an operand a cotangent of another type than its own.
void double_cotangent(Vjp& g) {
  g.add(0, convert(g.ct(), DType::f64));
}
void scalar_cotangent(Vjp& g) {
  g.add(0, total(g.ct()));
}
void window_outside(Vjp& g) {
  g.add_window(0, g.ct(), 0, 1);
}
TEST(TransformErrors, ARuleThatGivesAnotherType) {
  Primitive broken = prim::sin;
  const auto gradient = [&](void (*rule)(Vjp&)) {
    broken.vjp = rule;
    return message_of<TypeError>([&] { grad([&](const Array& x) { return total(apply(broken, {x})); })(kVector); });
  };
  expect_all_in(gradient(double_cotangent), {"rule of sin", "f64[3]", "f32[3]"});
  expect_all_in(gradient(scalar_cotangent), {"rule of sin", "f32[]", "f32[3]"});
  expect_all_in(gradient(window_outside), {"rule of sin", "f32[3]"});
}

TEST(Programs, NumbersAreReadExactly) {
  const double numbers[] = {0.1, -0.0, 1e300, 5e-324, -0x1.8p-1070, HUGE_VAL, -HUGE_VAL, 3};
  const Array x = Array::from(std::vector<double>(std::begin(numbers), std::end(numbers)), {8});
  const Traced traced = trace("test", {x.type()}, [&](const Arrays& in) { return Arrays{layer_norm(in[0] + x, 0.1)}; });
  EXPECT_TRUE(parse_program(print(*traced.program), catalog()) == *traced.program);
  const std::string_view decimal = "{ inputs; %0:f64[3] = literal[value=f64[3]{-0.1,1e-3,25}] outputs %0 }";
  expect_same(replay(parse_program(decimal, catalog()), {}), Arrays{Array::from<double>({-0.1, 1e-3, 25})});
}

TEST(Programs, NestAsDeepToPrintAsToParse) {
  const auto nested = [](int depth) {
    ProgramRef inner = trace("test", {kVector.type()}, [](const Arrays& in) { return Arrays{sin(in[0])}; }).program;
    for (int i = 1; i < depth; ++i) {
      Program level;
      level.inputs = {level.add_value(kVector.type())};
      level.outputs = level.add_equation(prim::remat, level.inputs,
                                         std::make_shared<RematAttribute>(RematAttribute{inner}), {kVector.type()});
      inner = std::make_shared<const Program>(std::move(level));
    }
    return inner;
  };
  const ProgramRef deep = nested(kMaxProgramDepth);
  EXPECT_TRUE(parse_program(print(*deep), catalog()) == *deep);
  expect_all_in(message_of<ValueError>([&] { print(*nested(kMaxProgramDepth + 1)); }), {"nest deeper than"});
}

TEST(ParseErrors, AreNamedByPlace) {
  const auto message = [](std::string_view text) { return message_of<Error>([&] { parse_program(text, catalog()); }); };
  expect_all_in(message(""), {"'{'"});
  expect_all_in(message("{ inputs %0:f32[2]; %1:f32[2] = nothing %0 outputs %1 }"), {"nothing"});
  expect_all_in(message("{ inputs %0:f32[2]; %1:f32[3] = tanh %0 outputs %1 }"), {"tanh", "f32[3]", "f32[2]"});
  expect_all_in(message("{ inputs %0:f32[2]; %1:f32[2] = tanh %2 outputs %1 }"), {"%2"});
  expect_all_in(message("{ inputs %0:f32[2]; outputs %1 }"), {"%1"});
  expect_all_in(message("{ inputs %0:f32[2]; %1:f32[] = sum %0 outputs %1 }"), {"attributes"});
  expect_all_in(message("{ inputs %0:f33[2]; outputs %0 }"), {"f33"});
  expect_all_in(message("{ inputs %0:f32[-2]; outputs %0 }"), {"negative"});
  expect_all_in(message("{ inputs %0:f32[2]; outputs %0 } more"), {"end of the text"});
  expect_all_in(message("{ inputs %0:f32[2]; %1:f32[] = sum[axes=[0 %0 outputs %1 }"), {"closing bracket"});
  expect_all_in(message("{ inputs %0:f32[2]; %1:f32[] = sum[axes=[7]] %0 outputs %1 }"), {"sum"});
  expect_all_in(message("{ inputs; %0:bf16[1] = literal[value=bf16[1]{nan:17fc1}] outputs %0 }"), {"nan:17fc1"});
  expect_all_in(message("{ inputs; %0:f32[1] = literal[value=f32[1]{1,5}] outputs %0 }"), {"1 values"});
  for (const std::string_view number : {"--1", "0x", "-", "1e999", "0x1p", "1.5x", ""})
    expect_all_in(message(fmt::format("{{ inputs; %0:f64[1] = literal[value=f64[1]{{{}}}] outputs %0 }}", number)),
                  {number.empty() ? "1 values" : number});
}

}  // namespace
}  // namespace eadem
