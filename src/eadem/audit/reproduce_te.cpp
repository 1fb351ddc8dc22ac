#include <algorithm>

#include "eadem/audit/reproduce.h"
#include "eadem/nn/attention.h"
#include "eadem/ops/ops.h"

namespace eadem::audit {
namespace {

constexpr std::int64_t kFeatures = 16;

// A row for each dtype: make(dtype, rngs) gives the module, which takes an array [2, 3, 16].
template <class Make>
void check(std::string_view name, TeReport& report, Make make) {
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
    Rngs rngs(0);
    const auto module = make(dtype, rngs);
    TeModule row;
    row.module = name;
    row.dtype = dtype;
    for (const Array& leaf : leaves(module)) {
      ++row.parameters;
      row.ignored += leaf.dtype() != dtype;
    }
    row.result = module(full({2, 3, kFeatures}, 1, DType::bf16)).type();
    report.modules.push_back(std::move(row));
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
  check("nn::Linear", report, [](DType t, Rngs& r) { return nn::Linear(d, 8, r, {.param_dtype = t}); });
  check("nn::LinearGeneral", report, [](DType t, Rngs& r) {
    return nn::LinearGeneral({d}, {2, 4}, r, {.param_dtype = t});
  });
  check("nn::LayerNorm", report, [](DType t, Rngs& r) { return nn::LayerNorm(d, r, {.param_dtype = t}); });
  check("nn::RMSNorm", report, [](DType t, Rngs& r) { return nn::RMSNorm(d, r, {.param_dtype = t}); });
  check("nn::MultiHeadAttention", report,
        [](DType t, Rngs& r) { return nn::MultiHeadAttention(d, 4, r, {.param_dtype = t}); });
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
         std::all_of(modules.begin(), modules.end(), [](const TeModule& each) { return each.ignored == 0; });
}

}  // namespace eadem::audit
