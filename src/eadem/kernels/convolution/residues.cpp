#include "eadem/kernels/convolution/residues.h"

#include <numeric>

#include "eadem/numerics/contraction.h"

namespace eadem::kernels {
namespace {

// Along one axis.
struct Along {
  std::int64_t first_out, out_step, outs, first_tap, tap_step, taps, stride, low, dilation;
};

std::vector<Along> residues_along(const numerics::Convolution& c, int axis, std::int64_t taps, std::int64_t outs) {
  const std::int64_t holes = c.lhs_dilation[axis], stride = c.strides[axis], dilation = c.rhs_dilation[axis];
  const std::int64_t out_step = holes / std::gcd(holes, stride), tap_step = holes / std::gcd(holes, dilation);
  const auto place = [&](std::int64_t out, std::int64_t tap) {  // among input and holes
    return out * stride - c.low[axis] + (c.flip ? taps - 1 - tap : tap) * dilation;
  };
  std::vector<Along> all;
  for (std::int64_t out = 0; out < std::min(out_step, outs); ++out) {
    Along one{out,
              out_step,
              (outs - out + out_step - 1) / out_step,
              0,
              tap_step,
              0,
              out_step * stride / holes,
              0,
              tap_step * dilation / holes};
    std::int64_t tap = 0;
    while (tap < std::min(tap_step, taps) && place(out, tap) % holes != 0) ++tap;
    if (tap < std::min(tap_step, taps)) {
      one.first_tap = tap;
      one.taps = (taps - tap + tap_step - 1) / tap_step;
      // The tap that lies lowest in the input.
      one.low = -place(out, c.flip ? tap + (one.taps - 1) * tap_step : tap) / holes;
    }
    all.push_back(one);
  }
  return all;
}

}  // namespace

std::vector<Residue> residues_of(const numerics::Convolution& c, const Shape& taps, const Shape& outs) {
  std::vector<Residue> all(1);
  all[0].convolution.groups = c.groups;
  all[0].convolution.flip = c.flip;
  for (int axis = 0; axis < taps.rank(); ++axis) {
    std::vector<Residue> longer;
    for (const Residue& begun : all)
      for (const Along& along : residues_along(c, axis, taps[axis], outs[axis])) {
        Residue& next = longer.emplace_back(begun);
        next.convolution.strides.push_back(along.stride);
        next.convolution.low.push_back(along.low);
        next.convolution.high.push_back(0);  // unused: the outputs are counted
        next.convolution.lhs_dilation.push_back(1);
        next.convolution.rhs_dilation.push_back(along.dilation);
        next.taps.push_back(along.taps), next.outs.push_back(along.outs);
        next.first_out.push_back(along.first_out), next.out_steps.push_back(along.out_step);
        next.first_tap.push_back(along.first_tap), next.tap_steps.push_back(along.tap_step);
      }
    all = std::move(longer);
  }
  return all;
}

ResidueTerms terms_of(const Residue& residue, const Shape& taps, std::int64_t channels) {
  constexpr std::int64_t step = numerics::kStepTerms, block_steps = numerics::kBlockTerms / step;
  const std::int64_t steps_of_tap = channels / step, steps = taps.elements() * steps_of_tap;
  ResidueTerms terms;
  std::int64_t next = 0;  // of the residue's own terms
  for (std::int64_t at = 0; at < steps; ++at) {
    if (at % block_steps == 0) terms.borders.push_back(static_cast<std::int64_t>(terms.whole.size()) * step);
    bool met = true;
    std::int64_t tap = at / steps_of_tap;
    for (int axis = taps.rank() - 1; axis >= 0; tap /= taps[axis--]) {
      const std::int64_t from_first = tap % taps[axis] - residue.first_tap[axis];
      met = met && residue.taps[axis] > 0 && from_first >= 0 && from_first % residue.tap_steps[axis] == 0;
    }
    const bool ends = (at + 1) % block_steps == 0 || at + 1 == steps;
    const bool empty = terms.borders.back() == static_cast<std::int64_t>(terms.whole.size()) * step;
    if (!met && !(ends && empty)) continue;
    terms.own.push_back(met ? next : -1);
    terms.whole.push_back(at * step);
    if (met) next += step;
  }
  terms.borders.push_back(static_cast<std::int64_t>(terms.whole.size()) * step);
  return terms;
}

}  // namespace eadem::kernels
