#include <gtest/gtest.h>

#include <functional>

#include "eadem/ops/ops.h"

namespace eadem {
namespace {

Array zeros(DType dtype, const Shape& shape) {
  Array x = Array::allocate({dtype, shape});
  std::fill_n(x.view().data, static_cast<std::size_t>(x.elements()) * size_of(dtype), std::byte{});
  return x;
}
Array ramp(DType dtype, const Shape& shape) {
  return convert(convert(reshape(arange(shape.elements()), shape), DType::f32) * 0.01, dtype);
}
std::vector<std::byte> bytes(const Array& x) {
  const Array y = contiguous(x);
  return {y.view().data, y.view().data + static_cast<std::size_t>(y.elements()) * size_of(y.dtype())};
}

template <class E>
void expect_error(const std::function<void()>& f, const std::string& part) {
  try {
    f();
    ADD_FAILURE() << "no error; wanted " << part;
  } catch (const E& error) {
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(Attention, RefusesWhatItCannotTake) {
  const Array q = zeros(DType::f32, {2, 4, 3, 8}), k = zeros(DType::f32, {2, 2, 5, 8});
  EXPECT_EQ(attention(q, k, k).type(), q.type());
  expect_error<ShapeError>(
      [&] {
        attention(zeros(DType::f32, {4, 3, 8}), k, k);
      },
      "q must be [B, H, Lq, D], got f32[4,3,8]");
  expect_error<TypeError>(
      [&] {
        attention(q, zeros(DType::bf16, {2, 2, 5, 8}), k);
      },
      "one dtype, got f32[2,4,3,8] and bf16[2,2,5,8]");
  expect_error<TypeError>([&] { attention(zeros(DType::i32, {2, 4, 3, 8}), k, k); }, "floating");
  expect_error<ShapeError>([&] { attention(q, zeros(DType::f32, {2, 3, 5, 8}), k); }, "multiple of the 3 key heads");
  expect_error<ShapeError>([&] { attention(q, zeros(DType::f32, {2, 2, 5, 7}), k); }, "one size");
  expect_error<ShapeError>([&] { attention(q, k, zeros(DType::f32, {2, 2, 6, 8})); }, "like k");
  expect_error<ShapeError>(
      [&] {
        attention(q, k, k, {.mask = zeros(DType::boolean, {4, 5})});
      },
      "mask must broadcast to [2,4,3,5]");
  expect_error<TypeError>([&] { attention(q, k, k, {.mask = zeros(DType::f32, {3, 5})}); }, "additive one is `bias`");
  expect_error<TypeError>([&] { attention(q, k, k, {.bias = zeros(DType::bf16, {3, 5})}); }, "bias must be f32");
  expect_error<ValueError>([&] { attention(q, k, k, {.window = 3}); }, "need a causal alignment");
  expect_error<ValueError>([&] { attention(q, k, k, {.causal = Causal::lower_right, .window = -1}); }, "negative");
  expect_error<ValueError>([&] { attention(q, k, k, {.softcap = NAN}); }, "softcap");
  expect_error<TypeError>([&] { attention(q, k, k, {.start = zeros(DType::f32, {2})}); }, "start must be i32 or i64");
  expect_error<ShapeError>([&] { attention(q, k, k, {.length = zeros(DType::i32, {3})}); }, "length must be [2]");
}

TEST(Attention, AMaskBroadcastsFromTheRight) {
  const Array q = ramp(DType::f32, {1, 2, 3, 4}), k = ramp(DType::f32, {1, 2, 3, 4});
  const Array causal = attention(q, k, k, {.causal = Causal::lower_right});
  const Array mask = convert(tril(Array::from(std::vector<float>(9, 1.0f), {3, 3})), DType::boolean);
  EXPECT_EQ(bytes(attention(q, k, k, {.mask = mask})), bytes(causal));
}

TEST(PagedAttention, IsAttention) {
  for (const DType dtype : {DType::bf16, DType::f32}) {
    const Array q = ramp(dtype, {1, 4, 3, 8}), k = ramp(dtype, {1, 2, 140, 8}), v = ramp(dtype, {1, 2, 140, 8});
    const Array table = Array::from<std::int32_t>(std::vector<std::int32_t>{2, 0}, {1, 2});
    const Array zero = Array::from<std::int32_t>({0}), length = Array::from<std::int32_t>({140});
    Array key_pages = zeros(dtype, numerics::key_page_shape(dtype, 3, 2, 8));
    Array value_pages = zeros(dtype, numerics::value_page_shape(dtype, 3, 2, 8));
    key_pages = append_key_pages(std::move(key_pages), k, table, zero);
    value_pages = append_value_pages(std::move(value_pages), v, table, zero);
    const AttentionArguments causal{.causal = Causal::lower_right};
    EXPECT_EQ(bytes(paged_attention(q, key_pages, value_pages, table, length, causal)),
              bytes(attention(q, k, v, causal)));
  }
}

TEST(PageAppend, WritesInPlaceOnlyWhatNobodyElseHolds) {
  const Array fresh = ramp(DType::f32, {1, 1, 1, 4});
  const Array table = Array::from<std::int32_t>(std::vector<std::int32_t>{0}, {1, 1}),
              at = Array::from<std::int32_t>({7});
  Array pool = zeros(DType::f32, numerics::value_page_shape(DType::f32, 1, 1, 4));
  const std::byte* memory = pool.view().data;
  pool = append_value_pages(std::move(pool), fresh, table, at);
  EXPECT_EQ(pool.view().data, memory);
  EXPECT_EQ(pool.data<float>()[7 * 4 + 3], 0.03f);
  const Array shared = pool;
  pool = append_value_pages(std::move(pool), fresh, table, Array::from<std::int32_t>({9}));
  EXPECT_NE(pool.view().data, memory);
  EXPECT_EQ(shared.data<float>()[9 * 4 + 3], 0.0f);
  EXPECT_EQ(pool.data<float>()[9 * 4 + 3], 0.03f);
  EXPECT_EQ(pool.data<float>()[7 * 4 + 3], 0.03f);
}

TEST(PagedAttention, RefusesWhatItCannotTake) {
  const Array q = zeros(DType::bf16, {1, 2, 1, 6});
  const Array keys = zeros(DType::bf16, numerics::key_page_shape(DType::bf16, 2, 1, 6));
  const Array values = zeros(DType::bf16, numerics::value_page_shape(DType::bf16, 2, 1, 6));
  const Array table = zeros(DType::i32, {1, 1}), length = zeros(DType::i32, {1});
  const AttentionArguments causal{.causal = Causal::lower_right};
  EXPECT_EQ(paged_attention(q, keys, values, table, length, causal).type(), q.type());
  expect_error<ShapeError>([&] { paged_attention(q, values, values, table, length, causal); },
                           "key pages for heads of size 6 must be [2,1,3,128,2]");
  expect_error<TypeError>(
      [&] {
        paged_attention(q, keys, values, zeros(DType::i64, {1, 1}), length, causal);
      },
      "page table");
  expect_error<ValueError>([&] { paged_attention(q, keys, values, table, length, {.length = length}); }, "twice");
  expect_error<ValueError>(
      [&] { paged_attention(q, keys, values, table, length, {.mask = zeros(DType::boolean, {1})}); }, "no mask");
  expect_error<ShapeError>([&] { append_key_pages(keys, zeros(DType::bf16, {1, 2, 1, 6}), table, length); }, "heads");
  expect_error<TypeError>(
      [&] {
        append_key_pages(keys, zeros(DType::f32, {1, 1, 1, 6}), table, length);
      },
      "one floating dtype");
}

}  // namespace
}  // namespace eadem
