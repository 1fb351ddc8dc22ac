#pragma once

#include <optional>

#include "eadem/nn/initializers.h"
#include "eadem/nn/rngs.h"

// Modules are types with `fields` (array/tree.h): no base class. As in Flax NNX, `param_dtype` is that of the
// parameters, `dtype` that of the computation and the result (absent: promoted from the input and the parameters).

namespace eadem::nn {

/// The dtype that a module computes in: `dtype` if given, else promoted from the input and the parameter, and f32 for
/// integers. Throws TypeError unless it is floating.
DType compute_dtype(std::string_view module, std::optional<DType> dtype, const Array& x, DType parameter);

struct LinearOptions {
  bool use_bias = true;
  std::optional<DType> dtype = {};
  DType param_dtype = DType::f32;
  Initializer kernel_init = lecun_normal(), bias_init = zeros_init();
};

/// x kernel + bias, rounded once: x [.., in], kernel [in, out], bias [out].
struct Linear {
  Array kernel;
  std::optional<Array> bias;
  std::optional<DType> dtype;

  Linear(std::int64_t in, std::int64_t out, Rngs& rngs, const LinearOptions& options = {});
  Array operator()(const Array& x) const;
  static void fields(auto& m, auto f) { f("kernel", m.kernel), f("bias", m.bias), f("dtype", m.dtype); }
};

/// The same over several axes: contracts `axes` of x, in ascending order, with the first axes of kernel [in.., out..];
/// the result is [the other axes of x.., out..]. As Flax, the kernel is drawn as the matrix [prod in, prod out].
struct LinearGeneral {
  Array kernel;
  std::optional<Array> bias;
  Shape axes;
  std::optional<DType> dtype;

  LinearGeneral(const Shape& in, const Shape& out, Rngs& rngs, const LinearOptions& options = {}, Shape axes = {-1});
  Array operator()(const Array& x) const;
  static void fields(auto& m, auto f) {
    f("kernel", m.kernel), f("bias", m.bias), f("axes", m.axes), f("dtype", m.dtype);
  }
};

struct EmbedOptions {
  std::optional<DType> dtype = {};
  DType param_dtype = DType::f32;
  Initializer embedding_init = variance_scaling(1, Fan::in, Distribution::normal, true);
};

/// Rows of a table [count, features] at integer indices: [.., features].
struct Embed {
  Array embedding;
  std::optional<DType> dtype;

  Embed(std::int64_t count, std::int64_t features, Rngs& rngs, const EmbedOptions& options = {});
  Array operator()(const Array& indices) const;
  /// x embedding^T: logits [.., count] of x [.., features].
  Array attend(const Array& x) const;
  static void fields(auto& m, auto f) { f("embedding", m.embedding), f("dtype", m.dtype); }
};

}  // namespace eadem::nn
