#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "eadem/numerics/elementary.h"
#include "eadem/numerics/rounding.h"

// Rotary position embedding (numerics.md section 3).

namespace eadem::numerics {

/// Which elements of a vector form pair i: (i, i + R/2), as Hugging Face models have it, or (2i, 2i + 1).
enum class RopePairs : std::uint8_t { half_split, interleaved };

/// theta^(-2i/R) for i = 0..R/2-1, in f64.
inline std::vector<double> rope_frequencies(double theta, std::int64_t rotated) {
  std::vector<double> frequencies(static_cast<std::size_t>(rotated / 2));
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    frequencies[i] = numerics::pow(theta, -2 * static_cast<double>(i) / static_cast<double>(rotated));
  }
  return frequencies;
}

/// The cosine and sine that rotate pair i of T at a position: of position * frequency in f64, rounded to f32 (f64).
template <FloatingElement T>
struct Rotation {
  Wide<T> cosine, sine;
  Rotation(double position, double frequency)
      : cosine(round_to<Wide<T>>(numerics::cos(position * frequency))),
        sine(round_to<Wide<T>>(numerics::sin(position * frequency))) {}
};

/// Rotates the first R = 2 * frequencies.size() elements pair by pair, y1 = RN(fma(x1, cos, -(x2 sin))),
/// y2 = RN(fma(x2, cos, x1 sin)) in f64, and copies the rest.
template <FloatingElement T>
void rope(std::span<const T> x, double position, std::span<const double> frequencies, RopePairs pairs, std::span<T> y) {
  const std::size_t half = frequencies.size();
  for (std::size_t i = 0; i < half; ++i) {
    const std::size_t first = pairs == RopePairs::half_split ? i : 2 * i;
    const std::size_t second = pairs == RopePairs::half_split ? i + half : 2 * i + 1;
    const Rotation<T> rotation(position, frequencies[i]);
    const double c = rotation.cosine, s = rotation.sine, x1 = to_double(x[first]), x2 = to_double(x[second]);
    y[first] = round_to<T>(std::fma(x1, c, -(x2 * s)));
    y[second] = round_to<T>(std::fma(x2, c, x1 * s));
  }
  for (std::size_t i = 2 * half; i < x.size(); ++i) y[i] = x[i];
}

}  // namespace eadem::numerics
