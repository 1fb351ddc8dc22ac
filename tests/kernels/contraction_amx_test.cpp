#include <gtest/gtest.h>

#if defined(__x86_64__)

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "eadem/base/parallel.h"
#include "eadem/kernels/contraction/amx.h"
#include "eadem/kernels/contraction/driver.h"
#include "eadem/numerics/contraction.h"

// The AMX engine on a CPU without AMX: packing, tiles, tails, tree and the check for subnormals are the real ones; the
// instruction is replaced by its definition, flushing of subnormals included. (Where there is AMX, contraction_test
// runs the instruction itself as one of the targets.)

namespace eadem::kernels::contraction {
namespace {

float flushed(float x) {
  return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x;
}
float operand(std::uint16_t bits) {
  return flushed(to_float(bfloat16{bits}));
}

// One register: c[16][16] += a[16 rows][32 k] b[16 pairs][16 columns][2 k].
void multiply_registers(const std::uint16_t* a, const std::uint16_t* b, float (*c)[kTileRows]) {
  for (int m = 0; m < kTileRows; ++m)
    for (int n = 0; n < kTileRows; ++n) {
      float chain[2] = {0, 0};
      for (int k = 0; k < 32; ++k)
        chain[k % 2] = flushed(std::fma(operand(a[m * 32 + k]), operand(b[k / 2 * 32 + 2 * n + k % 2]), chain[k % 2]));
      c[m][n] = flushed(c[m][n] + flushed(chain[0] + chain[1]));
    }
}

std::int64_t blocks_run = 0;

void emulated_block(const std::uint16_t* a, const std::uint16_t* b, std::int64_t steps, bool two_rows, bool two_columns,
                    float* out) {
  ++blocks_run;
  for (int i = 0; i <= (two_rows ? 1 : 0); ++i)
    for (int j = 0; j <= (two_columns ? 1 : 0); ++j) {
      float c[kTileRows][kTileRows] = {};
      for (std::int64_t s = 0; s < steps; ++s)
        multiply_registers(a + (2 * s + i) * kTileElements16, b + (2 * s + j) * kTileElements16, c);
      for (int m = 0; m < kTileRows; ++m)
        std::memcpy(out + (i * kTileRows + m) * 2 * kTileRows + j * kTileRows, c[m], sizeof(c[m]));
    }
}

bool has_avx512() {
  for (const Target target : available_targets())
    if (target == Target::avx512) return true;
  return false;
}

std::vector<bfloat16> normal(std::int64_t count, double scale, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<double> distribution;
  std::vector<bfloat16> values(static_cast<std::size_t>(count));
  for (bfloat16& value : values) value = to_bfloat16(scale * distribution(generator));
  return values;
}

// Returns how many blocks the (emulated) instruction computed.
std::int64_t expect_definition(std::int64_t m, std::int64_t n, std::int64_t k, bool transposed, double scale) {
  const std::vector<bfloat16> a = normal(m * k, scale, 1), b = normal(k * n, scale, 2);
  std::vector<float> got(static_cast<std::size_t>(m * n), -1), want(got);
  TensorView a_view = contiguous_view(const_cast<bfloat16*>(a.data()), DType::bf16, {m, k});
  TensorView b_view = contiguous_view(const_cast<bfloat16*>(b.data()), DType::bf16, {k, n});
  if (transposed) a_view.strides = {1, m}, b_view.strides = {1, k};
  numerics::matmul(a_view, b_view, contiguous_view(want.data(), DType::f32, {m, n}), nullptr);
  Problem p;
  p.dtype = DType::bf16;
  p.m = m, p.n = n, p.k = k;
  p.a = {a_view.data, a_view.strides[0], a_view.strides[1]};
  p.b = {b_view.data, b_view.strides[1], b_view.strides[0]};
  p.c = {reinterpret_cast<std::byte*>(got.data()), n, 1, DType::f32, nullptr, 0, 0};
  const Engine engine = make_amx_engine<&emulated_block>();
  blocks_run = 0;
  multiply(engine, p, default_blocking(engine, p, 1));
  EXPECT_EQ(std::memcmp(got.data(), want.data(), got.size() * sizeof(float)), 0) << m << "x" << n << "x" << k;
  const std::int64_t ran = blocks_run;
  const auto packed = pack_whole(engine, p.b, n, k);
  p.packed_b = packed.get();
  std::fill(got.begin(), got.end(), -1.0f);
  multiply(engine, p, {40, 32, 0});
  EXPECT_EQ(std::memcmp(got.data(), want.data(), got.size() * sizeof(float)), 0)
      << "kept " << m << "x" << n << "x" << k;
  return ran;
}

constexpr std::int64_t kShapes[][3] = {{1, 1, 1},    {16, 16, 32},  {17, 15, 33},  {32, 32, 64}, {33, 70, 255},
                                       {5, 40, 256}, {70, 33, 300}, {3, 17, 1500}, {40, 5, 31}};

TEST(AmxEngine, GivesTheDefinition) {
  if (!has_avx512()) GTEST_SKIP() << "the engine's other half is AVX-512";
  for (const auto& [m, n, k] : kShapes)
    for (const bool transposed : {false, true}) EXPECT_GT(expect_definition(m, n, k, transposed, 1.0), 0);
}

// Products below the normal numbers never reach the instruction.
TEST(AmxEngine, LeavesSubnormalsToTheFma) {
  if (!has_avx512()) GTEST_SKIP() << "the engine's other half is AVX-512";
  for (const auto& [m, n, k] : kShapes) {
    if (k == 1) continue;  // a single product may be zero
    for (const double scale : {0x1p-64, 0x1p-70, 0x1p-130})
      EXPECT_EQ(expect_definition(m, n, k, false, scale), 0) << scale;
  }
}

}  // namespace
}  // namespace eadem::kernels::contraction

#else
TEST(AmxEngine, IsForX86) {
  GTEST_SKIP() << "AMX is an x86-64 extension";
}
#endif
