#pragma once

namespace eadem::testing {

/// A tuner keeps its candidates: one that a test plants is admitted only while it is on.
struct PlantedCandidate {
  static bool& on() {
    static bool flag = false;
    return flag;
  }
  static bool admits(const void*) { return on(); }
};

}  // namespace eadem::testing
