#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <vector>

#include "eadem/array/tree.h"
#include "eadem/ops/ops.h"

namespace eadem::testing {

/// An array's elements, row-major, as bytes.
inline std::vector<std::byte> bytes_of(const Array& x) {
  const Array dense = contiguous(x);
  const std::byte* begin = dense.view().data;
  return {begin, begin + static_cast<std::size_t>(dense.elements()) * size_of(dense.dtype())};
}

/// Whether arrays have the same types and bits.
inline bool same_bits(const Arrays& a, const Arrays& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i].type() != b[i].type() || bytes_of(a[i]) != bytes_of(b[i])) return false;
  return true;
}

/// Expects two trees to have the same leaves: types and bits.
template <class A, class B>
void expect_same(const A& a, const B& b) {
  const Arrays left = leaves(a), right = leaves(b);
  ASSERT_EQ(left.size(), right.size());
  for (std::size_t i = 0; i < left.size(); ++i) {
    ASSERT_EQ(left[i].type(), right[i].type()) << "leaf " << i;
    EXPECT_EQ(bytes_of(left[i]), bytes_of(right[i]))
        << "leaf " << i << " of type " << fmt::format("{}", left[i].type());
  }
}

/// An array's elements as doubles, row-major.
inline std::vector<double> doubles_of(const Array& x) {
  const Array wide = contiguous(convert(x, DType::f64));
  const auto data = wide.data<double>();
  return {data.begin(), data.end()};
}

}  // namespace eadem::testing
