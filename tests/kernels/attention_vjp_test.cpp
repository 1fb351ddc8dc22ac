// The derivative of attention: every target and thread count has the definition's bits, residuals included, and the
// definition is near the FP64 derivative.

#include "eadem/numerics/attention_vjp.h"

#include <gtest/gtest.h>

#include "eadem/base/parallel.h"
#include "eadem/kernels/attention/attention.h"
#include "eadem/kernels/target.h"
#include "tests/numerics/attention_testing.h"

namespace eadem::testing {
namespace {

using kernels::Target;
using numerics::Causal;

constexpr DType kDTypes[] = {DType::f64, DType::f32, DType::bf16, DType::f16};

class AttentionVjp : public ::testing::Test {
 protected:
  void TearDown() override {
    kernels::set_target(kernels::available_targets().back());
    set_threads(1);
  }
};

// What the forward keeps and what the backward gives.
struct Results {
  Tensor maximum, sum, output, q, k, v, scores;

  explicit Results(const Problem& p) {
    const Shape &q_shape = p.q.view.shape, &k_shape = p.k.view.shape;
    const DType dtype = p.q.view.dtype, wide = dtype == DType::f64 ? dtype : DType::f32;
    maximum = Tensor(DType::f64, {q_shape[0], q_shape[1], q_shape[2]});
    sum = Tensor(wide, {q_shape[0], q_shape[1], q_shape[2]});
    output = Tensor(wide, q_shape);
    q = Tensor(dtype, q_shape), k = Tensor(dtype, k_shape), v = Tensor(dtype, k_shape);
    scores = Tensor(wide, {q_shape[0], q_shape[1], q_shape[2], k_shape[2]});
  }
  numerics::AttentionResiduals residuals() const { return {maximum.view, sum.view, output.view}; }
  numerics::AttentionCotangents cotangents() const { return {q.view, k.view, v.view, scores.view}; }
  std::vector<std::vector<std::byte>> bytes() const {
    return {bytes_of(maximum), bytes_of(sum), bytes_of(output), bytes_of(q), bytes_of(k), bytes_of(v)};
  }
};

void run_definition(Problem& p, const Tensor& dy, Results& r) {
  numerics::attention_saving(p.operands(), p.options, r.residuals());
  numerics::attention_vjp(p.operands(), p.options, dy.view, r.residuals(), r.cotangents());
}

void expect_same(Problem& p, const std::string& what, const std::vector<int>& thread_counts = {1, 3}) {
  Random random(99);
  const Tensor dy = normal(random, p.q.view.dtype, p.q.view.shape);
  Results expected(p);
  run_definition(p, dy, expected);
  constexpr const char* kNames[] = {"m", "l", "o", "dq", "dk", "dv"};
  for (const Target target : kernels::available_targets()) {
    kernels::set_target(target);
    for (const int count : thread_counts) {
      set_threads(count);
      Results got(p);
      for (Tensor* t : {&got.q, &got.k, &got.v}) std::fill(t->memory.begin(), t->memory.end(), std::byte{0xee});
      const numerics::AttentionResiduals residuals = got.residuals();
      kernels::attention(p.operands(), p.options, &residuals);
      kernels::attention_vjp(p.operands(), p.options, dy.view, residuals, got.cotangents());
      const auto a = got.bytes(), b = expected.bytes();
      for (std::size_t i = 0; i < a.size(); ++i)
        EXPECT_TRUE(a[i] == b[i]) << what << ", " << name_of(p.q.view.dtype) << " on " << name_of(target) << ", "
                                  << count << " threads: " << kNames[i];
      // What reaches scores may hold any NaN: it is summed before anyone sees it.
      for (std::int64_t i = 0; i < got.scores.view.elements(); ++i) {
        const double x = load(got.scores.view, i), y = load(expected.scores.view, i);
        if (x != x && y != y) continue;
        ASSERT_TRUE(x == y && std::signbit(x) == std::signbit(y)) << what << " ds " << i << ": " << x << " for " << y;
      }
    }
  }
}

TEST_F(AttentionVjp, LengthsAndHeads) {
  Random random(1);
  for (const DType dtype : kDTypes)
    for (const std::int64_t keys : {0, 1, 17, 127, 128, 130, 300}) {
      Problem p = random_problem(random, dtype, 2, 4, 2, std::min<std::int64_t>(keys + 1, 70), keys, 12);
      p.options.causal = keys % 2 ? Causal::lower_right : Causal::none;
      expect_same(p, "keys " + std::to_string(keys));
    }
}

// More rows than a chunk: subtrees of the sums over queries.
TEST_F(AttentionVjp, Chunks) {
  Random random(2);
  for (const DType dtype : kDTypes)
    for (const std::int64_t queries : {1024, 1300}) {
      Problem p = random_problem(random, dtype, 1, 2, 1, queries, 40, 4);
      expect_same(p, "queries " + std::to_string(queries), {2});
    }
}

TEST_F(AttentionVjp, OptionsAndLayouts) {
  Random random(3);
  for (const DType dtype : kDTypes) {
    Problem p = random_problem(random, dtype, 2, 4, 2, 40, 140, 16, {0, 2, 1, 3});
    p.mask = Tensor(DType::boolean, {2, 1, 40, 140});
    for (std::int64_t i = 0; i < p.mask.view.elements(); ++i)
      store(p.mask.view, i, static_cast<double>(random() % 3 != 0));
    for (std::int64_t j = 0; j < 140; ++j) store(p.mask.view, 7 * 140 + j, 0);  // a row that sees nothing
    expect_same(p, "mask");
    p.bias = normal(random, dtype, {1, 4, 1, 140});
    for (std::int64_t i = 0; i < p.bias.view.elements(); i += 5) store(p.bias.view, i, -INFINITY);
    p.options.causal = Causal::lower_right;
    p.options.window = 37;
    expect_same(p, "mask, bias, window");
    p.options.softcap = 2;
    p.bias = normal(random, DType::f32, {2, 1, 40, 140});
    expect_same(p, "softcap too", {2});
    Problem padded = random_problem(random, dtype, 2, 2, 1, 60, 60, 8);
    padded.options.causal = Causal::lower_right;
    padded.start = vector_of(DType::i32, {11, 0});
    padded.length = vector_of(DType::i64, {60, 47});
    expect_same(padded, "start and length");
    padded.position = vector_of(DType::i32, {0, 200});
    padded.start = vector_of(DType::i32, {-3, 70});
    expect_same(padded, "position", {1});
  }
}

TEST_F(AttentionVjp, ExtremeAndNotFinite) {
  Random random(4);
  for (const DType dtype : kDTypes) {
    for (const double size : {1e-20, 300.0, 1e9}) {
      if (dtype == DType::f16 && (size > 1e4 || size < 1e-6)) continue;
      Problem p = random_problem(random, dtype, 1, 2, 1, 20, 60, 6);
      for (std::int64_t i = 0; i < p.q.view.elements(); ++i) store(p.q.view, i, load(p.q.view, i) * size);
      expect_same(p, "scores times " + std::to_string(size), {1});
    }
    for (const double bad : {static_cast<double>(NAN), static_cast<double>(INFINITY)})
      for (const int which : {0, 1, 2}) {
        Problem p = random_problem(random, dtype, 1, 2, 1, 20, 30, 6);
        p.options.causal = Causal::upper_left;
        store((which == 0 ? p.q : which == 1 ? p.k : p.v).view, 70, bad);
        expect_same(p, "not finite", {1});
      }
  }
}

// Left padding moves no bit: the same sequence at another place.
TEST_F(AttentionVjp, PaddingMovesNoBit) {
  Random random(5);
  for (const DType dtype : kDTypes) {
    Problem p = random_problem(random, dtype, 1, 2, 1, 150, 150, 8);
    p.options.causal = Causal::lower_right;
    const Tensor dy = normal(random, dtype, p.q.view.shape);
    constexpr std::int64_t pad = 37;
    Problem moved = random_problem(random, dtype, 1, 2, 1, 150 + pad, 150 + pad, 8);
    moved.options.causal = Causal::lower_right;
    moved.start = vector_of(DType::i32, {static_cast<double>(pad)});
    Tensor moved_dy = normal(random, dtype, moved.q.view.shape);
    const auto place = [&](const Tensor& from, Tensor& to) {
      for_each(from.view.shape, [&](std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t d) {
        store(to.view, offset_of(to.view, b, h, i + pad, d), load(from.view, offset_of(from.view, b, h, i, d)));
      });
    };
    place(p.q, moved.q), place(p.k, moved.k), place(p.v, moved.v), place(dy, moved_dy);
    Results a(p), b(moved);
    for (const auto& [problem, cotangent, results] :
         {std::tuple(&p, &dy, &a), std::tuple(&moved, static_cast<const Tensor*>(&moved_dy), &b)}) {
      const numerics::AttentionResiduals residuals = results->residuals();
      kernels::attention(problem->operands(), problem->options, &residuals);
      kernels::attention_vjp(problem->operands(), problem->options, cotangent->view, residuals, results->cotangents());
    }
    EXPECT_EQ(rows_of(a.q, 0, 0, 150), rows_of(b.q, 0, pad, pad + 150)) << name_of(dtype);
    EXPECT_EQ(rows_of(a.k, 0, 0, 150), rows_of(b.k, 0, pad, pad + 150)) << name_of(dtype);
    EXPECT_EQ(rows_of(a.v, 0, 0, 150), rows_of(b.v, 0, pad, pad + 150)) << name_of(dtype);
  }
}

// Against FP64 on the same inputs: the RMS error over that of rounding the exact gradient to the dtype.
TEST_F(AttentionVjp, IsNearFp64) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    Random random(6);
    Problem p = random_problem(random, dtype, 1, 2, 1, 200, 200, 32);
    p.options.causal = Causal::lower_right;
    const Tensor dy = normal(random, dtype, p.q.view.shape);
    Random again(6);
    Problem exact = random_problem(again, DType::f64, 1, 2, 1, 200, 200, 32);
    exact.options = p.options;
    Tensor exact_dy(DType::f64, p.q.view.shape);
    for (const auto& [from, to] : {std::pair(&p.q, &exact.q), std::pair(&p.k, &exact.k), std::pair(&p.v, &exact.v),
                                   std::pair(const_cast<Tensor*>(&dy), &exact_dy)})
      for (std::int64_t i = 0; i < from->view.elements(); ++i) store(to->view, i, load(from->view, i));
    Results got(p), want(exact);
    run_definition(p, dy, got);
    run_definition(exact, exact_dy, want);
    const double limit = dtype == DType::f32 ? 12 : 1.05;
    for (const auto& [a, b] : {std::pair(&got.q, &want.q), std::pair(&got.k, &want.k), std::pair(&got.v, &want.v)}) {
      double error = 0, least = 0;
      Tensor rounded(dtype, {1});
      for (std::int64_t i = 0; i < a->view.elements(); ++i) {
        const double x = load(b->view, i);
        store(rounded.view, 0, x);
        error += std::pow(load(a->view, i) - x, 2);
        least += std::pow(load(rounded.view, 0) - x, 2);
      }
      const double ratio = std::sqrt(error / least);
      EXPECT_LT(ratio, limit) << name_of(dtype);
      RecordProperty(std::string("R_") + std::string(name_of(dtype)), std::to_string(ratio));
    }
  }
}

}  // namespace
}  // namespace eadem::testing
