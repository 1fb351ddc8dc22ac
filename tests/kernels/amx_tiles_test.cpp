#include "eadem/kernels/amx_tiles.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "eadem/base/parallel.h"
#include "eadem/kernels/contraction/contraction.h"
#include "eadem/kernels/quantized/quantized.h"
#include "eadem/kernels/target.h"
#include "eadem/numerics/contraction.h"
#include "eadem/numerics/quantized.h"

#if defined(__x86_64__)
#include <immintrin.h>

namespace eadem::kernels {
namespace {

// What other code of the process may leave behind between two calls: registers of another shape, and none at all.
__attribute__((target("amx-tile"))) void configure_otherwise() {
  alignas(64) std::uint8_t configuration[64] = {1};
  configuration[16] = 8;  // bytes of a row of register 0
  configuration[48] = 3;  // its rows
  _tile_loadconfig(configuration);
}
__attribute__((target("amx-tile"))) void release() {
  _tile_release();
}

std::vector<bfloat16> random_values(std::int64_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<bfloat16> values(static_cast<std::size_t>(count));
  for (bfloat16& value : values) value = to_bfloat16(normal(generator));
  return values;
}

// Dense and quantized products share the registers of a thread, with each other and with the rest of the process.
TEST(AmxTiles, DenseAndQuantizedProductsTakeTurns) {
  if (available_targets().back() != Target::amx) GTEST_SKIP() << "this CPU, or its system, has no AMX";
  constexpr std::int64_t m = 40, n = 48, k = 320;
  std::vector<bfloat16> a = random_values(m * k, 1), b = random_values(k * n, 2);
  const TensorView a_view = contiguous_view(a.data(), DType::bf16, {m, k});
  const TensorView b_view = contiguous_view(b.data(), DType::bf16, {k, n});
  std::mt19937 random(3);
  std::vector<std::byte> bytes(static_cast<std::size_t>(n * k / 32 * 34));
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = i % 34 == 0 ? std::byte{0} : i % 34 == 1 ? std::byte{0x2c} : static_cast<std::byte>(random());
  const numerics::QuantizedMatrix matrix = numerics::block_matrix("w", numerics::QuantizedType::q8_0, n, k, bytes);
  const PackedQuantized packed = pack(matrix);
  std::vector<float> dense(static_cast<std::size_t>(m * n)), quantized(dense), got(dense);
  const TensorView got_view = contiguous_view(got.data(), DType::f32, {m, n});
  numerics::matmul(a_view, b_view, contiguous_view(dense.data(), DType::f32, {m, n}), nullptr);
  numerics::quantized_linear(a_view, matrix, contiguous_view(quantized.data(), DType::f32, {m, n}), nullptr);
  const auto equal = [&](const std::vector<float>& want) {
    return std::memcmp(got.data(), want.data(), got.size() * sizeof(float)) == 0;
  };
  for (const int count : {1, 3}) {
    set_threads(count);
    set_target(Target::amx);
    for (int round = 0; round < 9; ++round) {
      clear_targets_ran();
      matmul(a_view, b_view, got_view, nullptr, false);
      EXPECT_TRUE(equal(dense)) << "dense, round " << round;
      if (round % 3 == 1) configure_otherwise();
      if (round % 3 == 2) release();
      quantized_linear(a_view, packed, got_view, nullptr);
      EXPECT_TRUE(equal(quantized)) << "quantized, round " << round;
      if (round % 3 == 1) configure_otherwise();
      EXPECT_TRUE(targets_ran() & (1u << static_cast<int>(Target::amx)));
    }
  }
  set_threads(1);
}

}  // namespace
}  // namespace eadem::kernels

#else
TEST(AmxTiles, AreForX86) {
  GTEST_SKIP() << "AMX is an x86-64 extension";
}
#endif
