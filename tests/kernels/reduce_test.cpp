#include "eadem/kernels/reduce/reduce.h"

#include <gtest/gtest.h>

#include "eadem/numerics/exact_sum.h"
#include "eadem/numerics/reduction.h"
#include "tests/kernels/layouts.h"

namespace eadem::kernels {
namespace {

using testing::draw;
using testing::kLayouts;
using testing::kValues;
using testing::Layout;
using testing::make_operand;
using testing::Operand;
using testing::Values;

using Reduce = void (*)(const TensorView&, const Shape&, const TensorView&);

Shape kept_shape(const Shape& shape, const Shape& axes) {
  Shape kept;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (std::find(axes.begin(), axes.end(), axis) == axes.end()) kept.push_back(shape[axis]);
  }
  return kept;
}

std::vector<std::byte> run(Reduce reduce, const TensorView& x, const Shape& axes, DType dtype) {
  const Shape shape = kept_shape(x.shape, axes);
  std::vector<std::byte> out(static_cast<std::size_t>(shape.elements()) * size_of(dtype), std::byte{0xcd});
  reduce(x, axes, contiguous_view(out.data(), dtype, shape));
  return out;
}

struct Op {
  const char* name;
  Reduce reduce;
  DType (*result)(DType);
  bool needs_elements;
  bool floating_only = false;
};
DType same(DType t) {
  return t;
}
DType wide(DType t) {
  return is_floating(t) ? t : is_unsigned_integer(t) ? DType::u64 : DType::i64;
}
DType mean_type(DType t) {
  return is_floating(t) ? t : DType::f32;
}
DType boolean(DType) {
  return DType::boolean;
}
DType index(DType) {
  return DType::i64;
}
const Op kOps[] = {
    {"sum", sum, wide, false},       {"mean", mean, mean_type, false}, {"max", max, same, true},
    {"min", min, same, true},        {"any", any, boolean, false},     {"all", all, boolean, false},
    {"argmax", argmax, index, true}, {"argmin", argmin, index, true},  {"norm", norm, same, false, true}};

void expect_like_scalar(const TensorView& x, const Shape& axes, const std::string& what,
                        std::initializer_list<int> counts) {
  for (const Op& op : kOps) {
    if (op.needs_elements && x.elements() == 0) continue;
    if (op.floating_only && !is_floating(x.dtype)) continue;
    std::vector<std::byte> expected;
    testing::with_scalar_target([&] { expected = run(op.reduce, x, axes, op.result(x.dtype)); });
    testing::for_targets_and_threads(
        [&] {
          clear_targets_ran();
          EXPECT_EQ(run(op.reduce, x, axes, op.result(x.dtype)), expected)
              << op.name << " " << x.type().shape.rank() << " " << what << " " << name_of(active_target())
              << " threads " << threads();
          if (x.elements() > 0) {
            EXPECT_TRUE(targets_ran() & ~1u) << op.name;
          }
        },
        counts);
  }
}

template <class T>
void test_layouts() {
  std::mt19937_64 random(11);
  const Shape shape{3, 19, 70};
  for (const Values values : kValues) {
    if (!FloatingElement<T> && values != Values::normal) continue;
    for (const Layout layout : kLayouts) {
      const Operand x = make_operand<T>(shape, layout, [&](std::int64_t i) { return draw<T>(values, i, random); });
      for (const Shape& axes : {Shape{2}, Shape{0}, Shape{1}, Shape{0, 2}, Shape{0, 1, 2}}) {
        expect_like_scalar(x.view, axes,
                           fmt::format("{} axes {} layout {} values {}", x.view.type(), axes, static_cast<int>(layout),
                                       static_cast<int>(values)),
                           {2});
      }
    }
  }
}
TEST(Reduce, LayoutsF64) {
  test_layouts<double>();
}
TEST(Reduce, LayoutsF32) {
  test_layouts<float>();
}
TEST(Reduce, LayoutsBf16) {
  test_layouts<bfloat16>();
}
TEST(Reduce, LayoutsF16) {
  test_layouts<float16>();
}
TEST(Reduce, LayoutsIntegers) {
  test_layouts<std::int8_t>();
  test_layouts<std::uint8_t>();
  test_layouts<std::int16_t>();
  test_layouts<std::uint16_t>();
  test_layouts<std::int32_t>();
  test_layouts<std::uint32_t>();
  test_layouts<std::int64_t>();
  test_layouts<std::uint64_t>();
  test_layouts<bool>();
}

template <class T>
void test_lengths() {
  std::mt19937_64 random(12);
  std::vector<std::int64_t> lengths(68);
  for (std::size_t i = 0; i < lengths.size(); ++i) lengths[i] = static_cast<std::int64_t>(i);
  for (const std::int64_t each : {511, 2047, 2048, 2049, 4095, 4096, 4097, 20000}) lengths.push_back(each);
  for (const Values values : kValues) {
    for (const std::int64_t length : lengths) {
      const Operand x =
          make_operand<T>({length}, Layout::contiguous, [&](std::int64_t i) { return draw<T>(values, i, random); });
      for (const Op& op : kOps) {
        if (op.needs_elements && length == 0) continue;
        if (op.floating_only && !FloatingElement<T>) continue;
        std::vector<std::byte> expected;
        testing::with_scalar_target([&] { expected = run(op.reduce, x.view, {0}, op.result(x.view.dtype)); });
        for (const Target target : available_targets()) {
          set_target(target);
          EXPECT_EQ(run(op.reduce, x.view, {0}, op.result(x.view.dtype)), expected)
              << op.name << " " << x.view.type().shape[0] << " values " << static_cast<int>(values);
        }
      }
    }
  }
}
TEST(Reduce, LengthsF64) {
  test_lengths<double>();
}
TEST(Reduce, LengthsF32) {
  test_lengths<float>();
}
TEST(Reduce, LengthsBf16) {
  test_lengths<bfloat16>();
}
TEST(Reduce, LengthsF16) {
  test_lengths<float16>();
}
TEST(Reduce, LengthsI8) {
  test_lengths<std::int8_t>();
}

// Large enough that the reduced axis is split over threads, rows and columns, every kind of values.
template <class T>
void test_large() {
  std::mt19937_64 random(13);
  for (const Values values : {Values::normal, Values::cancelling, Values::integers, Values::special}) {
    const Operand x =
        make_operand<T>({300, 1009}, Layout::contiguous, [&](std::int64_t i) { return draw<T>(values, i, random); });
    for (const Shape& axes : {Shape{0, 1}, Shape{0}, Shape{1}}) expect_like_scalar(x.view, axes, "large", {1, 2, 7});
    const Operand tall =
        make_operand<T>({60000, 4}, Layout::contiguous, [&](std::int64_t i) { return draw<T>(values, i, random); });
    expect_like_scalar(tall.view, {0}, "tall", {3});
  }
}
TEST(Reduce, LargeF64) {
  test_large<double>();
}
TEST(Reduce, LargeF32) {
  test_large<float>();
}
TEST(Reduce, LargeBf16) {
  test_large<bfloat16>();
}

// Public report C8 in the kernels: a NaN at every position, and k NaNs before one number.
// Neighbours near the largest bf16 overflow f32 when they are added there: an infinity elsewhere must not meet theirs.
TEST(Reduce, Bf16SumsBesideAnInfinity) {
  for (const std::int64_t length : {64, 128, 300, 1000}) {
    std::vector<bfloat16> values(static_cast<std::size_t>(length), to_bfloat16(-3.3e38));
    values[0] = to_bfloat16(1.0);
    values[static_cast<std::size_t>(length / 2)] = to_bfloat16(std::numeric_limits<float>::infinity());
    const TensorView x = contiguous_view(values.data(), DType::bf16, {1, length});
    expect_like_scalar(x, {1}, fmt::format("length {}", length), {1, 2});
  }
}

TEST(PublicReports, C8NanInMaxAndArgmax) {
  testing::for_targets_and_threads([] {
    for (std::int64_t length = 1; length <= 67; ++length) {
      for (std::int64_t at = 0; at < length; ++at) {
        std::vector<float> x(static_cast<std::size_t>(length), 3);
        x[static_cast<std::size_t>(at)] = std::bit_cast<float>(0xffc12345u);
        float best = 0;
        std::int64_t where = -1;
        const TensorView view = contiguous_view(x.data(), DType::f32, {length});
        max(view, {0}, contiguous_view(&best, DType::f32, {}));
        argmax(view, {0}, contiguous_view(&where, DType::i64, {}));
        EXPECT_TRUE(numerics::same_bits(best, numerics::canonical_nan<float>()));
        EXPECT_EQ(where, at);
      }
    }
  });
}

// Public report C10: an index held in the element type, or in 32 bits.
template <class T>
std::int64_t where_is_last_maximum(std::int64_t length) {
  std::vector<T> x(static_cast<std::size_t>(length));
  if constexpr (FloatingElement<T>)
    x.back() = numerics::round_to<T>(1.0f);
  else
    x.back() = 1;
  std::int64_t where = -1;
  argmax(contiguous_view(x.data(), kDTypeOf<T>, {length}), {0}, contiguous_view(&where, DType::i64, {}));
  return where;
}
TEST(PublicReports, C10IndicesAre64Bits) {
  EXPECT_EQ(where_is_last_maximum<std::int8_t>(258), 257);
  EXPECT_EQ(where_is_last_maximum<std::int16_t>(32770), 32769);
  EXPECT_EQ(where_is_last_maximum<bfloat16>(300), 299);
  std::int8_t one = 1;
  constexpr std::int64_t length = (std::int64_t{1} << 31) + 8;
  TensorView expanded = contiguous_view(&one, DType::i8, {length});
  expanded.strides = {0};
  std::int64_t total = 0, where = -1;
  sum(expanded, {0}, contiguous_view(&total, DType::i64, {}));
  argmax(expanded, {0}, contiguous_view(&where, DType::i64, {}));
  EXPECT_EQ(total, 2147483656);
  EXPECT_EQ(where, 0);
  float average = 0;
  mean(expanded, {0}, contiguous_view(&average, DType::f32, {}));
  EXPECT_EQ(average, 1);
}

}  // namespace
}  // namespace eadem::kernels
