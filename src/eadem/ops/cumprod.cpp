#include <array>
#include <cmath>

#include "eadem/kernels/target.h"
#include "eadem/numerics/reduction.h"
#include "eadem/numerics/reduction_views.h"
#include "eadem/ops/catalog.h"
#include "eadem/ops/ops.h"
#include "eadem/ops/products.h"
#include "eadem/ops/reductions.h"
#include "eadem/ops/rules.h"

// cumprod: an ascending chain of significands in f64, exponents as integers, each prefix rounded once.

namespace eadem {
namespace {

using ops::Number;

// RN_T of the product; a double holds what lies far from both ends of its range.
template <FloatingElement T, bool definition>
T rounded(numerics::Factor product, bool negative) {
  if (!definition && product.exponent > -1000 && product.exponent < 1000)
    return numerics::round_to<T>(
        std::ldexp(negative ? -product.significand : product.significand, static_cast<int>(product.exponent)));
  return numerics::round_factor<T>(product, negative);
}

template <class T, bool definition>
void chain(std::span<const T> x, std::byte* result) {
  if constexpr (FloatingElement<T>) {
    numerics::Factor product;
    bool negative = false, zero = false, infinite = false, nan = false;
    T* y = reinterpret_cast<T*>(result);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double value = numerics::to_double(x[i]);
      negative ^= std::signbit(value);
      zero |= value == 0;
      infinite |= std::isinf(value);
      nan |= value != value || (zero && infinite);
      if (nan) {
        y[i] = numerics::canonical_nan<T>();
      } else if (zero || infinite) {
        y[i] = numerics::round_to<T>(std::copysign(zero ? 0.0 : HUGE_VAL, negative ? -1.0 : 1.0));
      } else {
        product = product * numerics::Factor::of(value);
        y[i] = rounded<T, definition>(product, negative);
      }
    }
  } else {
    using Wide = numerics::WideInteger<T>;
    std::uint64_t product = 1;
    for (std::size_t i = 0; i < x.size(); ++i) {
      product *= static_cast<std::uint64_t>(static_cast<Wide>(x[i]));
      reinterpret_cast<Wide*>(result)[i] = static_cast<Wide>(product);
    }
  }
}

Types infer(const Signature& s) {
  ops::require_operands("cumprod", s, 1);
  TensorType type = s.operands[0];
  if (type.shape.empty()) fail<ShapeError>("[cumprod] needs at least one axis, got the scalar {}", type);
  if (!is_floating(type.dtype)) type.dtype = is_unsigned_integer(type.dtype) ? DType::u64 : DType::i64;
  return {type};
}

void reference(const Launch& launch) {
  const TensorView &x = launch.operands[0], &result = launch.results[0];
  visit(x.dtype, [&]<class T>(std::type_identity<T>) {
    using N = Number<T>;
    numerics::for_each_reduction<N>(x, {x.shape.rank() - 1}, [&](std::span<const N> row, std::int64_t index) {
      chain<N, true>(row, result.data + index * x.shape.back() * static_cast<std::int64_t>(size_of(result.dtype)));
    });
  });
}

template <class N>
void rows(const kernels::RowArgs& args) {
  constexpr std::size_t size = FloatingElement<N> ? sizeof(N) : 8;
  const auto n = static_cast<std::size_t>(args.length);
  for (std::size_t row = 0; row < static_cast<std::size_t>(args.rows); ++row)
    chain<N, false>({reinterpret_cast<const N*>(args.in[0]) + row * n, n}, args.out[0] + row * n * size);
}
kernels::RowFn pick(const Signature& s) {
  kernels::record_ran(kernels::Target::scalar);
  return visit(s.operands[0].dtype, []<class T>(std::type_identity<T>) -> kernels::RowFn { return &rows<Number<T>>; });
}

// By x_j: the product of those before it times r_j, r_j = ct_j + x_(j+1) r_(j+1): a linear recurrence, by doubling.
// Nothing is divided by x.
void vjp(Vjp& g) {
  if (g.in().elements() == 0) return g.add_canonical(0, zeros_like(g.in()));
  const ops::Scaled x = ops::scaled(convert(g.in(), DType::f64));
  ops::Scaled r = ops::scaled(convert(g.ct(), DType::f64)), slope = ops::shifted(x, -1, 0);
  for (std::int64_t step = 1; step < g.in().extent(-1); step *= 2) {
    r = r + ops::normalized(ops::through(ops::shifted(r, -step, 0), slope));
    slope = ops::normalized(slope * ops::shifted(slope, -step, 0));
  }
  g.add(0, convert(ops::value_of(ops::through(r, ops::products_before(x))), g.in().dtype()));
}
void batch(Batch& b) {
  b.set(apply(prim::cumprod, {b.in()}));
}

}  // namespace

constinit const Primitive prim::cumprod{
    .name = "cumprod",
    .summary = "Running products along the last axis, which neither overflow nor underflow inside; each rounded once.",
    .infer = infer,
    .reference = reference,
    .run = Row{pick},
    .vjp = vjp,
    .batch = batch,
    .samples = [](SampleSink& sink) {
      for (int i = 0; i < kDTypeCount; ++i) sink.add({{static_cast<DType>(i), {3, 2, 11}}});
      for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
        sink.add({{dtype, {5, 33}, Fill::edges}});
        sink.add({{dtype, {2, 40}, Fill::wide}});
        sink.add({{dtype, {2, 300}, Fill::positive}});
      }
      sink.add({{DType::f32, {0}}});
    }};

Array cumprod(const Array& x, std::int64_t axis) {
  return ops::along_axis("cumprod", x, axis, [](const Array& rows) { return apply(prim::cumprod, {rows}); });
}

}  // namespace eadem
