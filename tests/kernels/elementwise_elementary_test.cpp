// The elementary functions' tiles on every target against numerics/: all 2^16 inputs of bf16 and f16, a stratified 2^18
// of f32, f64; and no result depends on its place in the tile.
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include "eadem/kernels/elementwise/elementwise.h"
#include "eadem/kernels/elementwise/held.h"
#include "eadem/kernels/target.h"

namespace eadem::kernels {
namespace {

using numerics::Function;
using numerics::Function2;

template <class F>
void for_each_function(F f) {
  [&]<int... i>(std::integer_sequence<int, i...>) {
    (f(std::integral_constant<Function, static_cast<Function>(i)>()), ...);
  }
  (std::make_integer_sequence<int, numerics::kFunctionCount>());
}

template <class T>
std::vector<T> inputs() {
  std::vector<T> x;
  std::mt19937_64 random(9);
  if constexpr (Float16<T>) {
    for (std::uint32_t bits = 0; bits < 0x10000; ++bits) x.push_back(T{static_cast<std::uint16_t>(bits)});
  } else if constexpr (std::same_as<T, float>) {
    // Every sign, exponent and leading seven bits, four random tails; then the range where functions move.
    for (std::uint32_t top = 0; top < 0x10000; ++top)
      for (int i = 0; i < 3; ++i)
        x.push_back(std::bit_cast<float>((top << 16) | static_cast<std::uint32_t>(random() & 0xffff)));
    for (int i = 0; i < 65536; ++i)
      x.push_back(static_cast<float>((static_cast<double>(random() >> 11) * 0x1p-53 - 0.5) * (i % 2 ? 4 : 40)));
    for (const float special :
         {0.f, -0.f, 1.f, -1.f, 0.5f, 100.f, 1000.f, -103.97208f, 88.722839f, 0x1p-149f, -0x1p-149f, 0x1p20f, 2.f, 4.f})
      x.push_back(special);
    for (const float infinite : {1.f, -1.f}) x.push_back(infinite / 0.f);
    x.push_back(std::bit_cast<float>(0xff800001u));
  } else {
    for (int i = 0; i < 3000; ++i) x.push_back(std::bit_cast<double>(random()));
    for (int i = 0; i < 3000; ++i) x.push_back((static_cast<double>(random() >> 11) * 0x1p-53 - 0.5) * 20);
  }
  return x;
}

// Runs x through the tile in pieces of 1, 2, ..., 67, then whole tiles.
template <class H>
std::vector<H> run(TileFn tile, const std::vector<H>& x) {
  std::vector<H> y(x.size());
  for (std::size_t done = 0, length = 1; done < x.size();
       done += length, length = length < 67 ? length + 1 : kTileElements) {
    length = std::min(length, x.size() - done);
    tile({.in = {x.data() + done}, .out = y.data() + done, .count = length});
  }
  return y;
}

template <class T>
void check_functions() {
  const std::vector<T> x = inputs<T>();
  std::vector<Held<T>> in;
  for (const T each : x) in.push_back(to_held<T>(each));
  for_each_function([&]<Function f>(std::integral_constant<Function, f>) {
    std::vector<Held<T>> want;
    for (const T each : x) want.push_back(to_held<T>(numerics::Elementary<f>{}(each)));
    for (const Target target : available_targets()) {
      set_target(target);
      const std::vector<Held<T>> got = run(elementary(f, kDTypeOf<T>), in);
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < x.size(); ++i)
        if (std::memcmp(&got[i], &want[i], sizeof got[i]) != 0 && ++wrong <= 3)
          ADD_FAILURE() << numerics::name_of(f) << " " << name_of(kDTypeOf<T>) << " on " << name_of(target) << ": of "
                        << std::hexfloat << in[i] << " got " << got[i] << ", want " << want[i];
      EXPECT_EQ(wrong, 0u) << numerics::name_of(f) << " " << name_of(kDTypeOf<T>) << " on " << name_of(target);
    }
  });
}
TEST(Elementary, Float32) {
  check_functions<float>();
}
TEST(Elementary, Bfloat16Exhaustive) {
  check_functions<bfloat16>();
}
TEST(Elementary, Float16Exhaustive) {
  check_functions<float16>();
}
TEST(Elementary, Float64) {
  check_functions<double>();
}

template <Function2 f, class T>
void check_function_2() {
  const std::vector<T> all = inputs<T>();
  std::mt19937 random(3);
  std::vector<Held<T>> a, b, want;
  for (int i = 0; i < 4000; ++i) {
    const T x = all[random() % all.size()], y = all[random() % all.size()];
    a.push_back(to_held<T>(x));
    b.push_back(to_held<T>(y));
    want.push_back(to_held<T>(numerics::Elementary2<f>{}(x, y)));
  }
  for (const Target target : available_targets()) {
    set_target(target);
    std::vector<Held<T>> got(a.size());
    for (std::size_t i = 0; i < a.size(); i += 400)
      elementary(f, kDTypeOf<T>)({.in = {a.data() + i, b.data() + i}, .out = got.data() + i, .count = 400});
    EXPECT_EQ(std::memcmp(got.data(), want.data(), got.size() * sizeof got[0]), 0) << numerics::name_of(f);
  }
}
TEST(Elementary, TwoArguments) {
  [&]<class... T>(std::type_identity<std::tuple<T...>>) {
    (check_function_2<Function2::pow, T>(), ...);
    (check_function_2<Function2::atan2, T>(), ...);
    (check_function_2<Function2::hypot, T>(), ...);
  }(std::type_identity<std::tuple<float, bfloat16, float16, double>>());
}

// Public report C4: f(u) is f(u[i:i+1]) joined, at any place and alignment.
TEST(Elementary, PlaceDoesNotMatter) {
  std::mt19937 random(4);
  std::vector<float> u(4096);
  for (float& each : u) each = static_cast<float>(random() >> 8) * 0x1p-24f;
  for (const Target target : available_targets()) {
    set_target(target);
    for_each_function([&]<Function f>(std::integral_constant<Function, f>) {
      const TileFn tile = elementary(f, DType::f32);
      const std::vector<float> whole = run(tile, u);
      for (std::size_t i = 0; i < u.size(); ++i) {
        float one;
        tile({.in = {u.data() + i}, .out = &one, .count = 1});
        ASSERT_EQ(std::memcmp(&one, &whole[i], 4), 0) << numerics::name_of(f) << " at " << i;
      }
    });
  }
}

// A forced target is the one that ran.
TEST(Elementary, ForcedTargetRuns) {
  for (const Target target : available_targets()) {
    if (target > Target::avx512 && target != Target::neon) continue;
    set_target(target);
    clear_targets_ran();
    ASSERT_NE(elementary(Function::exp, DType::f32), nullptr);
    EXPECT_EQ(targets_ran(), 1u << static_cast<int>(target));
  }
}

}  // namespace
}  // namespace eadem::kernels
