#pragma once

#include <vector>

#include "eadem/numerics/convolution.h"

namespace eadem::kernels {

/// The outputs of a convolution over a dilated input whose places agree modulo the dilation meet the same taps, all
/// others holes: they are a convolution of their own without holes.
struct Residue {
  numerics::Convolution convolution;
  Shape taps, outs;            ///< the extents of those taps and outputs
  Shape first_out, out_steps;  ///< along each axis, in the whole
  Shape first_tap, tap_steps;
};
/// Those that have outputs.
std::vector<Residue> residues_of(const numerics::Convolution& c, const Shape& taps, const Shape& outs);

/// The terms of a residue among those of the whole: a block none of whose terms it has keeps a step of zeros, so that
/// blocks stay what they were.
struct ResidueTerms {
  std::vector<std::int64_t> borders;  ///< where the blocks begin, and the end
  std::vector<std::int64_t> own;      ///< of each step: its first term in the residue's own order; -1: zeros
  std::vector<std::int64_t> whole;    ///< of each step: its first term in the whole
};
/// `channels` of a group, a multiple of a step.
ResidueTerms terms_of(const Residue& residue, const Shape& taps, std::int64_t channels);

}  // namespace eadem::kernels
