#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "eadem/base/dtype.h"

// The elementary functions of numerics.md section 2, as function objects: numerics::tanh(x) for x of any floating type.
// In f32, bf16 and f16 the result is the exact real function rounded once; in f64 it is a fixed algorithm of IEEE
// operations within 1 ulp. No result depends on the C library. NaN results are canonical.

namespace eadem::numerics {

/// The elementary functions of one argument.
enum class Function : std::uint8_t {
  reciprocal,
  sqrt,
  rsqrt,
  cbrt,
  exp,
  exp2,
  expm1,
  log,
  log2,
  log10,
  log1p,
  sin,
  cos,
  tan,
  asin,
  acos,
  atan,
  sinh,
  cosh,
  tanh,
  asinh,
  acosh,
  atanh,
  erf,
  erfc,
  erfinv,
  sqrt2_erfinv,
  sigmoid,
  logit,
  silu,
  softplus,
  gelu,
  gelu_tanh,
  tanh_derivative,
  sigmoid_derivative,
  silu_derivative,
  gelu_derivative,
  gelu_tanh_derivative,
};
inline constexpr int kFunctionCount = 38;

/// The elementary functions of two arguments. pow in f32 is rounded from a relative error below 2^-66, atan2 is
/// correctly rounded in f32 and the 16-bit types; hypot is RN_t(sqrt(RN(x*x + y*y))) in f64 arithmetic there.
enum class Function2 : std::uint8_t { pow, atan2, hypot };
inline constexpr int kFunction2Count = 3;

/// "tanh", "gelu_derivative", "pow", ...: the name of the function object.
std::string_view name_of(Function);
std::string_view name_of(Function2);

/// The function object of one argument: an empty type, fit for a template argument (`rounded<numerics::tanh>`).
template <Function function>
struct Elementary {
  static constexpr Function kFunction = function;
  double operator()(double x) const noexcept;
  float operator()(float x) const noexcept;
  bfloat16 operator()(bfloat16 x) const noexcept;
  float16 operator()(float16 x) const noexcept;
};

/// The function object of two arguments of one type.
template <Function2 function>
struct Elementary2 {
  static constexpr Function2 kFunction = function;
  double operator()(double x, double y) const noexcept;
  float operator()(float x, float y) const noexcept;
  bfloat16 operator()(bfloat16 x, bfloat16 y) const noexcept;
  float16 operator()(float16 x, float16 y) const noexcept;
};

/// 1/x and the square root, as IEEE has them.
inline constexpr Elementary<Function::reciprocal> reciprocal{};
inline constexpr Elementary<Function::sqrt> sqrt{};
/// 1/sqrt(x): rsqrt(+-0) = +-inf, rsqrt(+inf) = +0, NaN below zero.
inline constexpr Elementary<Function::rsqrt> rsqrt{};
inline constexpr Elementary<Function::cbrt> cbrt{};

inline constexpr Elementary<Function::exp> exp{};
inline constexpr Elementary<Function::exp2> exp2{};
inline constexpr Elementary<Function::expm1> expm1{};
inline constexpr Elementary<Function::log> log{};
inline constexpr Elementary<Function::log2> log2{};
inline constexpr Elementary<Function::log10> log10{};
inline constexpr Elementary<Function::log1p> log1p{};

inline constexpr Elementary<Function::sin> sin{};
inline constexpr Elementary<Function::cos> cos{};
inline constexpr Elementary<Function::tan> tan{};
inline constexpr Elementary<Function::asin> asin{};
inline constexpr Elementary<Function::acos> acos{};
inline constexpr Elementary<Function::atan> atan{};

inline constexpr Elementary<Function::sinh> sinh{};
inline constexpr Elementary<Function::cosh> cosh{};
inline constexpr Elementary<Function::tanh> tanh{};
inline constexpr Elementary<Function::asinh> asinh{};
inline constexpr Elementary<Function::acosh> acosh{};
inline constexpr Elementary<Function::atanh> atanh{};

inline constexpr Elementary<Function::erf> erf{};
inline constexpr Elementary<Function::erfc> erfc{};
/// The inverse of erf on [-1, 1]; +-inf at the ends, NaN outside.
inline constexpr Elementary<Function::erfinv> erfinv{};
/// sqrt(2) erfinv(x) with one rounding: a uniform on (-1, 1) becomes a normal (numerics.md section 8).
inline constexpr Elementary<Function::sqrt2_erfinv> sqrt2_erfinv{};

/// 1 / (1 + exp(-x)), and its inverse log(x / (1 - x)) on [0, 1].
inline constexpr Elementary<Function::sigmoid> sigmoid{};
inline constexpr Elementary<Function::logit> logit{};
/// x sigmoid(x); -0 at -inf.
inline constexpr Elementary<Function::silu> silu{};
/// log(1 + exp(x)).
inline constexpr Elementary<Function::softplus> softplus{};
/// x Phi(x) with Phi the normal distribution; -0 at -inf.
inline constexpr Elementary<Function::gelu> gelu{};
/// x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), its constants exact reals; -0 at -inf.
inline constexpr Elementary<Function::gelu_tanh> gelu_tanh{};

/// The derivatives, as functions of x: of a rounded y they would lose most of their digits in the tails.
inline constexpr Elementary<Function::tanh_derivative> tanh_derivative{};
inline constexpr Elementary<Function::sigmoid_derivative> sigmoid_derivative{};
inline constexpr Elementary<Function::silu_derivative> silu_derivative{};
inline constexpr Elementary<Function::gelu_derivative> gelu_derivative{};
inline constexpr Elementary<Function::gelu_tanh_derivative> gelu_tanh_derivative{};

/// pow(x, y), atan2(y, x) and hypot(x, y), with the special cases of the C standard's Annex F.
inline constexpr Elementary2<Function2::pow> pow{};
inline constexpr Elementary2<Function2::atan2> atan2{};
inline constexpr Elementary2<Function2::hypot> hypot{};

/// Calls body(object) with the function object of `function`.
template <class F>
void visit(Function function, F&& body) {
  [&]<std::size_t... i>(std::index_sequence<i...>) {
    (void)((static_cast<std::size_t>(function) == i && (body(Elementary<static_cast<Function>(i)>{}), true)) || ...);
  }
  (std::make_index_sequence<kFunctionCount>{});
}

}  // namespace eadem::numerics
