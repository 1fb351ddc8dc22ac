#pragma once

// Values to feed elementwise operations with.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include "eadem/kernels/elementwise/held.h"

namespace eadem::kernels {

/// A fixed-size array (std::vector has no bool elements).
template <class T>
class Values {
 public:
  explicit Values(std::size_t size) : data_(new T[size]()), size_(size) {}
  std::size_t size() const { return size_; }
  T* data() const { return data_.get(); }
  T& operator[](std::size_t i) const { return data_[i]; }
  T* begin() const { return data(); }
  T* end() const { return data() + size_; }

 private:
  std::unique_ptr<T[]> data_;
  std::size_t size_;
};

/// A third each special values, random bits, and random values of moderate size.
template <class T>
Values<T> elements(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<T> special;
  if constexpr (FloatingElement<T>) {
    using L = std::numeric_limits<numerics::Wide<T>>;
    const std::vector<double> doubles{0.0,
                                      -0.0,
                                      1,
                                      -1,
                                      0.5,
                                      -0.5,
                                      1.5,
                                      2.5,
                                      -2.5,
                                      3,
                                      255,
                                      256,
                                      257,
                                      65504,
                                      65519.99,
                                      65520,
                                      1e308,
                                      -1e30,
                                      L::max(),
                                      L::min(),
                                      L::denorm_min(),
                                      -L::denorm_min(),
                                      L::infinity(),
                                      -L::infinity(),
                                      L::quiet_NaN(),
                                      2147483648.0,
                                      -2147483648.0,
                                      4294967296.0,
                                      9223372036854775808.0,
                                      -9223372036854775808.0,
                                      18446744073709551616.0,
                                      127.5,
                                      -128.5,
                                      1 + 0x1p-8 + 0x1p-40,
                                      0x1p-24,
                                      0x1p-25,
                                      0x1.8p-24,
                                      0x1p-133,
                                      0x1p-134,
                                      0x1.8p-134,
                                      0x1.fffffep-15,
                                      0x1p-14};
    for (const double x : doubles) special.push_back(numerics::round_to<T>(x));
    if constexpr (std::same_as<T, float>) special.push_back(std::bit_cast<float>(0x7f800001u));
    if constexpr (std::same_as<T, float>) special.push_back(std::bit_cast<float>(0xffc12345u));
    if constexpr (std::same_as<T, double>) special.push_back(std::bit_cast<double>(0xfff0000000000001u));
  } else if constexpr (IntegerElement<T>) {
    using L = std::numeric_limits<T>;
    for (const int x : {0, 1, 2, 3, 7, 8, 15, 16, 31, 32, 63, 64, 65, 100}) special.push_back(static_cast<T>(x));
    for (const T x : {L::max(), L::min(), static_cast<T>(L::max() - 1), static_cast<T>(L::min() + 1),
                      static_cast<T>(-1), static_cast<T>(-2)})
      special.push_back(x);
    special.push_back(static_cast<T>(16842753));
    special.push_back(static_cast<T>((1LL << 53) + 1));
  } else {
    special = {T{0}, T{1}};
  }
  Values<T> values(count);
  for (T& value : values) {
    const std::uint64_t bits = random(), kind = random() % 3;
    if (kind == 0 || std::same_as<T, bool>)
      value = special[bits % special.size()];
    else if (kind == 1)
      std::memcpy(static_cast<void*>(&value), &bits, sizeof value);
    else if constexpr (FloatingElement<T>)
      value = numerics::round_to<T>(
          std::ldexp(static_cast<double>(static_cast<std::int64_t>(bits)), static_cast<int>(bits % 24) - 75));
    else
      value = static_cast<T>(bits >> 58);
  }
  return values;
}

template <class T>
Values<Held<T>> held(const Values<T>& values) {
  Values<Held<T>> result(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) result[i] = to_held<T>(values[i]);
  return result;
}

}  // namespace eadem::kernels
