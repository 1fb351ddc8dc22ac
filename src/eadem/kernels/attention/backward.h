#pragma once

#include <cstdint>

#include "eadem/kernels/target.h"
#include "eadem/numerics/attention_vjp.h"

// What the driver of attention's derivative (backward.cpp) and the bodies of the targets (backward_rows.cpp) share.

namespace eadem::kernels::attention_detail {

/// One query's row of scores, over keys from `first_key` on.
struct BackwardRow {
  const numerics::AttentionOperands* x = nullptr;
  const numerics::AttentionOptions* options = nullptr;
  std::int64_t b = 0, h = 0, i = 0, first_key = 0;
  std::int64_t lo = 0, hi = 0, columns = 0;  ///< the visible range, and the whole row; what is outside becomes +0
  void* s = nullptr;                         ///< W [columns]: q k, becomes p
  void* dp = nullptr;                        ///< W [columns]: dy v, becomes dt
  void* ds = nullptr;                        ///< W [columns]: receives ds, if asked for
  const void* cotangent = nullptr;           ///< T [head_size]: dy
  const void* output = nullptr;              ///< W [head_size]: o
  std::int64_t head_size = 0;
  double maximum = 0;
  double sum = 0;  ///< W as double
};

struct BackwardBody {
  void (*row)(const BackwardRow&);
  /// high = RN(x), low = RN(x - high) in bf16, n a multiple of 16.
  void (*split)(const float* x, std::int64_t n, bfloat16* high, bfloat16* low);
  /// to = RN_T(sum scale), never -0; sum: W [n].
  void (*finish)(const void* sum, std::int64_t n, double scale, void* to);
};

/// Null for the scalar target.
const BackwardBody* pick_backward_body(DType, Target);

}  // namespace eadem::kernels::attention_detail
