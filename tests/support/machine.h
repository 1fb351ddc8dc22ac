#pragma once

#include <gtest/gtest.h>

#include "eadem/base/parallel.h"
#include "eadem/kernels/target.h"
#include "eadem/kernels/tuner.h"

namespace eadem::testing {

/// Tests that choose targets, threads or candidates of the tuner: after each the best target, one thread and no choice.
class MachineTest : public ::testing::Test {
 protected:
  void TearDown() override {
    kernels::force_candidate("");
    kernels::set_tuning(false);
    kernels::clear_tuner();
    kernels::set_target(kernels::available_targets().back());
    set_threads(1);
  }
};

}  // namespace eadem::testing
