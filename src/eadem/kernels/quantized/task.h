#pragma once

#include <cstddef>
#include <cstdint>

#include "eadem/kernels/quantized/quantized.h"
#include "eadem/kernels/target.h"

// What quantized_linear hands to the bodies of the targets.

namespace eadem::kernels::quantized {

/// Rows that decode takes at most: it unpacks codes in registers, once for all rows.
inline constexpr std::int64_t kDecodeRows = 8;
/// How far decode prefetches. Panels lie one behind the other, so that runs on to the next.
inline constexpr int kPrefetchBytes = 4096;
/// Whether decode has a body for `rows`, a power of two, of codes of `width` bits. Every body takes long to compile:
/// two have to do where few rows of that width are rare.
constexpr bool has_decode_body(int width, std::int64_t rows) {
  const bool common = width == 4 || width == 8;
  return rows == 1 || rows == kDecodeRows || (rows == 2 && common) || (rows == 4 && (common || width == 5));
}
/// The rows of the body that multiplies 1 .. kDecodeRows rows.
constexpr std::int64_t decode_body_rows(int width, std::int64_t rows) {
  std::int64_t body = 1;
  while (body < rows || !has_decode_body(width, body)) body *= 2;
  return body;
}
/// x has rows of zeros after its last one, up to a multiple of this.
inline constexpr std::int64_t kRowPadding = 24;

/// The operands, x also in f32 (exact) with rows `x_stride` apart, and X_g of each row.
struct Task {
  const PackedQuantized* w = nullptr;
  TensorView source;  ///< x as it came
  std::int64_t rows = 0;
  const float* x = nullptr;
  std::ptrdiff_t x_stride = 0;
  const float* sums = nullptr;  ///< null for symmetric formats
  std::ptrdiff_t sums_stride = 0;
  int chains = 1;  ///< of a step: 2 for 16-bit x
  TensorView y;
  const float* bias = nullptr;              ///< [panels * 16] in f32, or null
  const TensorView* source_bias = nullptr;  ///< the bias as it came, or null
  const double* wide_x = nullptr;           ///< f64 x: contiguous rows `x_stride` apart
  const double* wide_bias = nullptr;        ///< the bias in f64, for f64 x
  const std::uint32_t* pairs = nullptr;     ///< bf16 x as pairs of columns, rows x_stride / 2 apart
  const std::uint8_t* plain = nullptr;      ///< for each row of `pairs`: whether dot products of pairs are exact on it
};

/// Rows [first, first + count) of a task.
Task rows_of(const Task& task, std::int64_t first, std::int64_t count);

/// Computes the columns of y that panels [begin, end) hold.
using Body = void (*)(const Task&, std::int64_t begin, std::int64_t end);

/// numerics/ on the unpacked weights.
void reference(const Task&, std::int64_t begin, std::int64_t end);

/// For up to kDecodeRows rows (run_plan() cuts more to so many), for any number, and for any number of f64 rows.
extern const PerTarget<Body> kDecode, kPrefill, kWide;

/// For AVX512-BF16 and `pairs`; they leave rows that are not plain, and tasks without pairs, to AVX-512.
void decode_pairs(const Task&, std::int64_t begin, std::int64_t end);
void prefill_pairs(const Task&, std::int64_t begin, std::int64_t end);

/// For AMX; x as pairs of adjacent columns, and groups of 32 columns or more.
void prefill_tiles(const Task&, std::int64_t begin, std::int64_t end);

/// Which columns of x and of the codes go together in a word: (k, k + 2) and (k + 1, k + 3), the first in the high
/// half, for vdpbf16ps; or (k, k + 1), the first in the low half, for tdpbf16ps.
enum class Pairs { none, skipping, adjacent };

/// Writes a row of bf16 x as pairs; whether the CPU's dot products are exact on it. They flush subnormals, so every
/// product and sum must be a multiple of 2^-126: codes are integers, so that holds when |x| is zero or at least 2^-119.
bool pair_up(const bfloat16* x, std::int64_t columns, Pairs form, std::uint32_t* pairs);

/// X_g of one row of x (numerics.md section 7), for every group.
using SumGroups = void (*)(const float* x, std::int64_t columns, int group, int chains, float* sums);
/// The active target's; null for scalar, which runs numerics/.
SumGroups pick_sum_groups();

/// The operands of one product.
struct Request {
  const TensorView &x, &y;
  const PackedQuantized& w;
  const TensorView* bias = nullptr;
};

/// How a product runs; the bits do not depend on it.
struct Plan {
  Body body = nullptr;
  bool strips = false;        ///< it unpacks strips once for all rows; else kDecodeRows rows at a time, in registers
  bool small_tasks = false;   ///< one panel (two where there are strips) for a thread at a time
  Pairs pairs = Pairs::none;  ///< what the body takes bf16 x as, besides f32
};

/// The plan with the body of the best unit not above `unit`.
Plan plan_of(Target unit, bool strips, bool small_tasks);

/// Runs a product of x that is not f64, rows and outputs not being none.
void run_plan(const Request&, const Plan&);

/// A block of `bytes` that this thread may overwrite until its next call with the same slot (0..5).
void* scratch(int slot, std::size_t bytes);

}  // namespace eadem::kernels::quantized
