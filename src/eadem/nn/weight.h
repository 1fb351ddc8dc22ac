#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>

#include "eadem/array/array.h"
#include "eadem/kernels/quantized/packed.h"
#include "eadem/numerics/quantized_blocks.h"

namespace eadem::nn {

/// The matrix [out, in] of a linear layer or an embedding: dense, or quantized and packed for the kernels.
class Weight {
 public:
  /// ShapeError unless `matrix` is floating with two axes.
  static Weight dense(Array matrix);
  /// A stored matrix, and its name for errors.
  struct Named {
    std::string name;
    numerics::QuantizedMatrix matrix;
  };
  /// Packs stored matrices of one format and width, one below the other; they may then go. FileError naming the matrix,
  /// row and group for scales that are not finite.
  static Weight quantized(std::span<const Named> parts);

  /// [out, in].
  Shape shape() const;
  /// Bytes that a product reads.
  std::int64_t bytes() const;
  /// The dense matrix, or null.
  const Array* array() const { return std::get_if<Array>(&form_); }
  /// The packed matrix, or null.
  const kernels::PackedQuantized* packed() const;

 private:
  using Packed = std::shared_ptr<const kernels::PackedQuantized>;
  explicit Weight(std::variant<Array, Packed> form) : form_(std::move(form)) {}
  std::variant<Array, Packed> form_;
};

/// x [..., in] times the weight's transpose plus the bias, [..., out] in `result`'s dtype (default: x's; f64 where x
/// is).
Array linear(const Array& x, const Weight& weight, const std::optional<Array>& bias = std::nullopt,
             std::optional<DType> result = std::nullopt);

/// Rows of the weight, [..., in], in `dtype`. Throws ValueError for an index out of range.
Array embed(const Weight& weight, const Array& indices, DType dtype);

}  // namespace eadem::nn
