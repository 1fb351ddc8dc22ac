// Regions: chains, row operations, sums and products of a batch that run on a panel of rows one after the other.

#include <gtest/gtest.h>

#include <functional>

#include "eadem/base/allocations.h"
#include "eadem/base/parallel.h"
#include "eadem/kernels/target.h"
#include "eadem/ops/catalog.h"
#include "eadem/transforms/compile.h"
#include "tests/support/bits.h"

namespace eadem {
namespace {

using namespace eadem::testing;
using Function = std::function<Arrays(const Arrays&)>;

// Every value that is handed on makes a region here, however small.
class Regions : public ::testing::Test {
 protected:
  void SetUp() override { before_ = set_least_region_bytes(0); }
  void TearDown() override {
    set_least_region_bytes(before_);
    set_threads(1);
    kernels::set_target(kernels::available_targets().back());
  }

 private:
  std::int64_t before_ = 0;
};

Array random(std::uint64_t seed, const Shape& shape, DType dtype = DType::f32) {
  return contiguous(normal(random_key(seed), shape, dtype));
}
// check(setting) on every target and with several numbers of threads.
template <class Check>
void in_every_setting(Check&& check) {
  for (const kernels::Target target : kernels::available_targets()) {
    kernels::set_target(target);
    for (const int count : {1, 2, 3, 7}) {
      if (target != kernels::available_targets().back() && count != 3) continue;
      set_threads(count);
      check(fmt::format(", {}, {} threads", name_of(target), count));
    }
  }
}
Executable executable_of(const Function& f, const Arrays& inputs) {
  return Executable(*trace("test", types_of(inputs), f).program);
}
// What a function does to x and y [.., rows, columns] and vectors [columns], and how much of it one region takes.
struct Case {
  std::string name;
  Function f;
  std::size_t regions, joined;
};
Array all_of(const Array& x) {
  Shape axes;
  for (int axis = 0; axis < x.rank(); ++axis) axes.push_back(axis);
  return sum(x, axes);
}
std::vector<Case> cases() {
  const auto gradient = [](auto f) {
    return [f](const Arrays& in) {
      return Arrays{grad([&](const Array& v) { return all_of(f(v * in[1], in) * in[1]); })(in[0])};
    };
  };
  return {
      {"chain, softmax", [](const Arrays& in) { return Arrays{softmax(in[0] * 0.125 + in[1])}; }, 1, 2},
      {"chain, log_softmax, chain", [](const Arrays& in) { return Arrays{log_softmax(in[0] + in[1]) * in[1] - in[0]}; },
       1, 3},
      {"chain, layer_norm, chain",
       [](const Arrays& in) { return Arrays{gelu(layer_norm(in[0] + in[1], in[2], in[2]))}; }, 1, 3},
      {"broadcast, rms_norm",
       [](const Arrays& in) { return Arrays{rms_norm(in[0] * broadcast_to(in[2], in[0].shape()), in[2])}; }, 1, 2},
      {"a value that is used outside, too",
       [](const Arrays& in) {
         const Array h = in[0] + in[1];
         return Arrays{h, softmax(h), exp(h)};
       },
       1, 3},
      {"chain, sum", [](const Arrays& in) { return Arrays{sum(in[0] * in[1], {-1})}; }, 1, 2},
      {"chain, mean, max",
       [](const Arrays& in) {
         const Array h = in[0] * in[1];
         return Arrays{mean(h, {-1}), max(h, {-1})};
       },
       1, 3},
      {"two softmaxes", [](const Arrays& in) { return Arrays{softmax(in[0] * 2.0) * softmax(in[1] + in[0])}; }, 1, 5},
      {"softmax and its gradient", gradient([](const Array& v, const Arrays&) { return softmax(v); }), 1, 5},
      {"log_softmax's gradient", gradient([](const Array& v, const Arrays&) { return log_softmax(v); }), 1, 3},
      {"layer_norm's gradient", gradient([](const Array& v, const Arrays& in) { return layer_norm(v, in[2], in[2]); }),
       1, 3},
      {"rms_norm's gradient", gradient([](const Array& v, const Arrays& in) { return rms_norm(v, in[2]); }), 1, 3},
      {"products of a batch",
       [](const Arrays& in) {
         const int rank = in[0].rank();
         Shape order;
         for (int axis = 0; axis < rank; ++axis) order.push_back(axis);
         std::swap(order[rank - 1], order[rank - 2]);
         return Arrays{softmax(matmul(in[0], transpose(in[1], order)) * 0.5)};
       },
       1, 3},
  };
}

TEST_F(Regions, AreTheirEquationsToTheBit) {
  for (const Case& each : cases()) {
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64}) {
      for (const Shape& shape : {Shape{2, 37, 19}, Shape{3, 2, 5, 40}}) {
        Arrays inputs{random(1, shape, dtype), random(2, shape, dtype), random(3, {shape.back()}, dtype)};
        const Executable executable = executable_of(each.f, inputs);
        EXPECT_EQ(executable.statistics().regions, each.regions) << each.name;
        EXPECT_EQ(executable.statistics().joined, each.joined) << each.name;
        const Arrays expected = each.f(inputs);
        in_every_setting([&](const std::string& setting) {
          EXPECT_TRUE(same_bits(executable.run(inputs), expected)) << each.name << ", " << name_of(dtype) << setting;
        });
        set_threads(2);
        // Other layouts: columns, every second row, one row for all.
        const auto swapped = [](const Array& x) {
          Shape order;
          for (int axis = x.rank(); axis-- > 0;) order.push_back(axis);
          return transpose(contiguous(transpose(x, order)), order);
        };
        const Array stretched = concatenate(std::vector<Array>{inputs[1], inputs[0]}, 1);
        const Array stepped = slice(stretched, {Slice{}, Slice{0, 2 * shape[1], 2}});
        const Array row = broadcast_to(slice_axis(inputs[0], 1, {0, 1}), shape);
        for (const Array& x : {swapped(inputs[0]), stepped, row})
          for (const Array& y : {swapped(inputs[1]), inputs[1]})
            EXPECT_TRUE(same_bits(executable.run({x, y, inputs[2]}), each.f({x, y, inputs[2]})))
                << each.name << ", " << name_of(dtype);
        // Memory that is given away.
        Arrays donated{copy(inputs[0]), copy(inputs[1]), copy(inputs[2])};
        EXPECT_TRUE(same_bits(executable.run(std::move(donated)), expected)) << each.name;
      }
    }
  }
}

// Products whose chains run on parts of them, and what decides which kernel makes the product.
struct Product {
  std::string name;
  std::vector<Shape> shapes;
  Function f;
};
std::vector<Product> products() {
  const auto bias = [](const Array& b, const Array& like) { return broadcast_to(b, like.shape()); };
  return {
      {"gelu of linear",
       {{70, 33}, {65, 33}, {65}},
       [](const Arrays& in) { return Arrays{gelu(linear(in[0], in[1], in[2]))}; }},
      {"with a residual and the product itself",
       {{2, 35, 40}, {48, 40}, {2, 35, 48}},
       [](const Arrays& in) {
         const Array h = linear(in[0], in[1]);
         return Arrays{h, silu(h) + in[2]};
       }},
      {"factor and residual are one",
       {{90, 64}, {64, 64}},
       [](const Arrays& in) { return Arrays{linear(in[0], in[1]) + in[0]}; }},
      {"bias along rows, several results",
       {{130, 70}, {70, 90}, {90}},
       [=](const Arrays& in) {
         const Array h = matmul(in[0], in[1]), shifted = h + bias(in[2], h);
         return Arrays{tanh(shifted) * h, less(shifted, h)};
       }},
      {"another dtype",
       {{50, 40}, {60, 40}},
       [](const Arrays& in) { return Arrays{convert(linear(in[0], in[1]) * 0.5, DType::f64)}; }},
      {"one column", {{300, 50}, {50, 1}}, [](const Arrays& in) { return Arrays{exp(-matmul(in[0], in[1]))}; }},
      {"one row", {{500}, {70, 500}}, [](const Arrays& in) { return Arrays{relu(linear(in[0], in[1]))}; }},
      {"few rows", {{3, 90}, {90, 200}}, [](const Arrays& in) { return Arrays{sigmoid(matmul(in[0], in[1]))}; }},
      {"subtrees", {{10, 9000}, {9000, 12}}, [](const Arrays& in) { return Arrays{sin(matmul(in[0], in[1]) * 0.01)}; }},
      {"contraction of rows",
       {{4, 30, 37}, {4, 30, 29}},
       [](const Arrays& in) {
         return Arrays{dot_general(in[0], in[1], {0, 1}, {0, 1}, {}, {}) * 0.25};
       }},
      {"a batch of one", {{1, 70, 33}, {33, 20}}, [](const Arrays& in) { return Arrays{abs(matmul(in[0], in[1]))}; }},
      {"rows of a batch, a matrix that is shared, columns as rows",
       {{5, 33, 21}, {33, 20}},
       [](const Arrays& in) {
         return Arrays{matmul(transpose(in[0], {0, 2, 1}), in[1]) * 2.0 - 1.0};
       }},
      {"integers",
       {{40, 30}, {30, 50}},
       [](const Arrays& in) {
         return Arrays{matmul(convert(in[0] * 9.0, DType::i32), convert(in[1] * 9.0, DType::i32)) * 3.0};
       }},
  };
}

TEST_F(Regions, ChainsRunOnThePartsOfProducts) {
  for (const Product& each : products()) {
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64}) {
      Arrays inputs;
      for (const Shape& shape : each.shapes) inputs.push_back(random(inputs.size() + 1, shape, dtype));
      const Executable executable = executable_of(each.f, inputs);
      EXPECT_EQ(executable.statistics().products, 1u) << each.name;
      const Arrays expected = each.f(inputs);
      in_every_setting([&](const std::string& setting) {
        Arrays given;
        for (const Array& x : inputs) given.push_back(copy(x));
        EXPECT_TRUE(same_bits(executable.run(inputs), expected) &&
                    same_bits(executable.run(std::move(given)), expected))
            << each.name << ", " << name_of(dtype) << setting;
      });
    }
  }
}
// Of the first operation of each pair: the values of a sort and of top_k, which are as large as their indices in f64.
TEST_F(Regions, ResultsThatNobodyReadsHaveMemoryOfTheirOwn) {
  const Function f = [](const Arrays& in) {
    const Array x = in[0] * 2;
    return Arrays{argsort(x) + 1, top_k(x, 5).second * 3};
  };
  for (const DType dtype : {DType::f64, DType::f32, DType::i64, DType::u64}) {
    const Array x = convert(random(1, {64, 33}, DType::f64) * 1000.0 + 5000.0, dtype);
    const Executable executable = executable_of(f, {x});
    EXPECT_GE(executable.statistics().regions, 1u);
    EXPECT_TRUE(same_bits(executable.run({x}), f({x}))) << name_of(dtype);
  }
}

TEST_F(Regions, ProductsTakeNoMoreMemoryThanTheirResults) {
  const Array x = random(1, {300, 200}), w = random(2, {400, 200}), r = random(3, {300, 400});
  const auto expect_peak = [&](std::int64_t bytes, const Function& f) {
    const Executable executable = executable_of(f, {x, w, r});
    executable.run({x, w, r});
    reset_peak_bytes();
    const std::int64_t before = live_bytes();
    executable.run({x, w, r});
    EXPECT_EQ(executable.planned_peak_bytes(), bytes);
    EXPECT_EQ(peak_bytes() - before, bytes);
  };
  expect_peak(480000, [](const Arrays& in) { return Arrays{relu(linear(in[0], in[1])) + in[2]}; });
  expect_peak(480000 + 120000, [](const Arrays& in) { return Arrays{less(linear(in[0], in[1]), in[2])}; });
}

TEST_F(Regions, TakeAPanelAtATime) {
  // Arrays of many panels; the temporaries are no arrays.
  const Array x = random(1, {3000, 500}), y = random(2, {3000, 500});
  const auto f = [](const Arrays& in) {
    const Array products = sum(in[0] * in[1], {1});
    return Arrays{products, softmax(in[0] * 0.125 + in[1]) * in[1]};
  };
  const Executable executable = executable_of(f, {x, y});
  const Arrays expected = f({x, y});
  for (const int count : {1, 2, 7}) {
    set_threads(count);
    executable.run({x, y});
    const std::int64_t before = live_bytes();
    reset_peak_bytes();
    const Arrays got = executable.run({x, y});
    EXPECT_EQ(peak_bytes() - before, 3000 * 500 * 4 + 3000 * 4);
    EXPECT_EQ(executable.planned_peak_bytes(), peak_bytes() - before);
    EXPECT_TRUE(same_bits(got, expected));
  }
  // A result takes the memory of an operand that the region reads to its end.
  Arrays given{copy(x), copy(y)};
  const std::byte* memory = given[0].view().data;
  const Arrays got = executable.run(std::move(given));
  EXPECT_EQ(got[1].view().data, memory);
  EXPECT_TRUE(same_bits(got, expected));
}

TEST_F(Regions, MoveNoOtherWork) {
  // The second product depends on the first one's softmax, which depends on the chain: no region may hold both ends.
  const auto f = [](const Arrays& in) {
    const Array h = in[0] * 2.0, s = sort(softmax(h), 0);
    return Arrays{h * s + sum(s, {0, 1}), layer_norm(h - s)};
  };
  const Arrays inputs{random(1, {30, 20})};
  const Executable executable = executable_of(f, inputs);
  EXPECT_TRUE(same_bits(executable.run(inputs), f(inputs)));
  EXPECT_GE(executable.statistics().regions, 1u);
  // Nothing is joined where little is handed on.
  set_least_region_bytes(1 << 20);
  EXPECT_EQ(executable_of(f, inputs).statistics().regions, 0u);
}

}  // namespace
}  // namespace eadem
