#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "eadem/array/array.h"
#include "eadem/kernels/quantized/packed.h"
#include "eadem/numerics/attention.h"

// The public operations. Axes may be negative; shapes broadcast as NumPy's where an operation says so; every bad
// argument throws ShapeError, TypeError or ValueError that names the operation, what it needs and what it got.

namespace eadem {

namespace ops {
/// Axes, already normalised.
struct AxesAttribute {
  Shape axes;
  static constexpr auto fields() { return std::tuple(field("axes", &AxesAttribute::axes)); }
};
/// Pairs of axes, already normalised.
struct DotAttribute {
  Shape lhs_contracting, rhs_contracting, lhs_batch, rhs_batch;
  std::optional<DType> preferred;
  static constexpr auto fields() {
    using D = DotAttribute;
    return std::tuple(field("lhs_contracting", &D::lhs_contracting), field("rhs_contracting", &D::rhs_contracting),
                      field("lhs_batch", &D::lhs_batch), field("rhs_batch", &D::rhs_batch),
                      field("preferred", &D::preferred));
  }
};
struct AxisAttribute {
  std::int64_t axis = 0;
  static constexpr auto fields() { return std::tuple(field("axis", &AxisAttribute::axis)); }
};
}  // namespace ops

// ---- Data movement: bits are kept. ----

/// The same elements, row-major, under another shape; one extent may be -1.
Array reshape(const Array& x, const Shape& shape);
/// Permutes the axes: axis i of the result is axis axes[i] of x.
Array transpose(const Array& x, const Shape& axes);
/// Reverses the order of the axes.
Array transpose(const Array& x);
/// Exchanges two axes.
Array swap_axes(const Array& x, std::int64_t a, std::int64_t b);
/// Moves one axis to another place; the others keep their order.
Array move_axis(const Array& x, std::int64_t from, std::int64_t to);
/// Repeats along new leading axes and axes of extent one.
Array broadcast_to(const Array& x, const Shape& shape);
/// Inserts an axis of extent one.
Array expand_dims(const Array& x, std::int64_t axis);
/// Removes an axis of extent one.
Array squeeze(const Array& x, std::int64_t axis);
/// A range of one axis as Python's start:stop:step: absent and negative bounds, any step but zero.
struct Slice {
  std::optional<std::int64_t> start = std::nullopt, stop = std::nullopt;
  std::int64_t step = 1;
};
/// x[ranges...], a range an axis from the first; axes without one are kept whole.
Array slice(const Array& x, std::span<const Slice> ranges);
inline Array slice(const Array& x, std::initializer_list<Slice> ranges) {
  return slice(x, std::span<const Slice>(ranges.begin(), ranges.size()));
}
/// One axis' range.
Array slice_axis(const Array& x, std::int64_t axis, Slice range);
/// Reverses the order along the axes.
Array reverse(const Array& x, const Shape& axes);
/// x itself when its elements lie row-major without gaps, else a copy that does.
Array contiguous(const Array& x);
/// A copy in fresh memory.
Array copy(const Array& x);
/// Joins arrays of one dtype along an axis; all other extents must agree.
Array concatenate(std::span<const Array> arrays, std::int64_t axis);
/// Joins arrays of equal type along a new axis.
Array stack(std::span<const Array> arrays, std::int64_t axis = 0);
/// Pads each axis with `value` (a scalar of x's dtype): low and high at the ends (negative crops), interior between.
Array pad(const Array& x, const Array& value, const Shape& low, const Shape& high, const Shape& interior = {});
/// A window of `size` at `start` (an integer array [rank]), clamped into x as XLA does.
Array dynamic_slice(const Array& x, const Array& start, const Shape& size);
/// x with `update` written at `start` (an integer array [rank]), clamped into x as XLA does.
Array dynamic_update_slice(const Array& x, const Array& update, const Array& start);
/// x's slices along `axis` at integer `indices` (any shape); negative ones count from the end. Throws ValueError for
/// an index out of range; inside a transform, where the indices are not known yet, it is clamped into the axis.
Array take(const Array& x, const Array& indices, std::int64_t axis);
/// x with its slices along `axis` at `indices` (as take reads them) replaced by `updates`, of the shape that take
/// gives; where indices repeat, the last update stays.
Array scatter(const Array& x, const Array& indices, const Array& updates, std::int64_t axis);
/// x with `updates` added at `indices`, as scatter: each element is the exact sum of all that goes there, rounded once;
/// integers wrap.
Array scatter_add(const Array& x, const Array& indices, const Array& updates, std::int64_t axis);
/// 0, 1, 2, ... along `axis` of an array of this type.
Array iota(DType dtype, const Shape& shape, std::int64_t axis);
/// The numbers 0 .. count-1.
Array arange(std::int64_t count, DType dtype = DType::i64);
/// An array of this type filled with a value, rounded once; zeros, ones; and of another array's type. Broadcast: one
/// element of memory.
Array full(const Shape& shape, double value, DType dtype = DType::f32);
inline Array zeros(const Shape& shape, DType dtype = DType::f32) {
  return full(shape, 0, dtype);
}
inline Array ones(const Shape& shape, DType dtype = DType::f32) {
  return full(shape, 1, dtype);
}
inline Array full_like(const Array& x, double value) {
  return full(x.shape(), value, x.dtype());
}
inline Array zeros_like(const Array& x) {
  return full_like(x, 0);
}
inline Array ones_like(const Array& x) {
  return full_like(x, 1);
}
/// x, through which no derivative passes.
Array stop_gradient(const Array& x);
/// x under a name by which the policies of `remat` may choose to keep it. Throws ValueError for a name that is empty or
/// holds spaces, commas, '=', '@', '%' or brackets.
Array checkpoint_name(const Array& x, const std::string& name);
/// x, which a function given to `compile` may then use although it is large and no argument: its value is fixed.
Array constant(const Array& x);
/// Keeps the lower triangle of the last two axes, up to diagonal k; zero elsewhere.
Array tril(const Array& x, std::int64_t k = 0);
/// Keeps the upper triangle of the last two axes, from diagonal k; zero elsewhere.
Array triu(const Array& x, std::int64_t k = 0);

// ---- Elementwise. Operands are promoted to one dtype and broadcast; a function of reals takes integers as f32. ----
// The bits are those of numerics.md sections 1 and 2; an operation that does not take a dtype throws TypeError.

/// x in another dtype: one rounding; float to integer saturates (NaN gives 0), to bool is x != 0.
Array convert(const Array& x, DType dtype);
/// a where the bool predicate holds, else b; bits are kept.
Array where(const Array& predicate, const Array& a, const Array& b);

/// -x.
Array negate(const Array& x);
/// |x|; of integers, |MIN| is MIN.
Array abs(const Array& x);
/// -1, 0 or 1; a zero keeps its sign.
Array sign(const Array& x);
/// max(x, 0), -0 as +0; its derivative at 0 is 0.
Array relu(const Array& x);
/// a + b; integers wrap, as in all arithmetic.
Array add(const Array& a, const Array& b);
/// a - b.
Array subtract(const Array& a, const Array& b);
/// a b.
Array multiply(const Array& a, const Array& b);
/// a / b; integers truncate as C's, x/0 is -1 (all bits set), MIN/-1 is MIN.
Array divide(const Array& a, const Array& b);
/// C's fmod and %: exact, with the sign of a.
Array fmod(const Array& a, const Array& b);
/// Python's and NumPy's %: with the sign of b.
Array remainder(const Array& a, const Array& b);
/// The larger; NaN propagates, -0 < +0.
Array maximum(const Array& a, const Array& b);
/// The smaller; NaN propagates, -0 < +0.
Array minimum(const Array& a, const Array& b);
/// a b + c, rounded once.
Array fma(const Array& a, const Array& b, const Array& c);
/// minimum(maximum(x, low), high).
Array clamp(const Array& x, const Array& low, const Array& high);

/// To integral values of the same floating dtype; round takes halves to even.
Array floor(const Array& x);
Array ceil(const Array& x);
Array round(const Array& x);
Array trunc(const Array& x);

/// Comparisons by value, to bool; NaN is unequal to everything.
Array equal(const Array& a, const Array& b);
Array not_equal(const Array& a, const Array& b);
Array less(const Array& a, const Array& b);
Array less_equal(const Array& a, const Array& b);
Array greater(const Array& a, const Array& b);
Array greater_equal(const Array& a, const Array& b);
/// Tests of floating arrays, to bool.
Array is_nan(const Array& x);
Array is_inf(const Array& x);
Array is_finite(const Array& x);

/// Bits of integers and bool.
Array bitwise_and(const Array& a, const Array& b);
Array bitwise_or(const Array& a, const Array& b);
Array bitwise_xor(const Array& a, const Array& b);
Array bitwise_not(const Array& x);
/// Integers shifted by b bits, b read as unsigned; from the width on, 0 (arithmetic: the sign).
Array shift_left(const Array& a, const Array& b);
Array shift_right_logical(const Array& a, const Array& b);
Array shift_right_arithmetic(const Array& a, const Array& b);
/// The number of bits set, and of zero bits above the highest one set, in x's dtype.
Array population_count(const Array& x);
Array count_leading_zeros(const Array& x);
/// Of x != 0, to bool.
Array logical_and(const Array& a, const Array& b);
Array logical_or(const Array& a, const Array& b);
Array logical_xor(const Array& a, const Array& b);
Array logical_not(const Array& x);

// Elementary functions: in f32, bf16 and f16 the exact real function rounded once; in f64 within 1 ulp.

/// 1/x, the square root, 1/sqrt(x), the cube root.
Array reciprocal(const Array& x);
Array sqrt(const Array& x);
Array rsqrt(const Array& x);
Array cbrt(const Array& x);
/// Exponentials, e^x - 1, and logarithms, log(1 + x).
Array exp(const Array& x);
Array exp2(const Array& x);
Array expm1(const Array& x);
Array log(const Array& x);
Array log2(const Array& x);
Array log10(const Array& x);
Array log1p(const Array& x);
/// log(e^x + e^y): logsumexp of the two, -inf where both are.
Array logaddexp(const Array& x, const Array& y);
/// x^y, with C's special cases.
Array pow(const Array& x, const Array& y);
/// Trigonometric functions of radians, and hyperbolic ones, and their inverses.
Array sin(const Array& x);
Array cos(const Array& x);
Array tan(const Array& x);
Array asin(const Array& x);
Array acos(const Array& x);
Array atan(const Array& x);
Array sinh(const Array& x);
Array cosh(const Array& x);
Array tanh(const Array& x);
Array asinh(const Array& x);
Array acosh(const Array& x);
Array atanh(const Array& x);
/// The angle of the point (x, y), and its distance from the origin.
Array atan2(const Array& y, const Array& x);
Array hypot(const Array& x, const Array& y);
/// The error function, 1 - erf(x), the inverse of erf, and sqrt(2) times that.
Array erf(const Array& x);
Array erfc(const Array& x);
Array erfinv(const Array& x);
Array sqrt2_erfinv(const Array& x);
/// 1/(1 + exp(-x)), its inverse log(x/(1 - x)), x sigmoid(x), log(1 + exp(x)).
Array sigmoid(const Array& x);
Array logit(const Array& x);
Array silu(const Array& x);
Array softplus(const Array& x);
/// x Phi(x) with Phi the normal distribution; and its tanh form, the constants as exact reals.
Array gelu(const Array& x);
Array gelu_tanh(const Array& x);
/// Derivatives at x.
Array tanh_derivative(const Array& x);
Array sigmoid_derivative(const Array& x);
Array silu_derivative(const Array& x);
Array gelu_derivative(const Array& x);
Array gelu_tanh_derivative(const Array& x);

// ---- Random numbers (numerics.md section 8): pure functions of a key, never of a hidden state. ----
// A key is u32[2] = (high, low). Of keys u32[..., 2] each gives its own result behind the leading axes.

/// The key of a seed: jax.random.PRNGKey.
Array random_key(std::uint64_t seed);
/// `count` new keys, u32[count, 2]: jax.random.split. Key i does not depend on count.
Array split_key(const Array& key, std::int64_t count = 2);
/// A new key from a key and a number: jax.random.fold_in.
Array fold_in(const Array& key, std::uint32_t data);
Array fold_in(const Array& key, const Array& data);
/// Random bits; dtype u8, u16, u32 or u64: jax.random.bits.
Array random_bits(const Array& key, const Shape& shape, DType dtype = DType::u32);
/// Uniform on [low, high) before its rounding: jax.random.uniform on CPU.
Array uniform(const Array& key, const Shape& shape, DType dtype = DType::f32, double low = 0, double high = 1);
/// Standard normal; 16-bit types are drawn in f32 and rounded.
Array normal(const Array& key, const Shape& shape, DType dtype = DType::f32);
/// Standard normal numbers on (low, high), as jax.random.truncated_normal draws them; 16-bit ones are drawn in f32 and
/// rounded, and never reach the bounds. Throws TypeError, and ValueError when nothing lies between the bounds.
Array truncated_normal(const Array& key, double low, double high, const Shape& shape, DType dtype = DType::f32);
/// True with a probability: uniform(key, shape) < probability; as jax.random.bernoulli. What dropout keeps is
/// bernoulli(key, 1 - rate, shape).
Array bernoulli(const Array& key, double probability, const Shape& shape);
/// 0 .. count-1 in random order, i64: jax.random.permutation(key, count).
Array permutation(const Array& key, std::int64_t count);
/// Draws along the last axis: weights [..., n], not negative and not all zero, and uniforms [...] in f64 in [0, 1) give
/// i64 [...]. A weight of zero is never drawn; -1 where a row's weights or its uniform are not such.
Array categorical(const Array& weights, const Array& uniforms);

// ---- Quantized weights. ----

/// x [..., K] times the transpose of packed weights [N, K], plus a bias [N]: [..., N] in `result` (default: x's dtype).
Array quantized_linear(const Array& x, const kernels::PackedQuantized& w,
                       const std::optional<Array>& bias = std::nullopt, std::optional<DType> result = std::nullopt);
/// Rows of packed weights at integer indices (any shape), dequantized: [..., K].
Array quantized_take(const kernels::PackedQuantized& w, const Array& indices, DType dtype);

// ---- Contractions: one order of additions, numerics.md section 4. ----

/// Sums products over pairs of axes, as jax.lax.dot_general: the result is [batch.., lhs free.., rhs free..]. The
/// contracted index is row-major over the pairs in the order listed. Operands are converted to their promoted dtype,
/// which is the result's; `preferred` asks floating operands for another floating dtype, reached by the one rounding
/// (f64 stays f64). Integers wrap; bool is the "or" of "and"s. Throws ShapeError, TypeError, ValueError.
Array dot_general(const Array& lhs, const Array& rhs, const Shape& lhs_contracting, const Shape& rhs_contracting,
                  const Shape& lhs_batch = {}, const Shape& rhs_batch = {},
                  std::optional<DType> preferred = std::nullopt);
/// The matrix product as numpy.matmul: the last two axes are matrices, the others broadcast; a vector is a row on the
/// left and a column on the right, and its axis is dropped. Dtypes promote. Throws ShapeError, TypeError.
Array matmul(const Array& a, const Array& b);
/// Sums of products by labels of axes, as numpy.einsum: "bij,bjk->bik". Operands are multiplied in pairs from left to
/// right, each pair one dot_general; a label in one operand only that the output lacks is summed first (exactly).
/// Without an arrow the output has the labels that come once, in alphabetical order. A label that an operand has twice
/// takes its diagonal; "..." stands for the axes without label, which broadcast, and leads the output without an arrow.
Array einsum(std::string_view equation, std::span<const Array> operands);
inline Array einsum(std::string_view equation, std::initializer_list<Array> operands) {
  return einsum(equation, std::span<const Array>(operands.begin(), operands.size()));
}
/// x w^T + bias: x [.., K], w [N, K], bias [N] of any floating dtype; [.., N] in `result` (default: the operands'
/// dtype), rounded once after the bias is added in f32 (f64). w's packed form is kept on its buffer. Throws ShapeError,
/// TypeError.
Array linear(const Array& x, const Array& w, const std::optional<Array>& bias = std::nullopt,
             std::optional<DType> result = std::nullopt);

// ---- Attention: numerics.md section 5. ----

/// Whether and where queries stand among the keys: none, lower_right (the last query at the last key), upper_left.
using numerics::Causal;

struct AttentionArguments {
  Causal causal = Causal::none;
  std::int64_t window = 0;             ///< keys that a query sees at most, itself included; 0: all. Needs causal
  double softcap = 0;                  ///< scores become c tanh(s / c); 0: none
  std::optional<double> scale = {};    ///< default 1 / sqrt D, rounded to f32
  std::optional<Array> mask = {};      ///< bool, True = visible; broadcasts to [B, H, Lq, Lk]
  std::optional<Array> bias = {};      ///< added to the scores, f32 or q's dtype; broadcasts; -inf hides a key
  std::optional<Array> start = {};     ///< [B] i32 or i64: the first key of each row (left padding); it moves no bit
  std::optional<Array> length = {};    ///< [B]: keys from there on do not exist
  std::optional<Array> position = {};  ///< [B]: the key at which query 0 stands; default: as causal says
};
/// softmax(scale q k^T) v over the visible keys; +0 where there are none. q: [B, H, Lq, D]; k, v: [B, Hkv, Lk, D], H a
/// multiple of Hkv; the result has q's type.
Array attention(const Array& q, const Array& k, const Array& v, const AttentionArguments& arguments = {});

/// The same over a paged cache (layout: numerics/attention.h, shapes by numerics::key_page_shape, value_page_shape).
/// pages: i32 [B, T], where row b's keys 128 t .. 128 t + 127 lie; length: [B], keys that exist. Takes causal, window,
/// softcap, scale and position. A prefill chunk of which row b holds n new tokens at p: length p + n, position p.
Array paged_attention(const Array& q, const Array& key_pages, const Array& value_pages, const Array& pages,
                      const Array& length, const AttentionArguments& arguments);

/// The pool with fresh rows [B, Hkv, L, D] written at `position` [B]; of each row the first `count` [B] (default L).
/// In place when the pool is moved in and nobody else holds it: `pool = append_key_pages(std::move(pool), ...)`.
Array append_key_pages(Array pool, const Array& fresh, const Array& pages, const Array& position,
                       const std::optional<Array>& count = {});
Array append_value_pages(Array pool, const Array& fresh, const Array& pages, const Array& position,
                         const std::optional<Array>& count = {});

// ---- Reductions: axes may be negative; keepdims leaves them with extent one; without axes, all are reduced. ----

/// The exact sum, rounded once to x's dtype; +0 of nothing. Integers and bool sum to i64 or u64, modulo 2^64.
Array sum(const Array& x, const Shape& axes, bool keepdims = false);
Array sum(const Array& x);
/// The exact mean, rounded once; of integers and bool in f32; NaN of nothing.
Array mean(const Array& x, const Shape& axes, bool keepdims = false);
Array mean(const Array& x);
/// The sum of squared distances from the mean over (count - ddof), in f64, rounded once; NaN unless count > ddof.
Array variance(const Array& x, const Shape& axes, double ddof = 0, bool keepdims = false);
Array variance(const Array& x);
/// The product, which neither overflows nor underflows inside; 1 of nothing. Integers and bool give i64 or u64.
Array prod(const Array& x, const Shape& axes, bool keepdims = false);
Array prod(const Array& x);
/// The maximum: NaN if there is one; -0 is below +0. Throws ShapeError where there are no elements.
Array max(const Array& x, const Shape& axes, bool keepdims = false);
Array max(const Array& x);
/// The minimum: NaN if there is one; -0 is below +0. Throws ShapeError where there are no elements.
Array min(const Array& x, const Shape& axes, bool keepdims = false);
Array min(const Array& x);
/// Whether some element is not zero; NaN is not zero.
Array any(const Array& x, const Shape& axes, bool keepdims = false);
Array any(const Array& x);
/// Whether no element is zero; NaN is not zero.
Array all(const Array& x, const Shape& axes, bool keepdims = false);
Array all(const Array& x);
/// The i64 index of the maximum: the first NaN, else the lowest index of the greatest. Without an axis: the row-major
/// index over the whole array.
Array argmax(const Array& x, std::int64_t axis, bool keepdims = false);
Array argmax(const Array& x);
/// The i64 index of the minimum: the first NaN, else the lowest index of the least.
Array argmin(const Array& x, std::int64_t axis, bool keepdims = false);
Array argmin(const Array& x);
/// Running sums along an axis, from its end if `reverse`: an f64 chain, each prefix rounded once to x's dtype; integers
/// and bool give i64 or u64.
Array cumsum(const Array& x, std::int64_t axis, bool reverse = false);
/// Running products along an axis, which neither overflow nor underflow inside, each rounded once; integers and bool
/// give i64 or u64.
Array cumprod(const Array& x, std::int64_t axis);
/// Running maxima (minima) along an axis, from its end if `reverse`; NaN propagates, -0 is below +0. Of equal ones so
/// far, each takes an equal share of a derivative.
Array cummax(const Array& x, std::int64_t axis, bool reverse = false);
Array cummin(const Array& x, std::int64_t axis, bool reverse = false);
/// The norm of the elements along axes, as of vectors: ord 2 (the exact sum of squares rounded to f64, then its root,
/// rounded once; it neither overflows nor underflows inside, and its derivative at 0 is 0), 1 (the exact sum of |x|),
/// inf and -inf (the largest and least |x|). Integers count as f32. Throws ValueError for another ord.
Array norm(const Array& x, const Shape& axes, double ord = 2, bool keepdims = false);
Array norm(const Array& x);
/// The elements along an axis in ascending order: NaN last, -0 before +0, equal ones in their order. argsort: the i64
/// indices that they come from; sort_with_indices: both.
Array sort(const Array& x, std::int64_t axis = -1);
Array argsort(const Array& x, std::int64_t axis = -1);
std::pair<Array, Array> sort_with_indices(const Array& x, std::int64_t axis = -1);
/// The k largest along an axis in descending order (NaN first, ties by ascending index), and their i64 indices.
std::pair<Array, Array> top_k(const Array& x, std::int64_t k, std::int64_t axis = -1);

// ---- Row operations: f64 inside, one rounding. ----

/// exp(x - max x) over its sum; rows of -inf, or with +inf or NaN, give NaN.
Array softmax(const Array& x, std::int64_t axis = -1);
Array log_softmax(const Array& x, std::int64_t axis = -1);
/// log(sum(exp(x))); the maximum itself where that is infinite, so -inf for a row of -inf.
Array logsumexp(const Array& x, std::int64_t axis, bool keepdims = false);
/// logsumexp(logits) - logits[label] for logits [.., classes] and integer labels [..], in the dtype of logits or, if
/// `result` says so, f32. A label outside [0, classes) gives NaN, unless where() masks that loss: its gradient is +0.
Array cross_entropy(const Array& logits, const Array& labels, std::optional<DType> result = std::nullopt);
/// (x - mean) / sqrt(variance + epsilon) gamma + beta along the last axis; gamma and beta [D] of x's dtype or f32.
Array layer_norm(const Array& x, const Array& gamma, const Array& beta, double epsilon = 1e-5);
/// The same with gamma 1 and beta 0.
Array layer_norm(const Array& x, double epsilon = 1e-5);
/// x / sqrt(mean(x^2) + epsilon) gamma along the last axis; gamma [D] of x's dtype or f32.
Array rms_norm(const Array& x, const Array& gamma, double epsilon = 1e-5);
/// layer_norm over each of `groups` groups of channels of a batch, gamma and beta [C]; channels last: channel_axis -1.
Array group_norm(const Array& x, const Array& gamma, const Array& beta, std::int64_t groups, double epsilon = 1e-5,
                 std::int64_t channel_axis = 1);
/// layer_norm for each channel over all other axes, gamma and beta [C]: the result, and the means and (biased)
/// variances of the channels in f32 (f64).
struct BatchNormResult {
  Array y, mean, variance;
};
BatchNormResult batch_norm(const Array& x, const Array& gamma, const Array& beta, double epsilon = 1e-5,
                           std::int64_t channel_axis = -1);
/// (x - mean) / sqrt(variance + epsilon) gamma + beta with given moments of each channel, rounded once.
Array batch_norm_inference(const Array& x, const Array& mean, const Array& variance, const Array& gamma,
                           const Array& beta, double epsilon = 1e-5, std::int64_t channel_axis = -1);
/// Rotates the first R = 2 frequencies.extent(0) elements of the last axis of x [..., D]: pair (i, i + R/2), or
/// (2i, 2i + 1) if interleaved, by positions [...] (integers, broadcast) times frequencies [R/2] (f64 or f32).
Array rope(const Array& x, const Array& positions, const Array& frequencies, bool interleaved = false);
/// theta^(-2i/R), i = 0 .. R/2 - 1, in f64.
Array rope_frequencies(double theta, std::int64_t rotated);

}  // namespace eadem

#include "eadem/ops/operators.h"  // with the operations come their operators
