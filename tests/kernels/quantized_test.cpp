#include "eadem/kernels/quantized/quantized.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "eadem/base/parallel.h"
#include "eadem/kernels/quantized/task.h"
#include "eadem/kernels/target.h"
#include "eadem/kernels/tuner.h"
#include "eadem/numerics/quantized.h"
#include "eadem/numerics/rounding.h"
#include "tests/support/planted.h"

namespace eadem::kernels {
namespace {

using numerics::QuantizedMatrix;
using numerics::QuantizedType;

// Random weights of any type, with sane scales.
struct Weights {
  std::vector<std::byte> bytes, scales, biases;
  QuantizedMatrix matrix;
};

void put_half(std::vector<std::byte>& bytes, std::size_t at, double value) {
  const float16 half = to_float16(value);
  std::memcpy(&bytes[at], &half, 2);
}

Weights blocks(QuantizedType type, std::int64_t rows, std::int64_t columns, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> scale(-0.02, 0.02);
  Weights w;
  const auto size = static_cast<std::size_t>(numerics::block_bytes(type));
  w.bytes.resize(static_cast<std::size_t>(rows * columns / numerics::block_columns(type)) * size);
  for (std::byte& each : w.bytes) each = static_cast<std::byte>(random());
  for (std::size_t at = 0; at < w.bytes.size(); at += size) {
    switch (type) {
      case QuantizedType::q2_k:
        put_half(w.bytes, at + 80, scale(random));
        put_half(w.bytes, at + 82, scale(random));
        break;
      case QuantizedType::q3_k: put_half(w.bytes, at + 108, scale(random)); break;
      case QuantizedType::q6_k: put_half(w.bytes, at + 208, scale(random)); break;
      default:
        put_half(w.bytes, at, scale(random));
        if (!numerics::format_of(type).symmetric) put_half(w.bytes, at + 2, 8 * scale(random));
    }
  }
  w.matrix = numerics::block_matrix("test", type, rows, columns, w.bytes);
  return w;
}

Weights affine(int bits, int group, DType storage, std::int64_t rows, std::int64_t columns, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> scale(-0.02, 0.02);
  Weights w;
  w.bytes.resize(static_cast<std::size_t>(rows * columns * bits / 8));
  for (std::byte& each : w.bytes) each = static_cast<std::byte>(random());
  for (std::vector<std::byte>* part : {&w.scales, &w.biases}) {
    for (std::int64_t i = 0; i < rows * columns / group; ++i) {
      visit_floating(storage, [&]<class T>(std::type_identity<T>) {
        const T value = numerics::round_to<T>(scale(random));
        const auto* raw = reinterpret_cast<const std::byte*>(&value);
        part->insert(part->end(), raw, raw + sizeof(T));
      });
    }
  }
  w.matrix = numerics::affine_matrix("test", bits, group, rows, columns, w.bytes, w.scales, w.biases, storage);
  return w;
}

std::vector<Weights> every_form(std::int64_t rows, std::int64_t columns) {
  std::vector<Weights> all;
  for (int i = 0; i < numerics::kBlockTypeCount; ++i)
    all.push_back(blocks(static_cast<QuantizedType>(i), rows, columns, 7u + static_cast<std::uint32_t>(i)));
  all.push_back(affine(4, 64, DType::f16, rows, columns, 91));
  all.push_back(affine(3, 128, DType::bf16, rows, columns, 92));
  all.push_back(affine(8, 128, DType::f32, rows, columns, 93));
  all.push_back(affine(6, 64, DType::f16, rows, columns, 94));
  all.push_back(affine(5, 32, DType::f32, rows, columns, 95));
  return all;
}

// Elements of any floating dtype in memory with room around and between them.
struct Tensor {
  std::vector<std::byte> memory;
  TensorView view;
};

Tensor tensor(DType dtype, std::int64_t rows, std::int64_t columns, bool strided) {
  Tensor t;
  const std::int64_t row = strided ? 2 * columns + 3 : columns, column = strided ? 2 : 1,
                     size = static_cast<std::int64_t>(size_of(dtype));
  t.memory.resize(static_cast<std::size_t>(((rows + 1) * row + 1) * size));
  t.view = {t.memory.data() + (strided ? size : 0), dtype, Shape{rows, columns}, Shape{row, column}, nullptr};
  return t;
}

void set(const TensorView& view, std::int64_t i, std::int64_t j, double value) {
  visit_floating(view.dtype, [&]<class T>(std::type_identity<T>) {
    view.as<T>()[i * view.strides[0] + j * view.strides[1]] = numerics::round_to<T>(value);
  });
}

Tensor random_tensor(DType dtype, std::int64_t rows, std::int64_t columns, bool strided, std::uint32_t seed) {
  Tensor t = tensor(dtype, rows, columns, strided);
  std::mt19937 random(seed);
  std::normal_distribution<double> normal(0.5, 1);
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j) set(t.view, i, j, normal(random));
  return t;
}

bool equal(const Tensor& a, const Tensor& b) {
  return a.memory == b.memory;
}

class Quantized : public ::testing::Test {
 protected:
  void TearDown() override {
    force_candidate("");
    set_tuning(false);
    clear_tuner();
    set_target(available_targets().back());
    set_threads(1);
  }
};

// Compares every target with numerics/ for one problem.
void compare(const Weights& w, const PackedQuantized& packed, DType x_dtype, DType y_dtype, std::int64_t rows,
             bool strided, bool with_bias, const Tensor& x) {
  Tensor bias = random_tensor(DType::f32, 1, w.matrix.rows, strided, 5);
  TensorView bias_view = bias.view;
  bias_view.shape = Shape{w.matrix.rows};
  bias_view.strides = Shape{bias.view.strides[1]};
  const TensorView* bias_pointer = with_bias ? &bias_view : nullptr;
  Tensor expected = tensor(y_dtype, rows, w.matrix.rows, strided);
  numerics::quantized_linear(x.view, w.matrix, expected.view, bias_pointer);
  for (const Target target : available_targets()) {
    set_target(target);
    clear_targets_ran();
    Tensor y = tensor(y_dtype, rows, w.matrix.rows, strided);
    quantized_linear(x.view, packed, y.view, bias_pointer);
    EXPECT_TRUE(equal(y, expected)) << name_of(w.matrix.type) << " bits " << w.matrix.format.bits << " group "
                                    << w.matrix.format.group << " " << name_of(x_dtype) << " to " << name_of(y_dtype)
                                    << " M " << rows << " N " << w.matrix.rows << " K " << w.matrix.columns
                                    << " target " << name_of(target);
  }
}

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
      for (const QuantizedType type : {QuantizedType::q4_1, QuantizedType::q8_0}) {
        const Weights w = blocks(type, outputs, columns, 3);
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

// A few forms, dtypes and numbers of rows, compared with numerics/ on every target.
void compare_some() {
  for (const Weights& w : {blocks(QuantizedType::q4_1, 37, 544, 3), blocks(QuantizedType::q8_0, 37, 544, 4),
                           blocks(QuantizedType::q2_k, 37, 512, 5), blocks(QuantizedType::q6_k, 37, 512, 6)}) {
    const PackedQuantized packed = pack(w.matrix);
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64})
      for (const std::int64_t rows : {1, 5, 19}) {
        Tensor x = random_tensor(dtype, rows, w.matrix.columns, rows == 5, 17);
        if (rows == 19) set(x.view, 11, 3, 1e-40);  // a row that is not plain
        compare(w, packed, dtype, rows == 5 ? DType::f32 : dtype, rows, rows == 5, rows == 19, x);
      }
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

TEST_F(Quantized, NonFiniteAndSubnormalValues) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();
  const float special[] = {0.0f,    -0.0f, kInfinity, -kInfinity, kNan,      -kNan, 1e-40f,
                           -1e-45f, 3e38f, 0x1p-126f, 0x1p-119f,  0x1p-120f, 6e-8f, 65504.0f};
  for (const QuantizedType type :
       {QuantizedType::q4_1, QuantizedType::q4_0, QuantizedType::q8_0, QuantizedType::q6_k}) {
    const Weights w = blocks(type, 18, 512, 3);
    const PackedQuantized packed = pack(w.matrix);
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16})
      for (const std::int64_t rows : {2, 30}) {
        Tensor x = random_tensor(dtype, rows, 512, false, 17);
        for (std::int64_t m = 0; m < rows; ++m) {
          // Row 0 is plain, row 1 all tiny, others hold one special value; later rows two.
          for (std::int64_t k = 0; m == 1 && k < 512; ++k)
            set(x.view, m, k, (k % 7 == 0 ? -1e-39 : 3e-38) * static_cast<double>(k % 5));
          if (m > 1) set(x.view, m, m * 16 % 512, special[m % 14]);
          if (m > 15) set(x.view, m, m * 5, special[m * 3 % 14]);
        }
        compare(w, packed, dtype, dtype, rows, false, false, x);
      }
  }
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

// Memory of packed weights against the file's, in hundredths: within 1.3 for all but the types whose scales are exact
// only in f32 (docs/performance.md has the table).
TEST_F(Quantized, PackedBytesAgainstTheFiles) {
  const auto most = [](QuantizedType type) {
    switch (type) {
      case QuantizedType::q2_k: return 305;
      case QuantizedType::q3_k: return 175;
      case QuantizedType::q4_k: return 134;
      default: return 130;
    }
  };
  for (int i = 0; i < numerics::kBlockTypeCount; ++i) {
    const auto type = static_cast<QuantizedType>(i);
    const std::int64_t file = 64 * 4096 / numerics::block_columns(type) * numerics::block_bytes(type);
    const auto packed = static_cast<std::int64_t>(layout(numerics::format_of(type), 64, 4096).bytes());
    EXPECT_LE(100 * packed, most(type) * file) << name_of(type) << " " << packed << " bytes for " << file;
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
