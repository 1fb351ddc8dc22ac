#include "eadem/ops/float8.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "eadem/base/error.h"
#include "eadem/kernels/target.h"
#include "eadem/ops/ops.h"

namespace eadem {
namespace {

// The number of a code, from the specification's formula; not from the code under test.
double value_of(Float8 format, int code) {
  const int digits = format == Float8::e4m3 ? 3 : 2, bias = format == Float8::e4m3 ? 7 : 15;
  const int exponent = (code & 0x7f) >> digits, fraction = code & ((1 << digits) - 1);
  const double sign = code & 0x80 ? -1 : 1;
  if (format == Float8::e4m3 && (code & 0x7f) == 0x7f) return std::numeric_limits<double>::quiet_NaN();
  if (format == Float8::e5m2 && exponent == 31)
    return fraction ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
  const double scale = std::ldexp(1.0, (exponent == 0 ? 1 : exponent) - bias - digits);
  return sign * (fraction + (exponent == 0 ? 0 : 1 << digits)) * scale;
}

// The nearest number, ties to the even code, by looking at all of them; beyond, as the format says.
int nearest_code(Float8 format, double x, bool saturating) {
  const int sign = std::signbit(x) ? 0x80 : 0, largest = format == Float8::e4m3 ? 0x7e : 0x7b;
  if (std::isnan(x)) return format == Float8::e4m3 ? 0x7f : 0x7e;
  const double magnitude = std::fabs(x), top = value_of(format, largest);
  const double next = 2 * top - value_of(format, largest - 1);  // what would follow the largest
  // Halfway to it is a tie, which an even largest code wins.
  const double halfway = (top + next) / 2;
  if (magnitude > halfway || (magnitude == halfway && largest % 2 == 1))
    return saturating ? sign | largest : format == Float8::e4m3 ? 0x7f : sign | 0x7c;
  int best = 0;
  for (int code = 0; code <= largest; ++code) {
    const double distance = std::fabs(value_of(format, code) - magnitude),
                 least = std::fabs(value_of(format, best) - magnitude);
    if (distance < least || (distance == least && code % 2 == 0)) best = code;
  }
  return sign | best;
}

template <class T>
void expect_codes(const std::vector<T>& values) {
  const Array x = Array::from<T>(values, {static_cast<std::int64_t>(values.size())});
  for (const kernels::Target target : kernels::available_targets()) {
    kernels::set_target(target);
    for (const Float8 format : {Float8::e4m3, Float8::e5m2})
      for (const bool saturating : {false, true}) {
        const Array codes = to_float8(x, format, saturating);
        for (std::size_t i = 0; i < values.size(); ++i) {
          const auto value = static_cast<double>(numerics::to_double(values[i]));
          ASSERT_EQ(int{codes.data<std::uint8_t>()[i]}, nearest_code(format, value, saturating))
              << value << " format " << static_cast<int>(format) << " saturating " << saturating;
        }
      }
  }
  kernels::set_target(kernels::available_targets().back());
}

TEST(Float8, EveryBfloat16) {
  std::vector<bfloat16> all(1 << 16);
  for (std::uint32_t i = 0; i < all.size(); ++i) all[i].bits = static_cast<std::uint16_t>(i);
  expect_codes(all);
}

TEST(Float8, EveryFloat16) {
  std::vector<float16> all(1 << 16);
  for (std::uint32_t i = 0; i < all.size(); ++i) all[i].bits = static_cast<std::uint16_t>(i);
  expect_codes(all);
}

// Around every border between two codes, one step of the type to each side.
template <class T>
std::vector<T> borders() {
  std::vector<T> values{T{0},
                        -T{0},
                        std::numeric_limits<T>::denorm_min(),
                        std::numeric_limits<T>::max(),
                        std::numeric_limits<T>::infinity(),
                        -std::numeric_limits<T>::infinity(),
                        std::numeric_limits<T>::quiet_NaN()};
  for (const Float8 format : {Float8::e4m3, Float8::e5m2})
    for (int code = 0; code < 0x7f; ++code) {
      const double here = value_of(format, code), next = value_of(format, code + 1);
      const double middle = std::isfinite(next) ? (here + next) / 2 : here * 1.0625;
      for (const double at : {here, middle})
        for (const T sign : {T{1}, T{-1}}) {
          const auto x = static_cast<T>(at);
          values.push_back(sign * x);
          values.push_back(sign * std::nextafter(x, std::numeric_limits<T>::infinity()));
          values.push_back(sign * std::nextafter(x, -std::numeric_limits<T>::infinity()));
        }
    }
  std::mt19937_64 generator(1);
  for (int i = 0; i < 20000; ++i) {
    const auto bits = generator();
    T x;
    std::memcpy(&x, &bits, sizeof x);
    values.push_back(x);
  }
  return values;
}

TEST(Float8, BordersOfFloatsAndDoubles) {
  expect_codes(borders<float>());
  expect_codes(borders<double>());
}

TEST(Float8, EveryCodeIsExactInEveryDtype) {
  std::vector<std::uint8_t> all(256);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint8_t>(i);
  const Array codes = Array::from<std::uint8_t>(all, {256});
  for (const kernels::Target target : kernels::available_targets()) {
    kernels::set_target(target);
    for (const Float8 format : {Float8::e4m3, Float8::e5m2})
      for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
        const Array x = from_float8(codes, format, dtype), wide = convert(x, DType::f64);
        for (int code = 0; code < 256; ++code) {
          const double want = value_of(format, code), got = wide.data<double>()[code];
          if (std::isnan(want)) {
            EXPECT_TRUE(std::isnan(got)) << code;
            continue;
          }
          ASSERT_EQ(got, want) << code;
          ASSERT_EQ(std::signbit(got), std::signbit(want)) << code;
          ASSERT_EQ(int{to_float8(x, format, false).data<std::uint8_t>()[code]}, code);
        }
      }
  }
  kernels::set_target(kernels::available_targets().back());
}

TEST(Float8, RefusesOtherDtypes) {
  EXPECT_THROW(to_float8(zeros({1}, DType::i32), Float8::e4m3), TypeError);
  EXPECT_THROW(from_float8(zeros({1}), Float8::e4m3), TypeError);
  EXPECT_THROW(from_float8(zeros({1}, DType::u8), Float8::e4m3, DType::i32), TypeError);
}

}  // namespace
}  // namespace eadem
