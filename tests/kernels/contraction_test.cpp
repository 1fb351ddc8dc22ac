#include "eadem/kernels/contraction/contraction.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "eadem/base/buffer.h"
#include "eadem/base/parallel.h"
#include "eadem/kernels/target.h"
#include "eadem/kernels/tuner.h"
#include "eadem/numerics/contraction.h"
#include "eadem/numerics/rounding.h"
#include "tests/support/machine.h"

namespace eadem::kernels {
namespace {

constexpr DType kFloats[] = {DType::f32, DType::bf16, DType::f16, DType::f64};
constexpr int kThreadCounts[] = {1, 2, 3, 7};

// What operands hold: normal variates; or, every few elements, values that end chains in the wrong place or flush.
enum class Values { normal, special, subnormal, tiny, tinier, huge };

double draw(Values values, std::mt19937& generator) {
  const double x = std::normal_distribution<double>()(generator);
  const unsigned choice = generator() % 64;
  switch (values) {
    case Values::normal: return x;
    case Values::special:
      if (choice == 0) return std::numeric_limits<double>::infinity() * x;
      if (choice == 1) return std::numeric_limits<double>::quiet_NaN();
      if (choice < 6) return 0.0 * x;
      return x;
    case Values::subnormal: return choice < 16 ? x * 0x1p-130 : x;
    case Values::tiny: return x * 0x1p-54;    // products about 2^-108: bits below the smallest normal
    case Values::tinier: return x * 0x1p-70;  // products about 2^-140: subnormal sums
    case Values::huge: return choice < 4 ? x * 0x1p126 : x;
  }
  return x;
}

// A matrix in memory of its own, of any layout.
struct Matrix {
  BufferRef memory;
  TensorView view;
};

enum class Layout { contiguous, transposed, stepped, reversed, one_row, one_value };

Matrix matrix(DType dtype, Shape shape, Layout layout, Values values, unsigned seed) {
  const int rank = shape.rank();
  Shape strides = contiguous_strides(shape);
  std::int64_t offset = 0, elements = shape.elements();
  if (layout == Layout::transposed) {
    strides[rank - 1] = shape[rank - 2];
    strides[rank - 2] = 1;
  } else if (layout == Layout::stepped) {
    for (std::int64_t& stride : strides) stride *= 2;
    offset = 1;
  } else if (layout == Layout::reversed) {
    offset = (shape[rank - 1] - 1) * strides[rank - 1];
    strides[rank - 1] = -strides[rank - 1];
  } else if (layout == Layout::one_row || layout == Layout::one_value) {
    strides[rank - 2] = 0;
    if (layout == Layout::one_value) strides[rank - 1] = 0;
  }
  elements = 2 * elements + 1;
  Matrix m{Buffer::allocate(static_cast<std::size_t>(elements) * size_of(dtype)), {}};
  std::mt19937 generator(seed);
  visit(dtype, [&]<class T>(std::type_identity<T>) {
    for (std::int64_t i = 0; i < elements; ++i) {
      if constexpr (FloatingElement<T>) {
        reinterpret_cast<T*>(m.memory->data())[i] = numerics::round_to<T>(draw(values, generator));
      } else {
        reinterpret_cast<T*>(m.memory->data())[i] = static_cast<T>(generator());
      }
    }
  });
  m.view = {m.memory->data() + std::max<std::int64_t>(offset, 0) * static_cast<std::int64_t>(size_of(dtype)), dtype,
            shape, strides, m.memory.get()};
  return m;
}

Matrix result(DType dtype, const Shape& shape) {
  Matrix m{Buffer::allocate(static_cast<std::size_t>(shape.elements()) * size_of(dtype)), {}};
  std::memset(m.memory->data(), 0xee, m.memory->size());
  m.view = contiguous_view(m.memory->data(), dtype, shape);
  return m;
}

std::string first_difference(const Matrix& got, const Matrix& want) {
  const std::size_t size = size_of(want.view.dtype);
  for (std::size_t at = 0; at < want.memory->size(); at += size)
    if (std::memcmp(got.memory->data() + at, want.memory->data() + at, size) != 0)
      return fmt::format("element {} of {}", at / size, want.view.elements());
  return "";
}

class Machine : public eadem::testing::MachineTest {
 protected:
  // Every target and number of threads gives the definition's bits.
  static void expect_definition(const TensorView& a, const TensorView& b, const Shape& c_shape, DType c_dtype,
                                const TensorView* bias = nullptr, bool keep_packed = false) {
    const Matrix want = result(c_dtype, c_shape);
    numerics::matmul(a, b, want.view, bias);
    for (const Target target : available_targets()) {
      if (target == Target::scalar) continue;
      set_target(target);
      for (const int count : kThreadCounts) {
        set_threads(count);
        const Matrix got = result(c_dtype, c_shape);
        matmul(a, b, got.view, bias, keep_packed);
        ASSERT_EQ(first_difference(got, want), "")
            << name_of(target) << ", " << count << " threads, " << name_of(a.dtype) << " " << c_shape[0] << " terms "
            << a.shape.back();
      }
    }
  }

  static void expect_product(DType dtype, std::int64_t m, std::int64_t n, std::int64_t k, Layout layout_a = {},
                             Layout layout_b = {}, Values values = Values::normal) {
    const Matrix a = matrix(dtype, {m, k}, layout_a, values, 1), b = matrix(dtype, {k, n}, layout_b, values, 2);
    SCOPED_TRACE(fmt::format("{}x{}x{} layouts {} {} values {}", m, n, k, static_cast<int>(layout_a),
                             static_cast<int>(layout_b), static_cast<int>(values)));
    expect_definition(a.view, b.view, {m, n}, dtype);
  }
};

using Contraction = Machine;

TEST_F(Contraction, OddShapes) {
  constexpr std::int64_t shapes[][3] = {{0, 3, 4},    {3, 0, 4},    {3, 4, 0},     {1, 1, 1},    {1, 1, 300},
                                        {2, 3, 5},    {7, 17, 31},  {13, 33, 32},  {14, 32, 33}, {15, 47, 64},
                                        {29, 65, 95}, {3, 70, 256}, {31, 19, 257}, {8, 40, 511}, {9, 66, 513},
                                        {5, 3, 769},  {1, 97, 300}, {8, 129, 300}, {70, 1, 300}, {137, 2, 67}};
  for (const DType dtype : kFloats)
    for (const auto& [m, n, k] : shapes) expect_product(dtype, m, n, k);
}

TEST_F(Contraction, LongSums) {
  for (const DType dtype : kFloats) {
    expect_product(dtype, 2, 37, 5000);
    expect_product(dtype, 17, 3, 2048);
    expect_product(dtype, 9, 20, 4097);
  }
}

// A few columns (or rows of b in place): a step in each lane, rows sharing a vector where they are short.
TEST_F(Contraction, FewColumns) {
  constexpr std::int64_t lengths[] = {1, 2, 31, 32, 33, 63, 64, 65, 127, 129, 250, 256, 257, 511, 512, 513, 1000, 2081};
  for (const DType dtype : kFloats) {
    for (const std::int64_t k : lengths) expect_product(dtype, 37, 1, k);
    for (std::int64_t n = 1; n <= 9; ++n) expect_product(dtype, 19, n, 545);
    expect_product(dtype, 16, 1, 300);
    expect_product(dtype, 523, 2, 90);
    expect_product(dtype, 4, 40, 545, Layout::contiguous, Layout::transposed);
    expect_product(dtype, 1, 300, 77, Layout::reversed, Layout::transposed);
    for (const Layout layout : {Layout::transposed, Layout::stepped, Layout::reversed})
      expect_product(dtype, 41, 3, 700, Layout::contiguous, layout);
    for (const Values values : {Values::special, Values::subnormal, Values::tiny, Values::tinier, Values::huge}) {
      expect_product(dtype, 35, 2, 300, {}, {}, values);
      expect_product(dtype, 35, 1, 1100, {}, {}, values);
    }
    const Matrix a = matrix(dtype, {3, 600, 128}, {}, Values::normal, 1),
                 b = matrix(dtype, {3, 128, 2}, {}, Values::normal, 2);
    expect_definition(a.view, b.view, {3, 600, 2}, dtype);
    TensorView rows = a.view;  // which lie apart
    rows.shape = {3, 600, 100};
    expect_definition(rows, matrix(dtype, {3, 100, 1}, {}, Values::normal, 3).view, {3, 600, 1}, dtype);
  }
}

TEST_F(Contraction, ManyTasks) {
  expect_product(DType::f32, 190, 150, 70);
  expect_product(DType::bf16, 190, 150, 70);
  // Columns that divide unevenly between threads: rows are cut instead.
  expect_product(DType::f32, 111, 65, 150);
  expect_product(DType::bf16, 111, 65, 150);
}

TEST_F(Contraction, EveryLength) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16})
    for (std::int64_t i = 0; i <= 67; ++i) {
      expect_product(dtype, 3, 33, i);
      expect_product(dtype, i, 5, 40);
      expect_product(dtype, 4, i, 40);
    }
}

TEST_F(Contraction, Layouts) {
  constexpr Layout layouts[] = {Layout::contiguous, Layout::transposed, Layout::stepped,
                                Layout::reversed,   Layout::one_row,    Layout::one_value};
  for (const DType dtype : kFloats)
    for (const Layout a : layouts)
      for (const Layout b : layouts) {
        expect_product(dtype, 19, 43, 83, a, b);
        expect_product(dtype, 2, 43, 83, a, b);
        expect_product(dtype, 43, 2, 83, a, b);
      }
}

// Adjacent rows are packed several panels at once, step by step; values that flushing would show stand in few of them.
TEST_F(Contraction, AdjacentRows) {
  for (const DType dtype : kFloats) {
    for (const std::int64_t m : {3, 5, 8, 31, 33, 61, 100})
      for (const std::int64_t k : {1, 7, 31, 65, 300}) expect_product(dtype, m, 35, k, Layout::transposed);
    for (const Values values : {Values::special, Values::subnormal, Values::tiny})
      expect_product(dtype, 61, 35, 300, Layout::transposed, {}, values);
  }
}

TEST_F(Contraction, InfinitiesNansSubnormals) {
  for (const DType dtype : kFloats)
    for (const Values values : {Values::special, Values::subnormal, Values::tiny, Values::tinier, Values::huge}) {
      expect_product(dtype, 15, 35, 300, {}, {}, values);
      expect_product(dtype, 3, 35, 300, {}, {}, values);
    }
}

// One element of a tile is what fast roundings flush or keep: a NaN with a sign, a subnormal, a sum of two -0.
TEST_F(Contraction, OneOddElementInATile) {
  struct Odd {
    double a, b;
  };
  for (const Odd odd : {Odd{std::numeric_limits<double>::infinity(), 0}, Odd{0x1p-66, 0x1p-65}, Odd{0x1p-80, -0x1p-80}})
    for (const std::int64_t column : {0, 13, 31, 40}) {
      Matrix a = matrix(DType::bf16, {19, 4}, {}, Values::normal, 1),
             b = matrix(DType::bf16, {4, 45}, {}, Values::normal, 2);
      for (std::int64_t k = 0; k < 4; ++k) {
        a.view.as<bfloat16>()[9 * 4 + k] = numerics::round_to<bfloat16>(odd.a);
        b.view.as<bfloat16>()[k * 45 + column] = numerics::round_to<bfloat16>(odd.b);
      }
      expect_definition(a.view, b.view, {19, 45}, DType::bf16);
    }
}

TEST_F(Contraction, OutputsAndBiases) {
  for (const DType dtype : kFloats)
    for (const DType out : kFloats)
      for (const DType bias_dtype : {DType::f32, DType::bf16}) {
        const Matrix a = matrix(dtype, {11, 70}, {}, Values::special, 1),
                     b = matrix(dtype, {70, 37}, {}, Values::normal, 2);
        Matrix bias = matrix(bias_dtype, {1, 37}, Layout::stepped, Values::special, 3);
        const TensorView vector{bias.view.data, bias_dtype, {37}, {bias.view.strides[1]}};
        expect_definition(a.view, b.view, {11, 37}, out, &vector);
        const Matrix tall = matrix(dtype, {70, 70}, {}, Values::normal, 4);
        const TensorView two{vector.data, bias_dtype, {2}, {vector.strides[0]}};
        const TensorView narrow{b.view.data, dtype, {70, 2}, b.view.strides};
        expect_definition(tall.view, narrow, {70, 2}, out, &two);
      }
}

TEST_F(Contraction, Batches) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Matrix a = matrix(dtype, {3, 2, 5, 40}, {}, Values::normal, 1),
                 b = matrix(dtype, {3, 2, 40, 35}, {}, Values::normal, 2);
    expect_definition(a.view, b.view, {3, 2, 5, 35}, dtype);
    TensorView shared = b.view;
    shared.strides[0] = shared.strides[1] = 0;
    expect_definition(a.view, shared, {3, 2, 5, 35}, dtype);  // one product of 30 rows
    shared.strides[1] = b.view.strides[1];
    expect_definition(a.view, shared, {3, 2, 5, 35}, dtype);
    TensorView one_a = a.view;
    one_a.strides[0] = 0;
    expect_definition(one_a, b.view, {3, 2, 5, 35}, dtype);
    const TensorView rows{a.view.data, dtype, {6, 1, 40}, {200, 7, 1}};
    const TensorView wide{b.view.data, dtype, {6, 40, 35}, {0, 35, 1}};
    expect_definition(rows, wide, {6, 1, 35}, dtype);
  }
}

TEST_F(Contraction, ARowIsTheSameInEveryBatch) {
  for (const DType dtype : kFloats) {
    const Matrix a = matrix(dtype, {61, 600}, {}, Values::normal, 1),
                 b = matrix(dtype, {600, 70}, {}, Values::normal, 2);
    const Matrix all = result(dtype, {61, 70}), one = result(dtype, {1, 70});
    matmul(a.view, b.view, all.view, nullptr, false);
    const std::size_t row_bytes = 70 * size_of(dtype);
    for (std::int64_t i : {0, 1, 13, 14, 60}) {
      TensorView row = a.view;
      row.shape = {1, 600};
      row.data += i * 600 * static_cast<std::int64_t>(size_of(dtype));
      matmul(row, b.view, one.view, nullptr, false);
      EXPECT_EQ(
          std::memcmp(one.memory->data(), all.memory->data() + static_cast<std::size_t>(i) * row_bytes, row_bytes), 0);
    }
  }
}

TEST_F(Contraction, KeptPackedForms) {
  for (const DType dtype : kFloats)
    for (const Layout layout : {Layout::contiguous, Layout::transposed}) {
      const Matrix b = matrix(dtype, {600, 70}, layout, Values::tinier, 2);
      for (const std::int64_t m : {1, 9, 40}) {
        const Matrix a = matrix(dtype, {m, 600}, {}, Values::tinier, 1);
        expect_definition(a.view, b.view, {m, 70}, dtype, nullptr, true);
      }
    }
}

TEST_F(Contraction, Integers) {
  for (const DType dtype :
       {DType::i8, DType::i16, DType::i32, DType::i64, DType::u8, DType::u16, DType::u32, DType::u64, DType::boolean}) {
    if (dtype == DType::boolean) {
      bool a[6] = {false, true, true, false, false, false}, b[6] = {true, false, false, true, false, false};
      expect_definition(contiguous_view(a, dtype, {2, 3}), contiguous_view(b, dtype, {3, 2}), {2, 2}, dtype);
      continue;
    }
    const Matrix a = matrix(dtype, {5, 70}, {}, Values::normal, 1),
                 b = matrix(dtype, {70, 33}, Layout::transposed, Values::normal, 2);
    expect_definition(a.view, b.view, {5, 33}, dtype);
  }
}

TEST_F(Contraction, TheForcedTargetRuns) {
  const Matrix a = matrix(DType::bf16, {20, 40}, {}, Values::normal, 1),
               b = matrix(DType::bf16, {40, 40}, {}, Values::normal, 2);
  const Matrix c = result(DType::bf16, {20, 40});
  for (const Target target : available_targets()) {
    set_target(target);
    clear_targets_ran();
    matmul(a.view, b.view, c.view, nullptr, false);
    EXPECT_EQ(targets_ran(), 1u << static_cast<int>(target)) << name_of(target);
  }
}

TEST_F(Contraction, EveryCandidateGivesTheDefinition) {
  for (const CandidateStatus& candidate : tuner_candidates()) {
    SCOPED_TRACE(candidate.name);
    if (candidate.name.rfind("contraction/", 0) != 0) continue;
    force_candidate(candidate.name);
    for (const DType dtype : kFloats) {
      expect_product(dtype, 30, 71, 600);
      expect_product(dtype, 4, 71, 1300);
      expect_product(dtype, 71, 2, 600);
    }
  }
}

TEST_F(Contraction, ForcedCandidatesRun) {
  const Matrix a = matrix(DType::bf16, {4, 600}, {}, Values::normal, 1),
               b = matrix(DType::bf16, {600, 64}, {}, Values::normal, 2);
  const Matrix c = result(DType::bf16, {4, 64});
  const auto runs_of = [](const std::string& name) {
    for (const CandidateStatus& each : tuner_candidates())
      if (each.name == name) return each.runs;
    return std::int64_t{-1};
  };
  for (const std::string name :
       {"contraction/fma", "contraction/fma-subtrees", "contraction/in-place", "contraction/exchanged"}) {
    force_candidate(name);
    const std::int64_t before = runs_of(name);
    matmul(a.view, b.view, c.view, nullptr, false);
    EXPECT_EQ(runs_of(name), before + 1) << name;
  }
  EXPECT_THROW(force_candidate("contraction/none"), ValueError);
}

TEST_F(Contraction, TheTunerKeepsTheBits) {
  set_tuning(true);
  for (const DType dtype : kFloats) {
    expect_product(dtype, 30, 71, 600);
    expect_product(dtype, 30, 71, 600);
  }
  EXPECT_TRUE(tuner_refusals().empty());
}

// One wrong bit in a large result is found, wherever it is.
TEST_F(Contraction, TheTunerChecksEveryElement) {
  struct Planted {
    TensorView a, b, c;
    bool on = false;
    static Planted& now() {
      static Planted planted;
      return planted;
    }
    static bool admits(const void*) { return now().on; }
    static void run(const void*) {
      const Planted& p = now();
      numerics::matmul(p.a, p.b, p.c, nullptr);
      p.c.as<std::uint32_t>()[37 * 71 + 53] ^= 1;
    }
  };
  const Matrix a = matrix(DType::f32, {60, 40}, {}, Values::normal, 1),
               b = matrix(DType::f32, {40, 71}, {}, Values::normal, 2), got = result(DType::f32, {60, 71});
  Planted::now() = {a.view, b.view, got.view, true};
  contraction_tuner().add({"planted-wrong-bit", &Planted::admits, &Planted::run});
  set_tuning(true);
  matmul(a.view, b.view, got.view, nullptr, false);
  Planted::now().on = false;
  const std::vector<Refusal> refusals = tuner_refusals();
  ASSERT_EQ(refusals.size(), 1u);
  EXPECT_EQ(refusals[0].candidate, "contraction/planted-wrong-bit");
  EXPECT_EQ(refusals[0].difference.element, "[0,37,53]");
}

// What was verified for one class of problems says nothing about another: each result dtype, the bias and the way
// through a batch are checked on their own, though the extents are the same.
TEST_F(Contraction, TheTunerChecksEveryClass) {
  struct Counted {
    static int& runs() {
      static int count = 0;
      return count;
    }
    static bool& on() {
      static bool flag = false;
      return flag;
    }
    static bool admits(const void*) {
      if (on()) ++runs();  // asked only where the class is not known
      return false;
    }
    static void run(const void*) {}
  };
  contraction_tuner().add({"planted-counting", &Counted::admits, &Counted::run});
  set_tuning(true);
  Counted::on() = true;
  const Matrix a = matrix(DType::f32, {3, 5, 40}, {}, Values::normal, 1),
               b = matrix(DType::f32, {3, 40, 35}, {}, Values::normal, 2),
               bias = matrix(DType::f32, {1, 35}, {}, Values::normal, 3);
  TensorView same_a = a.view, last_first_b = b.view;
  same_a.strides[0] = 0;
  last_first_b.data += 2 * 40 * 35 * 4;
  last_first_b.strides[0] = -last_first_b.strides[0];
  const TensorView vector{bias.view.data, DType::f32, {35}, {1}};
  int classes = 0;
  const auto expect_asked = [&](const TensorView& x, const TensorView& y, DType out, const TensorView* with) {
    ++classes;
    for (int twice = 0; twice < 2; ++twice) {
      const Matrix got = result(out, {3, 5, 35}), want = result(out, {3, 5, 35});
      matmul(x, y, got.view, with, false);
      numerics::matmul(x, y, want.view, with);
      EXPECT_EQ(first_difference(got, want), "");
      EXPECT_EQ(Counted::runs(), classes);
    }
  };
  expect_asked(a.view, b.view, DType::f32, nullptr);
  expect_asked(a.view, b.view, DType::bf16, nullptr);
  expect_asked(a.view, b.view, DType::f32, &vector);
  expect_asked(same_a, b.view, DType::f32, nullptr);
  expect_asked(a.view, last_first_b, DType::f32, nullptr);
  Counted::on() = false;
}

// A candidate with another order: even where it is faster, it must not be chosen, and the tuner must say where it
// differs.
TEST_F(Contraction, TheTunerRefusesAnotherOrder) {
  struct Planted {
    TensorView a, b, c;
    static Planted& now() {
      static Planted planted;
      return planted;
    }
    static void run(const void*) {
      const auto& [a, b, c] = now();
      for (std::int64_t m = 0; m < c.shape[0]; ++m)
        for (std::int64_t n = 0; n < c.shape[1]; ++n) {
          float sum = 0;  // one plain chain: right to six digits, wrong in the last bits
          for (std::int64_t k = 0; k < a.shape[1]; ++k)
            sum = std::fma(a.as<float>()[m * a.shape[1] + k], b.as<float>()[k * c.shape[1] + n], sum);
          c.as<float>()[m * c.shape[1] + n] = sum;
        }
    }
  };
  const Matrix a = matrix(DType::f32, {3, 300}, {}, Values::normal, 1),
               b = matrix(DType::f32, {300, 5}, {}, Values::normal, 2);
  const Matrix got = result(DType::f32, {3, 5}), want = result(DType::f32, {3, 5});
  Planted::now() = {a.view, b.view, got.view};
  contraction_tuner().add({"planted-plain-chain", [](const void*) { return tuning(); }, &Planted::run});
  set_tuning(true);
  numerics::matmul(a.view, b.view, want.view, nullptr);
  matmul(a.view, b.view, got.view, nullptr, false);
  EXPECT_EQ(first_difference(got, want), "");
  const std::vector<Refusal> refusals = tuner_refusals();
  ASSERT_EQ(refusals.size(), 1u);
  EXPECT_EQ(refusals[0].candidate, "contraction/planted-plain-chain");
  EXPECT_NE(refusals[0].problem.find("f32 3x5x300"), std::string::npos);
  // The first element that differs, found again by hand.
  Planted::run(nullptr);
  for (std::int64_t i = 0; i < 15; ++i)
    if (got.view.as<float>()[i] != want.view.as<float>()[i]) {
      EXPECT_EQ(refusals[0].difference.element, fmt::format("[0,{},{}]", i / 5, i % 5));
      EXPECT_EQ(refusals[0].difference.got, got.view.as<float>()[i]);
      EXPECT_EQ(refusals[0].difference.want, want.view.as<float>()[i]);
      break;
    }
  // Refused once, it is never timed again, on other operands either.
  matmul(a.view, b.view, got.view, nullptr, false);
  EXPECT_EQ(first_difference(got, want), "");
}

}  // namespace
}  // namespace eadem::kernels
