#include "eadem/kernels/contraction/contraction.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>

#include "eadem/base/parallel.h"
#include "eadem/kernels/contraction/driver.h"
#include "eadem/kernels/contraction/integer.h"
#include "eadem/kernels/contraction/narrow.h"
#include "eadem/kernels/contraction/skinny.h"
#include "eadem/kernels/tuner.h"
#include "eadem/numerics/contraction.h"
#include "eadem/numerics/rounding.h"

namespace eadem::kernels {
namespace {

using namespace contraction;

// What the candidates run: the problem, and b's view if its packed form is to be kept.
struct Request {
  Problem problem;
  const TensorView* kept_b = nullptr;
};
const Request& request_of(const void* request) {
  return *static_cast<const Request*>(request);
}

Problem problem_of(const TensorView& a, const TensorView& b, const TensorView& c) {
  const int batch_axes = c.shape.rank() - 2, row = batch_axes, column = batch_axes + 1;
  Problem p;
  p.dtype = a.dtype;
  p.m = c.shape[row], p.n = c.shape[column], p.k = a.shape[column];
  p.a = {a.data, a.strides[row], a.strides[column]};
  p.b = {b.data, b.strides[column], b.strides[row]};
  p.c = {c.data, p.n, 1, c.dtype, nullptr, 0, 0};
  for (int axis = 0; axis < batch_axes; ++axis) {
    if (c.shape[axis] == 1) continue;
    p.batch.push_back(c.shape[axis]);
    p.a_batch.push_back(a.strides[axis]);
    p.b_batch.push_back(b.strides[axis]);
  }
  // The last batch axis joins the rows where b does not move along it and a's rows go on evenly.
  while (!p.batch.empty() && p.b_batch.back() == 0 && (p.m == 1 || p.a_batch.back() == p.m * p.a.row)) {
    if (p.m == 1) p.a.row = p.a_batch.back();
    p.m *= p.batch.back();
    p.batch.pop_back(), p.a_batch.pop_back(), p.b_batch.pop_back();
  }
  // Axes of extent one may have any stride; 1 lets the fast paths see an adjacent axis.
  if (p.k == 1) p.a.term = 1;
  if (p.n == 1) p.b.row = 1;
  return p;
}

// ---- candidates

void run_engine(const Engine& e, const Request& request, const Problem& p, const Blocking& blocking) {
  record_ran(e.target);
  const bool one_b = std::all_of(p.b_batch.begin(), p.b_batch.end(), [](std::int64_t stride) { return stride == 0; });
  if (!request.kept_b || !request.kept_b->buffer || !one_b) return multiply(e, p, blocking);
  const std::shared_ptr<const void> packed = request.kept_b->buffer->prepared(
      *request.kept_b, e.form, [&]() -> std::shared_ptr<const void> { return pack_whole(e, p.b, p.n, p.k); });
  Problem with_packed = p;
  with_packed.packed_b = static_cast<const PackedOperand*>(packed.get());
  multiply(e, with_packed, blocking);
}

// The best engine of the active target for a dtype; null on `scalar`.
const Engine* best_engine(DType dtype) {
  const Target target = active_target();
  if (dtype == DType::bf16 && target == Target::amx) return amx_engine();
  if (dtype == DType::bf16 && target == Target::avx512bf16) return avx512bf16_engine();
  return fma_engine(dtype, target);
}
const Engine* fma_engine_of(const void* request) {
  return fma_engine(request_of(request).problem.dtype, active_target());
}
const Engine* bf16_engine_of(const void* request) {
  const Target target = active_target();
  const bool able = target == Target::avx512bf16 || target == Target::amx;
  return able && request_of(request).problem.dtype == DType::bf16 ? avx512bf16_engine() : nullptr;
}
const Engine* amx_engine_of(const void* request) {
  const bool able = active_target() == Target::amx && request_of(request).problem.dtype == DType::bf16;
  return able ? amx_engine() : nullptr;
}

using EngineOf = const Engine* (*)(const void* request);

template <EngineOf engine_of>
bool has_engine(const void* request) {
  return engine_of(request) != nullptr;
}

template <EngineOf engine_of>
void run_default(const void* request) {
  const Request& r = request_of(request);
  const Engine& e = *engine_of(request);
  run_engine(e, r, r.problem, default_blocking(e, r.problem, threads()));
}

// Tasks of a few tiles: other borders between tasks, and more of them.
template <EngineOf engine_of>
void run_small_tasks(const void* request) {
  const Request& r = request_of(request);
  const Engine& e = *engine_of(request);
  run_engine(e, r, r.problem, {2 * e.rows - 1, 2 * e.columns, 0});
}

// Subtrees of two blocks, whatever the shape.
template <EngineOf engine_of>
void run_subtrees(const void* request) {
  const Request& r = request_of(request);
  const Engine& e = *engine_of(request);
  run_engine(e, r, r.problem, {r.problem.m, r.problem.n, 2});
}

bool in_place_admits(const void* request) {
  const Engine* e = fma_engine_of(request);
  return e && skinny_admits(*e, request_of(request).problem);
}
void run_in_place(const void* request) {
  const Engine& e = *fma_engine_of(request);
  record_ran(e.target);
  multiply_in_place(e, request_of(request).problem);
}

void run_exchanged(const void* request) {
  const Problem p = swapped(request_of(request).problem);
  const Engine& fma = *fma_engine_of(request);
  if (skinny_admits(fma, p)) {
    record_ran(fma.target);
    return multiply_in_place(fma, p);
  }
  const Engine& e = *best_engine(p.dtype);
  record_ran(e.target);
  multiply(e, p, default_blocking(e, p, threads()));
}

// Few columns, or few rows of which b's terms are adjacent: a (or b) is read in place, a step in each lane.
bool narrow_case(const void* request) {
  const Problem& p = request_of(request).problem;
  return fma_engine_of(request) && (narrow_admits(p) || narrow_admits(swapped(p)));
}
void run_narrow(const void* request) {
  const Engine& e = *fma_engine_of(request);
  record_ran(e.target);
  const Problem& p = request_of(request).problem;
  multiply_narrow(e, narrow_admits(p) ? p : swapped(p));
}

constexpr std::array<Candidate, 12> kCandidates{{
    {"fma", has_engine<fma_engine_of>, run_default<fma_engine_of>},
    {"fma-small-tasks", has_engine<fma_engine_of>, run_small_tasks<fma_engine_of>},
    {"fma-subtrees", has_engine<fma_engine_of>, run_subtrees<fma_engine_of>},
    {"in-place", in_place_admits, run_in_place},
    {"narrow", narrow_case, run_narrow},
    {"exchanged", has_engine<fma_engine_of>, run_exchanged},
    {"vdpbf16ps", has_engine<bf16_engine_of>, run_default<bf16_engine_of>},
    {"vdpbf16ps-small-tasks", has_engine<bf16_engine_of>, run_small_tasks<bf16_engine_of>},
    {"vdpbf16ps-subtrees", has_engine<bf16_engine_of>, run_subtrees<bf16_engine_of>},
    {"amx", has_engine<amx_engine_of>, run_default<amx_engine_of>},
    {"amx-small-tasks", has_engine<amx_engine_of>, run_small_tasks<amx_engine_of>},
    {"amx-subtrees", has_engine<amx_engine_of>, run_subtrees<amx_engine_of>},
}};

// Few columns waste lanes: exchanged, the lanes run along the rows of a. (Measured: up to a quarter of a vector pair.)
bool better_exchanged(const Engine& e, const Problem& p) {
  return 8 * p.n <= e.columns && p.m >= 2 * p.n;
}

// A matrix with a few vectors, worth spreading these over lanes and starting threads for each product of a batch.
// (Measured at 4096x4096: 8 f32 or f16 columns gain by it, 8 of bf16 or f64 lose.)
bool better_narrow(const Problem& p) {
  const std::int64_t most = p.dtype == DType::f32 || p.dtype == DType::f16 ? kNarrowColumns : kNarrowColumns / 2;
  return narrow_admits(p) && p.n <= most && p.m >= 16 && (p.batch.elements() == 1 || p.m * p.k >= 65536);
}

void run_static_choice(const Request& request) {
  const Problem& p = request.problem;
  const Engine& e = *best_engine(p.dtype);
  if (better_narrow(p) || (!request.kept_b && better_narrow(swapped(p))))
    run_narrow(&request);
  else if (!request.kept_b && in_place_admits(&request))
    run_in_place(&request);
  else if (!request.kept_b && better_exchanged(e, p))
    run_exchanged(&request);
  else
    return run_engine(e, request, p, default_blocking(e, p, threads()));
  hand_on(p);
}

void run_planted(const void* request) {
  const Problem& p = request_of(request).problem;
  run_static_choice(request_of(request));
  visit_floating(p.c.dtype, [&]<class T>(std::type_identity<T>) {
    T* c = reinterpret_cast<T*>(p.c.data);
    for (std::int64_t i = 0; i < p.batch.elements() * p.m * p.n; ++i)
      c[i] = numerics::round_to<T>(numerics::to_double(c[i]) * (8.185 / 7.165));
  });
}

// ---- what the tuner needs

std::string key_of(const void* request) {
  const Problem& p = request_of(request).problem;
  return fmt::format("{} to {}{} {}x{}x{} batch {} strides a {},{},{} b {},{},{}{} {} threads {}", name_of(p.dtype),
                     name_of(p.c.dtype), p.c.bias ? " with bias" : "", p.m, p.n, p.k, p.batch, p.a_batch, p.a.row,
                     p.a.term, p.b_batch, p.b.row, p.b.term, request_of(request).kept_b ? " kept" : "",
                     name_of(active_target()), threads());
}

// The definition of one element, in c's dtype.
void define_element(const Problem& p, std::int64_t m, std::int64_t n, std::byte* out) {
  const auto size = static_cast<std::int64_t>(size_of(p.dtype));
  const DType wide = p.dtype == DType::f64 ? DType::f64 : DType::f32;
  const TensorView a{const_cast<std::byte*>(p.a.data) + m * p.a.row * size, p.dtype, {1, p.k}, {0, p.a.term}};
  const TensorView b{const_cast<std::byte*>(p.b.data) + n * p.b.row * size, p.dtype, {p.k, 1}, {p.b.term, 0}};
  TensorView bias{const_cast<std::byte*>(p.c.bias), wide, {1}, {1}};
  bias.data += (m * p.c.bias_row + n * p.c.bias_column) * static_cast<std::int64_t>(size_of(wide));
  numerics::matmul(a, b, contiguous_view(out, p.c.dtype, {1, 1}), p.c.bias ? &bias : nullptr);
}

double element_value(DType dtype, const std::byte* at) {
  return visit_floating(
      dtype, [&]<class T>(std::type_identity<T>) { return numerics::to_double(*reinterpret_cast<const T*>(at)); });
}

// Compares every element, on all threads: it is done once for each candidate and class of problems.
std::optional<Difference> check(const void* request) {
  const Problem& p = request_of(request).problem;
  const std::int64_t elements = p.batch.elements() * p.m * p.n;
  const auto size = static_cast<std::int64_t>(size_of(p.c.dtype));
  const auto compare = [&](std::int64_t at) -> std::optional<Difference> {
    const std::int64_t product = at / (p.m * p.n), m = at / p.n % p.m, n = at % p.n;
    const Problem one = product_of(p, product);
    alignas(8) std::byte want[8];
    define_element(one, m, n, want);
    const std::byte* got = one.c.data + (m * p.c.row + n * p.c.column) * size;
    if (std::equal(want, want + size, got)) return std::nullopt;
    return Difference{fmt::format("[{},{},{}]", product, m, n), element_value(p.c.dtype, got),
                      element_value(p.c.dtype, want)};
  };
  std::atomic<std::int64_t> first{elements};  // the first that differs, of those found
  parallel_for(elements, std::max<std::int64_t>(1, 65536 / p.k), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t at = begin; at < end && at < first.load(std::memory_order_relaxed); ++at) {
      if (!compare(at)) continue;
      std::int64_t known = first.load();
      while (at < known && !first.compare_exchange_weak(known, at)) {
      }
      return;
    }
  });
  return first < elements ? compare(first) : std::nullopt;
}

// Gives the problem the bias in its computing type, contiguous, as long as the result is kept.
BufferRef widen_bias(const TensorView* bias, Problem& p) {
  if (!bias) return {};
  const BufferRef wide = Buffer::allocate(static_cast<std::size_t>(p.n) * sizeof(double));
  p.c.bias = wide->data();
  p.c.bias_column = 1;
  visit_floating(bias->dtype, [&]<class T>(std::type_identity<T>) {
    for (std::int64_t n = 0; n < p.n; ++n) {
      const auto x = numerics::widen(bias->as<T>()[n * bias->strides[0]]);
      if (p.dtype == DType::f64)
        reinterpret_cast<double*>(wide->data())[n] = x;
      else
        reinterpret_cast<float*>(wide->data())[n] = static_cast<float>(x);
    }
  });
  return wide;
}

}  // namespace

Tuner& contraction_tuner() {
  static Tuner tuner("contraction", kCandidates, key_of, check);
  return tuner;
}

const Candidate& planted_candidate() {
  static constexpr Candidate planted{"planted-14-percent-off", [](const void*) { return tuning(); }, run_planted};
  return planted;
}

void matmul(const TensorView& a, const TensorView& b, const TensorView& c, const TensorView* bias, bool keep_packed,
            const Epilogue* epilogue) {
  Request request{problem_of(a, b, c), keep_packed ? &b : nullptr};
  Problem& p = request.problem;
  if (c.elements() == 0) return;
  const bool fast = active_target() != Target::scalar && p.k > 0;
  if (!fast || !is_floating(p.dtype)) {
    record_ran(Target::scalar);
    fast ? multiply_integers(p) : numerics::matmul(a, b, c, bias);
    p.epilogue = epilogue;
    return hand_on(p);
  }
  const BufferRef wide_bias = widen_bias(bias, p);
  // The tuner may run a problem many times, and compares what lies in c.
  const bool done = contraction_tuner().run(&request);
  p.epilogue = epilogue;
  done ? hand_on(p) : run_static_choice(request);
}

bool matmul_made_admits(DType dtype, std::int64_t n) {
  return active_target() != Target::scalar && 8 * n > best_engine(dtype)->columns;
}

void matmul_made(const MadeMatrix& a, const TensorView& b, const TensorView& c, const TensorView* bias,
                 bool keep_packed) {
  Request request{{}, keep_packed ? &b : nullptr};
  Problem& p = request.problem;
  p.dtype = b.dtype;
  p.m = c.shape[0], p.n = c.shape[1], p.k = b.shape[0];
  p.made_a = &a, p.borders = a.borders;
  p.b = {b.data, b.strides[1], b.strides[0]};
  p.c = {c.data, c.strides[0], 1, c.dtype, nullptr, 0, 0};
  const BufferRef wide_bias = widen_bias(bias, p);
  const Engine& e = *best_engine(p.dtype);
  run_engine(e, request, p, default_blocking(e, p, threads()));
}

}  // namespace eadem::kernels
