#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "eadem/base/parallel.h"
#include "eadem/base/tensor_view.h"
#include "eadem/kernels/target.h"
#include "eadem/numerics/rounding.h"

// Operands in the layouts of testing.md, and the loop over targets and thread counts.

namespace eadem::kernels::testing {

/// A view and the memory it lies in.
struct Operand {
  std::vector<std::byte> memory;
  TensorView view;
};

enum class Layout { contiguous, transposed, stepped, offset, reversed, broadcast };
inline constexpr Layout kLayouts[] = {Layout::contiguous, Layout::transposed, Layout::stepped,
                                      Layout::offset,     Layout::reversed,   Layout::broadcast};

/// An operand whose memory is laid out so; `fill(i)` gives element values by memory position.
template <class T, class Fill>
Operand make_operand(const Shape& shape, Layout layout, Fill fill) {
  const int rank = shape.rank();
  Shape strides = Shape::filled(rank, 0);
  std::int64_t size = 1, start = layout == Layout::offset ? 1 : 0;
  const std::int64_t step = layout == Layout::stepped ? 3 : 1;
  for (int i = 0; i < rank; ++i) {
    const int axis = layout == Layout::transposed ? i : rank - 1 - i;
    if (layout == Layout::broadcast && axis == 0) continue;
    strides[axis] = size * step;
    size *= std::max<std::int64_t>(shape[axis], 1);
  }
  if (layout == Layout::reversed) {
    for (int axis = 0; axis < rank; ++axis) {
      start += (std::max<std::int64_t>(shape[axis], 1) - 1) * strides[axis];
      strides[axis] = -strides[axis];
    }
  }
  Operand operand;
  const std::int64_t elements = size * step + 1;
  operand.memory.resize(static_cast<std::size_t>(elements) * sizeof(T));
  for (std::int64_t i = 0; i < elements; ++i) {
    const T value = fill(i);
    std::memcpy(operand.memory.data() + static_cast<std::size_t>(i) * sizeof(T), &value, sizeof(T));
  }
  operand.view = {operand.memory.data() + start * static_cast<std::int64_t>(sizeof(T)), kDTypeOf<T>, shape, strides,
                  nullptr};
  return operand;
}

/// Calls f() under every target of this CPU but scalar, with each number of threads; restores both.
template <class F>
void for_targets_and_threads(F f, std::initializer_list<int> counts = {1, 2, 3, 7}) {
  const Target before = active_target();
  const int count = threads();
  for (const Target target : available_targets()) {
    if (target == Target::scalar) continue;
    set_target(target);
    for (const int each : counts) {
      set_threads(each);
      f();
    }
  }
  set_threads(count);
  set_target(before);
}

/// Calls f() under the scalar target.
template <class F>
void with_scalar_target(F f) {
  const Target before = active_target();
  set_target(Target::scalar);
  f();
  set_target(before);
}

/// Kinds of values that make sums hard.
enum class Values { normal, cancelling, ties, subnormal, special, huge, integers };
inline constexpr Values kValues[] = {Values::normal,  Values::cancelling, Values::ties,    Values::subnormal,
                                     Values::special, Values::huge,       Values::integers};

template <class T>
T draw(Values values, std::int64_t i, std::mt19937_64& random) {
  if constexpr (std::is_same_v<T, bool>) {
    return random() % 8 != 0;
  } else if constexpr (std::is_integral_v<T>) {
    return values == Values::integers ? static_cast<T>(random() % 4) : static_cast<T>(random());
  } else {
    const double unit = std::ldexp(static_cast<double>(static_cast<std::int64_t>(random())), -63);
    const auto round = [](double x) { return numerics::round_to<T>(x); };
    using Bits = std::conditional_t<sizeof(T) == 8, std::uint64_t,
                                    std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint16_t>>;
    const auto largest =
        std::bit_cast<T>(static_cast<Bits>(std::bit_cast<Bits>(round(std::numeric_limits<double>::infinity())) - 1));
    switch (values) {
      case Values::normal: return round(4 * unit);
      case Values::cancelling: {
        // Neighbours cancel but for rare small rests.
        std::mt19937_64 pair(static_cast<std::uint64_t>(i / 2));
        const double x =
            std::ldexp(static_cast<double>(static_cast<std::int64_t>(pair())), -60 + static_cast<int>(pair() % 12));
        if (random() % 29 == 0) return round(unit * 0x1p-9);
        return round(i % 2 ? -x : x);
      }
      case Values::ties: return round(i == 0 ? 1.0 : i % 3 ? 0x1p-8 : i % 2 ? 0x1p-11 : 0x1p-24);
      case Values::subnormal:
        return std::bit_cast<T>(static_cast<Bits>(random() & (std::uint64_t{1} << (8 * sizeof(T) - 1) | 7)));
      case Values::special: {
        if (random() % 64 == 0) return round(random() % 2 ? NAN : random() % 2 ? -INFINITY : INFINITY);
        if (random() % 4 == 0) return round(random() % 2 ? 0.0 : -0.0);
        return round(unit);
      }
      case Values::huge: {
        const double x = numerics::to_double(largest);
        return round(random() % 2 ? x : -x * (random() % 3 ? 1.0 : 0.5));
      }
      case Values::integers: return round(static_cast<double>(random() % 3));
    }
    return round(unit);
  }
}

}  // namespace eadem::kernels::testing
