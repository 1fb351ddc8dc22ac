#pragma once

#include <fmt/core.h>

#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "eadem/base/dtype.h"
#include "eadem/base/shape.h"

namespace eadem {

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
  std::shared_ptr<const void> (*parse)(std::string_view);  ///< inverse of print; throws ValueError
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
inline std::string print_value(DType value) {
  return std::string(name_of(value));
}
inline std::string print_value(const Shape& value) {
  return fmt::format("{}", value);
}
template <class T>
std::string print_value(const std::optional<T>& value) {
  return value ? print_value(*value) : "none";
}

[[noreturn]] inline void refuse_value(std::string_view text, std::string_view wanted) {
  fail<ValueError>("[parse] expected {}, got '{}'", wanted, text);
}
inline void parse_value(std::string_view text, bool& value) {
  if (text != "true" && text != "false") refuse_value(text, "true or false");
  value = text == "true";
}
inline void parse_value(std::string_view text, std::int64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) refuse_value(text, "an integer");
}
inline void parse_value(std::string_view text, double& value) {
  const std::string copy(text);
  char* end = nullptr;
  value = std::strtod(copy.c_str(), &end);
  if (copy.empty() || *end) refuse_value(text, "a number");
}
inline void parse_value(std::string_view text, DType& value) {
  const std::optional<DType> named = dtype_named(text);
  if (!named) refuse_value(text, "a dtype");
  value = *named;
}
inline void parse_value(std::string_view text, Shape& value) {
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') refuse_value(text, "[n,...]");
  value = Shape();
  text = text.substr(1, text.size() - 2);
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    std::int64_t extent = 0;
    parse_value(text.substr(0, comma), extent);
    value.push_back(extent);
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
}
template <class T>
void parse_value(std::string_view text, std::optional<T>& value) {
  if (text == "none") {
    value.reset();
    return;
  }
  parse_value(text, value.emplace());
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
std::shared_ptr<const void> parse_attributes(std::string_view text) {
  auto attributes = std::make_shared<S>();
  for_each_field<S>([&](const auto& each) {
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos || text.substr(0, equals) != each.name)
      fail<ValueError>("[parse] expected '{}=', got '{}'", each.name, text);
    text.remove_prefix(equals + 1);
    const std::size_t space = std::min(text.find(' '), text.size());
    parse_value(text.substr(0, space), (*attributes).*each.member);
    text.remove_prefix(std::min(space + 1, text.size()));
  });
  if (!text.empty()) fail<ValueError>("[parse] unexpected attributes '{}'", text);
  return attributes;
}

}  // namespace detail

template <class S>
inline constexpr AttributeKind kAttributesOf{
    .equal = detail::equal_attributes<S>,
    .hash = [](const void* a) { return std::hash<std::string>()(detail::print_attributes<S>(a)); },
    .print = detail::print_attributes<S>,
    .copy = [](const void* a) -> std::shared_ptr<const void> { return std::make_shared<S>(*static_cast<const S*>(a)); },
    .parse = detail::parse_attributes<S>};

}  // namespace eadem
