#include "eadem/base/float_environment.h"

#include <gtest/gtest.h>

#include <cfenv>
#include <thread>

#include "eadem/array/array.h"
#include "eadem/base/parallel.h"
#include "eadem/kernels/target.h"
#include "eadem/ops/catalog.h"
#include "eadem/runtime/execute.h"
#include "tests/support/hostile_float.h"
#include "tests/support/sample_data.h"

// A host program that flushes subnormals and rounds upwards (and whose threads the pool's inherit that) moves no bit.

namespace eadem {
namespace {

using namespace eadem::testing;

struct Attempt {
  std::vector<Tensor> operands, results;
  std::vector<TensorView> operand_views, result_views;
  Launch launch;

  Attempt(const Primitive& primitive, const Sample& sample) {
    std::vector<TensorType> types;
    for (std::size_t i = 0; i < sample.operands.size(); ++i) {
      operands.push_back(materialize(sample.operands[i], 1000 + i, Layout::contiguous));
      operand_views.push_back(operands.back().view);
      types.push_back(operand_views.back().type());
    }
    for (const TensorType& type : primitive.infer({types, sample.attributes.get()})) {
      results.push_back(allocate(type));
      result_views.push_back(results.back().view);
    }
    launch = {operand_views, result_views, sample.attributes.get()};
  }
};

class HostFloatEnvironment : public ::testing::TestWithParam<const Primitive*> {
 protected:
  void TearDown() override {
    set_threads(1);
    kernels::set_target(kernels::available_targets().back());
  }
};

TEST_P(HostFloatEnvironment, MovesNoBit) {
  const Primitive& primitive = *GetParam();
  for (const Sample& sample : samples_of(primitive)) {
    Attempt expected(primitive, sample);
    execute_reference(primitive, expected.launch);
    const auto check = [&](const Attempt& got, std::string_view what) {
      for (std::size_t i = 0; i < got.result_views.size(); ++i)
        EXPECT_EQ(first_difference(got.result_views[i], expected.result_views[i]), "") << primitive.name << " " << what;
    };
    for (const kernels::Target target : kernels::available_targets()) {
      kernels::set_target(target);
      Attempt got(primitive, sample), reference(primitive, sample);
      {
        const HostileFloat hostile;
        execute(primitive, got.launch);
        execute_reference(primitive, reference.launch);
        EXPECT_TRUE(hostile.in_force());
      }
      check(got, kernels::name_of(target));
      check(reference, "reference");
    }
    if (HasFailure()) return;
  }
}

// Higher-order primitives run these.
std::vector<const Primitive*> first_order() {
  std::vector<const Primitive*> all(catalog().begin(), catalog().end());
  std::erase_if(all, [](const Primitive* p) { return std::holds_alternative<Control>(p->run); });
  return all;
}

INSTANTIATE_TEST_SUITE_P(Catalog, HostFloatEnvironment, ::testing::ValuesIn(first_order()),
                         [](const auto& each) { return std::string(each.param->name); });

TEST(HostFloatEnvironment, WorkersDoNotInheritIt) {
  {
    const HostileFloat hostile;
    set_threads(3);
  }
  std::atomic<int> flushed{0};
  std::atomic<bool> others{false};
  const std::thread::id self = std::this_thread::get_id();
  for (int round = 0; round < 1000 && !others; ++round)
    parallel_for(12, 1, [&](std::int64_t, std::int64_t) {
      if (std::this_thread::get_id() != self) others = true;
      flushed += subnormals_flushed() ? 1 : 0;
      std::this_thread::yield();
    });
  set_threads(1);
  EXPECT_TRUE(others) << "no worker ever ran";
  EXPECT_EQ(flushed, 0);
}

// Numbers that become arrays outside of a launch are rounded as the definition does.
TEST(HostFloatEnvironmentOf, ScalarsMovesNoBit) {
  for (const double value : {1e-40, -1e-40, 0.1, 5e-39, 1e-320})
    for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
      const Array want = Array::scalar(value, dtype);
      const Array got = [&] {
        const HostileFloat host;
        return Array::scalar(value, dtype);
      }();
      EXPECT_EQ(first_difference(got.view(), want.view()), "") << value << " " << name_of(dtype);
    }
}

// What is picked runs: a launch without elements picks nothing.
TEST(Execute, AnEmptyLaunchRunsNoBody) {
  const Array empty = Array::allocate({DType::f32, {0, 3}}), result = Array::allocate({DType::f32, {0, 3}});
  const TensorView operands[] = {empty.view(), empty.view()}, results[] = {result.view()};
  kernels::clear_targets_ran();
  execute(prim::add, {operands, results, nullptr});
  EXPECT_EQ(kernels::targets_ran(), 0u);
}

}  // namespace
}  // namespace eadem
