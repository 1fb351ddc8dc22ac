// Highway's order of includes is part of their meaning.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "eadem/kernels/contraction/fma.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "eadem/kernels/contraction/tile-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace eadem::kernels::contraction::HWY_NAMESPACE {
#if EADEM_HWY_TARGET
const Engine* FmaEngine(DType dtype) {
  // A form is the dtype's layout at this panel width; its tag is the address of a byte here, in each target's own copy.
  static constexpr char forms[4] = {};
  static constexpr Engine f64 = MakeEngine<Whole<double>>("fma", DType::f64, &forms[0]);
  static constexpr Engine f32 = MakeEngine<Whole<float>>("fma", DType::f32, &forms[1]);
  static constexpr Engine bf16 = MakeEngine<Pairs>("fma", DType::bf16, &forms[2]);
  static constexpr Engine f16 = MakeEngine<Half>("fma", DType::f16, &forms[3]);
  return dtype == DType::f64 ? &f64 : dtype == DType::f32 ? &f32 : dtype == DType::bf16 ? &bf16 : &f16;
}

const Engine* PairEngine() {
  static constexpr Engine pairs = MakeEngine<PairUnits>("pairs", DType::bf16, nullptr);
  return &pairs;
}
#endif
}  // namespace eadem::kernels::contraction::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eadem::kernels::contraction {

const Engine* fma_engine(DType dtype, Target target) {
#if defined(__aarch64__)
  return target == Target::neon ? N_NEON::FmaEngine(dtype) : nullptr;
#else
  if (target == Target::scalar) return nullptr;
  return target == Target::avx2 ? N_AVX2::FmaEngine(dtype) : N_AVX3::FmaEngine(dtype);
#endif
}

const Engine* pair_engine() {
#if defined(__aarch64__)
  return nullptr;
#else
  return N_AVX3::PairEngine();
#endif
}

}  // namespace eadem::kernels::contraction
#endif
