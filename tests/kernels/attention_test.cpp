#include "eadem/kernels/attention/attention.h"

#include <gtest/gtest.h>

#include "eadem/base/parallel.h"
#include "eadem/kernels/target.h"
#include "tests/numerics/attention_testing.h"

namespace eadem::testing {
namespace {

using kernels::Target;
using numerics::Causal;

constexpr DType kDTypes[] = {DType::f64, DType::f32, DType::bf16, DType::f16};

class AttentionKernel : public ::testing::Test {
 protected:
  void TearDown() override {
    kernels::set_target(kernels::available_targets().back());
    set_threads(1);
  }
};

std::vector<std::byte> fast(Problem& p) {
  std::fill(p.y.memory.begin(), p.y.memory.end(), std::byte{0xee});
  kernels::attention(p.operands(), p.options);
  return bytes_of(p.y);
}
std::vector<std::byte> slow(Problem& p) {
  numerics::attention(p.operands(), p.options);
  return bytes_of(p.y);
}

// Every target gives the definition's bits, on several threads.
void expect_same(Problem& p, const std::string& what, const std::vector<int>& thread_counts = {1, 3}) {
  const std::vector<std::byte> expected = slow(p);
  for (const Target target : kernels::available_targets()) {
    kernels::set_target(target);
    for (const int count : thread_counts) {
      set_threads(count);
      const std::vector<std::byte> got = fast(p);
      if (got == expected) continue;
      const std::size_t width = size_of(p.y.view.dtype);
      std::size_t differing = 0, first = got.size();
      for (std::size_t i = 0; i < got.size(); i += width)
        if (std::memcmp(&got[i], &expected[i], width) != 0) ++differing, first = std::min(first, i / width);
      Tensor reference(p.y.view.dtype, p.y.view.shape);
      std::memcpy(reference.memory.data(), expected.data(), expected.size());
      ADD_FAILURE() << what << ", " << name_of(p.y.view.dtype) << " on " << name_of(target) << ", " << count
                    << " threads: " << differing << " of " << got.size() / width << " differ, first at " << first
                    << ": " << load(p.y.view, static_cast<std::int64_t>(first)) << " for "
                    << load(reference.view, static_cast<std::int64_t>(first));
    }
  }
}

TEST_F(AttentionKernel, RunsTheForcedTarget) {
  Random random(1);
  Problem p = random_problem(random, DType::bf16, 1, 1, 1, 2, 2, 4);
  for (const Target target : kernels::available_targets()) {
    kernels::set_target(target);
    kernels::clear_targets_ran();
    kernels::attention(p.operands(), p.options);
    const Target own = target == Target::amx ? Target::avx512bf16 : target;
    EXPECT_TRUE(kernels::targets_ran() >> static_cast<int>(own) & 1) << name_of(target);
  }
}

TEST_F(AttentionKernel, EveryLength) {
  Random random(2);
  for (const DType dtype : kDTypes)
    for (const std::int64_t keys : {0, 1, 2, 3, 15, 16, 17, 31, 32, 33, 67, 127, 128, 129, 255, 257}) {
      Problem p = random_problem(random, dtype, 1, 2, 1, std::min<std::int64_t>(keys + 1, 35), keys, 16);
      p.options.causal = keys % 2 ? Causal::lower_right : Causal::none;
      expect_same(p, "keys " + std::to_string(keys));
    }
}

TEST_F(AttentionKernel, ChunksAndTheirTree) {
  Random random(3);
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const std::int64_t keys : {1023, 1024, 1025, 1100, 3300}) {
      Problem p = random_problem(random, dtype, 1, 1, 1, 3, keys, 8);
      p.options.causal = Causal::lower_right;
      expect_same(p, "keys " + std::to_string(keys));
      Problem tiles = random_problem(random, dtype, 1, 1, 1, 40, keys, 8);
      tiles.options.causal = Causal::lower_right;
      expect_same(tiles, "tiles, keys " + std::to_string(keys), {2});
    }
}

TEST_F(AttentionKernel, EveryHeadSize) {
  Random random(4);
  for (const DType dtype : kDTypes)
    for (const std::int64_t d : {1, 2, 3, 5, 16, 31, 33, 64, 80, 128, 256, 257, 1100}) {
      Problem p = random_problem(random, dtype, 1, 3, 1, 13, 150, d);
      expect_same(p, "head size " + std::to_string(d), {1});
    }
}

TEST_F(AttentionKernel, LayoutsAndThreads) {
  Random random(5);
  for (const DType dtype : kDTypes) {
    Problem p = random_problem(random, dtype, 2, 6, 2, 45, 150, 20, {0, 2, 1, 3});  // [B, L, H, D] in memory
    p.options.causal = Causal::lower_right;
    expect_same(p, "transposed", {1, 2, 3, 7});
    Problem odd = random_problem(random, dtype, 2, 2, 2, 33, 150, 20, {3, 2, 1, 0});
    expect_same(odd, "reversed axes");
    // Every second key, backwards.
    Problem strided = random_problem(random, dtype, 1, 2, 1, 3, 200, 20);
    for (Tensor* t : {&strided.k, &strided.v}) {
      t->view.data += static_cast<std::size_t>(199 * t->view.strides[2]) * size_of(dtype);
      t->view.strides[2] *= -2;
      t->view.shape[2] = 100;
    }
    expect_same(strided, "backwards");
  }
}

TEST_F(AttentionKernel, MasksBiasWindowSoftcap) {
  Random random(6);
  for (const DType dtype : kDTypes) {
    Problem p = random_problem(random, dtype, 2, 4, 2, 40, 270, 16);
    p.mask = Tensor(DType::boolean, {2, 1, 40, 270});
    for (std::int64_t i = 0; i < p.mask.view.elements(); ++i)
      store(p.mask.view, i, static_cast<double>(random() % 3 != 0));
    for (std::int64_t j = 0; j < 270; ++j) store(p.mask.view, 7 * 270 + j, 0);  // a row that sees nothing
    expect_same(p, "mask");
    p.bias = normal(random, DType::f32, {1, 4, 1, 270});
    expect_same(p, "mask and f32 bias");
    p.mask = {};
    p.bias = normal(random, dtype, {1, 1, 40, 270}, 3);
    for (std::int64_t i = 0; i < p.bias.view.elements(); i += 5) store(p.bias.view, i, -INFINITY);
    p.options.causal = Causal::upper_left;
    p.options.window = 17;
    expect_same(p, "bias, window, upper left");
    p.options.causal = Causal::lower_right;
    p.options.window = 150;
    p.options.softcap = 2;
    expect_same(p, "softcap, window", {2});
  }
}

TEST_F(AttentionKernel, ExtremeScores) {
  Random random(7);
  for (const DType dtype : kDTypes)
    for (const double size : {1e-30, 300.0, 2e3, 1e6, 1e9, 1e18}) {
      if (dtype == DType::f16 && (size > 1e4 || size < 1e-6)) continue;
      Problem p = random_problem(random, dtype, 1, 2, 2, 34, 200, 5);
      p.q = normal(random, dtype, {1, 2, 34, 5}, size);
      expect_same(p, "scores of size " + std::to_string(size));
    }
  for (const double fill : {-1e9, -3.3e38, -6e4, -600000.0, 1.2e6}) {
    Problem p = random_problem(random, DType::f32, 1, 1, 1, 34, 300, 8);
    std::vector<double> bias(300, 0.0);
    for (std::size_t j = 0; j < 300; ++j) bias[j] = j % 7 < 3 || j > 250 ? fill : 0;
    p.bias = vector_of(DType::f32, bias, {1, 1, 1, 300});
    expect_same(p, "finite fill " + std::to_string(fill));
    std::fill(bias.begin(), bias.end(), fill);
    p.bias = vector_of(DType::f32, bias, {1, 1, 1, 300});
    expect_same(p, "all filled " + std::to_string(fill));
  }
}

// vdpbf16ps flushes subnormals: where one could show, the products must take another way.
TEST_F(AttentionKernel, SubnormalsAndTinyValues) {
  Random random(8);
  for (const double size : {1e-40, 1e-38, 1e-25, 1e-19, 1e-12, 1e-9}) {
    Problem p = random_problem(random, DType::bf16, 1, 1, 1, 34, 140, 32);
    p.q = normal(random, DType::bf16, {1, 1, 34, 32}, size);
    p.k = normal(random, DType::bf16, {1, 1, 140, 32}, size);
    p.options.scale = std::min(1 / size / size, 1e38);
    expect_same(p, "q and k of size " + std::to_string(size));
    p = random_problem(random, DType::bf16, 1, 1, 1, 34, 140, 32);
    p.v = normal(random, DType::bf16, {1, 1, 140, 32}, size);
    expect_same(p, "v of size " + std::to_string(size));
  }
}

TEST_F(AttentionKernel, NotFinite) {
  Random random(9);
  for (const DType dtype : kDTypes)
    for (const double value :
         {std::numeric_limits<double>::quiet_NaN(), static_cast<double>(INFINITY), -static_cast<double>(INFINITY)}) {
      Problem p = random_problem(random, dtype, 1, 2, 1, 40, 260, 8);
      p.options.causal = Causal::lower_right;
      for (const std::int64_t j : {0, 130, 250, 259}) store(p.v.view, j * 8 + 3, value);
      expect_same(p, "v not finite");
      store(p.k.view, 230 * 8 + 1, value);
      expect_same(p, "k and v not finite");
      store(p.q.view, 5 * 8, value);
      expect_same(p, "nothing finite");
    }
}

// The values that leave the range of the output: subnormal, zero, infinite.
TEST_F(AttentionKernel, RoundsTheResultOnce) {
  Random random(10);
  for (const DType dtype : kDTypes)
    for (const double size : {5e-324, 1e-310, 1e-45, 1e-41, 1e-39, 6e-8, 3e-6, 65504.0, 3.3e38, 1.7e308}) {
      if (!std::isfinite(numerics::round_to<float>(size)) && dtype != DType::f64) continue;
      Problem p = random_problem(random, dtype, 1, 1, 1, 33, 40, 16);
      for (std::int64_t i = 0; i < p.v.view.elements(); ++i)
        store(p.v.view, i, (random() & 1 ? size : -size) * (1 + static_cast<double>(random() % 4)));
      expect_same(p, "values of size " + std::to_string(size), {1});
    }
}

TEST_F(AttentionKernel, StartsAndLengths) {
  Random random(11);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    Problem p = random_problem(random, dtype, 5, 2, 1, 40, 300, 16);
    p.options.causal = Causal::lower_right;
    p.start = vector_of(DType::i64, {0, 5, 131, -70, 400});
    p.length = vector_of(DType::i32, {300, 170, 299, 1000, 20});
    expect_same(p, "start and length");
    p.options.window = 60;
    p.position = vector_of(DType::i32, {100, -10, 250, 0, 1});
    expect_same(p, "position and window");
    p.start = vector_of(DType::i64, {-5000, -1000007, -128, -1024, -1025});
    p.options.window = 0;
    expect_same(p, "far starts");
  }
}

TEST_F(AttentionKernel, PrefillInChunksAndTokenByTokenIsTheWhole) {
  Random random(12);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    constexpr std::int64_t kLength = 1100, kHead = 16;
    Problem whole = random_problem(random, dtype, 1, 2, 1, kLength, kLength, kHead);
    whole.options.causal = Causal::lower_right;
    fast(whole);
    for (const std::int64_t chunk : {1, 7, 64, 500}) {
      for (std::int64_t first = chunk == 1 ? 1010 : 0; first < kLength; first += chunk) {
        const std::int64_t rows = std::min(chunk, kLength - first);
        Problem part;
        part.options = whole.options;
        part.q.view = whole.q.view;
        part.q.view.data += static_cast<std::size_t>(first * kHead) * size_of(dtype);
        part.q.view.shape[2] = rows;
        part.k.view = whole.k.view;
        part.v.view = whole.v.view;
        part.k.view.shape[2] = part.v.view.shape[2] = first + rows;
        part.y = Tensor(dtype, {1, 2, rows, kHead});
        fast(part);
        ASSERT_EQ(bytes_of(part.y), rows_of(whole.y, 0, first, first + rows))
            << name_of(dtype) << " " << chunk << " " << first;
      }
    }
  }
}

TEST_F(AttentionKernel, PagesAndRaggedBatches) {
  Random random(13);
  for (const DType dtype : kDTypes)
    for (const std::int64_t d : {std::int64_t{5}, std::int64_t{64}}) {
      // Whatever lies in a page beyond the length must not show: NaN, or a number.
      for (const auto& [queries, beyond] : {std::pair{1, 0xff}, {1, 0x41}, {3, 0xff}, {3, 0x41}, {40, 0xff}}) {
        constexpr std::int64_t kBatch = 3, kHeads = 4, kKvHeads = 2, kPages = 9;
        const std::vector<double> lengths{300, 41, 129};
        Problem p;
        p.options = {.causal = Causal::lower_right, .scale = numerics::attention_scale(dtype, d)};
        p.q = normal(random, dtype, {kBatch, kHeads, queries, d});
        p.y = Tensor(dtype, {kBatch, kHeads, queries, d});
        p.k = Tensor(dtype, numerics::key_page_shape(dtype, kPages, kKvHeads, d));
        p.v = Tensor(dtype, numerics::value_page_shape(dtype, kPages, kKvHeads, d));
        std::fill(p.k.memory.begin(), p.k.memory.end(), static_cast<std::byte>(beyond));
        std::fill(p.v.memory.begin(), p.v.memory.end(), static_cast<std::byte>(beyond));
        p.pages = vector_of(DType::i32, {3, 1, 8, 0, -1, 77, 2, 7, -5}, {kBatch, 3});
        p.length = vector_of(DType::i32, lengths);
        const Tensor k = normal(random, dtype, {kBatch, kKvHeads, 300, d});
        const Tensor v = normal(random, dtype, {kBatch, kKvHeads, 300, d});
        const Tensor position = vector_of(DType::i32, {0, 0, 0});
        kernels::append_to_pages({p.k.view, k.view, p.pages.view, position.view, p.length.view, false});
        kernels::append_to_pages({p.v.view, v.view, p.pages.view, position.view, p.length.view, true});
        expect_same(p, "pages");
        for (std::int64_t b = 0; b < kBatch; ++b) {
          Problem alone;
          alone.options = p.options;
          const auto length = static_cast<std::int64_t>(lengths[static_cast<std::size_t>(b)]);
          const auto row = [&](const TensorView& t, std::int64_t rows) {
            TensorView one = t;
            one.data += static_cast<std::size_t>(b * t.strides[0]) * size_of(dtype);
            one.shape[0] = 1;
            one.shape[2] = rows;
            return one;
          };
          alone.q.view = row(p.q.view, queries);
          alone.k.view = row(k.view, length);
          alone.v.view = row(v.view, length);
          alone.y = Tensor(dtype, {1, kHeads, queries, d});
          fast(alone);
          EXPECT_EQ(bytes_of(alone.y), rows_of(p.y, b, 0, queries)) << name_of(dtype) << " row " << b;
        }
      }
    }
}

TEST_F(AttentionKernel, AppendKeepsBits) {
  Random random(14);
  for (const DType dtype : kDTypes)
    for (const std::int64_t d : {std::int64_t{5}, std::int64_t{16}})
      for (const bool values : {false, true}) {
        const Shape shape =
            values ? numerics::value_page_shape(dtype, 5, 2, d) : numerics::key_page_shape(dtype, 5, 2, d);
        const Tensor fresh = normal(random, dtype, {2, 2, 200, d}, 1, {0, 2, 1, 3});
        const Tensor pages = vector_of(DType::i32, {4, 0, 1, 3}, {2, 2});
        const Tensor position = vector_of(DType::i64, {30, 100}), count = vector_of(DType::i64, {200, 9});
        Tensor slow_pool(dtype, shape), fast_pool(dtype, shape);
        numerics::append_to_pages({slow_pool.view, fresh.view, pages.view, position.view, count.view, values});
        for (const int threads : {1, 3}) {
          set_threads(threads);
          std::fill(fast_pool.memory.begin(), fast_pool.memory.end(), std::byte{});
          kernels::append_to_pages({fast_pool.view, fresh.view, pages.view, position.view, count.view, values});
          EXPECT_EQ(bytes_of(fast_pool), bytes_of(slow_pool)) << name_of(dtype);
        }
      }
}

}  // namespace
}  // namespace eadem::testing
