#include "eadem/numerics/quantized.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "eadem/numerics/contraction.h"

namespace eadem::numerics {
namespace {

// RN_T(a + b), a and b exact: through the double nearest to the sum, made odd where it is not exact, so that rounding
// it to T is as if the sum itself were rounded.
template <FloatingElement T>
T round_sum(double a, double b) {
  const double sum = a + b + 0.0;  // a zero weight is +0, whatever the signs of its scale and bias
  if constexpr (!std::same_as<T, double>) {
    const double part = sum - a, rest = (a - (sum - part)) + (b - part);
    auto bits = std::bit_cast<std::uint64_t>(sum);
    if (std::isfinite(sum) && rest != 0 && (bits & 1) == 0) {
      if ((rest > 0) == (sum > 0))
        ++bits;
      else
        --bits;
      return round_to<T>(std::bit_cast<double>(bits));
    }
  }
  return round_to<T>(sum);
}

}  // namespace

template <FloatingElement T>
T dequantize(std::uint8_t q, float s, float b) {
  return round_sum<T>(static_cast<double>(s) * q, b);  // 24 + 8 bits: the product is exact
}

template <FloatingElement T>
void dequantize_row(const QuantizedFormat& format, const QuantizedRow& row, T* out) {
  const int centre = 1 << (format.bits - 1);
  for (std::size_t k = 0; k < row.codes.size(); ++k) {
    const std::size_t g = k / static_cast<std::size_t>(format.group);
    out[k] = format.symmetric ? round_sum<T>(static_cast<double>(row.scales[g]) * (row.codes[k] - centre), 0)
                              : dequantize<T>(row.codes[k], row.scales[g], row.biases[g]);
  }
}

template <FloatingElement T>
float group_sum(const T* x, std::ptrdiff_t stride, const std::uint8_t* codes, int centre, int group) {
  if constexpr (std::same_as<T, double>) {
    return 0;  // f64 products have no groups
  } else {
    const auto value = [&](std::int64_t k) { return widen(x[k * stride]); };
    const auto code = [&](std::int64_t k) { return codes ? static_cast<float>(codes[k] - centre) : 1.0f; };
    float sum = 0;
    for (std::int64_t k = 0; k < group; k += kStepTerms)
      sum = sum + contraction_step<T>(value, code, k, std::min<std::int64_t>(group, k + kStepTerms));
    return sum;
  }
}

template <FloatingElement T>
Wide<T> quantized_dot(const T* x, std::ptrdiff_t stride, const QuantizedFormat& format, const QuantizedRow& row) {
  if constexpr (std::same_as<T, double>) {
    std::vector<double> w(row.codes.size());
    dequantize_row(format, row, w.data());
    return contract<T>([&](std::int64_t k) { return x[k * stride]; },
                       [&](std::int64_t k) { return w[static_cast<std::size_t>(k)]; },
                       static_cast<std::int64_t>(w.size()));
  } else {
    const int centre = 1 << (format.bits - 1), group = format.group;
    const int columns = static_cast<int>(row.codes.size());
    BlockTree<float> tree;
    for (int block = 0; block < columns; block += 256) {
      float sum = 0;
      for (int k = block; k < std::min(block + 256, columns); k += group) {
        const auto g = static_cast<std::size_t>(k / group);
        const float s = row.scales[g],
                    q = group_sum(x + k * stride, stride, &row.codes[static_cast<std::size_t>(k)], centre, group);
        if (format.symmetric) {
          sum = sum + s * q;
        } else {
          const float bias = std::fma(static_cast<float>(centre), s, row.biases[g]);
          sum = sum + std::fma(s, q, bias * group_sum<T>(x + k * stride, stride, nullptr, 0, group));
        }
      }
      tree.add(sum);
    }
    return tree.sum();
  }
}

void quantized_linear(const TensorView& x, const QuantizedMatrix& w, const TensorView& y, const TensorView* bias) {
  QuantizedRow row;
  for (std::int64_t n = 0; n < w.rows; ++n) {
    w.read_row(n, row);
    for (std::int64_t m = 0; m < x.shape[0]; ++m) {
      visit_floating(x.dtype, [&]<class T>(std::type_identity<T>) {
        Wide<T> sum = quantized_dot(x.as<const T>() + m * x.strides[0], x.strides[1], w.format, row);
        if (bias)
          visit_floating(bias->dtype, [&]<class B>(std::type_identity<B>) {
            sum = sum + static_cast<Wide<T>>(widen(bias->as<const B>()[n * bias->strides[0]]));
          });
        visit_floating(y.dtype, [&]<class Y>(std::type_identity<Y>) {
          y.as<Y>()[m * y.strides[0] + n * y.strides[1]] = round_to<Y>(sum);
        });
      });
    }
  }
}

#define EADEM_INSTANTIATE(T)                                                            \
  template T dequantize<T>(std::uint8_t, float, float);                                 \
  template void dequantize_row<T>(const QuantizedFormat&, const QuantizedRow&, T*);     \
  template float group_sum<T>(const T*, std::ptrdiff_t, const std::uint8_t*, int, int); \
  template Wide<T> quantized_dot<T>(const T*, std::ptrdiff_t, const QuantizedFormat&, const QuantizedRow&);
EADEM_INSTANTIATE(double)
EADEM_INSTANTIATE(float)
EADEM_INSTANTIATE(bfloat16)
EADEM_INSTANTIATE(float16)
#undef EADEM_INSTANTIATE

}  // namespace eadem::numerics
