#include "eadem/kernels/quantized/quantized.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "eadem/kernels/quantized/task.h"
#include "tests/kernels/quantized_problems.h"
#include "tests/support/machine.h"
#include "tests/support/planted.h"

namespace eadem::kernels {
namespace {

using numerics::QuantizedMatrix;
using numerics::QuantizedType;

using Quantized = eadem::testing::MachineTest;

TEST_F(Quantized, EveryFormDtypeAndTargetHasTheBitsOfTheReference) {
  constexpr std::int64_t kColumns = 768;
  for (const Weights& w : every_form(37, kColumns)) {
    const PackedQuantized packed = pack(w.matrix);
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64})
      for (const std::int64_t rows : {1, 3, 17}) {
        const Tensor x = random_tensor(dtype, rows, kColumns, false, static_cast<std::uint32_t>(rows));
        compare(w, packed, dtype, dtype, rows, false, rows == 3, x);
      }
  }
}

// Public report C19: a matrix cut along K at a group has the product of the whole with x zero elsewhere. The bits, too,
// where the cut lies between blocks of 256 or stays within one: then the sums keep their places in the tree.
TEST_F(Quantized, ReportC19ProductsOfSlicesAlongK) {
  constexpr std::int64_t kRows = 5, kOutputs = 35, kColumns = 1024;
  for (const QuantizedType type :
       {QuantizedType::q4_1, QuantizedType::q8_0, QuantizedType::q5_0, QuantizedType::q4_k, QuantizedType::q6_k}) {
    const Weights whole = blocks(type, kOutputs, kColumns, 21);
    const PackedQuantized packed = pack(whole.matrix);
    for (const auto& [first, count] :
         {std::pair<std::int64_t, std::int64_t>{0, 256}, {256, 512}, {512, 512}, {96, 64}}) {
      if (first % numerics::block_columns(type) || count % numerics::block_columns(type)) continue;
      QuantizedMatrix slice = whole.matrix;
      slice.columns = count;
      slice.data += first / numerics::block_columns(type) * numerics::block_bytes(type);
      const PackedQuantized packed_slice = pack(slice);
      for (const DType dtype : {DType::f32, DType::bf16, DType::f64}) {
        const Tensor x = random_tensor(dtype, kRows, count, false, 9), padded = tensor(dtype, kRows, kColumns, false);
        const std::size_t element = size_of(dtype);
        for (std::int64_t m = 0; m < kRows; ++m)
          std::memcpy(padded.view.data + static_cast<std::size_t>(m * kColumns + first) * element,
                      x.view.data + static_cast<std::size_t>(m * count) * element,
                      static_cast<std::size_t>(count) * element);
        const Tensor expected = tensor(dtype, kRows, kOutputs, false), defined = tensor(dtype, kRows, kOutputs, false);
        numerics::quantized_linear(padded.view, whole.matrix, expected.view, nullptr);
        numerics::quantized_linear(x.view, slice, defined.view, nullptr);
        EXPECT_TRUE(equal(defined, expected)) << name_of(type) << " " << name_of(dtype) << " from " << first;
        for (const Target target : available_targets()) {
          set_target(target);
          const Tensor y = tensor(dtype, kRows, kOutputs, false), z = tensor(dtype, kRows, kOutputs, false);
          quantized_linear(x.view, packed_slice, y.view, nullptr);
          quantized_linear(padded.view, packed, z.view, nullptr);
          EXPECT_TRUE(equal(y, expected) && equal(z, expected))
              << name_of(type) << " " << name_of(dtype) << " from " << first << " " << name_of(target);
        }
      }
    }
  }
}

TEST_F(Quantized, AnyNumberOfRowsAndColumns) {
  for (const std::int64_t columns : {32, 96, 256, 576, 1056})
    for (const std::int64_t outputs : {1, 16, 33}) {
      for (const Weights& w :
           {blocks(QuantizedType::q4_1, outputs, columns, 3), blocks(QuantizedType::q8_0, outputs, columns, 3),
            affine(3, 32, DType::f16, outputs, columns, 4), affine(2, 32, DType::f32, outputs, columns, 5)}) {
        const PackedQuantized packed = pack(w.matrix);
        for (const DType dtype : {DType::f32, DType::bf16})
          for (const std::int64_t rows : {0, 1, 2, 3, 4, 5, 8, 9, 25, 64}) {
            if (columns > 300 && rows > 9 && outputs != 33) continue;
            const bool strided = (rows & 1) != 0;
            const Tensor x = random_tensor(dtype, rows, columns, strided, 17);
            compare(w, packed, dtype, rows % 4 == 0 ? DType::f32 : dtype, rows, strided, rows == 2 || rows == 25, x);
          }
      }
    }
}

TEST_F(Quantized, ThreadsDoNotMatter) {
  const Weights w = blocks(QuantizedType::q4_1, 1000, 576, 3);
  const PackedQuantized packed = pack(w.matrix);
  for (const std::int64_t rows : {1, 8, 40}) {
    const Tensor x = random_tensor(DType::bf16, rows, 576, false, 17);
    Tensor first = tensor(DType::bf16, rows, 1000, false);
    quantized_linear(x.view, packed, first.view, nullptr);
    for (const int count : {2, 3, 7}) {
      set_threads(count);
      Tensor y = tensor(DType::bf16, rows, 1000, false);
      quantized_linear(x.view, packed, y.view, nullptr);
      EXPECT_TRUE(equal(y, first)) << count;
    }
    set_threads(1);
  }
}

TEST_F(Quantized, EveryCandidateGivesTheDefinition) {
  for (const CandidateStatus& candidate : quantized_tuner().status()) {
    SCOPED_TRACE(candidate.name);
    force_candidate(candidate.name);
    set_threads(candidate.name.ends_with("small-tasks") ? 3 : 1);
    compare_some();
    const Target needed = candidate.name.starts_with("quantized/fma")   ? available_targets()[0]
                          : candidate.name.starts_with("quantized/amx") ? Target::amx
                                                                        : Target::avx512bf16;
    const auto targets = available_targets();
    const bool able = std::find(targets.begin(), targets.end(), needed) != targets.end();
    const std::vector<CandidateStatus> now = quantized_tuner().status();
    const auto same = [&](const CandidateStatus& each) { return each.name == candidate.name; };
    EXPECT_EQ(std::find_if(now.begin(), now.end(), same)->runs > candidate.runs, able);
  }
}

TEST_F(Quantized, TheTunerKeepsTheBits) {
  set_tuning(true);
  compare_some();
  compare_some();  // by the choices that were kept
  EXPECT_TRUE(tuner_refusals().empty());
}

// A candidate that is one bit off in one element: it must not be chosen, and the tuner must say which and where.
TEST_F(Quantized, TheTunerRefusesAWrongCandidate) {
  struct Planted : eadem::testing::PlantedCandidate {
    static void run(const void* raw) {
      const auto& request = *static_cast<const quantized::Request*>(raw);
      quantized::run_plan(request, quantized::plan_of(Target::scalar, false, false));
      request.y.as<std::uint32_t>()[6 * request.y.strides[0] + 29] ^= 1;
    }
  };
  quantized_tuner().add({"planted-wrong-bit", &Planted::admits, &Planted::run});
  const Weights w = blocks(QuantizedType::q4_1, 37, 96, 3);
  const PackedQuantized packed = pack(w.matrix);
  const Tensor x = random_tensor(DType::bf16, 8, 96, false, 17);
  const Tensor want = tensor(DType::f32, 8, 37, false), got = tensor(DType::f32, 8, 37, false);
  numerics::quantized_linear(x.view, w.matrix, want.view, nullptr);
  Planted::on() = true;
  set_tuning(true);
  for (int twice = 0; twice < 2; ++twice) {
    quantized_linear(x.view, packed, got.view, nullptr);
    EXPECT_TRUE(equal(got, want));
  }
  Planted::on() = false;
  const std::vector<Refusal> refusals = tuner_refusals();
  ASSERT_EQ(refusals.size(), 1u);
  EXPECT_EQ(refusals[0].candidate, "quantized/planted-wrong-bit");
  EXPECT_EQ(refusals[0].difference.element, "[6,29]");
  EXPECT_NE(refusals[0].problem.find("bf16 to f32 8x37x96"), std::string::npos) << refusals[0].problem;
}

// Factors of the K types, which are multiplied by 8-bit scales, that no file should have.
TEST_F(Quantized, OddFactors) {
  constexpr std::uint16_t kOdd[] = {0x0001, 0x8001, 0x03ff, 0x0000, 0x8000, 0x7bff, 0x7c00, 0xfc00, 0x7e01};
  const std::pair<QuantizedType, std::size_t> places[] = {{QuantizedType::q2_k, 80},  {QuantizedType::q2_k, 82},
                                                          {QuantizedType::q3_k, 108}, {QuantizedType::q4_k, 0},
                                                          {QuantizedType::q5_k, 2},   {QuantizedType::q6_k, 208}};
  for (const auto& [type, at] : places) {
    const Weights w = blocks(type, 20, 512, 3);
    auto* bytes = const_cast<std::byte*>(w.matrix.data);
    const auto size = static_cast<std::size_t>(numerics::block_bytes(type));
    for (std::size_t i = 0; i < 40; ++i) std::memcpy(bytes + i * size + at, &kOdd[i % std::size(kOdd)], 2);
    const PackedQuantized packed = pack(w.matrix);
    for (const DType dtype : {DType::f32, DType::bf16})
      for (const std::int64_t rows : {1, 20})
        compare(w, packed, dtype, dtype, rows, false, false, random_tensor(dtype, rows, 512, false, 17));
  }
}

TEST_F(Quantized, NonFiniteAndSubnormalValues) {
  compare_special_values();
}

TEST_F(Quantized, MatricesPackedTogetherKeepTheirRows) {
  const Weights a = blocks(QuantizedType::q4_1, 21, 96, 3), b = blocks(QuantizedType::q4_1, 40, 96, 4);
  const numerics::QuantizedMatrix parts[] = {a.matrix, b.matrix};
  const PackedQuantized packed = pack(parts);
  ASSERT_EQ(packed.rows, 61);
  numerics::QuantizedRow expected, row;
  for (std::int64_t n = 0; n < 61; ++n) {
    n < 21 ? a.matrix.read_row(n, expected) : b.matrix.read_row(n - 21, expected);
    unpack_row(packed, n, row);
    EXPECT_EQ(row.codes, expected.codes);
    EXPECT_EQ(row.scales, expected.scales);
    EXPECT_EQ(row.biases, expected.biases);
  }
  const Weights other = blocks(QuantizedType::q8_0, 21, 96, 3), wide = blocks(QuantizedType::q4_1, 21, 128, 3);
  EXPECT_THROW(pack(std::vector{a.matrix, other.matrix}), ShapeError);
  EXPECT_THROW(pack(std::vector{a.matrix, wide.matrix}), ShapeError);
  EXPECT_THROW(pack(std::span<const numerics::QuantizedMatrix>()), ShapeError);
}

// Of these no body knows the steps.
TEST_F(Quantized, RefusesSmallGroupsOfWideCodes) {
  numerics::QuantizedFormat format = numerics::format_of(QuantizedType::q6_k);
  for (const int bits : {2, 3, 4, 5, 6, 7, 8}) {
    format.bits = bits;
    if (bits == 4 || bits > 6)
      EXPECT_THROW(layout(format, 16, 256), ValueError) << bits;
    else
      EXPECT_NO_THROW(layout(format, 16, 256)) << bits;
  }
}

TEST_F(Quantized, ARowDoesNotDependOnItsBatch) {
  const Weights w = blocks(QuantizedType::q4_1, 70, 576, 3);
  const PackedQuantized packed = pack(w.matrix);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    Tensor x = random_tensor(dtype, 50, 576, false, 17);
    set(x.view, 20, 3, 1e-40);  // sends its neighbours another way on some targets
    Tensor all = tensor(dtype, 50, 70, false);
    quantized_linear(x.view, packed, all.view, nullptr);
    for (const std::int64_t m : {0, 7, 19, 20, 49}) {
      TensorView row = x.view;
      row.data += m * 576 * static_cast<std::int64_t>(size_of(dtype));
      row.shape[0] = 1;
      Tensor alone = tensor(dtype, 1, 70, false);
      quantized_linear(row, packed, alone.view, nullptr);
      EXPECT_EQ(std::memcmp(alone.memory.data(), all.memory.data() + static_cast<std::size_t>(m) * 70 * size_of(dtype),
                            70 * size_of(dtype)),
                0);
    }
  }
}

TEST_F(Quantized, RunsOnTheForcedTarget) {
  const Weights w = blocks(QuantizedType::q4_1, 16, 64, 3);
  const PackedQuantized packed = pack(w.matrix);
  for (const std::int64_t rows : {1, 20}) {
    const Tensor x = random_tensor(DType::bf16, rows, 64, false, 17);
    Tensor y = tensor(DType::f32, rows, 16, false);
    for (const Target target : available_targets()) {
      set_target(target);
      clear_targets_ran();
      quantized_linear(x.view, packed, y.view, nullptr);
      if (target == Target::scalar || target == Target::avx2 || target == Target::avx512 || target == Target::neon)
        EXPECT_EQ(targets_ran(), 1u << static_cast<int>(target)) << name_of(target);
      else
        EXPECT_NE(targets_ran() & ~1u, 0u);
    }
  }
}

// What runs is what is recorded: rows on which dot products of pairs would flush are left to AVX-512, and say so.
TEST_F(Quantized, RecordsTheBodyThatRan) {
  const auto targets = available_targets();
  if (std::find(targets.begin(), targets.end(), Target::avx512bf16) == targets.end()) GTEST_SKIP() << "no AVX512-BF16";
  constexpr std::uint32_t kPairs = 1u << static_cast<int>(Target::avx512bf16),
                          kWidened = 1u << static_cast<int>(Target::avx512);
  set_target(Target::avx512bf16);
  const Weights w = blocks(QuantizedType::q4_0, 16, 64, 3);
  const PackedQuantized packed = pack(w.matrix);
  for (const std::int64_t rows : {1, 20}) {
    const Tensor x = random_tensor(DType::bf16, rows, 64, false, 17), y = tensor(DType::f32, rows, 16, false);
    clear_targets_ran();
    quantized_linear(x.view, packed, y.view, nullptr);
    EXPECT_EQ(targets_ran(), kPairs) << rows;
    set(x.view, 0, 3, 1e-40);
    clear_targets_ran();
    quantized_linear(x.view, packed, y.view, nullptr);
    EXPECT_EQ(targets_ran(), kPairs | kWidened) << rows;
    clear_targets_ran();
    quantized_linear(tensor(DType::bf16, 0, 64, false).view, packed, tensor(DType::f32, 0, 16, false).view, nullptr);
    EXPECT_EQ(targets_ran(), 0u);
  }
}

// Memory of packed weights against the file's: at most 1.3 (docs/performance.md has the table).
TEST_F(Quantized, PackedBytesAgainstTheFiles) {
  for (int i = 0; i < numerics::kBlockTypeCount; ++i) {
    const auto type = static_cast<QuantizedType>(i);
    const std::int64_t file = 64 * 4096 / numerics::block_columns(type) * numerics::block_bytes(type);
    const auto packed = static_cast<std::int64_t>(layout(numerics::format_of(type), 64, 4096).bytes());
    EXPECT_LE(100 * packed, 130 * file) << name_of(type) << " " << packed << " bytes for " << file;
  }
}

TEST_F(Quantized, PackedRowsReadBackAndDequantize) {
  for (const Weights& w : every_form(21, 256)) {
    const PackedQuantized packed = pack(w.matrix);
    numerics::QuantizedRow stored, unpacked;
    const std::vector<std::int64_t> ids{20, 0, 7, 7};
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64})
      for (const bool strided : {false, true}) {
        Tensor out = tensor(dtype, 4, 256, strided);
        dequantize_rows(packed, ids, out.view);
        visit_floating(dtype, [&]<class T>(std::type_identity<T>) {
          for (std::size_t i = 0; i < ids.size(); ++i) {
            w.matrix.read_row(ids[i], stored);
            std::vector<T> expected(256);
            numerics::dequantize_row(w.matrix.format, stored, expected.data());
            for (std::int64_t k = 0; k < 256; ++k)
              EXPECT_TRUE(numerics::same_bits(
                  out.view.as<T>()[static_cast<std::int64_t>(i) * out.view.strides[0] + k * out.view.strides[1]],
                  expected[static_cast<std::size_t>(k)]));
          }
        });
      }
    for (std::int64_t r = 0; r < 21; ++r) {
      w.matrix.read_row(r, stored);
      unpack_row(packed, r, unpacked);
      EXPECT_EQ(stored.codes, unpacked.codes);
      EXPECT_EQ(stored.scales, unpacked.scales);
      EXPECT_EQ(stored.biases, unpacked.biases);
    }
  }
}

}  // namespace
}  // namespace eadem::kernels
