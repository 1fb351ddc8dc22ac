#pragma once

#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "eadem/array/rules.h"
#include "eadem/base/dtype.h"

namespace eadem::testing {

/// A test of laws in one dtype, with wide accumulators or narrow ones, promises of no -0 being checked.
class AccumulatorTest : public ::testing::TestWithParam<std::tuple<DType, bool>> {
 protected:
  void SetUp() override {
    set_narrow_accumulators(std::get<1>(GetParam()));
    set_canonical_checked(true);
  }
  void TearDown() override {
    set_narrow_accumulators(false);
    set_canonical_checked(false);
  }
  static DType dtype() { return std::get<0>(GetParam()); }
};

/// "f32_wide", "bf16_narrow", ...
inline std::string accumulator_test_name(const ::testing::TestParamInfo<std::tuple<DType, bool>>& info) {
  return std::string(name_of(std::get<0>(info.param))) + (std::get<1>(info.param) ? "_narrow" : "_wide");
}

}  // namespace eadem::testing
