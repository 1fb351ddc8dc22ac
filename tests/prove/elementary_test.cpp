// The elementary functions against MPFR: what `make test` runs of the proof in prove.cpp.

#include <gtest/gtest.h>

#include "eadem/numerics/elementary_functions.h"
#include "pairs.h"

namespace eadem::prove {
namespace {

template <class Body>
void for_each_function(Body&& body) {
  for (int i = 0; i < numerics::kFunctionCount; ++i) {
    const auto function = static_cast<Function>(i);
    SCOPED_TRACE(std::string(name_of(function)));
    numerics::visit(function, body);
  }
}

// f of count arguments, against the filter and the oracle.
template <class T, class F, class Argument>
void check_all(F f, std::uint32_t count, Argument argument) {
  std::uint64_t wrong = 0;
  T x[kBlock], y[kBlock];
  for (std::uint32_t i = 0; i < count; i += kBlock) {
    for (int k = 0; k < kBlock; ++k) x[k] = argument(i + k), y[k] = f(x[k]);
    check_block<F::kFunction>(x, y, kBlock, false, [&](int k, Verdict v) {
      if (v.right || wrong++ != 0) return;
      ADD_FAILURE() << std::hexfloat << "f(" << numerics::to_double(x[k]) << ") = " << numerics::to_double(y[k])
                    << ", not " << numerics::to_double(right<F::kFunction>(x[k]));
    });
  }
  EXPECT_EQ(wrong, 0u);
}
template <class T, class F>
void check_all_16_bit(F f) {
  check_all<T>(f, 0x10000, [](std::uint32_t i) { return T{static_cast<std::uint16_t>(i)}; });
}

TEST(Elementary, EveryBfloat16IsCorrectlyRounded) {
  for_each_function([](auto f) { check_all_16_bit<bfloat16>(f); });
}
TEST(Elementary, EveryFloat16IsCorrectlyRounded) {
  for_each_function([](auto f) { check_all_16_bit<float16>(f); });
}

// One argument in each 4096 neighbours, so every exponent and sign is met 2048 times.
TEST(Elementary, StratifiedFloatIsCorrectlyRounded) {
  for_each_function([](auto f) {
    check_all<float>(f, 1u << 20, [](std::uint32_t i) {
      return std::bit_cast<float>(static_cast<std::uint32_t>(i << 12 | (random_word(i) & 0xfff)));
    });
  });
}

// The bound that lets double decide: the true error is to stay below half of it.
TEST(Elementary, DoubleEnclosesTheExactValue) {
  for_each_function([](auto f) {
    using F = decltype(f);
    double worst = 0, at = 0;
    for (std::uint32_t i = 0; i < 6000; ++i) {
      // Half over all bits, half over the exponents where the functions bend.
      const std::uint64_t w = random_word(i);
      const float x = i % 2 != 0 ? std::bit_cast<float>(static_cast<std::uint32_t>(w))
                                 : random_float(w, -16, 8) * ((w >> 60) & 1 ? -1.0f : 1.0f);
      double limit;
      if (at_limit<F::kFunction>(x, limit)) continue;
      const Real exact = oracle<F::kFunction>(x);
      const numerics::core::Enclosure e = numerics::core::enclose<F::kFunction>(x);
      const double size = std::fabs(mpfr_get_d(exact.get(), MPFR_RNDN));
      if (size > 0x1p200 || size < 0x1p-200) continue;  // there arguments are clamped
      const double error = std::fabs(mpfr_get_d((Real(e.y) - exact).get(), MPFR_RNDN)) / e.d;
      if (error > worst) worst = error, at = x;
    }
    EXPECT_LT(worst, 0.5) << "at " << std::hexfloat << at;
    testing::Test::RecordProperty(std::string(name_of(F::kFunction)), std::to_string(worst));
    if (std::getenv("EADEM_SHOW_BOUNDS")) std::printf("%-22s %.3f of 2^-48\n", name_of(F::kFunction).data(), worst);
  });
}

/// |y - exact| in units of the last place of the exact value.
double ulps(double y, const Real& exact) {
  int exponent;
  std::frexp(mpfr_get_d(exact.get(), MPFR_RNDZ), &exponent);
  const double ulp = std::ldexp(1.0, std::max(exponent, -1021) - 53);
  const Real error = (Real(y) - exact) / Real(ulp);
  return std::fabs(mpfr_get_d(error.get(), MPFR_RNDN));
}

/// Arguments over all exponents, dense around 1, in both signs, and neighbours of the derivatives' zeros.
std::vector<double> double_arguments() {
  std::vector<double> x;
  for (std::uint64_t i = 0; i < 900; ++i) {
    const double m = 1 + static_cast<double>(random_word(i) >> 12) * 0x1p-52;
    const double sign = random_word(i + 1000) & 1 ? -1 : 1;
    x.push_back(sign * std::ldexp(m, static_cast<int>(random_word(i + 2000) % 2098) - 1074));
    for (int k = 0; k < 3; ++k) x.push_back(sign * std::ldexp(m, static_cast<int>(random_word(3 * i + k) % 24) - 13));
  }
  for (const double base : {1.0, -1.0, 0.5, 0.25, 0.75, -1.2784645427610738, -0.75179159, -0.7524616221447, 709.7,
                            -745.0, 710.3, -37.5, 1.5707963267948966, 3.141592653589793, 22.0, 0.7071}) {
    double up = base, down = base;
    for (int k = 0; k < 8; ++k) {
      x.push_back(up), x.push_back(down), x.push_back(base * (1 + std::ldexp(1.0, -8 * k)));
      up = std::nextafter(up, 1e300), down = std::nextafter(down, -1e300);
    }
  }
  return x;
}

TEST(Elementary, DoubleIsWithinOneUlp) {
  Real::precision = 400;
  double worst_of_all = 0;
  for_each_function([&](auto f) {
    using F = decltype(f);
    double worst = 0, at = 0;
    for (const double x : double_arguments()) {
      double limit;
      const double y = f(x);
      if (at_limit<F::kFunction>(x, limit)) {
        EXPECT_TRUE(numerics::same_bits(y, numerics::round_to<double>(limit))) << std::hexfloat << x << " gave " << y;
        continue;
      }
      const Real exact = oracle<F::kFunction>(x);
      const double rounded = mpfr_get_d(exact.get(), MPFR_RNDN);
      if (std::isinf(rounded) || std::isinf(y)) {
        EXPECT_EQ(rounded, y) << x;
      } else if (const double error = ulps(y, exact); !(error <= worst)) {
        worst = error, at = x;
      }
    }
    EXPECT_LE(worst, 1.0) << "at " << std::hexfloat << at;
    worst_of_all = std::max(worst_of_all, worst);
  });
  RecordProperty("worst_ulp", std::to_string(worst_of_all));
  Real::precision = 200;
}

TEST(Elementary, PowAndAtan2AreCorrectlyRoundedInFloat) {
  for (std::uint64_t i = 0; i < 1000000; ++i) {
    const auto [x, y] = pow_arguments(i);
    ASSERT_TRUE(check2(Function2::pow, x, y, numerics::pow(x, y)).right)
        << std::hexfloat << "pow(" << x << ", " << y << ") = " << numerics::pow(x, y);
    const auto [b, a] = atan2_arguments(i);
    ASSERT_TRUE(check2(Function2::atan2, b, a, numerics::atan2(b, a)).right)
        << std::hexfloat << "atan2(" << b << ", " << a << ") = " << numerics::atan2(b, a);
  }
}

TEST(Elementary, PowAndAtan2AreCorrectlyRoundedIn16Bits) {
  const auto check_type = []<class T>(std::type_identity<T>) {
    for (std::uint64_t i = 0; i < 300000; ++i) {
      const T x{static_cast<std::uint16_t>(random_word(i))}, y{static_cast<std::uint16_t>(random_word(i) >> 16)};
      ASSERT_TRUE(check2(Function2::pow, x, y, numerics::pow(x, y)).right) << std::hex << x.bits << ' ' << y.bits;
      ASSERT_TRUE(check2(Function2::atan2, x, y, numerics::atan2(x, y)).right) << std::hex << x.bits << ' ' << y.bits;
      const T small = numerics::round_to<T>(static_cast<double>(random_word(i) % 129) / 8);
      const T power = numerics::round_to<T>(static_cast<double>(static_cast<int>(random_word(i + 7) % 33) - 16) / 2);
      ASSERT_TRUE(check2(Function2::pow, small, power, numerics::pow(small, power)).right)
          << std::hex << small.bits << ' ' << power.bits;
    }
  };
  check_type(std::type_identity<bfloat16>{});
  check_type(std::type_identity<float16>{});
}

TEST(Elementary, TwoArgumentsInDoubleAreWithinOneUlp) {
  Real::precision = 400;
  const auto arguments = double_arguments();
  for (std::size_t i = 0; i < 4 * arguments.size(); ++i) {
    const double x = arguments[random_word(i) % arguments.size()];
    double y = arguments[random_word(i + 1000000) % arguments.size()];
    for (const auto f : {Function2::pow, Function2::atan2, Function2::hypot}) {
      if (f == Function2::pow && i % 2 == 0)
        y = (static_cast<double>(random_word(i) >> 11) * 0x1p-53 - 0.5) * 2140 / std::log2(std::fabs(x));
      if (f == Function2::pow && x < 0) y = std::rint(y);
      const double z = f == Function2::pow     ? numerics::pow(x, y)
                       : f == Function2::atan2 ? numerics::atan2(x, y)
                                               : numerics::hypot(x, y);
      const Real exact = oracle2(f, x, y);
      const double rounded = mpfr_get_d(exact.get(), MPFR_RNDN);
      if (std::isfinite(rounded) && std::isfinite(z)) {
        ASSERT_LE(ulps(z, exact), 1.0) << name_of(f) << std::hexfloat << ' ' << x << ' ' << y << " = " << z;
      } else {
        ASSERT_TRUE(rounded == z || (rounded != rounded && z != z))
            << name_of(f) << std::hexfloat << ' ' << x << ' ' << y;
      }
    }
  }
  Real::precision = 200;
}

TEST(Elementary, HypotInFloatIsWithinOneUlp) {
  for (std::uint64_t i = 0; i < 20000; ++i) {
    const auto [x, y] = atan2_arguments(i);
    const float z = numerics::hypot(x, y);
    const Real exact = oracle2(Function2::hypot, x, y);
    const float rounded = round_real<float>(exact);
    if (std::isnan(rounded)) continue;
    ASSERT_TRUE(z == rounded || std::nextafter(z, rounded) == rounded) << x << ' ' << y;
  }
}

}  // namespace
}  // namespace eadem::prove
