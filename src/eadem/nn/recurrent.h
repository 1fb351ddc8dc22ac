#pragma once

#include <utility>

#include "eadem/nn/linear.h"

namespace eadem::nn {

struct RecurrentOptions {
  std::optional<DType> dtype = {};
  DType param_dtype = DType::f32;
  Initializer kernel_init = lecun_normal(), recurrent_kernel_init = orthogonal(), bias_init = zeros_init();
};

/// The state of an LSTM: cell and hidden.
struct LSTMCarry {
  Array c, h;
  static void fields(auto& m, auto f) { f("c", m.c), f("h", m.h); }
};

/// One step of an LSTM with a Linear for each gate, as flax.nnx.LSTMCell: `scan` runs it over time.
/// c' = sigmoid(f) c + sigmoid(i) tanh(g), h' = sigmoid(o) tanh(c').
struct LSTMCell {
  Linear ii, if_, ig, io, hi, hf, hg, ho;
  std::int64_t hidden;

  LSTMCell(std::int64_t in, std::int64_t hidden_features, Rngs& rngs, const RecurrentOptions& options = {});
  /// The next state, and its h as the result.
  std::pair<LSTMCarry, Array> operator()(const LSTMCarry& carry, const Array& x) const;
  /// Zeros for inputs of this shape [batch.., in], in the parameters' dtype.
  LSTMCarry initialize_carry(const Shape& input_shape) const;
  static void fields(auto& m, auto f) {
    f("ii", m.ii), f("if_", m.if_), f("ig", m.ig), f("io", m.io);
    f("hi", m.hi), f("hf", m.hf), f("hg", m.hg), f("ho", m.ho), f("hidden", m.hidden);
  }
};

/// The same with the gates i, f, g, o side by side in two products, as flax.nnx.OptimizedLSTMCell.
struct OptimizedLSTMCell {
  Linear dense_i, dense_h;
  std::int64_t hidden;

  OptimizedLSTMCell(std::int64_t in, std::int64_t hidden_features, Rngs& rngs, const RecurrentOptions& options = {});
  std::pair<LSTMCarry, Array> operator()(const LSTMCarry& carry, const Array& x) const;
  LSTMCarry initialize_carry(const Shape& input_shape) const;
  static void fields(auto& m, auto f) { f("dense_i", m.dense_i), f("dense_h", m.dense_h), f("hidden", m.hidden); }
};

/// One step of a GRU, as flax.nnx.GRUCell: n = tanh(x_n + sigmoid(r) h_n), h' = (1 - z) n + z h, z = sigmoid(z).
struct GRUCell {
  Linear dense_i, dense_h;
  std::int64_t hidden;

  GRUCell(std::int64_t in, std::int64_t hidden_features, Rngs& rngs, const RecurrentOptions& options = {});
  std::pair<Array, Array> operator()(const Array& carry, const Array& x) const;
  Array initialize_carry(const Shape& input_shape) const;
  static void fields(auto& m, auto f) { f("dense_i", m.dense_i), f("dense_h", m.dense_h), f("hidden", m.hidden); }
};

}  // namespace eadem::nn
