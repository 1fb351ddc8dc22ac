#include <algorithm>

#include "eadem/array/state.h"
#include "eadem/audit/reproduce.h"
#include "eadem/nn/attention.h"
#include "eadem/nn/conv.h"
#include "eadem/nn/einsum.h"
#include "eadem/nn/lora.h"
#include "eadem/nn/recurrent.h"
#include "eadem/ops/ops.h"

namespace eadem::audit {
namespace {

constexpr std::int64_t kFeatures = 16;
constexpr DType kFloats[] = {DType::f64, DType::f32, DType::bf16, DType::f16};

Array example(DType dtype = DType::bf16) {
  return full({2, 3, kFeatures}, 1, dtype);
}

template <class Module, class Call>
TeModule row_of(std::string_view name, const Module& module, DType dtype, std::optional<DType> compute, DType result,
                Call call) {
  TeModule row;
  row.module = name;
  row.dtype = dtype;
  row.compute = compute;
  // State, such as BatchNorm's moments, is f32 whatever the parameters are.
  const std::vector<bool> state = state_marks(module);
  std::size_t next = 0;
  for_each_leaf(module, [&](const std::string&, const Array& leaf) {
    if (state[next++]) return;
    ++row.parameters;
    row.ignored += leaf.dtype() != dtype;
  });
  row.result = call(module).type();
  row.honoured = row.result.dtype == result;
  return row;
}

// Transformer Engine's meaning: a row for each dtype, which is that of the parameters; the result has the input's.
template <class Make>
void check(std::string_view name, TeReport& report, Make make) {
  for (const DType dtype : kFloats) {
    Rngs rngs(0);
    report.modules.push_back(row_of(name, make(dtype, rngs), dtype, std::nullopt, DType::bf16,
                                    [](const auto& module) { return module(example()); }));
  }
}

// Flax's: a row for each param_dtype and dtype; the result has the dtype, else what input and parameters promote to.
// `state`: the dtype of what the module promotes besides.
template <class Make, class Call>
void check_flax(std::string_view name, TeReport& report, Make make, Call call, DType state = DType::bf16) {
  for (const DType dtype : kFloats)
    for (std::size_t i = 0; i <= std::size(kFloats); ++i) {
      const std::optional<DType> compute = i == 0 ? std::nullopt : std::optional(kFloats[i - 1]);
      Rngs rngs(0);
      const DType result = compute.value_or(promote(promote(DType::bf16, dtype), state));
      report.modules.push_back(row_of(name, make(dtype, compute, rngs), dtype, compute, result, call));
    }
}
template <class Make>
void check_flax(std::string_view name, TeReport& report, Make make, DType state = DType::bf16) {
  check_flax(
      name, report, make, [](const auto& module) { return module(example()); }, state);
}

}  // namespace

namespace {

void check_flax_modules(TeReport& report) {
  constexpr std::int64_t d = kFeatures;
  using Compute = std::optional<DType>;
  check_flax("nn::Linear", report,
             [](DType p, Compute t, Rngs& r) { return nn::Linear(d, 8, r, {.dtype = t, .param_dtype = p}); });
  check_flax("nn::LinearGeneral", report, [](DType p, Compute t, Rngs& r) {
    return nn::LinearGeneral({d}, {2, 4}, r, {.dtype = t, .param_dtype = p});
  });
  check_flax("nn::Einsum", report, [](DType p, Compute t, Rngs& r) {
    return nn::Einsum("...d,dh->...h", {d, 8}, Shape{8}, r, {.dtype = t, .param_dtype = p});
  });
  check_flax("nn::Conv", report,
             [](DType p, Compute t, Rngs& r) { return nn::Conv(d, 8, {3}, r, {.dtype = t, .param_dtype = p}); });
  check_flax("nn::ConvTranspose", report, [](DType p, Compute t, Rngs& r) {
    return nn::ConvTranspose(d, 8, {3}, r, {.strides = {2}, .dtype = t, .param_dtype = p});
  });
  check_flax("nn::LayerNorm", report,
             [](DType p, Compute t, Rngs& r) { return nn::LayerNorm(d, r, {.dtype = t, .param_dtype = p}); });
  check_flax("nn::RMSNorm", report,
             [](DType p, Compute t, Rngs& r) { return nn::RMSNorm(d, r, {.dtype = t, .param_dtype = p}); });
  check_flax("nn::GroupNorm", report,
             [](DType p, Compute t, Rngs& r) { return nn::GroupNorm(d, 4, r, {.dtype = t, .param_dtype = p}); });
  check_flax(
      "nn::BatchNorm", report,
      [](DType p, Compute t, Rngs& r) { return nn::BatchNorm(d, r, {.dtype = t, .param_dtype = p}); },
      [](const nn::BatchNorm& module) {
        nn::BatchNorm training = module;
        return training(example(), false);
      },
      DType::f32);
  check_flax("nn::MultiHeadAttention", report, [](DType p, Compute t, Rngs& r) {
    return nn::MultiHeadAttention(d, 4, r, {.dtype = t, .param_dtype = p});
  });
  check_flax(
      "nn::MultiHeadAttention (decode)", report,
      [](DType p, Compute t, Rngs& r) {
        return nn::MultiHeadAttention(d, 4, r, {.normalize_qk = true, .dtype = t, .param_dtype = p});
      },
      [](const nn::MultiHeadAttention& module) {
        nn::MultiHeadAttention decoding = module;
        decoding.init_cache({2, 3, kFeatures});
        return decoding.decode(slice_axis(example(), 1, {0, 1}));
      });
  check_flax("nn::LoRA", report,
             [](DType p, Compute t, Rngs& r) { return nn::LoRA(d, 2, 8, r, {.dtype = t, .param_dtype = p}); });
  check_flax("nn::LoRALinear", report, [](DType p, Compute t, Rngs& r) {
    return nn::LoRALinear(d, 8, 2, r, {.dtype = t, .param_dtype = p}, {.dtype = t, .param_dtype = p});
  });
  // From a state in the dtype of the computation, which Flax would else promote with it.
  const auto stepped = []<class Cell>(const Cell& cell) {
    Compute compute;
    if constexpr (requires { cell.ii; })
      compute = cell.ii.dtype;
    else
      compute = cell.dense_i.dtype;
    const auto carry = map_leaves([&](const Array& leaf) { return convert(leaf, compute.value_or(DType::bf16)); },
                                  cell.initialize_carry({2, 3, kFeatures}));
    return cell(carry, example()).second;
  };
  const auto recurrent = [](DType p, Compute t) { return nn::RecurrentOptions{.dtype = t, .param_dtype = p}; };
  check_flax(
      "nn::LSTMCell", report, [&](DType p, Compute t, Rngs& r) { return nn::LSTMCell(d, 8, r, recurrent(p, t)); },
      stepped);
  check_flax(
      "nn::OptimizedLSTMCell", report,
      [&](DType p, Compute t, Rngs& r) { return nn::OptimizedLSTMCell(d, 8, r, recurrent(p, t)); }, stepped);
  check_flax(
      "nn::GRUCell", report, [&](DType p, Compute t, Rngs& r) { return nn::GRUCell(d, 8, r, recurrent(p, t)); },
      stepped);
  // Of an Embed the input is integers, and the result has the dtype or the parameters'.
  for (const DType dtype : kFloats)
    for (std::size_t i = 0; i <= std::size(kFloats); ++i) {
      const Compute compute = i == 0 ? std::nullopt : Compute(kFloats[i - 1]);
      Rngs rngs(0);
      report.modules.push_back(row_of("nn::Embed", nn::Embed(5, d, rngs, {.dtype = compute, .param_dtype = dtype}),
                                      dtype, compute, compute.value_or(dtype), [](const nn::Embed& module) {
                                        return module(zeros({2, 3}, DType::i32));
                                      }));
    }
}

}  // namespace

TeReport reproduce_te_1451() {
  TeReport report;
  Rngs rngs(0);
  report.table = tabulate(TeModel(DType::bf16, rngs), full({8, 16, 128}, 1, DType::bf16));
  using nn::te::Norm;
  constexpr std::int64_t d = kFeatures;
  check("te::DenseGeneral", report, [](DType t, Rngs& r) {
    return nn::te::DenseGeneral({d}, {4, 2}, r, {.use_bias = true, .dtype = t});
  });
  check("te::LayerNorm", report, [](DType t, Rngs& r) { return nn::te::LayerNorm(d, r, {.dtype = t}); });
  check("te::LayerNorm (rmsnorm)", report,
        [](DType t, Rngs& r) { return nn::te::LayerNorm(d, r, {.type = Norm::rmsnorm, .dtype = t}); });
  check("te::LayerNormDenseGeneral", report, [](DType t, Rngs& r) {
    return nn::te::LayerNormDenseGeneral(d, {8}, r, {.dense = {.use_bias = true, .dtype = t}});
  });
  check("te::LayerNormMLP", report, [](DType t, Rngs& r) {
    return nn::te::LayerNormMLP(d, r, {.intermediate = 32, .use_bias = true, .dtype = t});
  });
  check("te::MultiHeadAttention", report,
        [](DType t, Rngs& r) { return nn::te::MultiHeadAttention(d, 4, 4, r, {.use_bias = true, .dtype = t}); });
  check("te::MultiHeadAttention (groups)", report,
        [](DType t, Rngs& r) { return nn::te::MultiHeadAttention(d, 4, 4, r, {.gqa_groups = 2, .dtype = t}); });
  check("te::TransformerLayer", report, [](DType t, Rngs& r) {
    return nn::te::TransformerLayer(d, r, {.mlp_hidden = 32, .heads = 4, .use_bias = true, .dtype = t});
  });
  check_flax_modules(report);
  return report;
}

bool TeReport::holds() const {
  std::int64_t count = 0;
  for (const ModuleRow& row : table.rows)
    for (const auto& each : row.parameters) {
      ++count;
      if (each.dtype != "bf16") return false;
    }
  const Types& outputs = table.rows[0].outputs;
  return count == 7 && table.parameters() == 541184 && table.bytes() == 2 * 541184 && outputs.size() == 1 &&
         outputs[0] == TensorType{DType::bf16, {8, 16, 128}} &&
         std::all_of(modules.begin(), modules.end(),
                     [](const TeModule& each) { return each.ignored == 0 && each.honoured; });
}

}  // namespace eadem::audit
