#include "eadem/nn/recurrent.h"

#include "eadem/nn/tabulate.h"
#include "eadem/ops/ops.h"

namespace eadem::nn {
namespace {

// Of what multiplies the input, and of what multiplies the state.
LinearOptions input_options(const RecurrentOptions& o, bool use_bias) {
  return {use_bias, o.dtype, o.param_dtype, o.kernel_init, o.bias_init};
}
LinearOptions state_options(const RecurrentOptions& o, bool use_bias) {
  return {use_bias, o.dtype, o.param_dtype, o.recurrent_kernel_init, o.bias_init};
}

// Part i of the last axis in parts of n.
Array part(const Array& x, std::int64_t i, std::int64_t n) {
  return slice_axis(x, -1, {i * n, (i + 1) * n});
}

Array zero_state(const Shape& input_shape, std::int64_t hidden, DType dtype) {
  if (input_shape.empty()) fail<ShapeError>("[initialize_carry] an input is [batch.., features], got a scalar");
  Shape shape = input_shape;
  shape.back() = hidden;
  return zeros(shape, dtype);
}

std::pair<LSTMCarry, Array> lstm(const Array& c, const Array& i, const Array& f, const Array& g, const Array& o) {
  const Array cell = sigmoid(f) * c + sigmoid(i) * tanh(g);
  const Array h = sigmoid(o) * tanh(cell);
  return {{cell, h}, h};
}

}  // namespace

LSTMCell::LSTMCell(std::int64_t in, std::int64_t hidden_features, Rngs& rngs, const RecurrentOptions& o)
    : ii(in, hidden_features, rngs, input_options(o, false)),
      if_(in, hidden_features, rngs, input_options(o, false)),
      ig(in, hidden_features, rngs, input_options(o, false)),
      io(in, hidden_features, rngs, input_options(o, false)),
      hi(hidden_features, hidden_features, rngs, state_options(o, true)),
      hf(hidden_features, hidden_features, rngs, state_options(o, true)),
      hg(hidden_features, hidden_features, rngs, state_options(o, true)),
      ho(hidden_features, hidden_features, rngs, state_options(o, true)),
      hidden(hidden_features) {}

std::pair<LSTMCarry, Array> LSTMCell::operator()(const LSTMCarry& carry, const Array& x) const {
  const Array& h = carry.h;
  return noted(*this, lstm(carry.c, ii(x) + hi(h), if_(x) + hf(h), ig(x) + hg(h), io(x) + ho(h)), carry, x);
}
LSTMCarry LSTMCell::initialize_carry(const Shape& input_shape) const {
  const Array zero = zero_state(input_shape, hidden, ii.kernel.dtype());
  return {zero, zero};
}

OptimizedLSTMCell::OptimizedLSTMCell(std::int64_t in, std::int64_t hidden_features, Rngs& rngs,
                                     const RecurrentOptions& o)
    : dense_i(in, 4 * hidden_features, rngs, input_options(o, false)),
      dense_h(hidden_features, 4 * hidden_features, rngs, state_options(o, true)),
      hidden(hidden_features) {}

std::pair<LSTMCarry, Array> OptimizedLSTMCell::operator()(const LSTMCarry& carry, const Array& x) const {
  const Array y = dense_i(x) + dense_h(carry.h);
  const auto gate = [&](std::int64_t i) { return part(y, i, hidden); };
  return noted(*this, lstm(carry.c, gate(0), gate(1), gate(2), gate(3)), carry, x);
}
LSTMCarry OptimizedLSTMCell::initialize_carry(const Shape& input_shape) const {
  const Array zero = zero_state(input_shape, hidden, dense_i.kernel.dtype());
  return {zero, zero};
}

GRUCell::GRUCell(std::int64_t in, std::int64_t hidden_features, Rngs& rngs, const RecurrentOptions& o)
    : dense_i(in, 3 * hidden_features, rngs, input_options(o, true)),
      dense_h(hidden_features, 3 * hidden_features, rngs, state_options(o, false)),
      hidden(hidden_features) {}

std::pair<Array, Array> GRUCell::operator()(const Array& h, const Array& x) const {
  const Array from_x = dense_i(x), from_h = dense_h(h);
  const auto both = [&](std::int64_t i) { return part(from_x, i, hidden) + part(from_h, i, hidden); };
  const Array r = sigmoid(both(0)), z = sigmoid(both(1));
  const Array n = tanh(part(from_x, 2, hidden) + r * part(from_h, 2, hidden));
  const Array next = (1.0 - z) * n + z * h;
  return noted(*this, std::pair(next, next), h, x);
}
Array GRUCell::initialize_carry(const Shape& input_shape) const {
  return zero_state(input_shape, hidden, dense_i.kernel.dtype());
}

}  // namespace eadem::nn
