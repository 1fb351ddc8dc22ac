#include "eadem/kernels/rows/rows.h"

#include <gtest/gtest.h>

#include "eadem/numerics/normalization.h"
#include "eadem/numerics/reduction.h"
#include "eadem/numerics/reduction_views.h"
#include "eadem/numerics/rope.h"
#include "eadem/numerics/softmax.h"
#include "tests/kernels/layouts.h"

namespace eadem::kernels {
namespace {

using testing::draw;
using testing::kLayouts;
using testing::kValues;
using testing::make_operand;
using testing::Operand;
using testing::Values;

constexpr std::int64_t kLengths[] = {1,  2,  3,  7,   8,   15,  16,   17,   31,   32,   33,   63,   64,
                                     65, 66, 67, 100, 255, 576, 4095, 4096, 4097, 8192, 8193, 12300};

// Runs a row function on `rows` rows under the active target.
std::vector<std::byte> run(RowFn (*pick)(const Signature&), const Signature& s, const std::vector<const void*>& in,
                           std::int64_t rows, std::int64_t length, std::size_t bytes) {
  std::vector<std::byte> out(bytes, std::byte{0xcd});
  RowArgs args;
  for (std::size_t i = 0; i < in.size(); ++i) args.in[i] = static_cast<const std::byte*>(in[i]);
  args.out[0] = out.data();
  args.rows = rows;
  args.length = length;
  args.attributes = s.attributes;
  pick(s)(args);
  return out;
}

template <class T, class P>
void test_rows() {
  std::mt19937_64 random(21);
  const EpsilonAttribute epsilon{1e-5};
  for (const std::int64_t length : kLengths) {
    for (const Values values : kValues) {
      const std::int64_t rows = length > 1000 ? 2 : 3;
      const auto n = static_cast<std::size_t>(rows * length);
      std::vector<T> x(n);
      std::vector<P> gamma(static_cast<std::size_t>(length)), beta(gamma.size());
      for (std::size_t i = 0; i < n; ++i) x[i] = draw<T>(values, static_cast<std::int64_t>(i), random);
      // Spread-out logits, whose exponentials reach the subnormals.
      if (values == Values::normal) {
        for (auto& each : x) each = numerics::round_to<T>(numerics::to_double(each) * 30);
      }
      for (auto& each : gamma) each = draw<P>(Values::normal, 0, random);
      for (auto& each : beta) each = draw<P>(Values::normal, 0, random);
      const Shape vector{length};
      const TensorType types[] = {{kDTypeOf<T>, {rows, length}}, {kDTypeOf<P>, vector}, {kDTypeOf<P>, vector}};
      const Signature s{types, &epsilon};
      for (auto* pick : {softmax_rows, log_softmax_rows, logsumexp_rows, layer_norm_rows, rms_norm_rows}) {
        const std::size_t bytes = (pick == logsumexp_rows ? static_cast<std::size_t>(rows) : n) * sizeof(T);
        std::vector<std::byte> expected;
        testing::with_scalar_target([&] {
          expected = run(pick, s, {x.data(), gamma.data(), beta.data()}, rows, length, bytes);
        });
        testing::for_targets_and_threads(
            [&] {
              EXPECT_EQ(run(pick, s, {x.data(), gamma.data(), beta.data()}, rows, length, bytes), expected)
                  << name_of(active_target()) << " length " << length << " values " << static_cast<int>(values);
            },
            {1});
      }
    }
  }
}
TEST(Rows, F32) {
  test_rows<float, float>();
}
TEST(Rows, Bf16) {
  test_rows<bfloat16, bfloat16>();
}
TEST(Rows, Bf16WithF32Parameters) {
  test_rows<bfloat16, float>();
}
TEST(Rows, F16) {
  test_rows<float16, float>();
}
TEST(Rows, F64) {
  test_rows<double, double>();
}

// A million elements in a row, and a forced target that really ran.
TEST(Rows, AMillionElements) {
  std::mt19937_64 random(22);
  constexpr std::int64_t n = 1000003;
  std::vector<float> x(n);
  for (auto& each : x) each = draw<float>(Values::normal, 0, random);
  const EpsilonAttribute epsilon{};
  const TensorType types[] = {{DType::f32, {1, n}}, {DType::f32, {n}}, {DType::f32, {n}}};
  const Signature s{types, &epsilon};
  for (auto* pick : {softmax_rows, layer_norm_rows}) {
    std::vector<std::byte> expected;
    testing::with_scalar_target([&] { expected = run(pick, s, {x.data(), x.data(), x.data()}, 1, n, n * 4); });
    testing::for_targets_and_threads(
        [&] {
          clear_targets_ran();
          EXPECT_EQ(run(pick, s, {x.data(), x.data(), x.data()}, 1, n, n * 4), expected);
          EXPECT_TRUE(targets_ran() & (1u << static_cast<int>(Target::avx2) | 1u << static_cast<int>(Target::avx512) |
                                       1u << static_cast<int>(Target::neon)));
        },
        {1});
  }
}

template <class T, class F>
void expect_everywhere(std::size_t bytes, F f, const std::string& what) {
  std::vector<std::byte> expected(bytes, std::byte{0xcd});
  testing::with_scalar_target([&] { f(expected.data()); });
  testing::for_targets_and_threads(
      [&] {
        std::vector<std::byte> out(bytes, std::byte{0xcd});
        f(out.data());
        EXPECT_EQ(out, expected) << what << " " << name_of(active_target()) << " threads " << threads();
      },
      {1, 3});
}

template <class T>
void test_folds() {
  std::mt19937_64 random(23);
  for (const auto layout : kLayouts) {
    for (const Values values : {Values::normal, Values::special, Values::subnormal}) {
      const Operand x =
          make_operand<T>({6, 20, 35}, layout, [&](std::int64_t i) { return draw<T>(values, i, random); });
      for (const Shape& axes : {Shape{2}, Shape{0}, Shape{1, 2}, Shape{0, 2}, Shape{0, 1, 2}}) {
        std::int64_t outputs = x.view.elements();
        for (const std::int64_t axis : axes) outputs /= x.view.shape[static_cast<int>(axis)];
        const auto size = static_cast<std::size_t>(outputs) * 8;
        constexpr DType mean_type = FloatingElement<T> ? kDTypeOf<T> : DType::f32;
        // Against the definition on gathered elements.
        std::vector<std::byte> direct(size, std::byte{0xcd});
        numerics::for_each_reduction<T>(x.view, axes, [&](std::span<const T> row, std::int64_t output) {
          if constexpr (FloatingElement<T>)
            reinterpret_cast<T*>(direct.data())[output] = numerics::variance<T>(row, 1);
          else
            reinterpret_cast<float*>(direct.data())[output] = numerics::variance<float>(row, 1);
        });
        expect_everywhere<T>(
            size,
            [&](std::byte* out) {
              variance(x.view, axes, 1, contiguous_view(out, mean_type, {outputs}));
              EXPECT_EQ(std::memcmp(out, direct.data(), size), 0);
            },
            "variance");
        numerics::for_each_reduction<T>(x.view, axes, [&](std::span<const T> row, std::int64_t output) {
          if constexpr (FloatingElement<T>)
            reinterpret_cast<T*>(direct.data())[output] = numerics::prod(row);
          else
            reinterpret_cast<numerics::WideInteger<T>*>(direct.data())[output] = numerics::integer_prod(row);
        });
        expect_everywhere<T>(
            size,
            [&](std::byte* out) {
              prod(x.view, axes, contiguous_view(out, kDTypeOf<T>, {outputs}));
              EXPECT_EQ(std::memcmp(out, direct.data(), size), 0);
            },
            "prod");
      }
    }
  }
}
TEST(Folds, F32) {
  test_folds<float>();
}
TEST(Folds, Bf16) {
  test_folds<bfloat16>();
}
TEST(Folds, F64) {
  test_folds<double>();
}
TEST(Folds, I32) {
  test_folds<std::int32_t>();
}

template <class T>
void test_group_norm() {
  std::mt19937_64 random(24);
  for (const auto layout : kLayouts) {
    const Shape shape{2, 6, 5, 9};
    const Operand x =
        make_operand<T>(shape, layout, [&](std::int64_t i) { return draw<T>(Values::normal, i, random); });
    std::vector<float> gamma(6), beta(6);
    for (auto& each : gamma) each = draw<float>(Values::normal, 0, random);
    for (auto& each : beta) each = draw<float>(Values::normal, 0, random);
    for (const std::int64_t groups : {1, 2, 3, 6}) {
      expect_everywhere<T>(
          static_cast<std::size_t>(shape.elements()) * sizeof(T),
          [&](std::byte* out) {
            group_norm(x.view, contiguous_view(gamma.data(), DType::f32, {6}),
                       contiguous_view(beta.data(), DType::f32, {6}), groups, 1e-5,
                       contiguous_view(out, kDTypeOf<T>, shape));
          },
          "group_norm");
    }
  }
}
TEST(GroupNorm, F32) {
  test_group_norm<float>();
}
TEST(GroupNorm, Bf16) {
  test_group_norm<bfloat16>();
}

template <class T>
void test_rope() {
  std::mt19937_64 random(25);
  const std::vector<double> frequencies = numerics::rope_frequencies(10000, 42);
  const Shape shape{2, 5, 3, 45};
  std::vector<std::int64_t> positions = {0, 1, 7, 1000, 123456, 2, 3, 4, 5, 6};
  for (const auto layout : kLayouts) {
    const Operand x =
        make_operand<T>(shape, layout, [&](std::int64_t i) { return draw<T>(Values::normal, i, random); });
    for (const Shape& strides : {Shape{5, 1, 0}, Shape{0, 1, 0}}) {
      const TensorView where{reinterpret_cast<std::byte*>(positions.data()), DType::i64, {2, 5, 3}, strides, nullptr};
      for (const auto pairs : {numerics::RopePairs::half_split, numerics::RopePairs::interleaved}) {
        std::vector<T> direct(static_cast<std::size_t>(shape.elements()));
        numerics::for_each_reduction<T>(x.view, {3}, [&](std::span<const T> row, std::int64_t i) {
          const std::int64_t at = i / 15 * strides[0] + i / 3 % 5;
          numerics::rope<T>(row, static_cast<double>(positions[static_cast<std::size_t>(at)]), frequencies, pairs,
                            std::span(direct).subspan(static_cast<std::size_t>(i) * 45, 45));
        });
        expect_everywhere<T>(
            direct.size() * sizeof(T),
            [&](std::byte* out) {
              rope(x.view, where, frequencies, pairs, contiguous_view(out, kDTypeOf<T>, shape));
              EXPECT_EQ(std::memcmp(out, direct.data(), direct.size() * sizeof(T)), 0);
            },
            "rope");
      }
    }
  }
}
TEST(Rope, F32) {
  test_rope<float>();
}
TEST(Rope, Bf16) {
  test_rope<bfloat16>();
}
TEST(Rope, F64) {
  test_rope<double>();
}

TEST(TopK, IsTheDefinition) {
  std::mt19937_64 random(26);
  for (const std::int64_t n : {1, 5, 67, 1000}) {
    for (const std::int64_t k : {std::int64_t{0}, std::int64_t{1}, std::min<std::int64_t>(n, 40), n}) {
      std::vector<float> x(static_cast<std::size_t>(n)), values(static_cast<std::size_t>(k)), v(values.size());
      for (auto& each : x) each = draw<float>(random() % 2 ? Values::special : Values::integers, 0, random);
      std::vector<std::int64_t> indices(values.size()), i(values.size());
      const CountAttribute count{k};
      const TensorType type{DType::f32, {1, n}};
      RowArgs args{.rows = 1, .length = n, .attributes = &count};
      args.in[0] = reinterpret_cast<const std::byte*>(x.data());
      args.out[0] = reinterpret_cast<std::byte*>(values.data());
      args.out[1] = reinterpret_cast<std::byte*>(indices.data());
      top_k_rows({{&type, 1}, &count})(args);
      numerics::top_k<float>(x, v, i);
      EXPECT_EQ(indices, i);
      EXPECT_EQ(std::memcmp(values.data(), v.data(), v.size() * 4), 0);
    }
  }
}

}  // namespace
}  // namespace eadem::kernels
