#pragma once

#include "eadem/nn/rngs.h"
#include "eadem/nn/tabulate.h"

namespace eadem::nn {

/// Sets elements to zero with probability `rate` and divides the others by 1 - rate. `broadcast`: axes along which one
/// draw holds.
struct Dropout {
  double rate;
  Shape broadcast;

  /// Throws ValueError unless 0 <= rate <= 1.
  explicit Dropout(double probability, Shape broadcast_axes = {});
  /// Evaluation: x itself.
  Array operator()(const Array& x) const { return noted(*this, x, x); }
  /// Training: the mask is a function of the stream "dropout"'s next key, or of a key.
  Array operator()(const Array& x, Rngs& rngs) const { return (*this)(x, rngs.dropout()); }
  Array operator()(const Array& x, const Array& key) const;
  static void fields(auto& m, auto f) { f("rate", m.rate), f("broadcast", m.broadcast); }
};

}  // namespace eadem::nn
