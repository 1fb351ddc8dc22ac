// The ways to compute a product with quantized weights, all of equal bits, from which the tuner chooses: the unit that
// multiplies, where codes are unpacked, how the panels are cut to tasks.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "eadem/base/parallel.h"
#include "eadem/kernels/quantized/quantized.h"
#include "eadem/kernels/quantized/task.h"
#include "eadem/kernels/target.h"
#include "eadem/kernels/tuner.h"
#include "eadem/numerics/rounding.h"

namespace eadem::kernels {
namespace {

using namespace quantized;

const Request& request_of(const void* request) {
  return *static_cast<const Request*>(request);
}

// The unit that multiplies by widened FMA, and those of the CPU's dot products of pairs and of tiles.
enum class Unit { fma, pairs, tiles };
// `usual`: codes are unpacked in registers for few rows, to strips for many.
enum class Way { usual, small_tasks, registers, strips };

bool few_rows(const Request& r) {
  return r.x.shape[0] <= kDecodeRows;
}
bool unpacks_strips(Way way, const Request& r) {
  return way == Way::strips || (way != Way::registers && !few_rows(r));
}

template <Unit unit, Way way>
bool admits(const void* request) {
  const Request& r = request_of(request);
  const Target active = active_target();
  const bool strips = unpacks_strips(way, r);
  if (active == Target::scalar) return false;
  if ((way == Way::registers || way == Way::strips) && strips != few_rows(r)) return false;  // it is the usual way
  if (unit == Unit::fma) return true;
  if (r.x.dtype != DType::bf16) return false;
  if (unit == Unit::tiles) return active == Target::amx && strips && r.w.format.group >= 32;
  return (active == Target::avx512bf16 || active == Target::amx) && (strips || r.w.width < 8);
}

template <Unit unit, Way way>
void run(const void* request) {
  constexpr Target kOnX86[] = {Target::avx512, Target::avx512bf16, Target::amx};
  const Target active = active_target(), best = kOnX86[static_cast<int>(unit)];
  const Request& r = request_of(request);
  run_plan(r, plan_of(active == Target::neon ? active : std::min(active, best), unpacks_strips(way, r),
                      way == Way::small_tasks));
}

template <Unit unit, Way way>
constexpr Candidate candidate(std::string_view name) {
  return {name, admits<unit, way>, run<unit, way>};
}

constexpr std::array kCandidates{
    candidate<Unit::fma, Way::usual>("fma"),
    candidate<Unit::fma, Way::small_tasks>("fma-small-tasks"),
    candidate<Unit::fma, Way::registers>("fma-registers"),
    candidate<Unit::fma, Way::strips>("fma-strips"),
    candidate<Unit::pairs, Way::usual>("vdpbf16ps"),
    candidate<Unit::pairs, Way::small_tasks>("vdpbf16ps-small-tasks"),
    candidate<Unit::pairs, Way::registers>("vdpbf16ps-registers"),
    candidate<Unit::pairs, Way::strips>("vdpbf16ps-strips"),
    candidate<Unit::tiles, Way::usual>("amx"),
    candidate<Unit::tiles, Way::small_tasks>("amx-small-tasks"),
};

std::string key_of(const void* request) {
  const auto& [x, y, w, bias] = request_of(request);
  return fmt::format(
      "{} to {}{} {}x{}x{} strides x {} y {}, codes of {} bits in groups of {}{}, {} scales, {} threads {}",
      name_of(x.dtype), name_of(y.dtype), bias ? " with bias" : "", x.shape[0], w.rows, w.columns, x.strides, y.strides,
      w.format.bits, w.format.group, w.format.symmetric ? " without b" : "", name_of(w.format.scale_dtype),
      name_of(active_target()), threads());
}

// Compares every element with numerics/, on all threads: it is done once for each candidate and class of products.
std::optional<Difference> check(const void* request) {
  const Request& r = request_of(request);
  const TensorView& y = r.y;
  const PackedQuantized& w = r.w;
  const std::int64_t rows = r.x.shape[0];
  const BufferRef memory = Buffer::allocate(static_cast<std::size_t>(rows * w.rows) * size_of(y.dtype));
  const TensorView want = contiguous_view(memory->data(), y.dtype, {rows, w.rows});
  const Task task{.w = &w, .source = r.x, .rows = rows, .y = want, .source_bias = r.bias};
  parallel_for(w.panels(), 1, [&](std::int64_t begin, std::int64_t end) { reference(task, begin, end); });
  return visit_floating(y.dtype, [&]<class T>(std::type_identity<T>) -> std::optional<Difference> {
    for (std::int64_t m = 0; m < rows; ++m)
      for (std::int64_t n = 0; n < w.rows; ++n) {
        const T got = y.as<const T>()[m * y.strides[0] + n * y.strides[1]], right = want.as<const T>()[m * w.rows + n];
        if (!numerics::same_bits(got, right))
          return Difference{fmt::format("[{},{}]", m, n), numerics::to_double(got), numerics::to_double(right)};
      }
    return std::nullopt;
  });
}

}  // namespace

Tuner& quantized_tuner() {
  static Tuner tuner("quantized", kCandidates, key_of, check);
  return tuner;
}

}  // namespace eadem::kernels
