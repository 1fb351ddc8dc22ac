// Highway's order of includes is part of their meaning.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "eadem/kernels/convolution/patches.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

#include "eadem/kernels/convolution/patches.h"

#include <algorithm>
#include <cstring>

#include "eadem/base/memory.h"
#include "eadem/kernels/target.h"

HWY_BEFORE_NAMESPACE();
namespace eadem::kernels::HWY_NAMESPACE {
#if EADEM_HWY_TARGET
namespace hn = hwy::HWY_NAMESPACE;

// At least a vector of bytes: whole ones, and a last one that overlaps.
template <class D>
HWY_INLINE void CopyLong(D d, const std::byte* from, std::int64_t bytes, std::byte* to) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto copy = [&](std::int64_t at) HWY_ATTR {
    hn::StoreU(hn::LoadU(d, reinterpret_cast<const std::uint8_t*>(from) + at), d,
               reinterpret_cast<std::uint8_t*>(to) + at);
  };
  for (std::int64_t at = 0; at + lanes < bytes; at += lanes) copy(at);
  copy(bytes - lanes);
}

// Runs are short: a call of memcpy for each would take as long as the copying.
void CopyRows(const std::byte* from, std::int64_t from_bytes, std::int64_t count, std::int64_t bytes, std::byte* to,
              std::int64_t to_bytes) {
  const hn::ScalableTag<std::uint8_t> whole;
  const hn::FixedTag<std::uint8_t, 16> few;
  for (std::int64_t i = 0; i < count; ++i, from += from_bytes, to += to_bytes) {
    if (bytes >= static_cast<std::int64_t>(hn::Lanes(whole)))
      CopyLong(whole, from, bytes, to);
    else if (bytes >= 16)
      CopyLong(few, from, bytes, to);
    else
      std::memcpy(to, from, static_cast<std::size_t>(bytes));
  }
}

#endif
}  // namespace eadem::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eadem::kernels {
namespace {

void scalar_copy_rows(const std::byte* from, std::int64_t from_bytes, std::int64_t count, std::int64_t bytes,
                      std::byte* to, std::int64_t to_bytes) {
  for (std::int64_t i = 0; i < count; ++i)
    std::memcpy(to + i * to_bytes, from + i * from_bytes, static_cast<std::size_t>(bytes));
}

}  // namespace

Patches::Patches(const TensorView& x, const Shape& taps, const Shape& outs, const numerics::Convolution& c)
    : x_(x),
      taps_(taps),
      outs_(outs),
      channels_(x.shape.back() / c.groups),
      size_(static_cast<std::int64_t>(size_of(x.dtype))),
      convolution_(c),
      copy_rows_(EADEM_PER_TARGET(scalar_copy_rows, CopyRows).pick()) {
  const int last = taps.rank() - 1;
  Shape before = taps;
  before.pop_back();
  Shape index = Shape::filled(last, 0);
  for (std::int64_t i = before.elements(); i > 0; --i) {
    taps_before_.push_back(index);
    for (int axis = last - 1; axis >= 0 && ++index[axis] == before[axis]; --axis) index[axis] = 0;
  }
  single_runs_ = x.strides.back() == 1 && c.lhs_dilation[last] == 1;
  runs_ = single_runs_ && c.groups == 1 && x.strides[last + 1] == channels_ && c.rhs_dilation[last] == 1 && !c.flip;
}

void Patches::find_lines(std::int64_t out_line, std::int64_t group, std::int64_t first, std::int64_t count,
                         const std::byte** lines) const {
  const int last = taps_.rank() - 1;
  Shape outs = Shape::filled(last, 0);
  for (int axis = last - 1; axis >= 0; --axis) {
    outs[axis] = out_line % outs_[axis];
    out_line /= outs_[axis];
  }
  for (std::int64_t i = 0; i < count; ++i) {
    const Shape& tap = taps_before_[static_cast<std::size_t>(first + i)];
    std::int64_t offset = out_line * x_.strides[0] + group * channels_ * x_.strides.back();
    bool outside = false;
    for (int axis = 0; axis < last && !outside; ++axis) {
      const std::int64_t at =
          numerics::tap_place(convolution_, axis, outs[axis], tap[axis], taps_[axis], x_.shape[axis + 1]);
      outside = at < 0;
      offset += at * x_.strides[axis + 1];
    }
    lines[i] = outside ? nullptr : x_.data + offset * size_;
  }
}

// Elements [term, term + terms) of `width` neighbouring taps, the first of them `offset` places after a window's
// beginning, of outputs [out, out + count).
void Patches::gather_run(const std::byte* line, std::int64_t offset, std::int64_t width, std::int64_t out,
                         std::int64_t count, std::int64_t term, std::int64_t terms, std::byte* to,
                         std::int64_t row_bytes) const {
  const int last = taps_.rank() - 1;
  const std::int64_t stride = convolution_.strides[last], before = convolution_.low[last] - offset;
  const std::int64_t extent = x_.shape[last + 1], place_bytes = x_.strides[last + 1] * size_;
  for (std::int64_t i = 0; i < count;) {
    const std::int64_t at = (out + i) * stride - before;
    std::byte* const row = to + i * row_bytes;
    if (line && at >= 0 && at + width <= extent) {  // as are all up to the last that ends inside
      const std::int64_t inside = std::min(count, (extent - width + before) / stride - out + 1);
      copy_rows_(line + at * place_bytes + term * size_, stride * place_bytes, inside - i, terms * size_, row,
                 row_bytes);
      i = inside;
      continue;
    }
    // Padding up to `begin`, then the input up to `end`.
    const std::int64_t begin =
        std::clamp(std::clamp<std::int64_t>(-at, 0, width) * channels_ - term, std::int64_t{0}, terms);
    const std::int64_t end =
        std::clamp(std::clamp<std::int64_t>(extent - at, 0, width) * channels_ - term, begin, terms);
    std::memset(row, 0, static_cast<std::size_t>(terms * size_));
    if (line && begin < end)
      std::memcpy(row + begin * size_, line + at * place_bytes + (term + begin) * size_,
                  static_cast<std::size_t>((end - begin) * size_));
    ++i;
  }
}

// Channels [channel, channel + count) of one tap of one output, element by element if need be.
void Patches::gather_tap(const std::byte* line, std::int64_t out, std::int64_t tap, std::int64_t channel,
                         std::int64_t count, std::byte* to) const {
  const int last = taps_.rank() - 1;
  const std::int64_t stride = x_.strides.back() * size_;
  const std::int64_t at =
      line ? numerics::tap_place(convolution_, last, out, tap, taps_[last], x_.shape[last + 1]) : -1;
  if (at < 0) {
    std::memset(to, 0, static_cast<std::size_t>(count * size_));
    return;
  }
  const std::byte* from = line + at * x_.strides[last + 1] * size_ + channel * stride;
  for (std::int64_t c = 0; c < count; ++c)
    std::memcpy(to + c * size_, from + c * stride, static_cast<std::size_t>(size_));
}

// Elements [term, term + terms) of a line.
void Patches::gather_line(const std::byte* line, std::int64_t out, std::int64_t count, std::int64_t term,
                          std::int64_t terms, std::byte* to, std::int64_t row_bytes) const {
  const int last = taps_.rank() - 1;
  if (runs_) return gather_run(line, 0, taps_[last], out, count, term, terms, to, row_bytes);
  std::int64_t tap = term / channels_, channel = term % channels_;
  for (std::int64_t left = terms; left > 0; ++tap, channel = 0) {
    const std::int64_t now = std::min(left, channels_ - channel);
    const std::int64_t along = convolution_.flip ? taps_[last] - 1 - tap : tap;
    if (single_runs_)
      gather_run(line, along * convolution_.rhs_dilation[last], 1, out, count, channel, now, to, row_bytes);
    else
      for (std::int64_t i = 0; i < count; ++i) gather_tap(line, out + i, tap, channel, now, to + i * row_bytes);
    to += now * size_;
    left -= now;
  }
}

void Patches::gather(std::int64_t group, std::int64_t row, std::int64_t count, std::int64_t term, std::int64_t terms,
                     std::byte* to, std::int64_t row_bytes) const {
  if (terms == 0) return;
  static thread_local Scratch scratch;
  const int last = taps_.rank() - 1;
  const std::int64_t per_line = taps_[last] * channels_, outs = outs_[last];
  const std::int64_t first = term / per_line, lines = (term + terms - 1) / per_line - first + 1;
  const auto** line =
      reinterpret_cast<const std::byte**>(scratch.take(static_cast<std::size_t>(lines) * sizeof(const std::byte*)));
  for (std::int64_t i = 0; i < count;) {  // the rows of an output line together
    const std::int64_t out = (row + i) % outs, here = std::min(count - i, outs - out);
    find_lines((row + i) / outs, group, first, lines, line);
    std::byte* part = to + i * row_bytes;
    for (std::int64_t l = 0, left = terms, at = term - first * per_line; left > 0; ++l, at = 0) {
      const std::int64_t now = std::min(left, per_line - at);
      gather_line(line[l], out, here, at, now, part, row_bytes);
      part += now * size_;
      left -= now;
    }
    i += here;
  }
}

}  // namespace eadem::kernels
#endif
