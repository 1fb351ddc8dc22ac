// Programs as text. Whitespace and line breaks carry no meaning; ids, types, attributes and scopes are written whole,
// so that the parser gives back the same program.

#include <cmath>
#include <cstring>

#include "eadem/ir/program.h"
#include "eadem/numerics/rounding.h"

namespace eadem {
namespace {

void indent(std::string& text, std::string_view lines) {
  for (const char c : lines) {
    text += c;
    if (c == '\n') text += "  ";
  }
}

template <class T>
std::string print_element(T value) {
  if constexpr (FloatingElement<T>) {
    const double wide = numerics::to_double(value);
    if (!std::isnan(wide)) return fmt::format("{:a}", wide);
    // A NaN's bits: its sign and payload may be the user's.
    std::uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof value);
    return fmt::format("nan:{:x}", bits);
  } else if constexpr (std::same_as<T, bool>) {
    return value ? "true" : "false";
  } else {
    return fmt::format("{}", static_cast<std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>>(value));
  }
}

}  // namespace

std::string detail::print_value(const Literal& value) {
  std::string text = fmt::format("{}{{", value.type);
  visit(value.type.dtype, [&]<class T>(std::type_identity<T>) {
    for (std::size_t at = 0; at + sizeof(T) <= value.bytes.size(); at += sizeof(T)) {
      T element;
      std::memcpy(&element, value.bytes.data() + at, sizeof element);
      text += (at ? "," : "") + print_element(element);
    }
  });
  return text + "}";
}

std::string detail::print_value(const ProgramRef& value) {
  return print(*value);
}

std::string print_types(std::span<const TensorType> types) {
  std::string text;
  for (const TensorType& type : types) text += fmt::format("{}{}", text.empty() ? "" : ", ", type);
  return text;
}

std::string print(const Program& program) {
  static thread_local int depth = 0;
  struct Nesting {
    Nesting() { ++depth; }
    ~Nesting() { --depth; }
  } const nesting;
  if (depth > kMaxProgramDepth) fail<ValueError>("[print] programs nest deeper than {}", kMaxProgramDepth);
  std::string text = "{ inputs";
  for (const ValueId id : program.inputs) text += fmt::format(" %{}:{}", id, program.type(id));
  text += ";";
  for (const Equation& equation : program.equations) {
    text += "\n ";
    for (const ValueId id : equation.results) text += fmt::format(" %{}:{}", id, program.type(id));
    text += fmt::format(" = {}", equation.primitive->name);
    if (equation.attributes && equation.primitive->attributes != &kAttributesOf<NoAttributes>) {
      text += "[";
      indent(text, equation.primitive->attributes->print(equation.attributes.get()));
      text += "]";
    }
    for (const ValueId id : equation.operands) text += fmt::format(" %{}", id);
    if (!equation.scope.empty()) text += fmt::format(" @{}", equation.scope);
  }
  text += "\n  outputs";
  for (const ValueId id : program.outputs) text += fmt::format(" %{}", id);
  return text + " }";
}

}  // namespace eadem
