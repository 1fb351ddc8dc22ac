#include <gtest/gtest.h>

#include <atomic>
#include <bit>
#include <cmath>
#include <new>
#include <thread>
#include <vector>

#include "eadem/base/buffer.h"
#include "eadem/base/error.h"
#include "eadem/base/float_environment.h"
#include "eadem/base/memory.h"
#include "eadem/base/parallel.h"
#include "eadem/numerics/rounding.h"
#include "tests/support/hostile_float.h"

namespace eadem {
namespace {

// Public report C7: bf16 rounding goes directly from the wide value, and NaN stays NaN.
TEST(Rounding, Bfloat16IsRoundedOnce) {
  EXPECT_EQ(to_bfloat16(std::bit_cast<float>(0x3E89CCD5u)).bits, 0x3E8A);
  EXPECT_EQ(to_bfloat16(16842753.0).bits, 0x4B81);
  EXPECT_EQ(to_bfloat16(1.0 + 0x1p-8 + 0x1p-40).bits, 0x3F81);
  EXPECT_EQ(to_bfloat16(std::bit_cast<float>(0x7F800001u)).bits, 0x7FC0);
  EXPECT_EQ(to_bfloat16(std::bit_cast<float>(0x7F7FFFFFu)).bits, 0x7F80);
}

// Both neighbours of every midpoint between adjacent values, and the midpoint itself, in both 16-bit types.
template <class T, auto round>
void check_midpoints(std::uint16_t infinity) {
  for (std::uint32_t bits = 0; bits + 1 < infinity; ++bits) {
    const double low = to_float(T{static_cast<std::uint16_t>(bits)});
    const double high = to_float(T{static_cast<std::uint16_t>(bits + 1)});
    const double middle = low + (high - low) / 2;
    ASSERT_EQ(round(low).bits, bits);
    ASSERT_EQ(round(middle).bits, bits + (bits & 1));
    ASSERT_EQ(round(std::nextafter(middle, low)).bits, bits);
    ASSERT_EQ(round(std::nextafter(middle, high)).bits, bits + 1);
    ASSERT_EQ(round(-middle).bits, 0x8000 | (bits + (bits & 1)));
  }
}
TEST(Rounding, MidpointsOfEvery16BitValue) {
  check_midpoints<bfloat16, [](double x) { return to_bfloat16(x); }>(0x7f80);
  check_midpoints<float16, [](double x) { return to_float16(x); }>(0x7c00);
}
TEST(Rounding, OverflowOfFloat16) {
  EXPECT_EQ(to_float16(65519.999).bits, 0x7bff);
  EXPECT_EQ(to_float16(65520.0).bits, 0x7c00);
  EXPECT_EQ(to_float16(-INFINITY).bits, 0xfc00);
  EXPECT_EQ(to_float16(0x1p-26).bits, 0);
  EXPECT_EQ(to_float16(std::nextafter(0x1p-25, 1)).bits, 1);
}

TEST(Promotion, FollowsTheLattice) {
  EXPECT_EQ(promote(DType::bf16, DType::f16), DType::f32);
  EXPECT_EQ(promote(DType::i64, DType::bf16), DType::bf16);
  EXPECT_EQ(promote(DType::u8, DType::i8), DType::i16);
  EXPECT_EQ(promote(DType::u32, DType::i8), DType::i64);
  EXPECT_EQ(promote(DType::boolean, DType::u8), DType::u8);
}

TEST(ParallelFor, CoversEveryIndexOnce) {
  for (const int count : {1, 2, 3, 7}) {
    set_threads(count);
    EXPECT_EQ(threads(), count);
    for (const std::int64_t n : {0, 1, 5, 1000, 100003}) {
      std::vector<std::atomic<int>> seen(static_cast<std::size_t>(n));
      for (int repeat = 0; repeat < 50; ++repeat)
        parallel_for(n, 3, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = begin; i < end; ++i) seen[static_cast<std::size_t>(i)]++;
          parallel_for(4, 1, [](std::int64_t, std::int64_t) {});  // nested: runs inline
        });
      for (const auto& each : seen) ASSERT_EQ(each, 50);
    }
  }
  set_threads(1);
}
TEST(ParallelFor, CallersOnSeveralThreadsDoNotMix) {
  set_threads(3);
  std::vector<std::thread> callers;
  std::atomic<std::int64_t> total{0};
  for (int i = 0; i < 4; ++i)
    callers.emplace_back([&] {
      for (int repeat = 0; repeat < 200; ++repeat)
        parallel_for(100, 1, [&](std::int64_t begin, std::int64_t end) { total += end - begin; });
    });
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(total, 4 * 200 * 100);
  set_threads(1);
}

TEST(Buffer, KeepsPreparedFormsByViewAndForgetsThem) {
  static const char form = 0;
  const BufferRef buffer = Buffer::allocate(64);
  TensorView view = contiguous_view(buffer->data(), DType::f32, {4, 4});
  int made = 0;
  const auto make = [&] { return std::make_shared<int>(++made); };
  const auto first = buffer->prepared(view, &form, make);
  EXPECT_EQ(buffer->prepared(view, &form, make), first);
  std::swap(view.strides[0], view.strides[1]);
  EXPECT_NE(buffer->prepared(view, &form, make), first);
  buffer->drop_prepared();
  buffer->prepared(view, &form, make);
  EXPECT_EQ(made, 3);
}

TEST(ParallelFor, HandsOnWhatARangeThrows) {
  for (const int count : {1, 2, 3, 7}) {
    set_threads(count);
    for (int round = 0; round < 50; ++round) {
      std::atomic<int> running{0};
      EXPECT_THROW(parallel_for(100, 1,
                                [&](std::int64_t begin, std::int64_t end) {
                                  running.fetch_add(1);
                                  const bool throws = begin <= 37 && 37 < end;
                                  running.fetch_sub(1);
                                  if (throws) throw std::bad_alloc();
                                }),
                   std::bad_alloc);
      EXPECT_EQ(running, 0) << "a range ran on after the call came back";
      std::atomic<std::int64_t> sum{0};
      parallel_for(100, 1, [&](std::int64_t begin, std::int64_t end) { sum.fetch_add(end - begin); });
      EXPECT_EQ(sum, 100);
    }
  }
  set_threads(1);
}

TEST(Memory, ScratchAndBuffersAreFilledWithThePoisonByte) {
  Scratch scratch;
  for (const int byte : {0x3c, 0xff, 0}) {
    set_poison(byte);
    std::byte* const data = scratch.take(5000);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(data) % 64, 0u);
    const BufferRef buffer = Buffer::allocate(5000);
    for (const std::size_t at : {0, 4096, 4999}) {
      EXPECT_EQ(std::to_integer<int>(data[at]), byte);
      EXPECT_EQ(std::to_integer<int>(buffer->data()[at]), byte);
    }
    data[17] = std::byte{1};
    EXPECT_EQ(std::to_integer<int>(scratch.take(100)[17]), byte) << "each use begins anew";
  }
  set_poison(-1);
  std::byte* const kept = scratch.take(100);
  kept[17] = std::byte{7};
  EXPECT_EQ(scratch.take(5000), kept);
  EXPECT_EQ(kept[17], std::byte{7});
  EXPECT_THROW(set_poison(256), ValueError);
}

TEST(FloatEnvironment, KeepsSubnormalsAndPutsTheHostsSettingsBack) {
  EXPECT_FALSE(testing::subnormals_flushed());
  const testing::HostileFloat hostile;
  EXPECT_TRUE(testing::subnormals_flushed());
  {
    const FloatEnvironment environment;
    EXPECT_FALSE(testing::subnormals_flushed());
    volatile float third = 3;
    EXPECT_EQ(1 / third, 0x1.555556p-2F) << "rounding is not to nearest";
    EXPECT_EQ(-1 / third, -0x1.555556p-2F);
  }
  EXPECT_TRUE(hostile.in_force());
  EXPECT_TRUE(testing::subnormals_flushed());
}

}  // namespace
}  // namespace eadem
