#include "eadem/kernels/reduce/scatter_add.h"

#include <algorithm>
#include <cmath>

#include "eadem/base/parallel.h"
#include "eadem/kernels/reduce/settle.h"
#include "eadem/kernels/target.h"
#include "eadem/numerics/exact_sum.h"

namespace eadem::kernels {
namespace {

constexpr std::int64_t kTile = 256;  // elements of a row whose sums stay in L1

// One row's addends: the operand and its updates.
template <class T>
struct Addends {
  const T* x;
  const T* updates;
  std::span<const std::int64_t> sources;
  std::int64_t stride;  // from one update to the next

  // Calls f with element c of each.
  template <class F>
  void each(std::int64_t c, F f) const {
    f(x[c]);
    for (const std::int64_t source : sources) f(updates[source * stride + c]);
  }
  std::int64_t count() const { return static_cast<std::int64_t>(sources.size()) + 1; }
};

// Steps 4 and 5 of numerics.md section 3, for what the bound does not decide: ties above all.
template <FloatingElement T>
T careful_sum(const Addends<T>& addends, std::int64_t c) {
  PairSum pair;
  addends.each(c, [&](T element) {
    const double value = numerics::to_double(element), magnitude = std::fabs(value);
    const double sum = pair.hi + value, part = sum - pair.hi;
    pair.lo += (pair.hi - (sum - part)) + (value - part);
    pair.hi = sum;
    if (!(magnitude <= pair.largest)) pair.largest = magnitude;
    if (magnitude != 0) pair.smallest = std::min(pair.smallest, magnitude);
  });
  pair.chain = addends.count();
  if (const auto settled = settle_pair<T>(pair, addends.count(), 1)) return *settled;
  numerics::ExactAccumulator exact;
  addends.each(c, [&](T element) { exact.add(numerics::to_double(element)); });
  return exact.sum<T>();
}

template <class T>
void add_row(const Addends<T>& addends, std::int64_t length, T* result) {
  if constexpr (!FloatingElement<T>) {
    for (std::int64_t c = 0; c < length; ++c) {
      std::uint64_t sum = 0;
      addends.each(c, [&](T element) { sum += static_cast<std::uint64_t>(element); });
      result[c] = static_cast<T>(sum);
    }
  } else {
    double sums[kTile], magnitudes[kTile];
    const auto steps = static_cast<double>(addends.count() + 3);
    for (std::int64_t begin = 0; begin < length; begin += kTile) {
      const std::int64_t size = std::min(kTile, length - begin);
      const auto add = [&](const T* row) {
        for (std::int64_t c = 0; c < size; ++c) {
          const double value = numerics::to_double(row[begin + c]);
          sums[c] += value;
          magnitudes[c] += std::fabs(value);
        }
      };
      std::fill_n(sums, size, 0.0);
      std::fill_n(magnitudes, size, 0.0);
      add(addends.x);
      for (const std::int64_t source : addends.sources) add(addends.updates + source * addends.stride);
      for (std::int64_t c = 0; c < size; ++c) {
        const double error = steps * kUnit * (1 + 0x1p-20) * magnitudes[c];
        const auto settled = settle_bound<T>(sums[c], error, 1);
        result[begin + c] = settled ? *settled : careful_sum(addends, begin + c);
      }
    }
  }
}

}  // namespace

void scatter_add(const std::byte* x, const std::byte* updates, const RowUpdates& rows, std::int64_t outer,
                 std::int64_t count, std::int64_t inner, DType dtype, std::byte* result) {
  record_ran(Target::scalar);
  const std::int64_t height = static_cast<std::int64_t>(rows.starts.size()) - 1, all = outer * height;
  if (all == 0 || inner == 0) return;
  const std::int64_t work = inner * (1 + count / height);
  visit(dtype, [&]<class T>(std::type_identity<T>) {
    if constexpr (!std::is_same_v<T, bool>) {
      parallel_for(all, std::max<std::int64_t>(1, 8192 / work), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          const auto row = static_cast<std::size_t>(i % height);
          const auto first = static_cast<std::size_t>(rows.starts[row]);
          const auto last = static_cast<std::size_t>(rows.starts[row + 1]);
          const Addends<T> addends{reinterpret_cast<const T*>(x) + i * inner,
                                   reinterpret_cast<const T*>(updates) + i / height * count * inner,
                                   rows.sources.subspan(first, last - first), inner};
          add_row(addends, inner, reinterpret_cast<T*>(result) + i * inner);
        }
      });
    }
  });
}

}  // namespace eadem::kernels
