#include "eadem/numerics/convolution.h"

#include "eadem/numerics/contraction.h"
#include "eadem/numerics/reduction_views.h"

namespace eadem::numerics {
namespace {

Shape spatial(const Shape& shape, int first) {
  Shape extents;
  for (int axis = first; axis < shape.rank() + first - 2; ++axis) extents.push_back(shape[axis]);
  return extents;
}
std::int64_t index_of(std::int64_t linear, const Shape& extents, int axis) {
  for (int i = extents.rank() - 1; i > axis; --i) linear /= extents[i];
  return linear % extents[axis];
}

// One input of a convolution, by output, tap and channel.
template <class T>
struct Input {
  const TensorView& x;
  const Convolution& c;
  Shape taps, outs;

  Wide<T> operator()(std::int64_t n, std::int64_t out, std::int64_t tap, std::int64_t channel) const {
    std::int64_t offset = n * x.strides[0] + channel * x.strides.back();
    for (int axis = 0; axis < taps.rank(); ++axis) {
      const std::int64_t at =
          tap_place(c, axis, index_of(out, outs, axis), index_of(tap, taps, axis), taps[axis], x.shape[axis + 1]);
      if (at < 0) return Wide<T>{0};
      offset += at * x.strides[axis + 1];
    }
    return widen(x.as<const T>()[offset]);
  }
};

template <class T>
Wide<T> element(const TensorView& view, std::int64_t linear) {
  return widen(view.as<const T>()[offset_of(linear, view.shape, view.strides)]);
}

template <class W>
void store(W value, const TensorView& result, std::int64_t linear) {
  visit_floating(result.dtype, [&]<class Out>(std::type_identity<Out>) {
    result.as<Out>()[offset_of(linear, result.shape, result.strides)] = round_to<Out>(value);
  });
}

}  // namespace

void convolve(const TensorView& x, const TensorView& w, const TensorView* bias, const Convolution& c,
              const TensorView& y) {
  const int rank = x.shape.rank();
  const std::int64_t channels = w.shape[rank - 2], outputs = w.shape.back(), per_group = outputs / c.groups;
  const Shape taps = spatial(w.shape, 0), outs = spatial(y.shape, 1);
  visit_floating(x.dtype, [&]<class T>(std::type_identity<T>) {
    const Input<T> input{x, c, taps, outs};
    for (std::int64_t i = 0; i < y.elements(); ++i) {
      const std::int64_t o = i % outputs, at = i / outputs % outs.elements(), n = i / outputs / outs.elements();
      Wide<T> sum = contract<T>(
          [&](std::int64_t k) { return input(n, at, k / channels, o / per_group * channels + k % channels); },
          [&](std::int64_t k) { return element<T>(w, k * outputs + o); }, taps.elements() * channels);
      if (bias)
        visit_floating(bias->dtype,
                       [&]<class B>(std::type_identity<B>) { sum = sum + static_cast<Wide<T>>(element<B>(*bias, o)); });
      store(sum, y, i);
    }
  });
}

void convolve_vjp_kernel(const TensorView& x, const TensorView& dy, const Convolution& c, const TensorView& dw) {
  const int rank = x.shape.rank();
  const std::int64_t channels = dw.shape[rank - 2], outputs = dw.shape.back(), per_group = outputs / c.groups;
  const Shape taps = spatial(dw.shape, 0), outs = spatial(dy.shape, 1);
  const std::int64_t places = outs.elements();
  visit_floating(x.dtype, [&]<class T>(std::type_identity<T>) {
    const Input<T> input{x, c, taps, outs};
    for (std::int64_t i = 0; i < dw.elements(); ++i) {
      const std::int64_t o = i % outputs, channel = i / outputs % channels, tap = i / outputs / channels;
      const Wide<T> sum = contract<T>(
          [&](std::int64_t k) { return input(k / places, k % places, tap, o / per_group * channels + channel); },
          [&](std::int64_t k) { return element<T>(dy, k * outputs + o); }, dy.shape[0] * places);
      store(sum, dw, i);
    }
  });
}

}  // namespace eadem::numerics
