#pragma once

#include <functional>
#include <string>
#include <vector>

#include "eadem/kernels/tuner.h"
#include "eadem/nn/attention.h"
#include "eadem/nn/stack.h"

// Public reports of numbers that moved, run as protocols on Eadem.

namespace eadem::audit {

/// The layer of flax issue 4629: attention of 8 heads, then a linear layer.
struct FlaxLayer {
  nn::MultiHeadAttention attention;
  nn::Linear linear;
  FlaxLayer(std::int64_t features, DType dtype, Rngs& rngs)
      : attention(features, 8, rngs, {.param_dtype = dtype}),
        linear(features, features, rngs, {.param_dtype = dtype}) {}
  Array operator()(const Array& x) const { return linear(attention(x)); }
  static void fields(auto& m, auto f) { f("attention", m.attention), f("linear", m.linear); }
};

/// `depth` layers of 16 features made under vmap from keys split from PRNGKey(0).
Stack<FlaxLayer> flax_layers(std::int64_t depth, DType dtype);

/// Scan against loop in one dtype, depth and quantity, over all forms.
struct FlaxComparison {
  DType dtype = DType::f32;
  std::int64_t depth = 0;
  std::string quantity;  ///< "output" or "gradient"
  std::int64_t forms = 0, compared = 0, differing = 0;
  double largest = 0;  ///< |scan - loop|
  std::string first;   ///< the form in which a difference first showed; empty: none did
};

struct FlaxReport {
  /// Constructors under vmap against calls one by one.
  std::int64_t parameters_compared = 0, parameters_differing = 0;
  std::vector<FlaxComparison> comparisons;
  /// The tuner with a wrong kernel planted: what it refused, and the loop's bits while it tuned.
  std::string planted;
  std::vector<kernels::Refusal> refusals;
  std::int64_t tuned_compared = 0, tuned_differing = 0;

  std::int64_t differing() const;
  bool planted_refused() const;
  /// Nothing differs, the planted kernel is refused, and no other is.
  bool holds() const;
};

/// Runs the protocol: scan minus loop by dtype (f64 f32 bf16 f16) and depth, forward and gradient, under threads 1 2 3
/// 7 and every target of this CPU, all against the loop on one thread; then the tuner. Threads, target and tuning are
/// as before afterwards. `progress` is told what runs.
FlaxReport reproduce_flax_4629(const std::function<void(const std::string&)>& progress,
                               const std::vector<std::int64_t>& depths = {2, 12, 48});

/// XLA's comparison of two kernels' results: they are taken as equal where this is below 0.1.
double xla_distance(double a, double b);

}  // namespace eadem::audit
