#include "eadem/nn/te_float8.h"

#include <cmath>
#include <limits>

#include "eadem/transforms/transforms.h"

namespace eadem::nn::te {
namespace {

Array number(double x) {
  return Array::scalar(x, DType::f32);
}

Array largest_magnitude(const Array& x) {
  return convert(max(abs(x)), DType::f32);
}

Array is_usable(const Array& amax) {
  return logical_and(greater(amax, number(0)), is_finite(amax));
}

// largest / amax / 2^margin, at most the largest f32; `otherwise` where amax tells nothing.
Array scale_for(const Array& amax, Float8 format, int margin, const Array& otherwise) {
  const Array fits = divide(number(numerics::largest_of(format)), amax) * std::ldexp(1.0, -margin);
  const Array finite = minimum(fits, number(std::numeric_limits<float>::max()));
  return where(is_usable(amax), finite, otherwise);
}

Array reciprocal_of(const Array& scale) {
  return divide(number(1), scale);
}

// a [m, k] b [k, n] in f32, both exact in bf16; times what takes their scales off.
Array product(const Array& a, const Array& b, const std::optional<Array>& factor, DType result) {
  const Array sums = dot_general(a, b, {1}, {0}, {}, {}, DType::f32);
  return convert(factor ? sums * *factor : sums, result);
}

// A product's three contractions where a tensor has one scale.
struct WholeTensors {
  Float8Recipe recipe;

  Float8 cotangent_format() const { return recipe.hybrid ? Float8::e5m2 : Float8::e4m3; }
  Float8Tensor quantized(const Array& x, Float8 format, const Float8Scale& state) const {
    if (recipe.scaling == Float8Scaling::delayed) return quantize_float8(x, format, state.scale);
    return quantize_float8(x, format);
  }
  Float8Scale next(const Float8Scale& state, const Array& amax, Float8 format) const {
    return recipe.scaling == Float8Scaling::delayed ? after_step(state, amax, format, recipe) : state;
  }

  Array value(const Float8Tensor& x, const Float8Tensor& w, DType dtype) const {
    return product(from_float8(x.codes, Float8::e4m3, DType::bf16), from_float8(w.codes, Float8::e4m3, DType::bf16),
                   reciprocal_of(x.scales) * reciprocal_of(w.scales), dtype);
  }
  Array forward(const Array& x, const Array& w, const Float8State& state) const {
    return value(quantized(x, Float8::e4m3, state.x), quantized(w, Float8::e4m3, state.kernel), x.dtype());
  }
  auto with_residuals(const Array& x, const Array& w, const Float8State& state) const {
    const Float8Tensor qx = quantized(x, Float8::e4m3, state.x), qw = quantized(w, Float8::e4m3, state.kernel);
    const Float8State after{next(state.x, largest_magnitude(x), Float8::e4m3),
                            next(state.kernel, largest_magnitude(w), Float8::e4m3), state.grad};
    return std::pair(value(qx, qw, x.dtype()), std::tuple(qx, qw, after));
  }
  std::tuple<Array, Array, Float8State> backward(const Float8Tensor& x, const Float8Tensor& w, Float8State state,
                                                 const Array& cotangent, DType x_dtype, DType w_dtype) const {
    const Float8Tensor g = quantized(cotangent, cotangent_format(), state.grad);
    const Array gs = from_float8(g.codes, g.format, DType::bf16), off = reciprocal_of(g.scales);
    const Array dx =
        product(gs, transpose(from_float8(w.codes, Float8::e4m3, DType::bf16)), off * reciprocal_of(w.scales), x_dtype);
    const Array dw =
        product(transpose(from_float8(x.codes, Float8::e4m3, DType::bf16)), gs, off * reciprocal_of(x.scales), w_dtype);
    state.grad = next(state.grad, largest_magnitude(cotangent), cotangent_format());
    return {dx, dw, state};
  }
};

// The numbers of x [m, k] as blocks along k give them.
Array in_blocks(const Array& x) {
  return dequantize_float8(quantize_float8_blocks(x), DType::bf16);
}
// A block lies along what is contracted, so each contraction has its own.
Array block_product(const Array& a, const Array& b, DType result) {
  return product(in_blocks(a), transpose(in_blocks(transpose(b))), std::nullopt, result);
}

constexpr auto kJoinStates = [](const Float8State& one, const Float8State& other) {
  return with_leaves(one, joined_float8_states(leaves(one), leaves(other)));
};

}  // namespace

Float8Tensor quantize_float8(const Array& x, Float8 format, const Array& scale) {
  if (scale.dtype() != DType::f32 || scale.rank() != 0)
    fail<TypeError>("[quantize_float8] needs a scale f32[], got {}", scale.type());
  return {to_float8(convert(x, DType::f32) * scale, format), scale, format};
}
Float8Tensor quantize_float8(const Array& x, Float8 format) {
  if (x.elements() == 0) return quantize_float8(x, format, number(1));
  return quantize_float8(x, format, scale_for(largest_magnitude(x), format, 0, number(1)));
}

Float8Tensor quantize_float8_blocks(const Array& x, Float8 format) {
  if (x.rank() == 0) fail<ShapeError>("[quantize_float8_blocks] needs an axis to cut into blocks, got {}", x.type());
  const std::int64_t length = x.shape().back(), blocks = (length + kFloat8Block - 1) / kFloat8Block;
  Shape none, rest, cut = x.shape(), kept = x.shape();
  for (int axis = 0; axis < x.rank(); ++axis) none.push_back(0), rest.push_back(0);
  rest.back() = blocks * kFloat8Block - length;
  cut.back() = blocks;
  const Shape scales_shape = cut;
  cut.push_back(kFloat8Block);
  kept.back() = blocks * kFloat8Block;
  const Array wide = convert(x, DType::f32);
  const Array whole = reshape(rest.back() ? pad(wide, number(0), none, rest) : wide, cut);
  // The exponent of the least power of two not below amax / largest; f64's log2 tells the two sides of a power apart.
  const Array ratio = max(abs(whole), {-1}, true) * (1 / numerics::largest_of(format));
  const Array exponent = convert(ceil(log2(convert(ratio, DType::f64))), DType::f32);
  const Array bounded = where(is_usable(ratio), clamp(exponent, number(-127), number(127)), number(0));
  const Array codes = reshape(to_float8(whole * exp2(negate(bounded)), format), kept);
  std::vector<Slice> ranges(static_cast<std::size_t>(x.rank()));
  ranges.back().stop = length;
  return {slice(codes, ranges), reshape(convert(bounded + 127.0, DType::u8), scales_shape), format};
}

Array dequantize_float8(const Float8Tensor& x, DType dtype) {
  if (x.scales.dtype() == DType::f32)
    return convert(from_float8(x.codes, x.format, DType::f32) * reciprocal_of(x.scales), dtype);
  // Each exponent for its block's elements, the last of which may be missing.
  Shape repeated = x.scales.shape(), flat = repeated;
  repeated.push_back(kFloat8Block);
  flat.back() *= kFloat8Block;
  const Array factors = exp2(convert(x.scales, DType::f32) - 127.0);
  std::vector<Slice> ranges(static_cast<std::size_t>(x.codes.rank()));
  ranges.back().stop = x.codes.shape().back();
  const Array each = slice(reshape(broadcast_to(expand_dims(factors, -1), repeated), flat), ranges);
  return convert(from_float8(x.codes, x.format, DType::f32) * each, dtype);
}

Float8Scale after_step(const Float8Scale& before, const Array& amax, Float8 format, const Float8Recipe& recipe) {
  const std::int64_t length = before.amax_history.elements();
  if (length < 1)
    fail<ValueError>("[after_step] needs a history of at least one step, got {}", before.amax_history.type());
  const Array now = reshape(convert(amax, DType::f32), {1});
  const Array history =
      length == 1 ? now : concatenate(std::vector<Array>{now, slice_axis(before.amax_history, 0, {0, length - 1})}, 0);
  const Array most = recipe.most_recent ? reshape(now, {}) : max(history);
  return {scale_for(most, format, recipe.margin, before.scale), history};
}

Arrays joined_float8_states(const Arrays& one, const Arrays& other) {
  Arrays joined;
  for (std::size_t i = 0; i + 1 < one.size(); i += 2) {
    const Array &scale = one[i], &history = one[i + 1], &other_scale = other[i], &other_history = other[i + 1];
    // What came before is in both, so the greater of the last magnitudes has the greatest of all. A state that is not
    // there is zeros, and so the less where both magnitudes are 0.
    Array other_counts = other_scale > scale;
    if (history.shape().back() > 0) {
      const auto last = [](const Array& h) { return squeeze(slice_axis(h, -1, {0, 1}), -1); };
      const Array a = last(history), b = last(other_history);
      other_counts = where(equal(a, b), other_counts, logical_and(logical_not(is_nan(a)), logical_not(b < a)));
    }
    joined.push_back(where(other_counts, other_scale, scale));
    joined.push_back(where(expand_dims(other_counts, -1), other_history, history));
  }
  return joined;
}

Float8State fresh_float8_state(const Float8Recipe& recipe) {
  const bool delayed = recipe.scaling == Float8Scaling::delayed;
  if (delayed && recipe.history < 1)
    fail<ValueError>("[Float8Recipe] needs a history of at least one step, got {}", recipe.history);
  const Float8Scale fresh{number(1), zeros({delayed ? recipe.history : 0})};
  return {fresh, fresh, fresh};
}

Array float8_product(const Array& x, const Array& kernel, const Float8State& state, const Float8Recipe& recipe) {
  const DType x_dtype = x.dtype(), w_dtype = kernel.dtype();
  if (x.shape()[0] == 0) return zeros({0, kernel.shape()[1]}, x_dtype);
  if (recipe.scaling == Float8Scaling::block) {
    return custom_vjp([=](const Array& a, const Array& w, const Float8State&) { return block_product(a, w, x_dtype); },
                      [=](const Array& a, const Array& w, const Float8State& s) {
                        return std::pair(block_product(a, w, x_dtype), std::tuple(a, w, s));
                      },
                      [=](const std::tuple<Array, Array, Float8State>& kept, const Array& g) {
                        const auto& [a, w, s] = kept;
                        return std::tuple(block_product(g, transpose(w), x_dtype),
                                          block_product(transpose(a), g, w_dtype), s);
                      },
                      kJoinStates)(x, kernel, state);
  }
  const WholeTensors whole{recipe};
  return custom_vjp([=](const Array& a, const Array& w, const Float8State& s) { return whole.forward(a, w, s); },
                    [=](const Array& a, const Array& w, const Float8State& s) { return whole.with_residuals(a, w, s); },
                    [=](const std::tuple<Float8Tensor, Float8Tensor, Float8State>& kept, const Array& g) {
                      const auto& [a, w, s] = kept;
                      return whole.backward(a, w, s, g, x_dtype, w_dtype);
                    },
                    kJoinStates)(x, kernel, state);
}

}  // namespace eadem::nn::te
