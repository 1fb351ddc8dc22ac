#include "eadem/numerics/rope.h"

#include <algorithm>
#include <vector>

#include "eadem/kernels/rows/packed.h"
#include "eadem/kernels/rows/rows.h"
#include "eadem/kernels/target.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "eadem/kernels/rows/rope.cpp"
#include "hwy/foreach_target.h"
// foreach_target comes first
#include "eadem/kernels/rows/rows-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace eadem::kernels::HWY_NAMESPACE {
#if EADEM_HWY_TARGET
namespace hn = hwy::HWY_NAMESPACE;

// Rotates pairs (a[i], b[i]) by (cosine[i], sine[i]).
template <class T>
void rotate(const T* a, const T* b, const numerics::Wide<T>* cosine, const numerics::Wide<T>* sine, std::int64_t pairs,
            T* ya, T* yb) {
  const hn::ScalableTag<double> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= pairs; i += lanes) {
    const auto c = load_f64(d, cosine + i), s = load_f64(d, sine + i);
    const auto x1 = load_f64(d, a + i), x2 = load_f64(d, b + i);
    store_rounded(d, hn::MulAdd(x1, c, hn::Neg(hn::Mul(x2, s))), ya + i);
    store_rounded(d, hn::MulAdd(x2, c, hn::Mul(x1, s)), yb + i);
  }
  for (; i < pairs; ++i) {
    const double c = cosine[i], s = sine[i], x1 = numerics::to_double(a[i]), x2 = numerics::to_double(b[i]);
    ya[i] = numerics::round_to<T>(std::fma(x1, c, -(x2 * s)));
    yb[i] = numerics::round_to<T>(std::fma(x2, c, x1 * s));
  }
}

#endif
}  // namespace eadem::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eadem::kernels {
namespace {

template <class T>
void scalar_rotate(const T* a, const T* b, const numerics::Wide<T>* cosine, const numerics::Wide<T>* sine,
                   std::int64_t pairs, T* ya, T* yb) {
  for (std::int64_t i = 0; i < pairs; ++i) {
    const double c = cosine[i], s = sine[i], x1 = numerics::to_double(a[i]), x2 = numerics::to_double(b[i]);
    ya[i] = numerics::round_to<T>(std::fma(x1, c, -(x2 * s)));
    yb[i] = numerics::round_to<T>(std::fma(x2, c, x1 * s));
  }
}

// The cosines and sines of positions, [positions][frequencies]. The last ones are kept by thread: the layers of a model
// ask for the same ones again and again.
template <class T>
struct Rotations {
  std::vector<std::int64_t> positions;
  std::vector<double> frequencies;
  std::vector<numerics::Wide<T>> cosine, sine;

  static const Rotations& of(std::vector<std::int64_t> positions, std::span<const double> frequencies) {
    static thread_local Rotations last;
    if (last.positions != positions ||
        !std::equal(last.frequencies.begin(), last.frequencies.end(), frequencies.begin(), frequencies.end())) {
      Rotations next;
      next.compute(std::move(positions), frequencies);
      last = std::move(next);
    }
    return last;
  }

 private:
  void compute(std::vector<std::int64_t> new_positions, std::span<const double> new_frequencies) {
    positions = std::move(new_positions);
    frequencies.assign(new_frequencies.begin(), new_frequencies.end());
    const auto count = static_cast<std::int64_t>(positions.size());
    const auto half = static_cast<std::int64_t>(frequencies.size());
    cosine.resize(static_cast<std::size_t>(count * half));
    sine.resize(cosine.size());
    parallel_for(count, std::max<std::int64_t>(1, 64 / std::max<std::int64_t>(1, half)),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t i = begin; i < end; ++i)
                     for (std::int64_t k = 0; k < half; ++k) {
                       const numerics::Rotation<T> rotation(static_cast<double>(positions[static_cast<std::size_t>(i)]),
                                                            frequencies[static_cast<std::size_t>(k)]);
                       cosine[static_cast<std::size_t>(i * half + k)] = rotation.cosine;
                       sine[static_cast<std::size_t>(i * half + k)] = rotation.sine;
                     }
                 });
  }
};

// The rotations of all distinct positions: axes along which positions do not change (stride 0, as heads) count once.
template <class T>
struct Table {
  std::int64_t half;
  Shape shape, steps;  // of the distinct positions
  const Rotations<T>* rotations;

  Table(const TensorView& positions, std::span<const double> frequencies)
      : half(static_cast<std::int64_t>(frequencies.size())), shape(positions.shape), steps(positions.shape) {
    for (int axis = 0; axis < shape.rank(); ++axis) {
      if (positions.strides[axis] == 0) shape[axis] = 1;
    }
    steps = contiguous_strides(shape);
    std::vector<std::int64_t> distinct(static_cast<std::size_t>(shape.elements()));
    for (std::size_t i = 0; i < distinct.size(); ++i) {
      const auto number = static_cast<std::int64_t>(i);
      distinct[i] = positions.as<const std::int64_t>()[numerics::offset_of(number, shape, positions.strides)];
    }
    rotations = &Rotations<T>::of(std::move(distinct), frequencies);
  }
  // Where the rotations of the row of that number (over the full shape) begin.
  std::size_t at(std::int64_t row, const Shape& full) const {
    std::int64_t entry = 0;
    for (int axis = full.rank() - 1; axis >= 0; --axis) {
      if (shape[axis] != 1) entry += row % full[axis] * steps[axis];
      row /= full[axis];
    }
    return static_cast<std::size_t>(entry * half);
  }
};

}  // namespace

void rope(const TensorView& x, const TensorView& positions, std::span<const double> frequencies,
          numerics::RopePairs pairs, const TensorView& result) {
  if (x.elements() == 0) return;
  visit_floating(x.dtype, [&]<class T>(std::type_identity<T>) {
    const auto rotate_pairs = EADEM_PER_TARGET(scalar_rotate<T>, rotate<T>).pick();
    const Table<T> table(positions, frequencies);
    const std::int64_t length = x.shape.back(), half = table.half;
    const auto size = static_cast<std::size_t>(2 * half);
    const Shape axes{x.shape.rank() - 1};
    for_each_packed<T>(x, axes, [&](std::span<const T> row, std::int64_t index) {
      T* y = result.as<T>() + index * length;
      const std::size_t entry = table.at(index, positions.shape);
      const auto *cosine = table.rotations->cosine.data() + entry, *sine = table.rotations->sine.data() + entry;
      if (pairs == numerics::RopePairs::half_split) {
        rotate_pairs(row.data(), row.data() + half, cosine, sine, half, y, y + half);
      } else {
        for (std::int64_t i = 0; i < half; ++i) {
          scalar_rotate(row.data() + 2 * i, row.data() + 2 * i + 1, cosine + i, sine + i, 1, y + 2 * i, y + 2 * i + 1);
        }
      }
      std::copy(row.begin() + static_cast<std::ptrdiff_t>(size), row.end(), y + size);
    });
  });
}

}  // namespace eadem::kernels
#endif
