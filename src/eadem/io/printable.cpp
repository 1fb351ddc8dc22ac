#include "eadem/io/printable.h"

#include <fmt/core.h>

namespace eadem::io {
namespace {

constexpr std::size_t kLongest = 1200;

bool is_control(std::string_view text, std::size_t i) {
  const auto byte = [&](std::size_t at) { return at < text.size() ? static_cast<unsigned char>(text[at]) : 0u; };
  // U+0080 to U+009F, C2 80 to C2 9F in UTF-8, are control characters too.
  const auto c1 = [&](std::size_t at) { return byte(at) == 0xc2 && byte(at + 1) >= 0x80 && byte(at + 1) < 0xa0; };
  return byte(i) < 0x20 || byte(i) == 0x7f || c1(i) || (i > 0 && c1(i - 1));
}

}  // namespace

std::string printable(std::string_view text) {
  if (text.size() > kLongest)
    return printable(text.substr(0, kLongest / 2)) + " ... " + printable(text.substr(text.size() - kLongest / 2));
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i)
    if (is_control(text, i))
      result += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[i]));
    else
      result += text[i];
  return result;
}

}  // namespace eadem::io
