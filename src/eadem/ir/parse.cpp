// The inverse of print.cpp. The text is untrusted: every bracket, id, name and type is checked, and what was read is
// verified as a program.

#include <charconv>
#include <cstring>

#include "eadem/ir/program.h"
#include "eadem/numerics/rounding.h"

namespace eadem {
namespace {

// Brackets inside brackets: a program of a list of an attribute is three, and inside the innermost are shapes. More is
// a mistake or an attack.
constexpr int kMaxDepth = 3 * kMaxProgramDepth + 8;

[[noreturn]] void refuse_depth() {
  fail<ValueError>("[parse] brackets nest deeper than {}", kMaxDepth);
}

bool is_space(char c) {
  return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

class Reader {
 public:
  Reader(std::string_view text, Catalog catalog) : whole_(text), text_(text), catalog_(catalog) {}

  Program program() {
    expect("{");
    expect("inputs");
    while (peek() == '%') result.inputs.push_back(definition());
    expect(";");
    while (peek() == '%') equation();
    expect("outputs");
    while (peek() == '%') result.outputs.push_back(id());
    expect("}");
    skip();
    if (!text_.empty()) refuse("the end of the text");
    return std::move(result);
  }

 private:
  [[noreturn]] void refuse(std::string_view wanted) {
    fail<ValueError>("[parse] at character {}: expected {}, got '{}'", whole_.size() - text_.size(), wanted,
                     text_.substr(0, 20));
  }
  void skip() {
    while (!text_.empty() && is_space(text_.front())) text_.remove_prefix(1);
  }
  char peek() {
    skip();
    return text_.empty() ? '\0' : text_.front();
  }
  void expect(std::string_view word) {
    skip();
    if (!text_.starts_with(word)) refuse(fmt::format("'{}'", word));
    text_.remove_prefix(word.size());
  }
  ValueId id() {
    expect("%");
    ValueId value = 0;
    const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), value);
    if (error != std::errc() || value < 0) refuse("the number of a value");
    text_.remove_prefix(static_cast<std::size_t>(end - text_.data()));
    return value;
  }
  std::string_view word(std::string_view wanted) {
    skip();
    std::size_t length = 0;
    while (length < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[length])) || text_[length] == '_'))
      ++length;
    if (length == 0) refuse(wanted);
    const std::string_view found = text_.substr(0, length);
    text_.remove_prefix(length);
    return found;
  }
  // What a bracket holds, itself a bracketed text.
  std::string_view bracketed() {
    int depth = 0;
    for (std::size_t i = 0; i < text_.size(); ++i) {
      if ((text_[i] == '[' || text_[i] == '{') && ++depth > kMaxDepth) refuse_depth();
      if ((text_[i] == ']' || text_[i] == '}') && --depth == 0) {
        const std::string_view inside = text_.substr(1, i - 1);
        text_.remove_prefix(i + 1);
        return inside;
      }
    }
    refuse("a closing bracket");
  }
  TensorType type() {
    const std::string_view name = word("a dtype");
    const std::optional<DType> dtype = dtype_named(name);
    if (!dtype) fail<ValueError>("[parse] '{}' is not a dtype", name);
    if (peek() != '[') refuse("a shape");
    const std::string shape = fmt::format("[{}]", bracketed());
    TensorType type{*dtype, {}};
    detail::parse_value(shape, type.shape, catalog_);
    for (const std::int64_t extent : type.shape)
      if (extent < 0) fail<ValueError>("[parse] shape {} has a negative extent", shape);
    return type;
  }
  ValueId definition() {
    const ValueId value = id();
    if (value != static_cast<ValueId>(result.types.size())) refuse(fmt::format("%{}", result.types.size()));
    expect(":");
    return result.add_value(type());
  }
  void equation() {
    Equation equation;
    while (peek() == '%') equation.results.push_back(definition());
    expect("=");
    const std::string_view name = word("a primitive's name");
    for (const Primitive* primitive : catalog_)
      if (primitive->name == name) equation.primitive = primitive;
    if (!equation.primitive) fail<ValueError>("[parse] no primitive is named '{}'", name);
    const AttributeKind& kind = *equation.primitive->attributes;
    if (!text_.empty() && text_.front() == '[')
      equation.attributes = kind.parse(bracketed(), catalog_);
    else if (&kind != &kAttributesOf<NoAttributes>)
      refuse("'[' and attributes");
    // An id with a type begins the next equation.
    while (peek() == '%') {
      const std::string_view before = text_;
      const ValueId value = id();
      if (!text_.empty() && text_.front() == ':') {
        text_ = before;
        break;
      }
      equation.operands.push_back(value);
    }
    if (peek() == '@') {
      const std::size_t end = std::min(text_.find_first_of(" \n\t\r"), text_.size());
      equation.scope = text_.substr(1, end - 1);
      text_.remove_prefix(end);
    }
    result.equations.push_back(std::move(equation));
  }

  std::string_view whole_, text_;
  Catalog catalog_;
  Program result;
};

template <class T>
T parse_element(std::string_view text, Catalog catalog) {
  if constexpr (FloatingElement<T>) {
    if (text.starts_with("nan:")) {
      std::uint64_t bits = 0;
      const auto [end, error] = std::from_chars(text.data() + 4, text.data() + text.size(), bits, 16);
      T value;
      std::memcpy(static_cast<void*>(&value), &bits, sizeof value);
      if (error != std::errc() || end != text.data() + text.size() || bits >> (8 * sizeof value - 1) > 1 ||  // too wide
          numerics::to_double(value) == numerics::to_double(value))
        detail::refuse_value(text, "the bits of a NaN");
      return value;
    }
    double value = 0;
    detail::parse_value(text, value, catalog);
    return numerics::round_to<T>(value);
  } else if constexpr (std::same_as<T, bool>) {
    bool value = false;
    detail::parse_value(text, value, catalog);
    return value;
  } else {
    T value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) detail::refuse_value(text, name_of(kDTypeOf<T>));
    return value;
  }
}

}  // namespace

std::size_t detail::value_length(std::string_view text, char separator) {
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '[' || c == '{') ++depth;
    if (c == ']' || c == '}') --depth;
    if (depth > kMaxDepth) refuse_depth();
    if (depth == 0 && c == separator) return i;
  }
  return text.size();
}

// Not by strtod, whose decimal point is the C locale's.
void detail::parse_value(std::string_view text, double& value, Catalog) {
  std::string_view digits = text;
  const bool negative = digits.starts_with('-');
  if (negative) digits.remove_prefix(1);
  const bool hexadecimal = digits.starts_with("0x");
  if (hexadecimal) digits.remove_prefix(2);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value,
                                            hexadecimal ? std::chars_format::hex : std::chars_format::general);
  if (digits.starts_with('-') || error != std::errc() || end != digits.data() + digits.size())
    refuse_value(text, "a number");
  if (negative) value = -value;
}

void detail::parse_value(std::string_view text, Shape& value, Catalog catalog) {
  std::vector<std::int64_t> extents;
  parse_value(text, extents, catalog);
  if (extents.size() > static_cast<std::size_t>(kMaxRank)) refuse_value(text, fmt::format("at most {} axes", kMaxRank));
  value = Shape(std::span<const std::int64_t>(extents));
}

void detail::parse_value(std::string_view text, Literal& value, Catalog catalog) {
  const std::size_t bracket = text.find('['), brace = text.find('{');
  if (bracket == std::string_view::npos || brace == std::string_view::npos || brace < bracket || text.back() != '}')
    refuse_value(text, "dtype[shape]{values}");
  parse_value(text.substr(0, bracket), value.type.dtype, catalog);
  parse_value(text.substr(bracket, brace - bracket), value.type.shape, catalog);
  std::string_view elements = text.substr(brace + 1, text.size() - brace - 2);
  const std::int64_t count = checked_elements("parse", value.type.shape);
  visit(value.type.dtype, [&]<class T>(std::type_identity<T>) {
    for (std::int64_t i = 0; i < count; ++i) {
      const std::size_t length = value_length(elements, ',');
      if (length == 0) refuse_value(text, fmt::format("{} values", count));
      const T element = parse_element<T>(elements.substr(0, length), catalog);
      const auto* bytes = reinterpret_cast<const std::byte*>(&element);
      value.bytes.insert(value.bytes.end(), bytes, bytes + sizeof element);
      elements.remove_prefix(std::min(length + 1, elements.size()));
    }
  });
  if (!elements.empty()) refuse_value(text, fmt::format("{} values", count));
}

void detail::parse_value(std::string_view text, ProgramRef& value, Catalog catalog) {
  value = std::make_shared<const Program>(Reader(text, catalog).program());
}

Program parse_program(std::string_view text, Catalog catalog) {
  Program program = Reader(text, catalog).program();
  verify(program);
  return program;
}

}  // namespace eadem
