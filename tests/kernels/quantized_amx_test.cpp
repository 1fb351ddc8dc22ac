#include <gtest/gtest.h>

#if defined(__x86_64__)

#include <algorithm>

#include "eadem/kernels/quantized/amx-inl.h"
#include "tests/kernels/emulated_tiles.h"
#include "tests/kernels/quantized_problems.h"
#include "tests/support/machine.h"

// The AMX body of quantized products on a CPU without AMX: unpacking, scales, tails, tree and the check for subnormals
// are the real ones; the instruction is replaced by its definition. (Where there is AMX, quantized_test runs the
// instruction itself as one of the targets.)

namespace eadem::kernels {
namespace {

using numerics::QuantizedType;

std::int64_t products = 0;

void emulated_product(const std::uint32_t* x, std::ptrdiff_t x_stride, const std::uint32_t* codes, int steps,
                      float* out) {
  ++products;
  for (int rows = 0; rows < 2; ++rows)
    for (int panel = 0; panel < 2; ++panel) {
      float c[16][16] = {};
      for (int step = 0; step < steps; ++step)
        testing::multiply_tiles(reinterpret_cast<const std::uint16_t*>(x + 16 * rows * x_stride + 16 * step),
                                x_stride * 2, reinterpret_cast<const std::uint16_t*>(codes + 512 * step + 16 * panel),
                                64, c);
      std::memcpy(out + (rows * 2 + panel) * 256, c, sizeof c);
    }
}

class QuantizedAmx : public testing::MachineTest {
 protected:
  static void SetUpTestSuite() {
    quantized_tuner().add(
        {"emulated-tiles", [](const void*) { return active_target() == Target::avx512bf16; },
         [](const void* request) {
           run_plan(
               *static_cast<const quantized::Request*>(request),
               {.body = &quantized::by_tiles<&emulated_product>, .strips = true, .pairs = quantized::Pairs::adjacent});
         }});
  }
  void SetUp() override {
    const auto targets = available_targets();
    if (std::find(targets.begin(), targets.end(), Target::avx512bf16) == targets.end())
      GTEST_SKIP() << "the body's other half is AVX512-BF16";
    force_candidate("quantized/emulated-tiles");
    products = 0;
  }
};

TEST_F(QuantizedAmx, EveryFormGivesTheDefinition) {
  for (const Weights& w : every_form(37, 768)) {
    const PackedQuantized packed = pack(w.matrix);
    for (const std::int64_t rows : {1, 17, 33}) {
      products = 0;
      compare(w, packed, DType::bf16, rows == 17 ? DType::f32 : DType::bf16, rows, rows == 17, rows == 33,
              random_tensor(DType::bf16, rows, 768, rows == 17, 1));
      EXPECT_EQ(products > 0, w.matrix.format.group >= 32) << name_of(w.matrix.type);
    }
  }
}

TEST_F(QuantizedAmx, OtherDtypesShapesAndRowsThatAreNotPlain) {
  compare_some();
  EXPECT_GT(products, 0);
}

TEST_F(QuantizedAmx, NonFiniteAndSubnormalValues) {
  compare_special_values();  // a tiny number in every 32 rows: they never reach the instruction
  EXPECT_EQ(products, 0);
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float special[] = {0.0f,     -0.0f,     kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN(),
                               0x1p127f, -0x1p127f, 0x1p-119f, -0x1p-119f, 0x1.02p-119f};
  for (const QuantizedType type : {QuantizedType::q4_1, QuantizedType::q8_0, QuantizedType::q5_k}) {
    const Weights w = blocks(type, 18, 512, 3);
    Tensor x = random_tensor(DType::bf16, 40, 512, false, 17);
    for (std::int64_t m = 0; m < 40; ++m)
      for (std::int64_t k = m % 4; k < 512; k += m < 20 ? 97 : 1)
        set(x.view, m, k, special[(m + k) % (m < 20 ? 10 : 7)]);
    for (std::int64_t k = 0; k < 512; ++k) set(x.view, 39, k, special[7 + k % 3]);  // no sum is below 2^-126
    products = 0;
    compare(w, pack(w.matrix), DType::bf16, DType::f32, 40, false, false, x);
    EXPECT_GT(products, 0);
  }
}

}  // namespace
}  // namespace eadem::kernels

#endif
