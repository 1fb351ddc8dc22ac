#include "eadem/numerics/quantized.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "eadem/base/error.h"

namespace eadem::numerics {
namespace {

std::span<const std::byte> bytes_of(std::span<const std::uint8_t> bytes) {
  return std::as_bytes(bytes);
}

std::vector<float> values_of(QuantizedType type, std::span<const std::uint8_t> block) {
  const QuantizedMatrix matrix = block_matrix("test", type, 1, block_columns(type), bytes_of(block));
  QuantizedRow row;
  matrix.read_row(0, row);
  std::vector<float> values(row.codes.size());
  dequantize_row(matrix.format, row, values.data());
  return values;
}

std::vector<std::uint8_t> from_hex(const std::string& hex) {
  std::vector<std::uint8_t> bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2)
    bytes.push_back(static_cast<std::uint8_t>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  return bytes;
}

struct Golden {
  QuantizedType type;
  std::vector<std::uint8_t> block;
  std::vector<float> values;
};

// tests/numerics/data/quantized_blocks.txt: comments, then by type its name, its block, "=" and its values in hex.
const std::vector<Golden>& golden_blocks() {
  static const std::vector<Golden> all = [] {
    std::vector<Golden> read;
    std::ifstream file(EADEM_SOURCE_DIR "/tests/numerics/data/quantized_blocks.txt");
    bool values = false;
    for (std::string line; std::getline(file, line);) {
      if (line.starts_with('#')) continue;
      if (const auto type = quantized_type_named(line)) {
        read.push_back({*type, {}, {}});
        values = false;
      } else if (line == "=") {
        values = true;
      } else if (!values) {
        for (const std::uint8_t byte : from_hex(line)) read.back().block.push_back(byte);
      } else {
        for (std::size_t i = 0; i < line.size(); i += 8)
          read.back().values.push_back(
              std::bit_cast<float>(static_cast<std::uint32_t>(std::stoul(line.substr(i, 8), nullptr, 16))));
      }
    }
    return read;
  }();
  return all;
}

TEST(QuantizedBlocks, EqualThePythonDecoderOfEveryType) {
  ASSERT_EQ(golden_blocks().size(), static_cast<std::size_t>(kBlockTypeCount));
  for (const Golden& golden : golden_blocks()) {
    const std::vector<float> values = values_of(golden.type, golden.block);
    ASSERT_EQ(values.size(), golden.values.size()) << name_of(golden.type);
    for (std::size_t k = 0; k < values.size(); ++k)
      EXPECT_EQ(values[k], golden.values[k]) << name_of(golden.type) << " column " << k;
    EXPECT_EQ(quantized_type_named(name_of(golden.type)), golden.type);
  }
}

TEST(QuantizedBlocks, ReportC35LayoutOfQ4_1) {
  const std::vector<float> w = values_of(QuantizedType::q4_1, from_hex("003800c0f0e1d2c3b4a5968778695a4b3c2d1e0f"));
  for (int i = 0; i < 16; ++i) {
    EXPECT_EQ(w[static_cast<std::size_t>(i)], -2.0f + 0.5f * static_cast<float>(i));
    EXPECT_EQ(w[static_cast<std::size_t>(16 + i)], 5.5f - 0.5f * static_cast<float>(i));
  }
}

TEST(QuantizedBlocks, ReportC34ZeroBlocksAndNonFiniteScales) {
  for (const Golden& golden : golden_blocks()) {
    std::vector<std::uint8_t> block(golden.block.size(), 0);
    for (const float w : values_of(golden.type, block)) EXPECT_EQ(w, 0.0f);
    const QuantizedMatrix zeros = block_matrix("zeros", golden.type, 1, block_columns(golden.type), bytes_of(block));
    EXPECT_NO_THROW(require_finite("zeros", zeros));
  }
  // ggml's Q4_0 writes d = -0 for a block of zeros, with codes of 8.
  std::vector<std::uint8_t> zero(18, 0x88);
  zero[0] = 0x00, zero[1] = 0x80;
  for (const float w : values_of(QuantizedType::q4_0, zero)) EXPECT_TRUE(same_bits(w, 0.0f));
  EXPECT_NO_THROW(require_finite("w", block_matrix("w", QuantizedType::q4_0, 1, 32, bytes_of(zero))));
  // Q6_K with d = NaN in the second of two rows is refused by name.
  std::vector<std::uint8_t> two(420);
  for (std::size_t i = 0; i < two.size(); ++i) two[i] = golden_blocks().back().block[i % 210];
  two[210 + 208] = 0x00, two[210 + 209] = 0x7e;
  try {
    require_finite("blk.3.ffn_down.weight", block_matrix("w", QuantizedType::q6_k, 2, 256, bytes_of(two)));
    FAIL() << "NaN scales were accepted";
  } catch (const ValueError& error) {
    EXPECT_NE(std::string(error.what()).find("[blk.3.ffn_down.weight] q6_k row 1, columns 0 to 15"), std::string::npos)
        << error.what();
  }
  std::vector<std::uint8_t> infinite = from_hex("003800fcf0e1d2c3b4a5968778695a4b3c2d1e0f");
  EXPECT_THROW(require_finite("w", block_matrix("w", QuantizedType::q4_1, 1, 32, bytes_of(infinite))), ValueError);
}

TEST(QuantizedBlocks, RefusesShapesThatDoNotFit) {
  const std::vector<std::uint8_t> bytes(40);
  EXPECT_THROW(block_matrix("w", QuantizedType::q4_1, 2, 33, bytes_of(bytes)), ShapeError);
  EXPECT_THROW(block_matrix("w", QuantizedType::q4_1, 3, 32, bytes_of(bytes)), ShapeError);
  EXPECT_THROW(block_matrix("w", QuantizedType::q4_0, 2, 32, bytes_of(bytes)), ShapeError);
  EXPECT_THROW(block_matrix("w", QuantizedType::q4_1, std::int64_t{1} << 62, 32, bytes_of(bytes)), ShapeError);
  EXPECT_THROW(block_matrix("w", QuantizedType::q2_k, 1, 32, bytes_of(bytes)), ShapeError);
  EXPECT_THROW(affine_matrix("w", 7, 32, 1, 32, {}, {}, {}, DType::f16), ValueError);
  EXPECT_THROW(affine_matrix("w", 4, 16, 1, 32, {}, {}, {}, DType::f16), ValueError);
  EXPECT_THROW(affine_matrix("w", 4, 64, 1, 32, {}, {}, {}, DType::f16), ShapeError);
}

TEST(Quantized, ReportC19SlicesOfRowsAreRowsOfSlices) {
  std::vector<std::uint8_t> bytes;
  std::mt19937 random(3);
  for (int i = 0; i < 2 * 34 * 6; ++i) bytes.push_back(static_cast<std::uint8_t>(random() & 0x3f));
  const QuantizedMatrix whole = block_matrix("w", QuantizedType::q8_0, 2, 192, bytes_of(bytes));
  QuantizedMatrix slice = whole;  // columns 64..127 of both rows
  slice.columns = 64;
  slice.data = whole.data + 2 * 34;
  for (std::int64_t r = 0; r < 2; ++r) {
    QuantizedRow a, b;
    whole.read_row(r, a);
    slice.read_row(r, b);
    std::vector<float> wa(192), wb(64);
    dequantize_row(whole.format, a, wa.data());
    dequantize_row(whole.format, b, wb.data());
    EXPECT_EQ(std::memcmp(wa.data() + 64, wb.data(), 64 * 4), 0);
  }
}

TEST(Quantized, DequantizeRoundsOnce) {
  // 1 + 2^-8 lies between two bf16; b's 2^-60 decides, though the f64 sum cannot hold it.
  EXPECT_EQ(dequantize<bfloat16>(1, 1.0f + 0x1p-8f, 0x1p-60f).bits, 0x3f81);
  EXPECT_EQ(dequantize<bfloat16>(1, 1.0f + 0x1p-8f, -0x1p-60f).bits, 0x3f80);
  EXPECT_EQ(dequantize<bfloat16>(1, -1.0f - 0x1p-8f, -0x1p-60f).bits, 0xbf81);
  EXPECT_EQ(dequantize<bfloat16>(1, 1.0f + 0x1p-8f, 0).bits, 0x3f80);
  // 3 (1 + 2^-23) + 2^-70 in f32: a tie but for the bias.
  EXPECT_EQ(dequantize<float>(3, 1.0f + 0x1p-23f, 0x1p-70f), 3.0f + 0x1p-21f);
  EXPECT_EQ(dequantize<float>(3, 1.0f + 0x1p-23f, 0), 3.0f + 0x1p-21f);
  EXPECT_EQ(dequantize<float>(3, 1.0f + 0x1p-23f, -0x1p-70f), 3.0f + 0x1p-22f);
}

// The definition, written once more: 32-column groups of q4_1, x in f32 or bf16.
float by_hand(const std::vector<float>& x, const QuantizedRow& row, bool two_chains) {
  std::array<float, 3> blocks{};
  for (std::size_t g = 0; g < row.scales.size(); ++g) {
    std::array<float, 2> q{}, sum{};
    for (std::size_t k = 0; k < 32; ++k) {
      const std::size_t chain = two_chains ? k % 2 : 0;
      q[chain] = std::fma(x[g * 32 + k], static_cast<float>(row.codes[g * 32 + k]) - 8.0f, q[chain]);
      sum[chain] = sum[chain] + x[g * 32 + k];
    }
    const float bias = std::fma(8.0f, row.scales[g], row.biases[g]);
    blocks[g / 8] += std::fma(row.scales[g], q[0] + q[1], bias * (sum[0] + sum[1]));
  }
  return (blocks[0] + blocks[1]) + blocks[2];
}

TEST(Quantized, DotIsTheDefinition) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  for (int trial = 0; trial < 50; ++trial) {
    QuantizedRow row;
    std::vector<float> x, rounded;
    std::vector<bfloat16> narrow;
    for (int k = 0; k < 576; ++k) {
      row.codes.push_back(static_cast<std::uint8_t>(random() & 15));
      x.push_back(normal(random) + 1.0f);
      narrow.push_back(to_bfloat16(x.back()));
      rounded.push_back(to_float(narrow.back()));
    }
    for (int g = 0; g < 18; ++g) {
      row.scales.push_back(to_float(to_float16(0.01f * normal(random))));
      row.biases.push_back(to_float(to_float16(-8.0f * row.scales.back() * (1 + 0.1f * normal(random)))));
    }
    const QuantizedFormat& format = format_of(QuantizedType::q4_1);
    EXPECT_EQ(quantized_dot(x.data(), 1, format, row), by_hand(x, row, false));
    EXPECT_EQ(quantized_dot(narrow.data(), 1, format, row), by_hand(rounded, row, true));
    std::vector<double> wide(x.begin(), x.end()), w(576);
    dequantize_row(format, row, w.data());
    double exact = 0, magnitude = 0;
    for (std::size_t k = 0; k < 576; ++k) exact += wide[k] * w[k], magnitude += std::fabs(wide[k] * w[k]);
    EXPECT_NEAR(quantized_dot(wide.data(), 1, format, row), exact, 1e-13 * magnitude);
    EXPECT_NEAR(quantized_dot(x.data(), 1, format, row), exact, 1e-6 * magnitude);
  }
}

TEST(Quantized, GroupsOf16AreOneChainOrTwoOf8) {
  std::vector<float> x;
  std::vector<float16> narrow;
  std::vector<std::uint8_t> codes;
  std::mt19937 random(9);
  std::normal_distribution<float> normal;
  for (int k = 0; k < 16; ++k) {
    narrow.push_back(to_float16(normal(random)));
    x.push_back(to_float(narrow.back()));
    codes.push_back(static_cast<std::uint8_t>(random() & 63));
  }
  float chain = 0, even = 0, odd = 0;
  for (std::size_t k = 0; k < 16; ++k) {
    const float c = static_cast<float>(codes[k]) - 32.0f;
    chain = std::fma(x[k], c, chain);
    (k % 2 ? odd : even) = std::fma(x[k], c, k % 2 ? odd : even);
  }
  EXPECT_EQ(group_sum(x.data(), 1, codes.data(), 32, 16), chain);
  EXPECT_EQ(group_sum(narrow.data(), 1, codes.data(), 32, 16), even + odd);
}

TEST(Quantized, LinearAddsItsBiasBeforeRounding) {
  const std::vector<std::uint8_t> block = from_hex("003c" + std::string(30, '8') + "89" + std::string());
  // d = 1; codes 8 but for the last byte 0x89: w[15] = 1, w[31] = 0.
  const QuantizedMatrix w = block_matrix("w", QuantizedType::q4_0, 1, 32, bytes_of(block));
  std::vector<float> x(32, 0.0f);
  x[15] = 1.0f;
  bfloat16 y{};
  float bias = 0x1p-8f + 0x1p-20f;
  const TensorView bias_view = contiguous_view(&bias, DType::f32, {1});
  quantized_linear(contiguous_view(x.data(), DType::f32, {1, 32}), w, contiguous_view(&y, DType::bf16, {1, 1}),
                   &bias_view);
  EXPECT_EQ(y.bits, 0x3f81);
}

TEST(AffineQuantize, ReportC34ConstantGroups) {
  const auto decoded = [](const std::vector<float>& row, DType storage) {
    const QuantizedRow quantized = affine_quantize_row("w", row, 4, 64, storage);
    std::vector<float> values(row.size());
    dequantize_row({4, 64, false, storage}, quantized, values.data());
    return values;
  };
  for (const float constant : {0.0f, 9.0f, -9.0f})
    for (const float w : decoded(std::vector<float>(64, constant), DType::f32)) EXPECT_EQ(w, constant);
  EXPECT_EQ(affine_quantize_row("w", std::vector<float>(64, 0.0f), 4, 64, DType::f32).scales[0], -1e-7f);
  for (const float w : decoded(std::vector<float>(64, 1e-40f), DType::f32)) EXPECT_NEAR(w, 0.0f, 1e-7f);
  std::vector<float> huge(64, 0.0f);
  for (std::size_t k = 32; k < 64; ++k) huge[k] = 2e6f;
  EXPECT_THROW(decoded(huge, DType::f16), ValueError);
  for (std::size_t k = 0; k < 64; ++k) EXPECT_NEAR(decoded(huge, DType::f32)[k], huge[k], 1.0f);
  huge[5] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THROW(decoded(huge, DType::f32), ValueError);
  std::vector<float> extremes(64, 3e38f);
  extremes[0] = -3e38f;
  for (const float w : decoded(extremes, DType::f32)) EXPECT_TRUE(std::isfinite(w));
}

TEST(AffineQuantize, WordsOfEveryWidthReadBack) {
  std::mt19937 random(11);
  for (const int bits : {2, 3, 4, 5, 6, 8}) {
    // MLX's words: codes without gaps from the lowest bit of little-endian bytes.
    std::vector<std::uint8_t> codes, words(static_cast<std::size_t>(64 * bits / 8));
    for (int k = 0; k < 64; ++k) {
      codes.push_back(static_cast<std::uint8_t>(random() & ((1u << bits) - 1)));
      for (int b = 0; b < bits; ++b)
        if (codes.back() >> b & 1)
          words[static_cast<std::size_t>((k * bits + b) / 8)] |= static_cast<std::uint8_t>(1 << (k * bits + b) % 8);
    }
    const float scale = 0.5f, bias = -1.0f;
    const auto one = [](const float& value) { return std::as_bytes(std::span(&value, 1)); };
    const QuantizedMatrix matrix =
        affine_matrix("w", bits, 64, 1, 64, bytes_of(words), one(scale), one(bias), DType::f32);
    QuantizedRow row;
    matrix.read_row(0, row);
    EXPECT_EQ(row.codes, codes) << bits;
    EXPECT_EQ(row.scales.at(0), scale);
    EXPECT_EQ(row.biases.at(0), bias);
  }
}

}  // namespace
}  // namespace eadem::numerics
