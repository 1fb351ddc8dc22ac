#pragma once

#include <algorithm>
#include <cstdint>

#include "eadem/kernels/target.h"
#include "eadem/numerics/attention.h"
#include "eadem/numerics/attention_vjp.h"

// What the driver (attention.cpp) and the bodies of the targets share. W is float, or double for f64.

namespace eadem::kernels::attention_detail {

inline constexpr std::int64_t kKeys = numerics::kKeyBlock;
inline constexpr std::int64_t kTileRows = 32;  ///< queries of a tile at most
inline constexpr std::int64_t kPanel = 32;     ///< keys that are computed or skipped together: one step of p v

constexpr std::int64_t round_up(std::int64_t n, std::int64_t to) {
  return (n + to - 1) / to * to;
}

/// The problem, and what follows from it.
struct Problem {
  numerics::AttentionOperands x;
  numerics::AttentionOptions options;
  std::int64_t batch, kv_heads, group, queries, keys, head_size;
  std::int64_t columns;                 ///< the head size rounded up to 16: rows of packed values and of accumulators
  std::int64_t key_panel, value_panel;  ///< columns of a panel of packed keys, of packed values
  const numerics::AttentionResiduals* residuals = nullptr;  ///< to be filled, too
  std::int64_t rows() const { return group * queries; }     ///< queries that read one key head: row = h queries + i
};

/// How a block of 128 keys is packed. Keys that do not exist, or lie before `start` or after `length`, are zeros.
///   wide:   k: W [D][128], v: W [128][columns]
///   paired: k: u32 [ceil(D / 4)][2][128], v: u32 [32][2][columns]: bf16 pairs for vdpbf16ps (bf16.cpp)
/// Each is cut into panels of columns, one after the other, so that a panel is read straight through and stays in L1:
/// many rows are multiplied by 32 columns at a time, few rows by all.
struct PackedBlock {
  void* k = nullptr;
  void* v = nullptr;
  bool paired = false;
  bool finite = true;        ///< no NaN or inf in v, so a term with p = +0 may be multiplied instead of left out
  int least_exponent = 255;  ///< paired: the least exponent field of a non-zero element of k
};

/// The page of the key at `position`, or -1.
inline std::int64_t page_of(const Problem& g, std::int64_t b, std::int64_t position) {
  return numerics::page_at(g.x.pages, b, position, g.x.k.shape[0]);
}

/// vdpbf16ps flushes subnormals. It is exact when no operand is subnormal and the least exponents of both sides add up
/// to -126 + 14 or more: as exponent fields, to this. For p v it suffices that v's exponents are at least -31, since
/// p's low part is a multiple of 2^-88 (numerics.md section 4 and 5).
inline constexpr int kLeastExponents = 2 * 127 - 126 + 14;
inline constexpr int kLeastValueExponent = 127 - 31;

/// Where a block lies: batch row, key head, and the position of its first key (negative when keys were trimmed).
struct BlockPlace {
  std::int64_t b, head, first_key, start, length;
  std::int64_t next_page = -1;  ///< the page that comes next, if known: worth asking for ahead of time
};

/// What the rows of a tile have gathered so far. maximum = -inf: nothing.
struct State {
  double* maximum;  ///< [rows]
  bool* nan;        ///< [rows]
  void* sum;        ///< W [rows]
  void* acc;        ///< W [rows][columns]
};

struct Tile {
  std::int64_t b, head, first_row, rows;
  numerics::KeyRange range[kTileRows];  ///< which keys each row may see
  void* q;                              ///< W [rows][D]
  std::uint32_t* pairs;                 ///< paired q, [rows][ceil(D / 4)][2]; null without vdpbf16ps
  int least_exponent;                   ///< of a non-zero element of q
  void* s;        ///< W [rows][128]: scores, then p (bf16: its high part; paired: both parts as pairs)
  void* low;      ///< W [rows][128]: the low part of p (bf16)
  void* product;  ///< W [rows][columns]
  void* spare;    ///< W [128][columns]: values with the invisible ones zeroed
  void* tree;     ///< W [levels][rows][128]: pending sums of scores where D > 256
};

/// Where column c of a packed block of `rows` rows begins, in panels of `panel` columns.
constexpr std::int64_t column_offset(std::int64_t c, std::int64_t panel, std::int64_t rows) {
  return c / panel * panel * rows + c % panel;
}

/// The products with vdpbf16ps, where it computes the contraction's order exactly.
struct PairedBody {
  /// Packs the block paired, or returns false when the instruction's flushing of subnormals could show.
  bool (*pack)(const Problem&, const BlockPlace&, PackedBlock&);
  void (*pack_queries)(const Problem&, Tile&);
  /// c [rows][columns] (+)= the steps of a b from first_quad on. a: [rows][terms / 4][2], b: [terms / 4][2][ldb].
  void (*product)(const std::uint32_t* a, std::int64_t lda, const std::uint32_t* b, std::int64_t ldb,
                  std::int64_t first_quad, std::int64_t end_quad, std::int64_t rows, std::int64_t columns, float* c,
                  std::int64_t ldc, bool accumulate);
  /// Splits p [lo, hi) of a row in place: quads [32][2] of the high part, then of the low part.
  void (*split)(float* p, std::int64_t lo, std::int64_t hi);
};

/// A target's functions for one dtype.
struct Body {
  void (*pack_queries)(const Problem&, Tile&);
  void (*apply)(const Problem&, Tile&, const PackedBlock&, const BlockPlace&, const State&, const PairedBody*);
  void (*combine)(const State& into, const State& later, std::int64_t rows, std::int64_t columns);
  void (*finish)(const Problem&, const Tile&, const State&);
};

/// The body of the target; null for scalar, which runs numerics/.
const Body* pick_body(DType, Target);

/// Packs a block wide, into block.k and block.v, or sets them to a page that already has that form.
using Pack = void (*)(const Problem&, const BlockPlace&, PackedBlock&);
Pack pick_pack(DType, Target);

/// vdpbf16ps; null where the compiler's target architecture has none.
const PairedBody* paired_body();

}  // namespace eadem::kernels::attention_detail
