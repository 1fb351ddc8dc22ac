#include <gtest/gtest.h>

#if defined(__x86_64__)

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "eadem/base/parallel.h"
#include "eadem/kernels/contraction/amx.h"
#include "eadem/kernels/contraction/driver.h"
#include "eadem/kernels/contraction/scaling.h"
#include "eadem/numerics/contraction.h"
#include "tests/kernels/emulated_tiles.h"

// The AMX engine on a CPU without AMX: packing, tiles, tails, tree and the check for subnormals are the real ones; the
// instruction is replaced by its definition, flushing of subnormals included. (Where there is AMX, contraction_test
// runs the instruction itself as one of the targets.)

namespace eadem::kernels::contraction {
namespace {

std::int64_t blocks_run = 0;

void emulated_block(const std::uint16_t* a, const std::uint16_t* b, std::int64_t steps, bool two_rows, bool two_columns,
                    float* out) {
  ++blocks_run;
  for (int i = 0; i <= (two_rows ? 1 : 0); ++i)
    for (int j = 0; j <= (two_columns ? 1 : 0); ++j) {
      float c[kTileRows][kTileRows] = {};
      for (std::int64_t s = 0; s < steps; ++s)
        testing::multiply_tiles(a + (2 * s + i) * kTileElements16, 32, b + (2 * s + j) * kTileElements16, 32, c);
      for (int m = 0; m < kTileRows; ++m)
        std::memcpy(out + (i * kTileRows + m) * 2 * kTileRows + j * kTileRows, c[m], sizeof(c[m]));
    }
}

bool has_avx512() {
  for (const Target target : available_targets())
    if (target == Target::avx512) return true;
  return false;
}

using Values = std::vector<bfloat16>;

Values normal(std::int64_t count, double scale, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<double> distribution;
  Values values(static_cast<std::size_t>(count));
  for (bfloat16& value : values) value = to_bfloat16(scale * distribution(generator));
  return values;
}

// Random signs, significands and exponents from lo to hi, where -127 stands for subnormals; among them zeros, and many
// of the least and of the greatest exponent.
Values within(std::int64_t count, int lo, int hi, unsigned seed) {
  std::mt19937 generator(seed);
  std::uniform_int_distribution<int> exponent(lo, hi);
  Values values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const int e = i % 5 == 0 ? lo : i % 5 == 1 ? hi : exponent(generator);
    if (i % 5 < 2 || generator() % 4 != 0)
      values[i].bits = static_cast<std::uint16_t>((generator() & 0x807f) | static_cast<unsigned>(e + 127) << 7);
    if (i % 10 == 5 && lo == -127) values[i].bits = 1;
  }
  return values;
}

// What an engine made of operands [m, k] and [k, n] has the bits of the definition.
void expect_definition(const Engine& engine, std::int64_t m, std::int64_t n, std::int64_t k, bool transposed,
                       const Values& a, const Values& b) {
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
  multiply(engine, p, default_blocking(engine, p, 1));
  EXPECT_EQ(std::memcmp(got.data(), want.data(), got.size() * sizeof(float)), 0)
      << engine.name << " " << m << "x" << n << "x" << k;
  const auto packed = pack_whole(engine, p.b, n, k);
  p.packed_b = packed.get();
  std::fill(got.begin(), got.end(), -1.0f);
  multiply(engine, p, {40, 32, 0});
  EXPECT_EQ(std::memcmp(got.data(), want.data(), got.size() * sizeof(float)), 0)
      << engine.name << " kept " << m << "x" << n << "x" << k;
}

// The same for the emulated engine, and for the one of vdpbf16ps, which flushes as well, where the CPU has it. Returns
// how many blocks the (emulated) instruction computed.
std::int64_t expect_definition(std::int64_t m, std::int64_t n, std::int64_t k, bool transposed, const Values& a,
                               const Values& b) {
  blocks_run = 0;
  expect_definition(make_amx_engine<&emulated_block>(), m, n, k, transposed, a, b);
  for (const Target target : available_targets())
    if (target == Target::avx512bf16) expect_definition(*avx512bf16_engine(), m, n, k, transposed, a, b);
  return blocks_run;
}
std::int64_t expect_definition(std::int64_t m, std::int64_t n, std::int64_t k, bool transposed, double scale) {
  return expect_definition(m, n, k, transposed, normal(m * k, scale, 1), normal(k * n, scale, 2));
}

constexpr std::int64_t kShapes[][3] = {{1, 1, 1},    {16, 16, 32},  {17, 15, 33},  {32, 32, 64}, {33, 70, 255},
                                       {5, 40, 256}, {70, 33, 300}, {3, 17, 1500}, {40, 5, 31}};

TEST(AmxEngine, GivesTheDefinition) {
  if (!has_avx512()) GTEST_SKIP() << "the engine's other half is AVX-512";
  for (const auto& [m, n, k] : kShapes)
    for (const bool transposed : {false, true}) EXPECT_GT(expect_definition(m, n, k, transposed, 1.0), 0);
}

// Products with places below 2^-149 never reach the instruction.
TEST(AmxEngine, LeavesSubnormalsToTheFma) {
  if (!has_avx512()) GTEST_SKIP() << "the engine's other half is AVX-512";
  for (const auto& [m, n, k] : kShapes) {
    if (k == 1) continue;  // a single product may be zero
    for (const double scale : {0x1p-64, 0x1p-70, 0x1p-130})
      EXPECT_EQ(expect_definition(m, n, k, false, scale), 0) << scale;
  }
}

// Exponents of a and of b, and whether the instruction may compute the product.
struct Exponents {
  int a_lo, a_hi, b_lo, b_hi;
  bool instruction;
};

// The bounds of numerics.md section 4, each met and missed by one: last places of products at 2^-126 (as they are) and
// 2^-149 (scaled), with either operand subnormal, and operands and products that may just not overflow when scaled.
TEST(AmxEngine, ScalesByAPowerOfTwo) {
  if (!has_avx512()) GTEST_SKIP() << "the engine's other half is AVX-512";
  constexpr Exponents kCases[] = {
      {-60, -50, -52, -40, true},   {-60, -50, -53, -40, true},  {-60, -50, -75, -40, true},
      {-60, -50, -76, -40, false},  {-127, -120, -9, 3, true},   {-127, -120, -10, 3, false},
      {-9, 3, -127, -120, true},    {-10, 3, -127, -120, false}, {-127, -127, 8, 9, true},
      {-126, -126, -9, -9, true},   {-126, -126, -10, 3, false}, {-126, -100, 100, 127, true},
      {100, 127, -126, -100, true}, {-127, 103, -9, -9, true},   {-127, 105, -9, -9, false},
      {-9, -9, -127, 103, true},    {-9, -9, -127, 105, false},  {-127, 94, 0, 0, true},
      {-127, 90, 17, 18, true},     {-127, 90, 17, 20, true},    {-127, 127, -9, -9, false},
      {-127, -127, -127, 1, false}, {-30, 88, -105, 5, true},    {-30, 96, -105, 5, false},
  };
  for (const Exponents& each : kCases)
    for (const auto& [m, n, k] : kShapes) {
      if (k < 64) continue;  // too few to hold both ends of each range
      const Values a = within(m * k, each.a_lo, each.a_hi, 5), b = within(k * n, each.b_lo, each.b_hi, 6);
      const std::int64_t blocks = expect_definition(m, n, k, ((&each - kCases) & 1) != 0, a, b);
      if (k > 256) continue;
      EXPECT_EQ(blocks > 0, each.instruction)
          << each.a_lo << " " << each.a_hi << " " << each.b_lo << " " << each.b_hi << " " << m << "x" << n << "x" << k;
    }
}

// Sums that are subnormal, cancel, or cross 2^-126, the infinite among them; many zeros.
TEST(AmxEngine, ScaledSumsMayBeSubnormalOrNot) {
  if (!has_avx512()) GTEST_SKIP() << "the engine's other half is AVX-512";
  for (const auto& [m, n, k] : kShapes)
    for (const int lowest : {-133, -127, -126, -120, -110}) {
      // One operand 1 and -1, so that sums stay on the grid of the other's few places and often cancel.
      Values a(static_cast<std::size_t>(m * k)), b(static_cast<std::size_t>(k * n));
      std::mt19937 generator(static_cast<unsigned>(lowest + 200));
      for (bfloat16& each : a) each = to_bfloat16(std::ldexp(static_cast<double>(generator() % 9) - 4, lowest));
      for (bfloat16& each : b) each = to_bfloat16(generator() % 2 ? 1.0 : -1.0);
      EXPECT_GT(expect_definition(m, n, k, false, a, b), 0);
      EXPECT_GT(expect_definition(m, n, k, true, b.size() == a.size() ? b : a, b), 0);
      b[0] = to_bfloat16(std::numeric_limits<double>::infinity());
      expect_definition(m, n, k, false, a, b);
      a[0] = to_bfloat16(std::numeric_limits<double>::quiet_NaN());
      expect_definition(m, n, k, false, a, b);
    }
}

TEST(Scaling, MeetsItsBoundsExactly) {
  const auto magnitude = [](int exponent) { return static_cast<std::uint16_t>((exponent + 127) << 7); };
  const auto shift = [&](int a_least, int a_greatest, int b_least, int b_greatest, std::int64_t terms) {
    const auto scaling =
        scaling_of({magnitude(a_least), magnitude(a_greatest)}, {magnitude(b_least), magnitude(b_greatest)}, terms);
    return scaling ? scaling->shift : -1;
  };
  EXPECT_EQ(shift(-60, -60, -75, -75, 256), 32);
  EXPECT_EQ(shift(-60, -60, -76, -76, 256), -1);
  // Just enough for places of 2^-149, and just no overflow: of the operand ...
  EXPECT_EQ(shift(-60, 104, -75, -75, 256), 23);
  EXPECT_EQ(shift(-60, 105, -75, -75, 256), -1);
  // ... of 256 products, of 128 and of one.
  EXPECT_EQ(shift(-60, 94, -75, 0, 256), 23);
  EXPECT_EQ(shift(-60, 95, -75, 0, 256), -1);
  EXPECT_EQ(shift(-60, 95, -75, 0, 128), 23);
  EXPECT_EQ(shift(-60, 102, -75, 0, 1), 23);
  EXPECT_EQ(shift(-60, 103, -75, 0, 1), -1);
  // Subnormal operands, scaled themselves whatever the other is.
  const auto subnormal = scaling_of({magnitude(30), magnitude(31)}, {1, magnitude(40)}, 2);
  ASSERT_TRUE(subnormal.has_value());
  EXPECT_TRUE(subnormal->of_b);
  EXPECT_EQ(subnormal->shift, 32);
  EXPECT_EQ(scaling_of({1, 1}, {1, 1}, 2), std::nullopt);
  EXPECT_EQ(scaling_of({1, magnitude(111)}, {magnitude(0), magnitude(0)}, 1), (Scaling{false, 14}));
  EXPECT_EQ(scaling_of({1, magnitude(112)}, {magnitude(0), magnitude(0)}, 1), std::nullopt);
}

}  // namespace
}  // namespace eadem::kernels::contraction

#else
TEST(AmxEngine, IsForX86) {
  GTEST_SKIP() << "AMX is an x86-64 extension";
}
#endif
