#include "eadem/nn/kv_cache.h"

#include <gtest/gtest.h>

#include <random>

#include "eadem/numerics/rounding.h"

namespace eadem {
namespace {

// A cache against plain vectors: appended in pieces of random sizes, cut back at random, growing over many pages.
TEST(KvCache, HoldsWhatWasAppended) {
  constexpr std::int64_t kHeads = 2, kSize = 6;
  std::mt19937 random(3);
  nn::KvCache cache(3, 2, DType::bf16, kHeads, kSize);
  std::vector<std::int64_t> lengths(3, 0);
  const auto value = [](std::int64_t layer, std::int64_t b, std::int64_t position, std::int64_t head, std::int64_t d,
                        std::uint32_t salt) {
    return static_cast<float>((layer * 31 + b * 17 + position * 5 + head * 3 + d + salt * 7) % 251);
  };
  for (int step = 0; step < 25; ++step) {
    const std::int64_t width = 1 + static_cast<std::int64_t>(random() % 90);
    std::vector<std::int64_t> position, count;
    for (std::size_t b = 0; b < 3; ++b) {
      if (random() % 4 == 0) lengths[b] = lengths[b] / 2;  // forget the end
      position.push_back(lengths[b]);
      count.push_back(static_cast<std::int64_t>(random() % static_cast<std::uint32_t>(width + 1)));
      lengths[b] += count.back();
    }
    cache.set_lengths(lengths);
    const Shape shape{3, kHeads, width, kSize};
    for (std::int64_t layer = 0; layer < 2; ++layer) {
      std::vector<bfloat16> fresh;
      for (std::int64_t b = 0; b < 3; ++b)
        for (std::int64_t head = 0; head < kHeads; ++head)
          for (std::int64_t i = 0; i < width; ++i)
            for (std::int64_t d = 0; d < kSize; ++d)
              fresh.push_back(to_bfloat16(value(layer, b, position[static_cast<std::size_t>(b)] + i, head, d, 0)));
      const Array array = Array::from(fresh, shape);
      cache.append(layer, array, array, Array::from(position, {3}), Array::from(count, {3}));
    }
    for (std::int64_t layer = 0; layer < 2; ++layer)
      for (std::int64_t b = 0; b < 3; ++b)
        for (const Array& got : {cache.keys_of(layer, b), cache.values_of(layer, b)}) {
          const std::int64_t length = lengths[static_cast<std::size_t>(b)];
          ASSERT_EQ(got.shape(), (Shape{kHeads, length, kSize}));
          for (std::int64_t head = 0, i = 0; head < kHeads; ++head)
            for (std::int64_t p = 0; p < length; ++p)
              for (std::int64_t d = 0; d < kSize; ++d, ++i)
                ASSERT_EQ(to_float(got.data<bfloat16>()[static_cast<std::size_t>(i)]), value(layer, b, p, head, d, 0));
        }
  }
}

TEST(KvCache, PagesComeBack) {
  nn::KvCache cache(2, 1, DType::f32, 1, 4);
  cache.set_lengths(std::vector<std::int64_t>{1000, 0});
  const std::int64_t bytes = cache.bytes();
  cache.set_lengths(std::vector<std::int64_t>{0, 1000});
  EXPECT_EQ(cache.bytes(), bytes);
  EXPECT_THROW(cache.set_lengths(std::vector<std::int64_t>{1}), ShapeError);
  EXPECT_THROW(cache.set_lengths(std::vector<std::int64_t>{1, -1}), ValueError);
  EXPECT_THROW(nn::KvCache(0, 1, DType::f32, 1, 4), ValueError);
}

}  // namespace
}  // namespace eadem
