#include "tests/support/sample_data.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>

#include "eadem/numerics/rounding.h"
#include "eadem/ops/infer.h"

namespace eadem::testing {
namespace {

using Random = std::mt19937_64;

double unit(Random& random) {
  return static_cast<double>(random() >> 11) * 0x1p-53;
}

// A sum of twelve uniforms: near enough to a normal, and of exact operations, so equal on every machine.
double normal(Random& random) {
  double sum = -6;
  for (int i = 0; i < 12; ++i) sum += unit(random);
  return sum;
}

// A magnitude with an exponent of [least, least + count). Drawn in statements of its own: compilers evaluate arguments
// in orders of their own.
double magnitude(Random& random, int least, unsigned count) {
  const int exponent = static_cast<int>(random() % count) + least;
  return std::ldexp(1 + unit(random), exponent);
}

double wide(Random& random, int exponents) {
  const double value = magnitude(random, -exponents, 2 * static_cast<unsigned>(exponents));
  return random() & 1 ? -value : value;
}

template <FloatingElement T>
T edge(Random& random) {
  constexpr bool kHalf = std::same_as<T, float16>;
  constexpr double kSmallest = std::same_as<T, double>  ? 0x0.0000000000001p-1022
                               : std::same_as<T, float> ? 0x1p-149
                               : kHalf                  ? 0x1p-24
                                                        : 0x1p-133;
  constexpr double kLargest = std::same_as<T, double>  ? 0x1.fffffffffffffp1023
                              : std::same_as<T, float> ? 0x1.fffffep127
                              : kHalf                  ? 65504.0
                                                       : 0x1.fep127;
  const double values[] = {0.0,       -0.0, INFINITY, -INFINITY, NAN, kSmallest, -kSmallest,      kLargest,
                           -kLargest, 1.0,  -1.0,     0.5,       1.5, -2.5,      100 * kSmallest, 88.7,
                           -103.9,    20.0, -20.0,    3.0};
  return numerics::round_to<T>(values[random() % std::size(values)]);
}

template <class T>
T element(const SampleOperand& operand, Random& random) {
  if constexpr (std::same_as<T, bool>) {
    return random() & 1;
  } else if constexpr (FloatingElement<T>) {
    switch (operand.fill) {
      case Fill::unit: return numerics::round_to<T>(unit(random));
      case Fill::positive: return numerics::round_to<T>(magnitude(random, -2, 5));
      case Fill::wide: return numerics::round_to<T>(wide(random, std::same_as<T, float16> ? 14 : 100));
      case Fill::edges: return random() % 3 ? numerics::round_to<T>(normal(random)) : edge<T>(random);
      case Fill::indices:
        return numerics::round_to<T>(static_cast<double>(random() % static_cast<std::uint64_t>(operand.bound)));
      case Fill::normal: break;
    }
    return numerics::round_to<T>(normal(random));
  } else {
    if (operand.fill == Fill::indices) return static_cast<T>(random() % static_cast<std::uint64_t>(operand.bound));
    if (operand.fill == Fill::edges && random() % 3 == 0)
      return random() & 1 ? std::numeric_limits<T>::min() : std::numeric_limits<T>::max();
    if (operand.fill == Fill::unit || operand.fill == Fill::positive) return static_cast<T>(random() % 8);
    return static_cast<T>(random());
  }
}

class Collector : public SampleSink {
 public:
  explicit Collector(const Primitive& primitive) : primitive_(primitive) {}
  using SampleSink::add;
  void add(const std::vector<SampleOperand>& operands, const void* attributes) override {
    static constexpr NoAttributes none;
    samples.push_back({operands, primitive_.attributes->copy(attributes ? attributes : &none)});
  }
  std::vector<Sample> samples;

 private:
  const Primitive& primitive_;
};

}  // namespace

std::vector<Sample> samples_of(const Primitive& primitive) {
  Collector collector(primitive);
  primitive.samples(collector);
  return std::move(collector.samples);
}

Tensor materialize(const SampleOperand& operand, std::uint64_t seed, Layout layout) {
  Tensor tensor;
  const auto size = static_cast<std::int64_t>(size_of(operand.dtype));
  const int rank = operand.shape.rank();
  Shape strides = contiguous_strides(operand.shape);
  if (layout == Layout::transposed) {
    std::int64_t stride = 1;
    for (int axis = 0; axis < rank; ++axis) {
      strides[axis] = stride;
      stride *= operand.shape[axis];
    }
  }
  const std::int64_t spread = layout == Layout::stepped ? 3 : 1, elements = operand.shape.elements();
  tensor.memory.resize(static_cast<std::size_t>((elements * spread + 8) * size), std::byte{0xff});
  tensor.view = {tensor.memory.data(), operand.dtype, operand.shape, strides};
  if (layout == Layout::offset) tensor.view.data += size;
  for (int axis = 0; axis < rank; ++axis) {
    tensor.view.strides[axis] *= spread;
    if (layout == Layout::reversed && elements != 0) {
      tensor.view.data += (operand.shape[axis] - 1) * tensor.view.strides[axis] * size;
      tensor.view.strides[axis] = -tensor.view.strides[axis];
    }
  }
  for (int axis = 0; layout == Layout::broadcast && axis < rank; ++axis) {
    if (operand.shape[axis] <= 1) continue;
    tensor.view.strides[axis] = 0;
    break;
  }
  Random random(seed);
  visit(operand.dtype, [&]<class T>(std::type_identity<T>) {
    ops::for_each_index(operand.shape, [&](const Shape& index) {
      const T value = element<T>(operand, random);
      std::memcpy(ops::element_at(tensor.view, index), &value, sizeof value);
    });
  });
  return tensor;
}

Tensor allocate(const TensorType& type) {
  Tensor tensor;
  tensor.memory.resize(static_cast<std::size_t>(type.shape.elements()) * size_of(type.dtype) + 1, std::byte{0xa5});
  tensor.view = contiguous_view(tensor.memory.data(), type.dtype, type.shape);
  return tensor;
}

std::vector<std::byte> elements_of(const TensorView& view) {
  std::vector<std::byte> bytes;
  const std::size_t size = size_of(view.dtype);
  ops::for_each_index(view.shape, [&](const Shape& index) {
    const std::byte* element = ops::element_at(view, index);
    bytes.insert(bytes.end(), element, element + size);
  });
  return bytes;
}

std::string first_difference(const TensorView& got, const TensorView& expected) {
  if (got.type() != expected.type()) return fmt::format("{} is not {}", got.type(), expected.type());
  const std::vector<std::byte> a = elements_of(got), b = elements_of(expected);
  const std::size_t size = size_of(got.dtype);
  for (std::size_t i = 0; i < a.size(); i += size) {
    if (std::memcmp(&a[i], &b[i], size) == 0) continue;
    std::uint64_t x = 0, y = 0;
    std::memcpy(&x, &a[i], size);
    std::memcpy(&y, &b[i], size);
    return fmt::format("element {} of {}: {:#x} is not {:#x}", i / size, got.type(), x, y);
  }
  return "";
}

std::string sha256_of(std::span<const std::byte> bytes) {
  unsigned char digest[32];
  EVP_Digest(bytes.data(), bytes.size(), digest, nullptr, EVP_sha256(), nullptr);
  std::string text;
  for (const unsigned char byte : digest) text += fmt::format("{:02x}", byte);
  return text;
}

}  // namespace eadem::testing
