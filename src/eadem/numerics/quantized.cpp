#include "eadem/numerics/quantized.h"

#include <bit>
#include <cmath>
#include <vector>

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

// Section 4.3: the blocks' sums, ascending, as a binary counter.
template <class W>
class BlockTree {
 public:
  void add(W block) {
    for (std::size_t count = count_++; count & 1; count >>= 1) {
      block = nodes_.back() + block;
      nodes_.pop_back();
    }
    nodes_.push_back(block);
  }
  W total() {
    if (nodes_.empty()) return W{0};
    W sum = nodes_.back();
    for (std::size_t i = nodes_.size() - 1; i-- > 0;) sum = nodes_[i] + sum;
    return sum;
  }

 private:
  std::vector<W> nodes_;
  std::size_t count_ = 0;
};

// One step of section 4.1 over `count` terms: a chain, or for 16-bit x one over the even and one over the odd terms.
template <FloatingElement T, class Code>
float step(const T* x, std::ptrdiff_t stride, int count, Code code) {
  if constexpr (Float16<T>) {
    float even = 0, odd = 0;
    for (int k = 0; k < count; k += 2) {
      even = std::fma(widen(x[k * stride]), code(k), even);
      odd = std::fma(widen(x[(k + 1) * stride]), code(k + 1), odd);
    }
    return even + odd;
  } else {
    float sum = 0;
    for (int k = 0; k < count; ++k) sum = std::fma(x[k * stride], code(k), sum);
    return sum;
  }
}

double reference_dot(const double* x, std::ptrdiff_t stride, const std::vector<double>& w) {
  BlockTree<double> tree;
  for (std::size_t block = 0; block < w.size(); block += 256) {
    double sum = 0;
    for (std::size_t k = block; k < std::min(block + 256, w.size()); k += 32) {
      double chain = 0;
      for (std::size_t i = k; i < std::min(k + 32, w.size()); ++i)
        chain = std::fma(x[static_cast<std::ptrdiff_t>(i) * stride], w[i], chain);
      sum = sum + chain;
    }
    tree.add(sum);
  }
  return tree.total();
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
    float sum = 0;
    for (int k = 0; k < group; k += 32)
      sum = sum + step(x + k * stride, stride, group < 32 ? group : 32,
                       [&](int i) { return codes ? static_cast<float>(codes[k + i] - centre) : 1.0f; });
    return sum;
  }
}

template <FloatingElement T>
Wide<T> quantized_dot(const T* x, std::ptrdiff_t stride, const QuantizedFormat& format, const QuantizedRow& row) {
  if constexpr (std::same_as<T, double>) {
    std::vector<double> w(row.codes.size());
    dequantize_row(format, row, w.data());
    return reference_dot(x, stride, w);
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
    return tree.total();
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
