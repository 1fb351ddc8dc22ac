// Every tile function of arithmetic, comparison, bits and conversion, on every target of this CPU, against numerics/.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <vector>

#include "eadem/kernels/elementwise/elementwise.h"
#include "eadem/kernels/elementwise/held.h"
#include "eadem/kernels/target.h"
#include "eadem/numerics/compare.h"
#include "eadem/numerics/integer.h"
#include "tests/kernels/elementwise_values.h"

namespace eadem::kernels {
namespace {

// Lengths 1..67, then whole tiles; offsets by length so that vectors are unaligned. Compares every target's tile, out
// of place, with `expected`.
template <class R, class... A>
void check(const std::string& what, const std::function<TileFn()>& pick, const Values<R>& expected,
           const Values<A>&... operands) {
  const auto inputs = std::tuple(held(operands)...);
  for (const Target target : available_targets()) {
    set_target(target);
    clear_targets_ran();
    const TileFn tile = pick();
    ASSERT_NE(tile, nullptr) << what;
    ASSERT_NE(targets_ran(), 0u);
    if (target <= Target::avx512 || target == Target::neon) {
      ASSERT_EQ(targets_ran(), 1u << static_cast<int>(target)) << what;
    }
    const Values<Held<R>> out(expected.size());
    std::size_t done = 0;
    for (std::size_t length = 1; done < expected.size();
         done += length, length = length < 67 ? length + 1 : kTileElements) {
      length = std::min(length, expected.size() - done);
      TileArgs args;
      args.count = length;
      args.out = out.data() + done;
      std::apply(
          [&](const auto&... in) {
            std::size_t k = 0;
            ((args.in[k++] = in.data() + done), ...);
          },
          inputs);
      tile(args);
    }
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const Held<R> want = to_held<R>(expected[i]);
      ASSERT_EQ(std::memcmp(&out[i], &want, sizeof want), 0)
          << what << " on " << name_of(target) << " at " << i << ": got " << +out[i] << ", want " << +want << ", of "
          << +std::get<0>(inputs)[i] << ", " << +std::get<sizeof...(A) - 1>(inputs)[i];
    }
  }
}

constexpr std::size_t kCount = 6000;

template <class F>
void for_each_dtype(F f) {
  for (int i = 0; i < kDTypeCount; ++i) visit(static_cast<DType>(i), f);
}

// Operation on every dtype that numerics/ defines it for.
template <class Operation, std::size_t operands>
void check_operation(const std::string& name, TilePick pick) {
  for_each_dtype([&]<class T>(std::type_identity<T>) {
    const TensorType types[3] = {{kDTypeOf<T>, {}}, {kDTypeOf<T>, {}}, {kDTypeOf<T>, {}}};
    const auto picked = [&] { return pick(Signature{std::span(types).first(operands)}); };
    const std::string what = name + " " + std::string(name_of(kDTypeOf<T>));
    const Values<T> a = elements<T>(kCount, 1), b = elements<T>(kCount, 2), c = elements<T>(kCount, 3);
    const auto run = [&]<class... Same>(const Values<Same>&... in) {
      if constexpr (std::invocable<Operation, Same...>) {
        using R = std::invoke_result_t<Operation, Same...>;
        const Values<R> expected(kCount);
        for (std::size_t i = 0; i < kCount; ++i) expected[i] = Operation{}(in[i]...);
        check<R, Same...>(what, picked, expected, in...);
      }
    };
    if constexpr (operands == 1) run(a);
    if constexpr (operands == 2) run(a, b);
    if constexpr (operands == 3) run(a, b, c);
  });
}

// One test for each operation, so that a failure names it.
#define EADEM_CHECK_OPERATION(Operation, operands, name)         \
  TEST(ElementwiseLoops, Operation) {                            \
    check_operation<numerics::Operation, operands>(#name, name); \
  }

EADEM_CHECK_OPERATION(Negate, 1, negate)
EADEM_CHECK_OPERATION(Abs, 1, abs)
EADEM_CHECK_OPERATION(Sign, 1, sign)
EADEM_CHECK_OPERATION(Floor, 1, floor)
EADEM_CHECK_OPERATION(Ceil, 1, ceil)
EADEM_CHECK_OPERATION(Round, 1, round)
EADEM_CHECK_OPERATION(Trunc, 1, trunc)
EADEM_CHECK_OPERATION(Add, 2, add)
EADEM_CHECK_OPERATION(Subtract, 2, subtract)
EADEM_CHECK_OPERATION(Multiply, 2, multiply)
EADEM_CHECK_OPERATION(Divide, 2, divide)
EADEM_CHECK_OPERATION(Fmod, 2, fmod)
EADEM_CHECK_OPERATION(Remainder, 2, remainder)
EADEM_CHECK_OPERATION(Maximum, 2, maximum)
EADEM_CHECK_OPERATION(Minimum, 2, minimum)
EADEM_CHECK_OPERATION(Fma, 3, fma)
EADEM_CHECK_OPERATION(Clamp, 3, clamp)
EADEM_CHECK_OPERATION(Equal, 2, equal)
EADEM_CHECK_OPERATION(NotEqual, 2, not_equal)
EADEM_CHECK_OPERATION(Less, 2, less)
EADEM_CHECK_OPERATION(LessEqual, 2, less_equal)
EADEM_CHECK_OPERATION(Greater, 2, greater)
EADEM_CHECK_OPERATION(GreaterEqual, 2, greater_equal)
EADEM_CHECK_OPERATION(IsNan, 1, is_nan)
EADEM_CHECK_OPERATION(IsFinite, 1, is_finite)
EADEM_CHECK_OPERATION(IsInf, 1, is_inf)
EADEM_CHECK_OPERATION(BitwiseAnd, 2, bitwise_and)
EADEM_CHECK_OPERATION(BitwiseOr, 2, bitwise_or)
EADEM_CHECK_OPERATION(BitwiseXor, 2, bitwise_xor)
EADEM_CHECK_OPERATION(BitwiseNot, 1, bitwise_not)
EADEM_CHECK_OPERATION(ShiftLeft, 2, shift_left)
EADEM_CHECK_OPERATION(ShiftRightLogical, 2, shift_right_logical)
EADEM_CHECK_OPERATION(ShiftRightArithmetic, 2, shift_right_arithmetic)
EADEM_CHECK_OPERATION(PopulationCount, 1, population_count)
EADEM_CHECK_OPERATION(CountLeadingZeros, 1, count_leading_zeros)

TEST(ElementwiseLoops, Select) {
  for_each_dtype([]<class T>(std::type_identity<T>) {
    const TensorType types[3] = {{DType::boolean, {}}, {kDTypeOf<T>, {}}, {kDTypeOf<T>, {}}};
    std::mt19937 random(5);
    const Values<T> a = elements<T>(kCount, 1), b = elements<T>(kCount, 2);
    const Values<bool> predicate(kCount);
    const Values<T> expected(kCount);
    for (std::size_t i = 0; i < kCount; ++i) {
      predicate[i] = (random() & 1) != 0;
      expected[i] = numerics::select(predicate[i], a[i], b[i]);
    }
    check<T, bool, T, T>(
        "select", [&] { return select(Signature{types}); }, expected, predicate, a, b);
  });
}

TEST(ElementwiseLoops, Convert) {
  for_each_dtype([]<class From>(std::type_identity<From>) {
    const Values<From> x = elements<From>(kCount, 4);
    for_each_dtype([&]<class To>(std::type_identity<To>) {
      const Values<To> expected(kCount);
      for (std::size_t i = 0; i < kCount; ++i) expected[i] = numerics::convert<To>(x[i]);
      const std::string what = fmt::format("convert {} to {}", kDTypeOf<From>, kDTypeOf<To>);
      check<To, From>(
          what, [] { return convert(kDTypeOf<From>, kDTypeOf<To>); }, expected, x);
    });
  });
}

// hold() against round_to: all f16 and bf16 midpoints' neighbourhoods, from float and from double.
template <class T>
void check_hold() {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const T element{static_cast<std::uint16_t>(bits)};
    const float value = to_float(element);
    if (!(std::fabs(value) <= std::numeric_limits<float>::max())) continue;
    const double above = to_float(T{static_cast<std::uint16_t>(bits + 1)});
    const double middle = (above - above == 0) ? (value + above) / 2 : value * (1 + 0x1p-9);
    for (const double x : {double{value}, middle, std::nextafter(middle, 0), std::nextafter(middle, 1e300)}) {
      ASSERT_TRUE(numerics::same_bits(hold<T>(x), to_float(numerics::round_to<T>(x)))) << x;
      const float narrow = static_cast<float>(x);
      for (const float f : {narrow, std::nextafter(narrow, 0.f), std::nextafter(narrow, 1e38f)})
        ASSERT_TRUE(numerics::same_bits(hold<T>(f), to_float(numerics::round_to<T>(f)))) << f;
    }
  }
}
TEST(Hold, IsRoundTo) {
  check_hold<bfloat16>();
  check_hold<float16>();
}

}  // namespace
}  // namespace eadem::kernels
