#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "eadem/base/error.h"
#include "eadem/ops/ops.h"

// What the environment asks for in vain is an error of the operation that meets it first, in library programs, too: no
// termination. Each case is a process of its own, as the environment is read once.

namespace eadem {
namespace {

template <class F>
[[noreturn]] void run_with(const char* variable, const char* value, F&& f) {
  setenv(variable, value, 1);
  try {
    f();
  } catch (const ValueError& error) {
    std::fputs(error.what(), stderr);
    std::exit(0);
  }
  std::exit(1);
}

Array ones(const Shape& shape) {
  return Array::from(std::vector<float>(static_cast<std::size_t>(shape.elements()), 1), shape);
}

void add_two() {
  add(ones({4}), ones({4}));
}
void multiply_matrices() {
  matmul(ones({40, 40}), ones({40, 40}));
}
void attend() {
  const Array x = ones({1, 1, 8, 16});
  attention(x, x, x);
}
void normalize() {
  softmax(ones({3, 5}));
}

TEST(Environment, ATargetThatCannotBe) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (const auto f : {add_two, multiply_matrices, attend, normalize})
    EXPECT_EXIT(run_with("EADEM_TARGET", "mmx", f), ::testing::ExitedWithCode(0), "EADEM_TARGET");
}

TEST(Environment, APoisonThatIsNoByte) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(run_with("EADEM_POISON", "x", add_two), ::testing::ExitedWithCode(0), "EADEM_POISON");
}

}  // namespace
}  // namespace eadem
