#include "eadem/nn/lora.h"

#include "eadem/nn/tabulate.h"
#include "eadem/ops/ops.h"

namespace eadem::nn {
namespace {

DType wide(DType t) {
  return t == DType::f64 ? t : DType::f32;
}

}  // namespace

LoRA::LoRA(std::int64_t in, std::int64_t rank, std::int64_t out, Rngs& rngs, const LoRAOptions& o)
    : scale(o.scale), dtype(o.dtype) {
  if (in < 1 || rank < 1 || out < 1)
    fail<ValueError>("[LoRA] features and rank must be at least 1, got {}, {} and {}", in, rank, out);
  lora_a = o.a_initializer(rngs.params(), {in, rank}, o.param_dtype);
  lora_b = o.b_initializer(rngs.params(), {rank, out}, o.param_dtype);
}

namespace {

// (x A) B scale in f32 (f64), computed from operands of dtype t.
Array product(const LoRA& lora, const Array& x, DType t) {
  const Array inner = linear(convert(x, t), transpose(convert(lora.lora_a, t)));
  return linear(inner, transpose(convert(lora.lora_b, t)), std::nullopt, wide(t)) * lora.scale;
}

}  // namespace

Array LoRA::operator()(const Array& x) const {
  const DType t = compute_dtype("LoRA", dtype, x, lora_a.dtype());
  return noted(*this, convert(product(*this, x, t), t), x);
}

Array LoRA::over(const Array& base, const Array& x) const {
  const DType t = compute_dtype("LoRA", dtype, x, lora_a.dtype()), sum = wide(promote(base.dtype(), t));
  return noted(*this, convert(convert(base, sum) + convert(product(*this, x, t), sum), base.dtype()), base, x);
}

LoRALinear::LoRALinear(std::int64_t in, std::int64_t out, std::int64_t rank, Rngs& rngs, const LinearOptions& o,
                       const LoRAOptions& lora_options)
    : lora([&] {
        // The kernel and the bias are drawn first, as Flax does.
        Linear base(in, out, rngs, o);
        kernel = std::move(base.kernel);
        bias = std::move(base.bias);
        return LoRA(in, rank, out, rngs, lora_options);
      }()),
      dtype(o.dtype) {}

Array LoRALinear::operator()(const Array& x) const {
  const DType t = compute_dtype("LoRALinear", dtype, x, kernel.dtype());
  const Array base = linear(convert(x, t), transpose(convert(kernel, t)), bias, wide(t));
  return noted(*this, convert(lora.over(base, x), t), x);
}

Linear LoRALinear::merged() const {
  Rngs rngs(0);
  Linear result(1, 1, rngs, {.use_bias = false, .dtype = dtype});
  const auto f64 = [](const Array& x) { return convert(x, DType::f64); };
  result.kernel = convert(f64(kernel) + matmul(f64(lora.lora_a), f64(lora.lora_b)) * lora.scale, kernel.dtype());
  result.bias = bias;
  return result;
}

}  // namespace eadem::nn
