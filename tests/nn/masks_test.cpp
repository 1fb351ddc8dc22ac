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

// The definition in plain loops: q [B, L, H, D], k and v [B, L, G, D], kept [B or 1, H or 1, L, L].
std::vector<double> dropped_by_hand(const Array& q, const Array& k, const Array& v, const Array& kept, double rate,
                                    bool causal) {
  const std::int64_t batches = q.extent(0), length = q.extent(1), heads = q.extent(2), size = q.extent(3);
  const std::int64_t groups = k.extent(2);
  const std::vector<double> qs = doubles_of(q), ks = doubles_of(k), vs = doubles_of(v);
  const std::vector<double> keep = doubles_of(broadcast_to(kept, {batches, heads, length, length}));
  std::vector<double> y(qs.size(), 0.0);
  for (std::int64_t b = 0; b < batches; ++b)
    for (std::int64_t h = 0; h < heads; ++h)
      for (std::int64_t i = 0; i < length; ++i) {
        const std::int64_t group = h / (heads / groups), last = causal ? i + 1 : length;
        const auto at = [&](std::int64_t row, std::int64_t all, std::int64_t head) {
          return static_cast<std::size_t>(((b * length + row) * all + head) * size);
        };
        std::vector<double> p;
        double total = 0;
        for (std::int64_t j = 0; j < last; ++j) {
          double score = 0;
          for (std::size_t d = 0; d < static_cast<std::size_t>(size); ++d)
            score += qs[at(i, heads, h) + d] * ks[at(j, groups, group) + d];
          p.push_back(std::exp(score / std::sqrt(static_cast<double>(size))));
          total += p.back();
        }
        for (std::int64_t j = 0; j < last; ++j)
          for (std::size_t d = 0; d < static_cast<std::size_t>(size); ++d)
            y[at(i, heads, h) + d] += p[static_cast<std::size_t>(j)] / total *
                                      keep[static_cast<std::size_t>(((b * heads + h) * length + i) * length + j)] /
                                      (1 - rate) * vs[at(j, groups, group) + d];
      }
  return y;
}

TEST(AttentionDropout, IsTheDefinition) {
  const Array q = drawn(1, {2, 5, 4, 3}), k = drawn(2, {2, 5, 2, 3}), v = drawn(3, {2, 5, 2, 3}), key = random_key(4);
  for (const bool broadcast : {true, false})
    for (const bool causal : {false, true}) {
      const Array y = dot_product_attention(
          q, k, v, {.causal = causal, .dropout_key = key, .dropout_rate = 0.3, .broadcast_dropout = broadcast});
      // As jax.random.bernoulli draws.
      const Array kept = less(uniform(key, broadcast ? Shape{1, 1, 5, 5} : Shape{2, 4, 5, 5}), full({}, 0.7));
      const std::vector<double> want = dropped_by_hand(q, k, v, kept, 0.3, causal), got = doubles_of(y);
      ASSERT_EQ(got.size(), want.size());
      for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-12) << i;
    }
}

TEST(AttentionDropout, ARateOfAlmostNothingIsAttention) {
  const Array q = drawn(1, {2, 5, 4, 3}), k = drawn(2, {2, 7, 2, 3}), v = drawn(3, {2, 7, 2, 3});
  const Array mask = greater(drawn(4, {2, 1, 5, 7}), full({}, 0.3, DType::f64));  // some query may see no key
  const Array none = logical_and(mask, greater(reshape(arange(5), {5, 1}), full({}, 0, DType::i64)));
  const Array bias = drawn(5, {1, 4, 5, 7});
  AttendOptions options{.causal = true, .mask = none, .bias = bias, .scale = 0.5};
  const std::vector<double> want = doubles_of(dot_product_attention(q, k, v, options));
  options.dropout_key = random_key(6), options.dropout_rate = 1e-15;
  const std::vector<double> got = doubles_of(dot_product_attention(q, k, v, options));
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-6) << i;  // attention's exp is of f32
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
