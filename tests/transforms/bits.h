#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "eadem/array/tree.h"
#include "eadem/ops/ops.h"

namespace eadem {

inline std::vector<std::byte> bytes_of(const Array& x) {
  const Array dense = contiguous(x);
  const std::byte* begin = dense.view().data;
  return {begin, begin + static_cast<std::size_t>(dense.elements()) * size_of(dense.dtype())};
}

inline bool same_bits(const Arrays& a, const Arrays& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i].type() != b[i].type() || bytes_of(a[i]) != bytes_of(b[i])) return false;
  return true;
}

inline void expect_same_bits(const Arrays& a, const Arrays& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i].type(), b[i].type()) << "leaf " << i;
    EXPECT_EQ(bytes_of(a[i]), bytes_of(b[i])) << "leaf " << i << " of type " << fmt::format("{}", a[i].type());
  }
}

/// All leaves of two trees have the same bits.
template <class A, class B>
void expect_same(const A& a, const B& b) {
  expect_same_bits(leaves(a), leaves(b));
}

}  // namespace eadem
