#include "eadem/kernels/convolution/patches.h"

#include <cstring>
#include <limits>

#include "eadem/base/memory.h"

namespace eadem::kernels {
namespace {

constexpr std::int64_t kNowhere = std::numeric_limits<std::int64_t>::min();

}  // namespace

Patches::Patches(const TensorView& x, const Shape& taps, const Shape& outs, const numerics::Convolution& c)
    : x_(x),
      taps_(taps),
      outs_(outs),
      groups_(c.groups),
      channels_(x.shape.back() / c.groups),
      size_(static_cast<std::int64_t>(size_of(x.dtype))),
      convolution_(c) {
  const int last = taps.rank() - 1;
  for (const std::int64_t extent : taps) taps_along_ += static_cast<std::size_t>(extent);
  Shape before = taps;
  before.pop_back();
  Shape index = Shape::filled(last, 0);
  for (std::int64_t i = before.elements(); i > 0; --i) {
    taps_before_.push_back(index);
    for (int axis = last - 1; axis >= 0 && ++index[axis] == before[axis]; --axis) index[axis] = 0;
  }
  runs_ = groups_ == 1 && x.strides.back() == 1 && x.strides[last + 1] == channels_ && c.rhs_dilation[last] == 1 &&
          c.lhs_dilation[last] == 1 && !c.flip;
}

void Patches::copy_channels(const std::byte* from, std::int64_t group_stride, std::byte* to) const {
  const std::int64_t stride = x_.strides.back() * size_;
  for (std::int64_t group = 0; group < groups_; ++group, to += group_stride, from += channels_ * stride) {
    if (stride == size_) {
      std::memcpy(to, from, static_cast<std::size_t>(channels_ * size_));
      continue;
    }
    for (std::int64_t c = 0; c < channels_; ++c)
      std::memcpy(to + c * size_, from + c * stride, static_cast<std::size_t>(size_));
  }
}

const std::byte* Patches::begin_row(std::int64_t row, const std::int64_t** places) const {
  static thread_local Scratch scratch;
  auto* to = reinterpret_cast<std::int64_t*>(scratch.take(taps_along_ * sizeof(std::int64_t)));
  const numerics::Convolution& c = convolution_;
  for (int axis = taps_.rank() - 1; axis >= 0; --axis) {
    const std::int64_t out = row % outs_[axis], taps = taps_[axis], extent = x_.shape[axis + 1];
    const std::int64_t step = x_.strides[axis + 1] * size_;
    row /= outs_[axis];
    places[axis] = to;
    if (c.lhs_dilation[axis] == 1 && !c.flip) {  // without a division
      std::int64_t at = out * c.strides[axis] - c.low[axis];
      for (std::int64_t tap = 0; tap < taps; ++tap, at += c.rhs_dilation[axis])
        to[tap] = at < 0 || at >= extent ? kNowhere : at * step;
    } else {
      for (std::int64_t tap = 0; tap < taps; ++tap) {
        const std::int64_t at = numerics::tap_place(c, axis, out, tap, taps, extent);
        to[tap] = at < 0 ? kNowhere : at * step;
      }
    }
    to += taps;
  }
  return x_.data + row * x_.strides[0] * size_;
}

void Patches::gather_row(std::int64_t row, std::int64_t group_stride, std::byte* to) const {
  const int last = taps_.rank() - 1;
  const std::int64_t *places[kMaxRank], per_tap = channels_ * size_, width = taps_[last];
  const std::byte* base = begin_row(row, places);
  const std::int64_t* along = places[last];
  for (const Shape& tap : taps_before_) {
    const std::byte* from = base;
    bool outside = false;
    for (int axis = 0; axis < last; ++axis) {
      const std::int64_t place = places[axis][tap[axis]];
      outside = outside || place == kNowhere;
      if (!outside) from += place;
    }
    for (std::int64_t t = 0; t < width;) {
      std::int64_t end = t + 1;  // of taps alike
      const bool nowhere = outside || along[t] == kNowhere;
      if (runs_)
        while (end < width && (outside || (along[end] == kNowhere) == nowhere)) ++end;
      if (nowhere)
        for (std::int64_t group = 0; group < groups_; ++group)
          std::memset(to + group * group_stride, 0, static_cast<std::size_t>((end - t) * per_tap));
      else if (runs_)
        std::memcpy(to, from + along[t], static_cast<std::size_t>((end - t) * per_tap));
      else
        copy_channels(from + along[t], group_stride, to);
      to += (end - t) * per_tap;
      t = end;
    }
  }
}

void Patches::places(std::int64_t row, const std::byte** to) const {
  const int last = taps_.rank() - 1;
  const std::int64_t* along[kMaxRank];
  const std::byte* base = begin_row(row, along);
  for (const Shape& tap : taps_before_) {
    std::int64_t offset = 0;
    bool outside = false;
    for (int axis = 0; axis < last; ++axis) {
      const std::int64_t place = along[axis][tap[axis]];
      outside = outside || place == kNowhere;
      if (!outside) offset += place;
    }
    for (std::int64_t t = 0; t < taps_[last]; ++t)
      *to++ = outside || along[last][t] == kNowhere ? nullptr : base + offset + along[last][t];
  }
}

void Patches::gather(std::int64_t first, std::int64_t count, std::byte* to) const {
  const std::int64_t bytes = terms() * size_;
  for (std::int64_t i = 0; i < count; ++i) gather_row(first + i, count * bytes, to + i * bytes);
}

}  // namespace eadem::kernels
