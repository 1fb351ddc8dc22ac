#include "eadem/kernels/quantized/quantized.h"

#include <algorithm>
#include <optional>

#include "eadem/base/memory.h"
#include "eadem/base/parallel.h"
#include "eadem/kernels/amx_tiles.h"
#include "eadem/kernels/quantized/task.h"
#include "eadem/kernels/target.h"
#include "eadem/kernels/tuner.h"
#include "eadem/numerics/quantized.h"
#include "eadem/numerics/rounding.h"

namespace eadem::kernels {
namespace quantized {

void* scratch(int slot, std::size_t bytes) {
  static thread_local Scratch blocks[6];
  return blocks[slot].take(bytes);
}

Task rows_of(const Task& task, std::int64_t first, std::int64_t count) {
  Task part = task;
  part.rows = count;
  part.x += first * task.x_stride;
  part.sums += first * task.sums_stride;
  part.y.data += first * task.y.strides[0] * static_cast<std::ptrdiff_t>(size_of(task.y.dtype));
  if (task.pairs) part.pairs += first * task.x_stride / 2;
  if (task.plain) part.plain += first;
  return part;
}

void reference(const Task& task, std::int64_t begin, std::int64_t end) {
  numerics::QuantizedRow row;
  for (std::int64_t n = begin * kPanelRows; n < std::min(end * kPanelRows, task.w->rows); ++n) {
    unpack_row(*task.w, n, row);
    visit_floating(task.source.dtype, [&]<class T>(std::type_identity<T>) {
      for (std::int64_t m = 0; m < task.rows; ++m) {
        numerics::Wide<T> sum = numerics::quantized_dot(task.source.as<const T>() + m * task.source.strides[0],
                                                        task.source.strides[1], task.w->format, row);
        if (task.source_bias)
          visit_floating(task.source_bias->dtype, [&]<class B>(std::type_identity<B>) {
            const B each = task.source_bias->as<const B>()[n * task.source_bias->strides[0]];
            sum = sum + static_cast<numerics::Wide<T>>(numerics::widen(each));
          });
        visit_floating(task.y.dtype, [&]<class Y>(std::type_identity<Y>) {
          task.y.as<Y>()[m * task.y.strides[0] + n * task.y.strides[1]] = numerics::round_to<Y>(sum);
        });
      }
    });
  }
}

}  // namespace quantized

namespace {

// Row m of x in f32; zeros after the last one.
void widen_row(const TensorView& x, std::int64_t m, float* row) {
  if (m >= x.shape[0]) {
    std::fill_n(row, x.shape[1], 0.0f);
    return;
  }
  visit_floating(x.dtype, [&]<class T>(std::type_identity<T>) {
    const T* from = x.as<const T>() + m * x.strides[0];
    const std::ptrdiff_t stride = x.strides[1];
    if (stride == 1) {
      for (std::int64_t k = 0; k < x.shape[1]; ++k) row[k] = static_cast<float>(numerics::widen(from[k]));
    } else {
      for (std::int64_t k = 0; k < x.shape[1]; ++k) row[k] = static_cast<float>(numerics::widen(from[k * stride]));
    }
  });
}

#if defined(__x86_64__)
// Row m of x as pairs; whether it is plain (see Task).
bool pair_row(quantized::Pairs form, const TensorView& x, std::int64_t m, std::uint32_t* pairs) {
  const std::int64_t columns = x.shape[1], stride = x.strides[1];
  if (m >= x.shape[0]) {
    std::fill_n(pairs, columns / 2, 0u);
    return true;
  }
  const bfloat16* row = x.as<const bfloat16>() + m * x.strides[0];
  if (stride != 1) {
    auto* copy = static_cast<bfloat16*>(quantized::scratch(0, static_cast<std::size_t>(columns) * sizeof(bfloat16)));
    for (std::int64_t k = 0; k < columns; ++k) copy[k] = row[k * stride];
    row = copy;
  }
  return quantized::pair_up(row, columns, form, pairs);
}
#else
bool pair_row(quantized::Pairs, const TensorView&, std::int64_t, std::uint32_t*) {
  return false;
}
#endif

// Work for one thread at least: below about 10 us waking another costs more than it saves.
std::int64_t grain(std::int64_t rows, std::int64_t columns, std::int64_t unit) {
  return std::max<std::int64_t>(1, 200'000 / std::max<std::int64_t>(1, rows * columns * unit * kPanelRows));
}

// The bias as T, padded with zeros to whole panels.
template <class T>
const T* copy_bias(const TensorView& bias, const PackedQuantized& w) {
  const std::int64_t padded = w.panels() * kPanelRows;
  auto* copy = static_cast<T*>(quantized::scratch(1, static_cast<std::size_t>(padded) * sizeof(T)));
  visit_floating(bias.dtype, [&]<class B>(std::type_identity<B>) {
    for (std::int64_t n = 0; n < w.rows; ++n)
      copy[n] = static_cast<T>(numerics::widen(bias.as<const B>()[n * bias.strides[0]]));
  });
  std::fill(copy + w.rows, copy + padded, T{0});
  return copy;
}

void wide_linear(quantized::Task task) {
  const TensorView& x = task.source;
  const quantized::Body body = quantized::kWide.pick();
  const std::int64_t columns = x.shape[1];
  auto* copy =
      static_cast<double*>(quantized::scratch(2, static_cast<std::size_t>(task.rows * columns) * sizeof(double)));
  for (std::int64_t m = 0; m < task.rows; ++m)
    for (std::int64_t k = 0; k < columns; ++k)
      copy[m * columns + k] = x.as<const double>()[m * x.strides[0] + k * x.strides[1]];
  task.wide_x = copy;
  task.x_stride = columns;
  if (task.source_bias) task.wide_bias = copy_bias<double>(*task.source_bias, *task.w);
  parallel_for(task.w->panels(), 1, [&](std::int64_t begin, std::int64_t end) { body(task, begin, end); });
}

// Few rows, for which strips do not pay. (Measured on Zen 4: with AVX-512, up to two batches of decode's rows of f32,
// and of bf16 where codes are looked up in registers, are up to 1.5 times as fast; with AVX2 one batch.)
bool better_in_registers(const quantized::Request& request) {
  const auto& [x, y, w, bias] = request;
  if (x.shape[0] <= quantized::kDecodeRows) return true;
  if (x.shape[0] > 2 * quantized::kDecodeRows || w.format.group < 32) return false;
  const Target target = active_target();
  if (x.dtype == DType::bf16 && target == Target::avx512bf16) return w.width < 8;
  return target == Target::avx512 ||
         (x.dtype != DType::bf16 && (target == Target::avx512bf16 || target == Target::amx));
}

}  // namespace

quantized::Plan quantized::plan_of(Target unit, bool strips, bool small_tasks) {
  const Body body = (strips ? kPrefill : kDecode).pick(unit);
  Pairs pairs = Pairs::none;
#if defined(__x86_64__)
  if (body == &decode_pairs || body == &prefill_pairs) pairs = Pairs::skipping;
  if (body == &prefill_tiles) pairs = Pairs::adjacent;
#endif
  return {body, strips, small_tasks, pairs};
}

void quantized::run_plan(const Request& request, const Plan& wanted) {
  const TensorView& x = request.x;
  const PackedQuantized& w = request.w;
  const std::int64_t rows = x.shape[0];
  Task task{.w = &w, .source = x, .rows = rows, .y = request.y, .source_bias = request.bias};
  // A tile multiplies 32 columns at a time, which cuts groups of 16 too late.
  const Plan plan = wanted.pairs == Pairs::adjacent && w.format.group < 32
                        ? plan_of(Target::avx512bf16, wanted.strips, wanted.small_tasks)
                        : wanted;
  const Body body = plan.body;
  std::optional<TileCall> tiles;
  if (plan.pairs == Pairs::adjacent) tiles.emplace();
  if (body == &reference) {
    parallel_for(w.panels(), 1, [&](std::int64_t begin, std::int64_t end) { body(task, begin, end); });
    return;
  }
  if (request.bias) task.bias = copy_bias<float>(*request.bias, w);
  // Rows one line longer than x, so that the rows of a tile do not fall into one set of the cache.
  const std::int64_t most = plan.strips ? kRowPadding : kDecodeRows;
  const std::int64_t padded =
      plan.strips || rows > kDecodeRows ? (rows + most - 1) / most * most : decode_body_rows(w.width, rows);
  task.x_stride = w.columns + 16;
  task.sums_stride = w.groups();
  task.chains = is_16_bit_float(x.dtype) ? 2 : 1;
  // A tile of another height may begin at the last row: hence the second padding.
  const std::int64_t allocated = padded + kRowPadding;
  auto* const wide = static_cast<float*>(
      scratch(2, static_cast<std::size_t>(allocated * (task.x_stride + task.sums_stride)) * sizeof(float)));
  float* const sums = wide + allocated * task.x_stride;
  std::uint32_t* pairs = nullptr;
  std::uint8_t* plain = nullptr;
  if (plan.pairs != Pairs::none && x.dtype == DType::bf16 && (plan.strips || w.width < 8)) {
    pairs = static_cast<std::uint32_t*>(scratch(5, static_cast<std::size_t>(allocated * (task.x_stride * 2 + 1))));
    plain = reinterpret_cast<std::uint8_t*>(pairs + allocated * task.x_stride / 2);
  }
  task.x = wide;
  task.sums = sums;
  task.pairs = pairs;
  task.plain = plain;
  const SumGroups sum_groups = w.format.symmetric ? nullptr : pick_sum_groups();
  parallel_for(padded, std::max<std::int64_t>(1, 32'768 / std::max<std::int64_t>(1, w.columns)),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t m = begin; m < end; ++m) {
                   float* const row = wide + m * task.x_stride;
                   widen_row(x, m, row);
                   if (pairs) plain[m] = pair_row(plan.pairs, x, m, pairs + m * task.x_stride / 2);
                   if (m >= rows)
                     std::fill_n(sums + m * task.sums_stride, w.groups(), 0.0f);
                   else if (sum_groups)
                     sum_groups(row, w.columns, w.format.group, task.chains, sums + m * task.sums_stride);
                 }
               });
  const std::int64_t unit = plan.strips ? 2 : 1;  // panels that go together
  const std::int64_t least = plan.small_tasks ? 1 : grain(rows, w.columns, unit);
  parallel_for((w.panels() + unit - 1) / unit, least, [&](std::int64_t begin, std::int64_t end) {
    begin *= unit, end = std::min(end * unit, w.panels());
    if (plan.strips || rows <= kDecodeRows) return body(task, begin, end);
    for (std::int64_t panel = begin; panel < end; ++panel)  // small enough to stay in the first-level cache
      for (std::int64_t first = 0; first < rows; first += kDecodeRows)
        body(rows_of(task, first, std::min(kDecodeRows, rows - first)), panel, panel + 1);
  });
}

void quantized_linear(const TensorView& x, const PackedQuantized& w, const TensorView& y, const TensorView* bias) {
  const std::int64_t rows = x.shape[0];
  if (rows == 0 || w.rows == 0) return;
  if (x.dtype == DType::f64) return wide_linear({.w = &w, .source = x, .rows = rows, .y = y, .source_bias = bias});
  const quantized::Request request{x, y, w, bias};
  if (quantized_tuner().run(&request)) return;
  quantized::run_plan(request, quantized::plan_of(active_target(), !better_in_registers(request), false));
}

void dequantize_rows(const PackedQuantized& w, std::span<const std::int64_t> ids, const TensorView& out) {
  parallel_for(
      static_cast<std::int64_t>(ids.size()), std::max<std::int64_t>(1, 16'384 / std::max<std::int64_t>(1, w.columns)),
      [&](std::int64_t begin, std::int64_t end) {
        numerics::QuantizedRow row;
        for (std::int64_t i = begin; i < end; ++i) {
          unpack_row(w, ids[static_cast<std::size_t>(i)], row);
          visit_floating(out.dtype, [&]<class T>(std::type_identity<T>) {
            T* to = out.as<T>() + i * out.strides[0];
            if (out.strides[1] == 1) return numerics::dequantize_row(w.format, row, to);
            auto* copy = static_cast<T*>(quantized::scratch(3, static_cast<std::size_t>(w.columns) * sizeof(T)));
            numerics::dequantize_row(w.format, row, copy);
            for (std::int64_t k = 0; k < w.columns; ++k) to[k * out.strides[1]] = copy[k];
          });
        }
      });
}

}  // namespace eadem::kernels
