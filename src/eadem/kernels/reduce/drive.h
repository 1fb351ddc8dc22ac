#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "eadem/base/parallel.h"
#include "eadem/kernels/reduce/geometry.h"

// How a reduction whose order is free walks memory: along rows that are contiguous, or down contiguous columns, in
// parallel over outputs and, where these are few, over parts of the reduced axes.

namespace eadem::kernels {

inline constexpr std::int64_t kPiece = 4096;  // elements of a row at a time
inline constexpr std::int64_t kStripColumns =
    1024;  // columns at a time: 4 KB of f32, and their accumulators stay in L1
inline constexpr std::int64_t kRowsPacked = 8;

/// Calls f(first, stride, n) for the innermost loop at every step of the outer ones.
template <class T, class F>
void for_each_run(const LoopNest& nest, const T* base, F f) {
  if (nest.empty()) return f(base, std::int64_t{1}, std::int64_t{1});
  if (nest.size() == 1) return f(base, nest.back().stride, nest.back().extent);  // a copy costs as much as a short row
  LoopNest outer = nest;
  outer.pop_back();
  const std::int64_t runs = outer.steps();
  for (std::int64_t run = 0; run < runs; ++run) {
    f(base + outer.at(run).offset, nest.back().stride, nest.back().extent);
  }
}

/// Calls f(elements, n) over the n elements `stride` apart, packed in pieces. Apart from its only caller for the sake
/// of the buffer, which elements with a default value fill: 16-bit rows of 4096 took a third longer by it.
template <class T, class F>
[[gnu::noinline]] void for_each_packed_piece(const T* x, std::int64_t stride, std::int64_t n, F& f) {
  alignas(64) T packed[kPiece];
  for (std::int64_t i = 0; i < n; i += kPiece) {
    const std::int64_t piece = std::min(kPiece, n - i);
    gather(x + i * stride, stride, piece, packed);
    f(static_cast<const T*>(packed), piece);
  }
}

/// Calls f(elements, n) over contiguous pieces of at most kPiece that together are all elements of the nest.
template <class T, class F>
void for_each_piece(const LoopNest& nest, const T* base, F f) {
  for_each_run(nest, base, [&](const T* x, std::int64_t stride, std::int64_t n) {
    if (stride != 1) return for_each_packed_piece(x, stride, n, f);
    for (std::int64_t i = 0; i < n; i += kPiece) f(x + i, std::min(kPiece, n - i));
  });
}

/// Runs the reduction `r`, which supplies
///   Element, State; State combine(State, State) const;
///   Row, constructed with r: a fold with add(const Element*, n <= kPiece) and state();
///   Columns, likewise: `width` folds with start(width), add(const Element*, row_stride, rows) and state(column);
///   finish(state, first element of the output, output index).
template <class Reduction>
void run_reduction(const Geometry& g, const typename Reduction::Element* data, const Reduction& r) {
  using T = typename Reduction::Element;
  using State = typename Reduction::State;
  data += g.origin;
  const std::int64_t column_extent = g.kept.empty() ? 1 : g.kept.back().extent;
  const std::int64_t column_stride = g.kept.empty() ? 0 : std::abs(g.kept.back().stride);
  const std::int64_t row_stride = g.reduced.empty() ? 1 : g.reduced.back().stride;
  const std::int64_t row_extent = g.reduced.empty() ? 1 : g.reduced.back().extent;
  const bool rows = g.kept.empty() || column_extent < 8 || (row_stride < column_stride && row_extent >= 32);

  // A unit is one output, or a strip of columns.
  LoopNest kept_outer = g.kept;
  if (!rows) kept_outer.pop_back();
  std::int64_t width = 1;
  if (!rows) {
    const std::int64_t fair = (g.outputs + 2 * threads() - 1) / (2 * threads());
    width = std::clamp((fair + 63) / 64 * 64, std::int64_t{64}, kStripColumns);
  }
  const std::int64_t strips = rows ? 1 : (column_extent + width - 1) / width;
  const std::int64_t units = kept_outer.steps() * strips;

  // Few units: the longest reduced loop is cut, and the parts' states are combined.
  int cut = 0;
  for (int i = 1; i < g.reduced.size(); ++i) {
    if (g.reduced[i].extent > g.reduced[cut].extent) cut = i;
  }
  std::int64_t parts = 1;
  if (units < threads() && !g.reduced.empty()) {
    const std::int64_t useful = g.outputs * (g.count / g.repeats) / 65536;
    parts = std::clamp((4 * threads() + units - 1) / units, std::int64_t{1}, std::max(useful, std::int64_t{1}));
    parts = std::min(parts, g.reduced[cut].extent);
  }
  std::vector<State> states(parts > 1 ? static_cast<std::size_t>(parts * g.outputs) : 0);

  const auto deliver = [&](State state, std::int64_t part, const T* first, std::int64_t output) {
    if (parts > 1)
      states[static_cast<std::size_t>(part * g.outputs + output)] = state;
    else
      r.finish(state, first, output);
  };
  const std::int64_t per_unit = std::max<std::int64_t>(1, g.outputs * (g.count / g.repeats) / (units * parts));
  const std::int64_t grain = std::max<std::int64_t>(1, 16384 / per_unit);
  parallel_for(units * parts, grain, [&](std::int64_t begin, std::int64_t end) {
    typename Reduction::Columns columns(r);
    alignas(64) T packed[kRowsPacked * kStripColumns];
    LoopNest partial;
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t unit = i % units, part = i / units;
      const LoopNest* nest = &g.reduced;
      std::int64_t skipped = 0;
      if (parts > 1) {
        partial = g.reduced;
        nest = &partial;
        const std::int64_t extent = partial[cut].extent, from = extent * part / parts, to = extent * (part + 1) / parts;
        partial[cut].extent = to - from;
        skipped = from * partial[cut].stride;
      }
      const LoopNest::Place place = kept_outer.at(unit / strips);
      const T* first = data + place.offset;
      if (rows) {
        typename Reduction::Row row(r);
        for_each_piece(*nest, first + skipped, [&](const T* x, std::int64_t n) { row.add(x, n); });
        deliver(row.state(), part, first, place.weight);
        continue;
      }
      const Loop& column = g.kept.back();
      const std::int64_t start = unit % strips * width, count = std::min(width, column.extent - start);
      first += start * column.stride;
      columns.start(count);
      for_each_run(*nest, first + skipped, [&](const T* x, std::int64_t stride, std::int64_t n) {
        if (column.stride == 1) return columns.add(x, stride, n);
        for (std::int64_t from = 0; from < n; from += kRowsPacked) {
          const std::int64_t some = std::min(kRowsPacked, n - from);
          for (std::int64_t k = 0; k < some; ++k) {
            gather(x + (from + k) * stride, column.stride, count, packed + k * kStripColumns);
          }
          columns.add(packed, kStripColumns, some);
        }
      });
      for (std::int64_t c = 0; c < count; ++c) {
        deliver(columns.state(c), part, first + c * column.stride, place.weight + (start + c) * column.weight);
      }
    }
  });
  if (parts == 1) return;
  for (std::int64_t unit = 0; unit < g.outputs; ++unit) {
    const LoopNest::Place place = g.kept.at(unit);
    State state = states[static_cast<std::size_t>(place.weight)];
    for (std::int64_t part = 1; part < parts; ++part) {
      state = r.combine(state, states[static_cast<std::size_t>(part * g.outputs + place.weight)]);
    }
    r.finish(state, data + place.offset, place.weight);
  }
}

}  // namespace eadem::kernels
