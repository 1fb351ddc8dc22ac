#pragma once

#include <functional>
#include <string>
#include <vector>

#include "eadem/kernels/tuner.h"
#include "eadem/nn/attention.h"
#include "eadem/nn/stack.h"
#include "eadem/nn/te.h"

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
  std::string quantity;  ///< "output"
  std::int64_t forms = 0, compared = 0, differing = 0;
  double magnitude = 0;  ///< largest |loop|
  double largest = 0;    ///< largest |scan - loop|
  std::string first;     ///< the form in which a difference first showed; empty: none did
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

/// Runs the protocol: scan minus loop by dtype (f64 f32 bf16 f16) and depth, eager and compiled, under threads 1 2 3 7
/// and every target of this CPU, all against the loop on one thread; then the tuner. Threads, target and tuning are as
/// before afterwards. `progress` is told what runs.
FlaxReport reproduce_flax_4629(const std::function<void(const std::string&)>& progress,
                               const std::vector<std::int64_t>& depths = {2, 12, 48});

/// The model of Transformer Engine issue 1451.
struct TeModel {
  nn::te::LayerNormDenseGeneral layer1;
  nn::te::MultiHeadAttention layer2;
  TeModel(DType dtype, Rngs& rngs)
      : layer1(128, {128}, rngs, {.dense = {.dtype = dtype}}), layer2(128, 128, 8, rngs, {.dtype = dtype}) {}
  Array operator()(const Array& x) const { return layer2(layer1(x)); }
  static void fields(auto& m, auto f) { f("layer1", m.layer1), f("layer2", m.layer2); }
};

/// One module with one dtype of its parameters and, where Flax's have one, of its computation: how many parameters it
/// has, and how many are not stored in the dtype asked for.
struct TeModule {
  std::string module;
  DType dtype = DType::f32;      ///< of the parameters, asked for
  std::optional<DType> compute;  ///< asked for; none: promoted from the input and the parameters
  std::int64_t parameters = 0, ignored = 0;
  TensorType result;     ///< of a bf16 input
  bool honoured = true;  ///< whether the result has the dtype that follows
};

struct TeReport {
  ModuleTable table;  ///< of the model in bf16, called with ones bf16[8,16,128]
  std::vector<TeModule> modules;
  /// 7 parameters in bf16, 541,184 elements, 2 bytes each, result bf16[8,16,128]; no module ignores a dtype.
  bool holds() const;
};

/// Makes the model, and every module of Transformer Engine and Flax with parameters in f64, f32, bf16 and f16, and
/// Flax's computing in each of these, or in none given.
TeReport reproduce_te_1451();

/// XLA's comparison of two kernels' results: they are taken as equal where this is below 0.1.
double xla_distance(double a, double b);

}  // namespace eadem::audit
