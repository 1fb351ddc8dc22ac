#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "../support/bits.h"
#include "eadem/array/state.h"
#include "eadem/base/error.h"
#include "eadem/nn/attention.h"
#include "eadem/nn/conv.h"
#include "eadem/nn/dropout.h"
#include "eadem/ops/ops.h"
#include "eadem/transforms/transforms.h"

namespace eadem::nn {
namespace {

using testing::doubles_of;
using testing::expect_same;

Array drawn(std::uint64_t seed, const Shape& shape, DType dtype = DType::f64) {
  return convert(normal(random_key(seed), shape), dtype);
}

// ---- Masks of kernels

TEST(Masks, AConvolutionIsThatOfTheMaskedKernel) {
  const Array mask = greater(drawn(1, {3, 3, 4, 6}), zeros({}, DType::f64));
  Rngs first(0), second(0);
  const Conv masked(4, 6, {3, 3}, first, {.mask = mask});
  Conv plain(4, 6, {3, 3}, second);
  expect_same(masked.kernel, plain.kernel);
  plain.kernel = where(mask, plain.kernel, zeros_like(plain.kernel));
  const Array x = drawn(2, {2, 7, 5, 4}, DType::f32);
  EXPECT_EQ(doubles_of(masked(x)), doubles_of(plain(x)));

  const auto loss = [&](const Conv& m) { return sum(m(x) * m(x)); };
  const Array through = grad(loss)(masked).kernel, free = grad(loss)(plain).kernel;
  expect_same(through, where(mask, free, zeros_like(free)));
}

TEST(Masks, ATransposedConvolutionToo) {
  const Array mask = greater(drawn(1, {3, 6, 4}), zeros({}, DType::f64));
  Rngs first(0), second(0);
  const ConvTranspose masked(4, 6, {3}, first, {.strides = {2}, .transpose_kernel = true, .mask = mask});
  ConvTranspose plain(4, 6, {3}, second, {.strides = {2}, .transpose_kernel = true});
  plain.kernel = where(mask, plain.kernel, zeros_like(plain.kernel));
  const Array x = drawn(2, {2, 7, 4}, DType::f32);
  EXPECT_EQ(doubles_of(masked(x)), doubles_of(plain(x)));
}

TEST(Masks, AreNoParameters) {
  Rngs rngs(0);
  const Conv masked(4, 6, {3}, rngs, {.mask = ones({3, 4, 6})});
  EXPECT_EQ(state_marks(masked), (std::vector<bool>{false, false, true}));
  EXPECT_THROW(Conv(4, 6, {3}, rngs, {.mask = ones({3, 4, 5})}), ShapeError);
  EXPECT_THROW(ConvTranspose(4, 6, {3}, rngs, {.mask = ones({3, 4})}), ShapeError);
}

// ---- Dropout of attention weights

MultiHeadAttention attention_of(double rate, bool broadcast) {
  Rngs rngs(0);
  return {8, 4, rngs, {.kv_heads = 2, .param_dtype = DType::f64, .dropout_rate = rate, .broadcast_dropout = broadcast}};
}

// The definition in plain loops: q [B, L, H, D], k and v [B, M, G, D]; kept, visible and bias broadcast to [B, H, L,
// M].
std::vector<double> dropped_by_hand(const Array& q, const Array& k, const Array& v, const Array& kept, double rate,
                                    const Array& visible, const Array& bias, double scale) {
  const std::int64_t batches = q.extent(0), length = q.extent(1), heads = q.extent(2), size = q.extent(3);
  const std::int64_t keys = k.extent(1), groups = k.extent(2);
  const std::vector<double> qs = doubles_of(q), ks = doubles_of(k), vs = doubles_of(v);
  const Shape pairs{batches, heads, length, keys};
  const std::vector<double> keep = doubles_of(broadcast_to(kept, pairs)),
                            biases = doubles_of(broadcast_to(bias, pairs)),
                            sees = doubles_of(broadcast_to(visible, pairs));
  std::vector<double> y(qs.size(), 0.0);
  for (std::int64_t b = 0; b < batches; ++b)
    for (std::int64_t h = 0; h < heads; ++h)
      for (std::int64_t i = 0; i < length; ++i) {
        const std::int64_t group = h / (heads / groups);
        const auto key_at = [&](std::int64_t j) {
          return static_cast<std::size_t>(((b * keys + j) * groups + group) * size);
        };
        const auto row = static_cast<std::size_t>(((b * length + i) * heads + h) * size);
        const auto pair = static_cast<std::size_t>(((b * heads + h) * length + i) * keys);
        std::vector<double> p(static_cast<std::size_t>(keys), 0.0);
        double total = 0;
        for (std::size_t j = 0; j < p.size(); ++j) {
          if (sees[pair + j] == 0) continue;
          double score = 0;
          for (std::size_t d = 0; d < static_cast<std::size_t>(size); ++d)
            score += qs[row + d] * ks[key_at(static_cast<std::int64_t>(j)) + d];
          p[j] = std::exp(score * scale + biases[pair + j]);
          total += p[j];
        }
        for (std::size_t j = 0; j < p.size(); ++j)
          for (std::size_t d = 0; total > 0 && d < static_cast<std::size_t>(size); ++d)
            y[row + d] += p[j] / total * keep[pair + j] / (1 - rate) * vs[key_at(static_cast<std::int64_t>(j)) + d];
      }
  return y;
}

void expect_dropped(const Array& q, const Array& k, const Array& v, const AttendOptions& options, const Array& visible,
                    const Array& bias) {
  const std::int64_t batches = q.extent(0), length = q.extent(1), heads = q.extent(2), keys = k.extent(1);
  const double rate = options.dropout_rate;
  // As jax.random.bernoulli draws.
  const Array kept =
      uniform(*options.dropout_key,
              options.broadcast_dropout ? Shape{1, 1, length, keys} : Shape{batches, heads, length, keys}) < 1 - rate;
  const double scale = options.scale ? *options.scale : 1 / std::sqrt(static_cast<double>(q.extent(3)));
  const std::vector<double> want = dropped_by_hand(q, k, v, kept, rate, visible, bias, scale);
  const std::vector<double> got = doubles_of(dot_product_attention(q, k, v, options));
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-12) << i;
}

TEST(AttentionDropout, IsTheDefinition) {
  const Array q = drawn(1, {2, 5, 4, 3}), k = drawn(2, {2, 5, 2, 3}), v = drawn(3, {2, 5, 2, 3}), key = random_key(4);
  for (const bool broadcast : {true, false})
    for (const bool causal : {false, true})
      expect_dropped(q, k, v,
                     {.causal = causal, .dropout_key = key, .dropout_rate = 0.3, .broadcast_dropout = broadcast},
                     causal ? tril(ones({5, 5})) : ones({5, 5}), zeros({5, 5}));
}

TEST(AttentionDropout, WithMasksBiasesAndFewerQueries) {
  const Array q = drawn(1, {2, 5, 4, 3}), k = drawn(2, {2, 7, 2, 3}), v = drawn(3, {2, 7, 2, 3});
  const Array mask = (drawn(4, {2, 1, 5, 7}) > 0.3) & (reshape(arange(5), {5, 1}) > 0);  // query 0 sees no key
  const Array bias = drawn(5, {1, 4, 5, 7});
  for (const double rate : {1e-15, 0.3})
    expect_dropped(
        q, k, v,
        {.causal = true, .mask = mask, .bias = bias, .scale = 0.5, .dropout_key = random_key(6), .dropout_rate = rate},
        tril(convert(mask, DType::f32), 2), bias);  // causal: the last query sees the last key
}

TEST(AttentionDropout, TrainsByTheStreamAndNotOtherwise) {
  const MultiHeadAttention attend = attention_of(0.5, true), never = attention_of(0, true);
  const Array x = drawn(1, {2, 6, 8});
  expect_same(attend(x), never(x));
  Rngs first(7), second(7), other(8), unused(7);
  const Array y = attend(x, first, {.causal = true});
  expect_same(y, attend(x, second, {.causal = true}));
  EXPECT_NE(doubles_of(y), doubles_of(attend(x, other, {.causal = true})));
  EXPECT_NE(doubles_of(y), doubles_of(attend(x, first, {.causal = true}))) << "the next key of the stream";
  expect_same(never(x, unused), never(x));
  Rngs fresh(7);
  expect_same(unused.dropout(), fresh.dropout());
  EXPECT_THROW(attention_of(1.5, true), ValueError);
}

TEST(AttentionDropout, HasItsGradient) {
  const MultiHeadAttention attend = attention_of(0.4, false);
  const Array x = drawn(1, {1, 4, 8}), direction = drawn(2, {1, 4, 8}), g = drawn(3, {1, 4, 8});
  const AttendOptions options{.dropout_key = random_key(5)};
  const auto loss = [&](const Array& in) { return sum(attend(in, options) * g); };
  const double slope = doubles_of(sum(grad(loss)(x) * direction))[0], h = 1e-5;
  const double rise = doubles_of(loss(x + direction * h))[0] - doubles_of(loss(x - direction * h))[0];
  EXPECT_NEAR(slope, rise / (2 * h), 1e-8 * (1 + std::fabs(slope)));
}

}  // namespace
}  // namespace eadem::nn
