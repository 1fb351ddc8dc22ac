#pragma once

#include <fmt/core.h>

#include <charconv>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "eadem/base/tensor_view.h"

namespace eadem {

struct Primitive;
struct Program;
/// A program is immutable once made, and shared.
using ProgramRef = std::shared_ptr<const Program>;
/// Every primitive that a parser may name.
using Catalog = std::span<const Primitive* const>;

/// A small array written into a program: a type and the bytes of its elements, row-major.
struct Literal {
  TensorType type;
  std::vector<std::byte> bytes;
};

/// Names a field of an attribute struct: `static constexpr auto fields() { return std::tuple(field("axes", &S::axes));
/// }`.
template <class S, class T>
struct Field {
  std::string_view name;
  T S::*member;
};
template <class S, class T>
constexpr Field<S, T> field(std::string_view name, T S::*member) {
  return {name, member};
}

/// What the passes do with attributes without knowing their type; derived from fields() by kAttributesOf<S>.
struct AttributeKind {
  bool (*equal)(const void*, const void*);
  std::size_t (*hash)(const void*);
  std::string (*print)(const void*);  ///< `axes=[0,1] keepdims=false`; floats in hexadecimal
  std::shared_ptr<const void> (*copy)(const void*);
  std::shared_ptr<const void> (*parse)(std::string_view, Catalog);  ///< inverse of print; throws ValueError
  std::vector<ProgramRef> (*programs)(const void*);  ///< the sub-programs of a higher-order primitive, in field order
  /// The attributes with other sub-programs, as many as `programs` gives: how passes recurse.
  std::shared_ptr<const void> (*with_programs)(const void*, std::span<const ProgramRef>);
};

/// Of primitives that take none.
struct NoAttributes {
  static constexpr auto fields() { return std::tuple<>(); }
};

namespace detail {

inline std::string print_value(bool value) {
  return value ? "true" : "false";
}
inline std::string print_value(std::int64_t value) {
  return fmt::format("{}", value);
}
inline std::string print_value(double value) {
  return fmt::format("{:a}", value);
}
// A name: without spaces, commas or brackets, as the primitive's infer must check.
inline std::string print_value(const std::string& value) {
  return value;
}
inline std::string print_value(DType value) {
  return std::string(name_of(value));
}
inline std::string print_value(const Shape& value) {
  return fmt::format("{}", value);
}
std::string print_value(const Literal& value);     // f32[2]{0x1p+0,nan}
std::string print_value(const ProgramRef& value);  // as print(Program), in program.h
template <class T>
std::string print_value(const std::vector<T>& values) {
  std::string text;
  for (const auto& value : values) text += (text.empty() ? "" : ",") + print_value(static_cast<const T&>(value));
  return "[" + text + "]";
}
template <class T>
std::string print_value(const std::optional<T>& value) {
  return value ? print_value(*value) : "none";
}

[[noreturn]] inline void refuse_value(std::string_view text, std::string_view wanted) {
  fail<ValueError>("[parse] expected {}, got '{}'", wanted, text);
}
// The length of the first value of `text`, which ends at a `separator` outside brackets.
std::size_t value_length(std::string_view text, char separator);

inline void parse_value(std::string_view text, bool& value, Catalog) {
  if (text != "true" && text != "false") refuse_value(text, "true or false");
  value = text == "true";
}
inline void parse_value(std::string_view text, std::int64_t& value, Catalog) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) refuse_value(text, "an integer");
}
void parse_value(std::string_view text, double& value, Catalog);
inline void parse_value(std::string_view text, std::string& value, Catalog) {
  value = text;
}
inline void parse_value(std::string_view text, DType& value, Catalog) {
  const std::optional<DType> named = dtype_named(text);
  if (!named) refuse_value(text, "a dtype");
  value = *named;
}
void parse_value(std::string_view text, Shape& value, Catalog);
void parse_value(std::string_view text, Literal& value, Catalog);
void parse_value(std::string_view text, ProgramRef& value, Catalog);
template <class T>
void parse_value(std::string_view text, std::vector<T>& values, Catalog catalog) {
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') refuse_value(text, "[value,...]");
  text = text.substr(1, text.size() - 2);
  while (!text.empty()) {
    const std::size_t length = value_length(text, ',');
    T value{};
    parse_value(text.substr(0, length), value, catalog);
    values.push_back(std::move(value));
    text.remove_prefix(std::min(length + 1, text.size()));
  }
}
template <class T>
void parse_value(std::string_view text, std::optional<T>& value, Catalog catalog) {
  if (text == "none") {
    value.reset();
    return;
  }
  parse_value(text, value.emplace(), catalog);
}

template <class S, class F>
void for_each_field(F&& f) {
  std::apply([&](const auto&... each) { (f(each), ...); }, S::fields());
}

template <class S>
std::string print_attributes(const void* pointer) {
  const S& attributes = *static_cast<const S*>(pointer);
  std::string text;
  for_each_field<S>([&](const auto& each) {
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", each.name, print_value(attributes.*each.member));
  });
  return text;
}

template <class S>
bool equal_attributes(const void* a, const void* b) {
  bool equal = true;
  for_each_field<S>([&](const auto& each) {
    equal = equal &&
            print_value(static_cast<const S*>(a)->*each.member) == print_value(static_cast<const S*>(b)->*each.member);
  });
  return equal;
}

template <class S>
std::shared_ptr<const void> parse_attributes(std::string_view text, Catalog catalog) {
  auto attributes = std::make_shared<S>();
  for_each_field<S>([&](const auto& each) {
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos || text.substr(0, equals) != each.name)
      fail<ValueError>("[parse] expected '{}=', got '{}'", each.name, text);
    text.remove_prefix(equals + 1);
    const std::size_t space = value_length(text, ' ');
    parse_value(text.substr(0, space), (*attributes).*each.member, catalog);
    text.remove_prefix(std::min(space + 1, text.size()));
  });
  if (!text.empty()) fail<ValueError>("[parse] unexpected attributes '{}'", text);
  return attributes;
}

// Calls f with every sub-program of the attributes, in field order.
template <class S, class Attributes, class F>
void for_each_program(Attributes& attributes, F&& f) {
  for_each_field<S>([&](const auto& each) {
    auto& value = attributes.*each.member;
    using T = std::remove_cvref_t<decltype(value)>;
    if constexpr (std::is_same_v<T, ProgramRef>)
      f(value);
    else if constexpr (std::is_same_v<T, std::vector<ProgramRef>>)
      for (auto& program : value) f(program);
  });
}

template <class S>
std::vector<ProgramRef> programs_of(const void* attributes) {
  std::vector<ProgramRef> programs;
  for_each_program<S>(*static_cast<const S*>(attributes), [&](const ProgramRef& p) { programs.push_back(p); });
  return programs;
}

template <class S>
std::shared_ptr<const void> with_programs(const void* attributes, std::span<const ProgramRef> programs) {
  auto changed = std::make_shared<S>(*static_cast<const S*>(attributes));
  std::size_t next = 0;
  for_each_program<S>(*changed, [&](ProgramRef& program) { program = programs[next++]; });
  return changed;
}

}  // namespace detail

template <class S>
inline constexpr AttributeKind kAttributesOf{
    .equal = detail::equal_attributes<S>,
    .hash = [](const void* a) { return std::hash<std::string>()(detail::print_attributes<S>(a)); },
    .print = detail::print_attributes<S>,
    .copy = [](const void* a) -> std::shared_ptr<const void> { return std::make_shared<S>(*static_cast<const S*>(a)); },
    .parse = detail::parse_attributes<S>,
    .programs = detail::programs_of<S>,
    .with_programs = detail::with_programs<S>};

}  // namespace eadem
