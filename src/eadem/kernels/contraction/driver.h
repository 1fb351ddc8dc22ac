#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "eadem/base/buffer.h"
#include "eadem/base/shape.h"
#include "eadem/kernels/contraction/contraction.h"
#include "eadem/kernels/contraction/engine.h"
#include "eadem/numerics/contraction.h"

namespace eadem::kernels::contraction {

/// b packed whole, for one form: panel p's block k lies at data + p * panel_bytes + k * engine.b_bytes.
struct PackedOperand {
  BufferRef memory;
  std::size_t panel_bytes = 0;
  std::int64_t blocks = 0;
  std::vector<Magnitudes> magnitudes;  ///< [panel][block], for engines that check
};

/// `batch.elements()` products of one shape.
struct Problem {
  DType dtype = DType::f32;
  std::int64_t m = 0, n = 0, k = 0;
  Operand a, b;                        ///< of the first product: a[m][k], and b[n][k] (columns are its rows)
  const MadeMatrix* made_a = nullptr;  ///< instead of a, for one product
  const std::vector<std::int64_t>* borders = nullptr;  ///< where each block of k begins, then k; null: every 256
  Destination c;
  Shape batch, a_batch, b_batch;            ///< extents; strides of a and b in elements (c's are m * n, row-major)
  const PackedOperand* packed_b = nullptr;  ///< only if b is the same in every product and borders is null
  const Epilogue* epilogue = nullptr;       ///< what `multiply` hands on
  std::int64_t first_row = 0;               ///< as the epilogue counts them

  std::int64_t blocks() const {
    return borders ? static_cast<std::int64_t>(borders->size()) - 1
                   : (k + numerics::kBlockTerms - 1) / numerics::kBlockTerms;
  }
  /// The first k of a block, of those up to blocks().
  std::int64_t begin_of(std::int64_t block) const {
    return borders ? (*borders)[static_cast<std::size_t>(block)] : std::min(k, block * numerics::kBlockTerms);
  }
};

/// How a problem is cut. The bits do not depend on it; the tuner's candidates differ in it.
struct Blocking {
  std::int64_t rows = 0, columns = 0;  ///< of a task at most
  std::int64_t blocks = 0;             ///< of a task: a power of two, or all (0)
};

Blocking default_blocking(const Engine&, const Problem&, int threads);

/// Packs all of b; blocks ascending in each panel.
std::shared_ptr<const PackedOperand> pack_whole(const Engine&, const Operand& b, std::int64_t n, std::int64_t k);

/// Runs the problem (k > 0) with an engine, in parallel, and hands on its parts.
void multiply(const Engine&, const Problem&, const Blocking&);

/// Hands on the whole of a result, in parallel, where another than `multiply` made it.
void hand_on(const Problem&);

/// The i-th product of the problem, as a problem without batch.
Problem product_of(const Problem&, std::int64_t i);

/// The problem's columns [first, n), for a problem without batch.
Problem columns_from(const Problem&, std::int64_t first);

/// The same products with the operands' parts exchanged: c^T = b^T a^T (multiplication commutes inside an FMA).
Problem swapped(const Problem&);

/// Memory of this thread for the duration of one task: 64-byte aligned, kept for the next one.
std::byte* task_memory(std::size_t bytes);

}  // namespace eadem::kernels::contraction
