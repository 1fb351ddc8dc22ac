#pragma once

#include <algorithm>
#include <concepts>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "eadem/array/array.h"
#include "eadem/ir/primitive.h"
#include "eadem/kernels/elementwise/elementwise.h"
#include "eadem/ops/infer.h"

// The record of an elementwise primitive, derived from its operation in numerics/: which dtypes it takes, its result
// dtype, its reference. Operands have one dtype and one shape; the public functions promote and broadcast first.

namespace eadem::ops {

/// A string fit for a template argument.
template <std::size_t size>
struct Name {
  char text[size];
  consteval Name(const char (&literal)[size]) { std::copy_n(literal, size, text); }
  constexpr operator std::string_view() const { return {text, size - 1}; }
};

namespace detail {

// T, once for each k of a pack: by a struct, for clang 14 drops the pack of an alias that ignores its parameter.
template <class T, std::size_t>
struct RepeatOf {
  using type = T;
};
template <class T, std::size_t k>
using Repeat = typename RepeatOf<T, k>::type;

template <class Operation, class T, class Indices>
inline constexpr bool kTakes = false;
template <class Operation, class T, std::size_t... k>
inline constexpr bool kTakes<Operation, T, std::index_sequence<k...>> = std::invocable<Operation, Repeat<T, k>...>;

template <class Operation, std::size_t operands, class T>
inline constexpr bool kTakesDtype = kTakes<Operation, T, std::make_index_sequence<operands>>;

template <class Operation, std::size_t operands>
bool takes(DType dtype) {
  return visit(dtype, []<class T>(std::type_identity<T>) { return kTakesDtype<Operation, operands, T>; });
}

/// Throws TypeError: "[name] takes f64, f32, ...; got ...".
[[noreturn]] void refuse_dtype(std::string_view name, bool (*takes)(DType), const TensorType& got);
/// Throws unless there are `count` operands of one type.
void require_one_type(std::string_view name, const Signature& signature, std::size_t count);
/// A sample of every dtype that `takes` accepts, and some larger ones.
void add_samples(SampleSink& sink, bool (*takes)(DType), std::size_t operands);

}  // namespace detail

template <Name name, class Operation, std::size_t operands>
Types infer_elementwise(const Signature& s) {
  detail::require_one_type(name, s, operands);
  const TensorType& type = s.operands[0];
  if (!detail::takes<Operation, operands>(type.dtype))
    detail::refuse_dtype(name, detail::takes<Operation, operands>, type);
  const DType result = visit(type.dtype, []<class T>(std::type_identity<T>) {
    if constexpr (detail::kTakesDtype<Operation, operands, T>) return []<std::size_t... k>(std::index_sequence<k...>) {
        return kDTypeOf<std::invoke_result_t<Operation, detail::Repeat<T, k>...>>;
      }
    (std::make_index_sequence<operands>());
    else return kDTypeOf<T>;
  });
  return {{result, type.shape}};
}

template <class Operation, std::size_t operands>
void reference_elementwise(const Launch& launch) {
  visit(launch.operands[0].dtype, [&]<class T>(std::type_identity<T>) {
    if constexpr (detail::kTakesDtype<Operation, operands, T>) {
      [&]<std::size_t... k>(std::index_sequence<k...>) {
        using R = std::invoke_result_t<Operation, detail::Repeat<T, k>...>;
        for_each_index(launch.results[0].shape, [&](const Shape& index) {
          *reinterpret_cast<R*>(element_at(launch.results[0], index)) =
              Operation{}(*reinterpret_cast<const T*>(element_at(launch.operands[k], index))...);
        });
      }
      (std::make_index_sequence<operands>());
    }
  });
}

/// The record of Operation on `operands` operands of one dtype.
template <Name name, class Operation, std::size_t operands>
consteval Primitive elementwise(std::string_view summary, kernels::TilePick pick) {
  return {.name = name,
          .summary = summary,
          .infer = infer_elementwise<name, Operation, operands>,
          .reference = reference_elementwise<Operation, operands>,
          .run = Tile{pick},
          .samples = [](SampleSink& sink) { detail::add_samples(sink, detail::takes<Operation, operands>, operands); }};
}

/// The record of an elementary function: `elementary<"tanh", numerics::tanh>("...")`.
template <Name name, auto function, std::size_t operands = 1>
consteval Primitive elementary(std::string_view summary) {
  using Operation = std::remove_const_t<decltype(function)>;
  return elementwise<name, Operation, operands>(
      summary, [](const Signature& s) { return kernels::elementary(Operation::kFunction, s.operands[0].dtype); });
}

/// The two operands, converted to their promoted dtype and broadcast to a common shape.
std::pair<Array, Array> matched(std::string_view name, const Array& a, const Array& b);
/// x itself when it is floating, integers and bool converted to f32: the operand of a function of reals.
Array as_floating(const Array& x);

/// Applies a primitive of two operands to a and b, promoted and broadcast.
inline Array apply_binary(const Primitive& primitive, const Array& a, const Array& b) {
  if (a.dtype() == b.dtype() && a.shape() == b.shape()) return apply(primitive, {a, b});
  const auto [x, y] = matched(primitive.name, a, b);
  return apply(primitive, {x, y});
}

}  // namespace eadem::ops
