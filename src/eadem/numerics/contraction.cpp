#include "eadem/numerics/contraction.h"

#include <cstddef>
#include <type_traits>

namespace eadem::numerics {
namespace {

// One element of the product: rows of a and b along k.
template <class T>
struct Terms {
  const T* data;
  std::int64_t stride;
  auto operator()(std::int64_t k) const {
    if constexpr (FloatingElement<T>)
      return widen(data[k * stride]);
    else
      return data[k * stride];
  }
};

template <class T>
T contract_exactly(const Terms<T>& a, const Terms<T>& b, std::int64_t terms) {
  if constexpr (std::is_same_v<T, bool>) {
    bool any = false;
    for (std::int64_t k = 0; k < terms; ++k) any = any || (a(k) && b(k));
    return any;
  } else {
    // Modulo 2^64 first, then modulo 2^bits: the same as wrapping at every step, and defined for signed types.
    std::uint64_t sum = 0;
    for (std::int64_t k = 0; k < terms; ++k) sum += static_cast<std::uint64_t>(a(k)) * static_cast<std::uint64_t>(b(k));
    return static_cast<T>(sum);
  }
}

template <class W>
W bias_at(const TensorView& bias, std::int64_t n) {
  return visit_floating(bias.dtype, [&]<class T>(std::type_identity<T>) {
    return static_cast<W>(widen(bias.as<T>()[n * bias.strides[0]]));
  });
}

template <class T>
void store(const Terms<T>& a, const Terms<T>& b, std::int64_t terms, const TensorView* bias, std::int64_t n,
           DType dtype, std::byte* data, std::int64_t offset) {
  if constexpr (FloatingElement<T>) {
    Wide<T> sum = contract<T>(a, b, terms);
    if (bias) sum = sum + bias_at<Wide<T>>(*bias, n);
    visit_floating(
        dtype, [&]<class Out>(std::type_identity<Out>) { reinterpret_cast<Out*>(data)[offset] = round_to<Out>(sum); });
  } else {
    reinterpret_cast<T*>(data)[offset] = contract_exactly(a, b, terms);
  }
}

template <class T>
void matmul_of(const TensorView& a, const TensorView& b, const TensorView& c, const TensorView* bias) {
  const int batch_axes = c.shape.rank() - 2, row = batch_axes, column = batch_axes + 1;
  const std::int64_t rows = c.shape[row], columns = c.shape[column], terms = a.shape[column];
  Shape batch;
  for (int axis = 0; axis < batch_axes; ++axis) batch.push_back(c.shape[axis]);
  const std::int64_t batches = batch.elements();
  for (std::int64_t i = 0; i < batches; ++i) {
    std::int64_t rest = i, at_a = 0, at_b = 0, at_c = 0;
    for (int axis = batch_axes; axis-- > 0; rest /= batch[axis]) {
      const std::int64_t index = rest % batch[axis];
      at_a += index * a.strides[axis];
      at_b += index * b.strides[axis];
      at_c += index * c.strides[axis];
    }
    for (std::int64_t m = 0; m < rows; ++m)
      for (std::int64_t n = 0; n < columns; ++n)
        store<T>({a.as<T>() + at_a + m * a.strides[row], a.strides[column]},
                 {b.as<T>() + at_b + n * b.strides[column], b.strides[row]}, terms, bias, n, c.dtype, c.data,
                 at_c + m * c.strides[row] + n * c.strides[column]);
  }
}

}  // namespace

void matmul(const TensorView& a, const TensorView& b, const TensorView& c, const TensorView* bias) {
  visit(a.dtype, [&]<class T>(std::type_identity<T>) { matmul_of<T>(a, b, c, bias); });
}

}  // namespace eadem::numerics
