#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "eadem/ir/primitive.h"

namespace eadem::testing {

/// One sample of a primitive, its attributes copied.
struct Sample {
  std::vector<SampleOperand> operands;
  std::shared_ptr<const void> attributes;
};
std::vector<Sample> samples_of(const Primitive&);

/// Where a sample's operands lie in memory.
enum class Layout { contiguous, transposed, stepped, reversed, offset, broadcast };
/// Those under which the elements are the same; `broadcast` has stride 0 along the first axis of more than one element
/// (that of its first index everywhere), and so elements of its own.
inline constexpr Layout kLayouts[] = {Layout::contiguous, Layout::transposed, Layout::stepped, Layout::reversed,
                                      Layout::offset};

/// Memory and a window on it.
struct Tensor {
  std::vector<std::byte> memory;
  TensorView view;
};

/// The operand's elements (a function of its description and `seed` alone, and of whether it is broadcast) under the
/// layout; gaps hold NaN patterns.
Tensor materialize(const SampleOperand&, std::uint64_t seed, Layout);

/// Contiguous memory of this type, filled with 0xA5, so that what a kernel forgets to write shows.
Tensor allocate(const TensorType&);

/// Elements in row-major order as bytes.
std::vector<std::byte> elements_of(const TensorView&);

/// "element 17 of f32[4,6]: 0x3f800000 is not 0x3f800001", or nothing when equal.
std::string first_difference(const TensorView& got, const TensorView& expected);

/// SHA-256 in hexadecimal.
std::string sha256_of(std::span<const std::byte>);

}  // namespace eadem::testing
