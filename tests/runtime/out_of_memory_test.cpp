#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <thread>

#include "eadem/array/array.h"
#include "eadem/base/parallel.h"
#include "eadem/kernels/target.h"
#include "eadem/ops/catalog.h"
#include "eadem/ops/ops.h"
#include "eadem/transforms/executable.h"
#include "tests/support/sample_data.h"

// Every allocation that a primitive makes is failed once, in turn: each failure is a MemoryError that names the
// primitive, and whatever ran before, the next run has the right bits.

namespace {

// Allocations until the one that fails; negative: none does.
std::atomic<std::int64_t> allocations_left{-1};
std::atomic<std::int64_t> failures{0};

void* allocate(std::size_t bytes, std::size_t alignment) {
  if (allocations_left.load() >= 0 && allocations_left.fetch_sub(1) == 0) {
    failures.fetch_add(1);
    throw std::bad_alloc();
  }
  bytes = (std::max<std::size_t>(bytes, 1) + alignment - 1) / alignment * alignment;
  void* data = std::aligned_alloc(alignment, bytes);
  if (!data) throw std::bad_alloc();
  return data;
}

}  // namespace

void* operator new(std::size_t bytes) {
  return allocate(bytes, alignof(std::max_align_t));
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}
// Not inlined, or gcc sees memory of operator new given to free and warns.
[[gnu::noinline]] void operator delete(void* data) noexcept {
  std::free(data);
}
void operator delete(void* data, std::size_t) noexcept {
  operator delete(data);
}
void operator delete(void* data, std::align_val_t) noexcept {
  operator delete(data);
}
void operator delete(void* data, std::size_t, std::align_val_t) noexcept {
  operator delete(data);
}

namespace eadem {
namespace {

using namespace eadem::testing;

class OutOfMemory : public ::testing::TestWithParam<const Primitive*> {
 protected:
  void TearDown() override {
    set_threads(1);
    kernels::set_target(kernels::available_targets().back());
  }
};

enum class Outcome { result, memory_error, other_error };

// One attempt, on a thread of its own: it has no scratch yet, and no freed blocks. `body` may throw.
template <class F>
Outcome attempt(std::int64_t failing, std::string& message, F&& body) {
  Outcome outcome = Outcome::result;
  std::thread([&] {
    allocations_left = failing;
    try {
      body();
    } catch (const MemoryError& error) {
      allocations_left = -1;
      outcome = Outcome::memory_error;
      message = error.what();
    } catch (const std::exception& error) {
      allocations_left = -1;
      outcome = Outcome::other_error;
      message = error.what();
    }
    allocations_left = -1;
  }).join();
  return outcome;
}

// Returns how many allocations were failed.
std::int64_t fail_each_allocation(const Primitive& primitive, const Sample& sample, Layout layout) {
  std::vector<Tensor> tensors;
  std::vector<Array> operands;
  for (std::size_t i = 0; i < sample.operands.size(); ++i) {
    tensors.push_back(materialize(sample.operands[i], 1000 + i, layout));
    Tensor& tensor = tensors.back();
    operands.emplace_back(Buffer::borrow(tensor.memory.data(), tensor.memory.size(), nullptr), tensor.view);
  }
  std::vector<std::vector<std::byte>> expected;
  {
    const ReferenceScope reference;
    for (const Array& each : apply_all(primitive, operands, sample.attributes.get()))
      expected.push_back(elements_of(each.view()));
  }
  for (std::int64_t failing = 0;; ++failing) {
    for (const Array& each : operands) each.buffer()->drop_prepared();
    const std::int64_t before = failures.load();
    std::string message;
    Arrays results;
    const Outcome outcome =
        attempt(failing, message, [&] { results = apply_all(primitive, operands, sample.attributes.get()); });
    if (outcome == Outcome::result) {
      for (std::size_t i = 0; i < results.size(); ++i) EXPECT_EQ(elements_of(results[i].view()), expected[i]);
      // A kernel may do without (attention packs block by block then): the result must be as good.
      if (failures.load() == before) return failing;
      continue;
    }
    EXPECT_EQ(outcome, Outcome::memory_error) << message;
    EXPECT_NE(message.find(primitive.name), std::string::npos) << message;
    if (::testing::Test::HasFailure()) return failing;
  }
}

TEST_P(OutOfMemory, IsAnErrorThatNamesThePrimitive) {
  const Primitive& primitive = *GetParam();
  const std::vector<Sample> samples = samples_of(primitive);
  for (const int count : {1, 3}) {
    set_threads(count);
    std::int64_t failed = 0;
    for (std::size_t i = 0; i < samples.size(); ++i) {
      failed += fail_each_allocation(primitive, samples[i], Layout::contiguous);
      if (i < 4 && primitive.name != "reshape") failed += fail_each_allocation(primitive, samples[i], Layout::stepped);
      if (HasFailure()) {
        ADD_FAILURE() << primitive.name << " sample " << i << ", " << count << " threads";
        return;
      }
    }
    EXPECT_GT(failed, 0);
  }
}

// Higher-order primitives run these.
std::vector<const Primitive*> first_order() {
  std::vector<const Primitive*> all(catalog().begin(), catalog().end());
  std::erase_if(all, [](const Primitive* p) { return std::holds_alternative<Control>(p->run); });
  return all;
}

// Regions, and products with the chain after them.
TEST(OutOfMemoryCompiled, IsAnErrorThatNamesThePrimitive) {
  const std::int64_t least = set_least_region_bytes(0);
  const Array x = contiguous(normal(random_key(1), {64, 40})), w = contiguous(normal(random_key(2), {48, 40}));
  const auto f = [](const Arrays& in) { return Arrays{softmax(in[0] * 2) + in[0], tanh(linear(in[0], in[1])) * 0.5}; };
  const Executable executable(*trace("test", {x.type(), w.type()}, f).program);
  EXPECT_EQ(executable.statistics().regions, 1u);
  EXPECT_EQ(executable.statistics().products, 1u);
  const Arrays expected = f({x, w});
  for (std::int64_t failing = 0;; ++failing) {
    w.buffer()->drop_prepared();
    const std::int64_t before = failures.load();
    std::string message;
    Arrays results;
    const Outcome outcome = attempt(failing, message, [&] {
      const Arrays inputs{x, w};
      results = executable.run(inputs);
    });
    if (outcome == Outcome::result) {
      for (std::size_t i = 0; i < results.size(); ++i)
        EXPECT_EQ(elements_of(results[i].view()), elements_of(expected[i].view()));
      if (failures.load() == before) break;
      continue;
    }
    // The inputs' own list is the test's.
    EXPECT_TRUE(outcome == Outcome::memory_error || failing < 2) << failing << ": " << message;
    if (::testing::Test::HasFailure()) break;
  }
  set_least_region_bytes(least);
}

INSTANTIATE_TEST_SUITE_P(Catalog, OutOfMemory, ::testing::ValuesIn(first_order()),
                         [](const auto& each) { return std::string(each.param->name); });

}  // namespace
}  // namespace eadem
