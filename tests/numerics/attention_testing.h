#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "eadem/numerics/attention.h"

// What the tests of attention share: owned tensors, random operands, plain FP64 attention.

namespace eadem::testing {

/// A tensor that owns its memory; `order` lists the axes from slowest to fastest, so strides can be any permutation.
struct Tensor {
  std::vector<std::byte> memory;
  TensorView view;

  Tensor() = default;
  Tensor(DType dtype, const Shape& shape, const Shape& order = {}) {
    memory.resize(static_cast<std::size_t>(shape.elements()) * size_of(dtype) + 64);
    view = contiguous_view(memory.data(), dtype, shape);
    std::int64_t stride = 1;
    for (int i = order.rank() - 1; i >= 0; --i) {
      view.strides[static_cast<int>(order[i])] = stride;
      stride *= shape[static_cast<int>(order[i])];
    }
  }
  Tensor(Tensor&&) = default;
  Tensor& operator=(Tensor&&) = default;

  bool absent() const { return memory.empty(); }
};

inline void store(const TensorView& t, std::int64_t offset, double x) {
  visit(t.dtype, [&]<class T>(std::type_identity<T>) {
    if constexpr (FloatingElement<T>)
      t.as<T>()[offset] = numerics::round_to<T>(x);
    else
      t.as<T>()[offset] = static_cast<T>(x);
  });
}
inline double load(const TensorView& t, std::int64_t offset) {
  return visit(t.dtype, [&]<class T>(std::type_identity<T>) -> double {
    if constexpr (FloatingElement<T>)
      return numerics::to_double(t.as<T>()[offset]);
    else
      return static_cast<double>(t.as<T>()[offset]);
  });
}
inline std::int64_t offset_of(const TensorView& t, std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t d) {
  return b * t.strides[0] + h * t.strides[1] + i * t.strides[2] + d * t.strides[3];
}
/// Calls f(b, h, i, d) over a rank-4 shape.
template <class F>
void for_each(const Shape& shape, F&& f) {
  for (std::int64_t b = 0; b < shape[0]; ++b)
    for (std::int64_t h = 0; h < shape[1]; ++h)
      for (std::int64_t i = 0; i < shape[2]; ++i)
        for (std::int64_t d = 0; d < shape[3]; ++d) f(b, h, i, d);
}

using Random = std::mt19937_64;

inline Tensor normal(Random& random, DType dtype, const Shape& shape, double deviation = 1, const Shape& order = {}) {
  Tensor t(dtype, shape, order);
  std::normal_distribution<double> draw(0, deviation);
  for (std::int64_t i = 0; i < shape.elements(); ++i) store(t.view, i, draw(random));
  return t;
}
inline Tensor vector_of(DType dtype, const std::vector<double>& values, Shape shape = {}) {
  if (shape.rank() == 0) shape = {static_cast<std::int64_t>(values.size())};
  Tensor t(dtype, shape);
  for (std::size_t i = 0; i < values.size(); ++i) store(t.view, static_cast<std::int64_t>(i), values[i]);
  return t;
}

/// Operands with their memory.
struct Problem {
  Tensor q, k, v, y, mask, bias, start, length, position, pages;
  numerics::AttentionOptions options;

  numerics::AttentionOperands operands() const {
    return {q.view, k.view, v.view, y.view, mask.view, bias.view, start.view, length.view, position.view, pages.view};
  }
};

inline Problem random_problem(Random& random, DType dtype, std::int64_t b, std::int64_t h, std::int64_t hkv,
                              std::int64_t lq, std::int64_t lk, std::int64_t d, const Shape& order = {}) {
  Problem p;
  p.q = normal(random, dtype, {b, h, lq, d}, 1, order);
  p.k = normal(random, dtype, {b, hkv, lk, d}, 1, order);
  p.v = normal(random, dtype, {b, hkv, lk, d}, 1, order);
  p.y = Tensor(dtype, {b, h, lq, d});
  p.options.scale = numerics::attention_scale(dtype, d);
  return p;
}

/// Plain attention in FP64 (dense operands) on the same inputs: [B, H, Lq, D], row-major.
inline std::vector<double> plain_attention(const numerics::AttentionOperands& x,
                                           const numerics::AttentionOptions& options) {
  std::vector<double> y;
  const std::int64_t group = x.q.shape[1] / x.k.shape[1], head_size = x.q.shape[3];
  const auto broadcast = [](const TensorView& t, std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) {
    return load(t, offset_of(t, t.shape[0] == 1 ? 0 : b, t.shape[1] == 1 ? 0 : h, t.shape[2] == 1 ? 0 : i,
                             t.shape[3] == 1 ? 0 : j));
  };
  for (std::int64_t b = 0; b < x.q.shape[0]; ++b)
    for (std::int64_t h = 0; h < x.q.shape[1]; ++h)
      for (std::int64_t i = 0; i < x.q.shape[2]; ++i) {
        const numerics::KeyRange range = numerics::visible_keys(x, options, b, i);
        std::vector<double> s(static_cast<std::size_t>(x.k.shape[2]), -INFINITY),
            out(static_cast<std::size_t>(head_size));
        double maximum = -INFINITY, total = 0;
        for (std::int64_t j = range.first; j < range.end; ++j) {
          if (x.mask.data && broadcast(x.mask, b, h, i, j) == 0) continue;
          double dot = 0;
          for (std::int64_t d = 0; d < head_size; ++d)
            dot += load(x.q, offset_of(x.q, b, h, i, d)) * load(x.k, offset_of(x.k, b, h / group, j, d));
          double& score = s[static_cast<std::size_t>(j)];
          score = dot * options.scale;
          if (options.softcap != 0) score = options.softcap * std::tanh(score / options.softcap);
          if (x.bias.data) score += broadcast(x.bias, b, h, i, j);
          maximum = std::max(maximum, score);
        }
        for (std::int64_t j = range.first; j < range.end; ++j) {
          const double p = std::exp(s[static_cast<std::size_t>(j)] - maximum);
          if (!(p > 0)) continue;
          total += p;
          for (std::int64_t d = 0; d < head_size; ++d)
            out[static_cast<std::size_t>(d)] += p * load(x.v, offset_of(x.v, b, h / group, j, d));
        }
        for (const double o : out) y.push_back(total > 0 ? o / total : 0);
      }
  return y;
}

/// The bytes of a contiguous result.
inline std::vector<std::byte> bytes_of(const Tensor& t) {
  return {t.memory.begin(), t.memory.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(t.view.elements()) *
                                                                           size_of(t.view.dtype))};
}

/// The bytes of rows [first, end) of axis 2 for batch row b and every head.
inline std::vector<std::byte> rows_of(const Tensor& t, std::int64_t b, std::int64_t first, std::int64_t end) {
  std::vector<std::byte> out;
  const std::size_t row = static_cast<std::size_t>(t.view.shape[3]) * size_of(t.view.dtype);
  for (std::int64_t h = 0; h < t.view.shape[1]; ++h)
    for (std::int64_t i = first; i < end; ++i) {
      const std::byte* from =
          t.memory.data() + static_cast<std::size_t>(offset_of(t.view, b, h, i, 0)) * size_of(t.view.dtype);
      out.insert(out.end(), from, from + row);
    }
  return out;
}

}  // namespace eadem::testing
