#include "eadem/kernels/random/random.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "eadem/base/parallel.h"
#include "eadem/kernels/target.h"

namespace eadem::kernels {
namespace {

using numerics::Key;

// Runs `check` on every target, with 1 2 3 7 threads.
template <class F>
void on_every_target(const F& check) {
  const Target before = active_target();
  for (const Target target : available_targets()) {
    set_target(target);
    for (const int count : {1, 2, 3, 7}) {
      set_threads(count);
      clear_targets_ran();
      check();
      const Target body = target == Target::avx512bf16 || target == Target::amx ? Target::avx512 : target;
      EXPECT_TRUE(targets_ran() >> static_cast<int>(body) & 1) << name_of(target);
    }
  }
  set_threads(1);
  set_target(before);
}

template <class T, class F>
void expect_elements(const std::vector<T>& values, const F& definition, const char* what) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const T expected = definition(i);
    ASSERT_EQ(std::memcmp(&values[i], &expected, sizeof(T)), 0) << what << " element " << i << " of " << values.size();
  }
}

std::vector<std::int64_t> counts() {
  std::vector<std::int64_t> result = {1023, 1024, 1025, 40000};
  for (std::int64_t i = 0; i <= 67; ++i) result.push_back(i);
  return result;
}
const Key kKey = numerics::random_key(0x123456789abcdef);

TEST(RandomKernel, BitsAreTheDefinition) {
  on_every_target([] {
    for (const std::int64_t count : counts()) {
      const auto check = [&]<class T>(std::type_identity<T>) {
        std::vector<T> values(static_cast<std::size_t>(count));
        random_bits(kKey, kDTypeOf<T>, values.data(), count);
        expect_elements(
            values, [](std::uint64_t i) { return numerics::random_bits<T>(kKey, i); }, "bits");
      };
      check(std::type_identity<std::uint8_t>{});
      check(std::type_identity<std::uint16_t>{});
      check(std::type_identity<std::uint32_t>{});
      check(std::type_identity<std::uint64_t>{});
    }
  });
}

TEST(RandomKernel, UniformsAndNormalsAreTheDefinition) {
  on_every_target([] {
    for (const std::int64_t count : counts()) {
      if (count > 67 && count != 1025) continue;
      for (const DType type : {DType::f64, DType::f32, DType::bf16, DType::f16})
        visit_floating(type, [&]<class T>(std::type_identity<T>) {
          std::vector<T> values(static_cast<std::size_t>(count));
          for (const auto& [low, high] : {std::pair{0.0, 1.0}, {-0.1, 0.7}, {-3.0, 1e-3}, {5.0, 5.0}}) {
            random_uniform(kKey, type, low, high, values.data(), count);
            const auto low_t = numerics::round_to<T>(low), high_t = numerics::round_to<T>(high);
            expect_elements(
                values, [&](std::uint64_t i) { return numerics::uniform<T>(kKey, i, low_t, high_t); }, "uniform");
          }
          random_normal(kKey, type, values.data(), count);
          expect_elements(
              values, [&](std::uint64_t i) { return numerics::normal<T>(kKey, i); }, "normal");
        });
    }
  });
}

}  // namespace
}  // namespace eadem::kernels
