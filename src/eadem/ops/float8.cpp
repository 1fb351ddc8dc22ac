#include "eadem/ops/float8.h"

#include "eadem/kernels/elementwise/float8.h"
#include "eadem/ops/catalog.h"
#include "eadem/ops/elementwise.h"
#include "eadem/ops/rules.h"

// 8-bit floats: codes in u8, made and read.

namespace eadem {
namespace {

struct ToAttribute {
  std::int64_t exponent_bits = 4;
  bool saturating = true;
  static constexpr auto fields() {
    return std::tuple(field("exponent_bits", &ToAttribute::exponent_bits),
                      field("saturating", &ToAttribute::saturating));
  }
};
struct FromAttribute {
  std::int64_t exponent_bits = 4;
  DType dtype = DType::f32;
  static constexpr auto fields() {
    return std::tuple(field("exponent_bits", &FromAttribute::exponent_bits), field("dtype", &FromAttribute::dtype));
  }
};

constexpr std::int64_t bits_of(Float8 format) {
  return format == Float8::e4m3 ? 4 : 5;
}
Float8 format_of(std::string_view who, std::int64_t exponent_bits) {
  if (exponent_bits != 4 && exponent_bits != 5)
    fail<ValueError>("[{}] has formats of 4 and 5 exponent bits, got {}", who, exponent_bits);
  return exponent_bits == 4 ? Float8::e4m3 : Float8::e5m2;
}

Types infer_to(const Signature& s) {
  ops::require_operands("to_float8", s, 1);
  format_of("to_float8", s.as<ToAttribute>().exponent_bits);
  if (!is_floating(s.operands[0].dtype))
    fail<TypeError>("[to_float8] takes f64, f32, bf16 or f16; got {}", s.operands[0]);
  return {{DType::u8, s.operands[0].shape}};
}
Types infer_from(const Signature& s) {
  ops::require_operands("from_float8", s, 1);
  const auto& a = s.as<FromAttribute>();
  format_of("from_float8", a.exponent_bits);
  if (s.operands[0].dtype != DType::u8) fail<TypeError>("[from_float8] takes codes, u8; got {}", s.operands[0]);
  if (!is_floating(a.dtype)) fail<TypeError>("[from_float8] gives f64, f32, bf16 or f16, not {}", name_of(a.dtype));
  return {{a.dtype, s.operands[0].shape}};
}

// Calls f with the format's type.
template <class F>
void with_format(std::int64_t exponent_bits, F f) {
  exponent_bits == 4 ? f(numerics::E4M3{}) : f(numerics::E5M2{});
}

template <class Out, class In, class F>
void each(const Launch& launch, F f) {
  ops::for_each_index(launch.results[0].shape, [&](const Shape& index) {
    *reinterpret_cast<Out*>(ops::element_at(launch.results[0], index)) =
        f(*reinterpret_cast<const In*>(ops::element_at(launch.operands[0], index)));
  });
}

void reference_to(const Launch& launch) {
  const auto& a = launch.as<ToAttribute>();
  visit_floating(launch.operands[0].dtype, [&]<class T>(std::type_identity<T>) {
    with_format(a.exponent_bits, [&]<class Format>(Format) {
      if (a.saturating)
        each<std::uint8_t, T>(launch, numerics::ToFloat8<Format, true>{});
      else
        each<std::uint8_t, T>(launch, numerics::ToFloat8<Format, false>{});
    });
  });
}
void reference_from(const Launch& launch) {
  const auto& a = launch.as<FromAttribute>();
  visit_floating(a.dtype, [&]<class T>(std::type_identity<T>) {
    with_format(a.exponent_bits,
                [&]<class Format>(Format) { each<T, std::uint8_t>(launch, numerics::FromFloat8<Format, T>{}); });
  });
}

void samples_to(SampleSink& sink) {
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16})
    for (const std::int64_t bits : {4, 5})
      for (const bool saturating : {false, true}) {
        sink.add({{dtype, {3, 29}, Fill::edges}}, ToAttribute{bits, saturating});
        sink.add({{dtype, {2, 1031}, Fill::wide}}, ToAttribute{bits, saturating});
        sink.add({{dtype, {1031}, Fill::normal}}, ToAttribute{bits, saturating});
      }
  sink.add({{DType::f32, {0, 2}}}, ToAttribute{});
}
void samples_from(SampleSink& sink) {
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16})
    for (const std::int64_t bits : {4, 5}) sink.add({{DType::u8, {5, 211}}}, FromAttribute{bits, dtype});
  sink.add({{DType::u8, {}}}, FromAttribute{});
}

}  // namespace

constinit const Primitive prim::to_float8 = ops::discrete(
    {.name = "to_float8",
     .summary = "Floats rounded to 8 bits, as codes in u8.",
     .attributes = &kAttributesOf<ToAttribute>,
     .infer = infer_to,
     .reference = reference_to,
     .run = Tile{[](const Signature& s) {
       const auto& a = s.as<ToAttribute>();
       return kernels::to_float8(s.operands[0].dtype, format_of("to_float8", a.exponent_bits), a.saturating);
     }},
     .samples = samples_to});

constinit const Primitive prim::from_float8 =
    ops::discrete({.name = "from_float8",
                   .summary = "What codes of 8-bit floats stand for, exactly.",
                   .attributes = &kAttributesOf<FromAttribute>,
                   .infer = infer_from,
                   .reference = reference_from,
                   .run = Tile{[](const Signature& s) {
                     const auto& a = s.as<FromAttribute>();
                     return kernels::from_float8(format_of("from_float8", a.exponent_bits), a.dtype);
                   }},
                   .samples = samples_from});

Array to_float8(const Array& x, Float8 format, bool saturating) {
  return apply(prim::to_float8, {x}, ToAttribute{bits_of(format), saturating});
}
Array from_float8(const Array& codes, Float8 format, DType dtype) {
  return apply(prim::from_float8, {codes}, FromAttribute{bits_of(format), dtype});
}

}  // namespace eadem
