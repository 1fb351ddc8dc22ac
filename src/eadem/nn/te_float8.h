#pragma once

#include "eadem/nn/te.h"
#include "eadem/ops/float8.h"
#include "eadem/ops/ops.h"

// Products of 8-bit floats as Transformer Engine's recipes make them: operands are scaled, rounded to E4M3 (cotangents
// to E5M2 in the hybrid format), kept as codes, and multiplied exactly in the contractions' one order; the scales come
// off in f32 before the one rounding of the result.

namespace eadem::nn::te {

/// A tensor in 8 bits: from_float8(codes) / scale, or times 2^(exponent - 127) where there are blocks.
struct Float8Tensor {
  Array codes;   ///< u8, the tensor's shape
  Array scales;  ///< f32 [], a factor that came before the rounding; or u8 [.., blocks], exponents (E8M0)
  Float8 format = Float8::e4m3;
  static void fields(auto& m, auto f) { f("codes", m.codes), f("scales", m.scales), f("format", m.format); }
};
inline constexpr std::int64_t kFloat8Block = 32;

/// x scale, in f32, rounded to 8 bits, too large ones to the largest. scale: f32 [].
Float8Tensor quantize_float8(const Array& x, Float8 format, const Array& scale);
/// With the scale that takes x's largest magnitude to the format's largest number; 1 where that is 0 or not finite.
Float8Tensor quantize_float8(const Array& x, Float8 format);
/// Along the last axis, each 32 elements divided by the least power of two with which none is too large. The last block
/// may be shorter. Source: OCP Microscaling Formats (MX) Specification 1.0, 2023; the power is rounded up, as there.
Float8Tensor quantize_float8_blocks(const Array& x, Float8 format = Float8::e4m3);
/// The numbers that it stands for, rounded to `dtype`.
Array dequantize_float8(const Float8Tensor& x, DType dtype = DType::f32);

/// The scale after a step in which the largest magnitude was `amax`: (largest / max of history) / 2^margin; the old one
/// where that maximum is 0 or not finite; the largest f32 where the quotient is infinite.
Float8Scale after_step(const Float8Scale& before, const Array& amax, Float8 format, const Float8Recipe& recipe);

/// The next states of a product that one step makes twice, as one: that of the greater magnitude, or of a NaN. States
/// are pairs of scale and history; leading axes are layers.
Arrays joined_float8_states(const Arrays& one, const Arrays& other);

/// Whether a leaf of this path is of an fp8_state.
inline bool is_float8_state(std::string_view path) {
  return path.find("fp8_state/") != std::string_view::npos;
}
/// The leaves of every fp8_state of a model or its gradient, in order.
template <class M>
Arrays float8_states(const M& model) {
  Arrays states;
  for_each_leaf(model, [&](const std::string& path, const Array& leaf) {
    if (is_float8_state(path)) states.push_back(leaf);
  });
  return states;
}

/// The model with every fp8_state taken from its gradient: what a training step does last. A product that the step did
/// not make, or of no rows, keeps its state. One that it makes more than once (shared weights, micro-batches) gets the
/// largest magnitude of all, as in Transformer Engine.
template <class M>
M with_float8_state(M model, const M& gradient) {
  const Arrays from = leaves(gradient);
  std::size_t next = 0;
  Array is_next;  // of a product's scale, which comes before its history; [layers] in a Stack
  for_each_leaf(model, [&](const std::string& path, Array& leaf) {
    const Array& other = from.at(next++);
    if (!is_float8_state(path)) return;
    const bool is_scale = path.ends_with("/scale");
    if (is_scale) is_next = other > 0;
    leaf = where(is_scale ? is_next : expand_dims(is_next, -1), other, leaf);
  });
  return model;
}

}  // namespace eadem::nn::te
