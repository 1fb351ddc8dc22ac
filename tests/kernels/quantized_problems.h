#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "eadem/kernels/quantized/quantized.h"
#include "eadem/kernels/target.h"
#include "eadem/numerics/quantized.h"
#include "eadem/numerics/rounding.h"

// Problems of quantized_linear, and their comparison with numerics/.

namespace eadem::kernels {

using numerics::QuantizedMatrix;
using numerics::QuantizedType;

// Random weights of any type, with sane scales.
struct Weights {
  std::vector<std::byte> bytes, scales, biases;
  QuantizedMatrix matrix;
};

inline void put_half(std::vector<std::byte>& bytes, std::size_t at, double value) {
  const float16 half = to_float16(value);
  std::memcpy(&bytes[at], &half, 2);
}

inline Weights blocks(QuantizedType type, std::int64_t rows, std::int64_t columns, std::uint32_t seed) {
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

inline Weights affine(int bits, int group, DType storage, std::int64_t rows, std::int64_t columns, std::uint32_t seed) {
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

inline std::vector<Weights> every_form(std::int64_t rows, std::int64_t columns) {
  std::vector<Weights> all;
  for (int i = 0; i < numerics::kBlockTypeCount; ++i)
    all.push_back(blocks(static_cast<QuantizedType>(i), rows, columns, 7u + static_cast<std::uint32_t>(i)));
  all.push_back(affine(4, 64, DType::f16, rows, columns, 91));
  all.push_back(affine(3, 128, DType::bf16, rows, columns, 92));
  all.push_back(affine(8, 128, DType::f32, rows, columns, 93));
  all.push_back(affine(6, 64, DType::f16, rows, columns, 94));
  all.push_back(affine(5, 32, DType::f32, rows, columns, 95));
  all.push_back(affine(2, 32, DType::f16, rows, columns, 96));
  return all;
}

// Elements of any floating dtype in memory with room around and between them.
struct Tensor {
  std::vector<std::byte> memory;
  TensorView view;
};

inline Tensor tensor(DType dtype, std::int64_t rows, std::int64_t columns, bool strided) {
  Tensor t;
  const std::int64_t row = strided ? 2 * columns + 3 : columns, column = strided ? 2 : 1,
                     size = static_cast<std::int64_t>(size_of(dtype));
  t.memory.resize(static_cast<std::size_t>(((rows + 1) * row + 1) * size));
  t.view = {t.memory.data() + (strided ? size : 0), dtype, Shape{rows, columns}, Shape{row, column}, nullptr};
  return t;
}

inline void set(const TensorView& view, std::int64_t i, std::int64_t j, double value) {
  visit_floating(view.dtype, [&]<class T>(std::type_identity<T>) {
    view.as<T>()[i * view.strides[0] + j * view.strides[1]] = numerics::round_to<T>(value);
  });
}

inline Tensor random_tensor(DType dtype, std::int64_t rows, std::int64_t columns, bool strided, std::uint32_t seed) {
  Tensor t = tensor(dtype, rows, columns, strided);
  std::mt19937 random(seed);
  std::normal_distribution<double> normal(0.5, 1);
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j) set(t.view, i, j, normal(random));
  return t;
}

inline bool equal(const Tensor& a, const Tensor& b) {
  return a.memory == b.memory;
}

// Compares every target with numerics/ for one problem.
inline void compare(const Weights& w, const PackedQuantized& packed, DType x_dtype, DType y_dtype, std::int64_t rows,
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

// A few forms, dtypes and numbers of rows, compared with numerics/ on every target.
inline void compare_some() {
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

// Rows of tiny numbers, zeros, NaN, infinities and the edges of what dot products of pairs may take, compared on every
// target.
inline void compare_special_values() {
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

}  // namespace eadem::kernels
