#include "eadem/text/utf8.h"

namespace eadem::text {
namespace {

// How many bytes from `position` are a prefix of a well-formed character, and how many the whole has (0: no lead byte).
struct Prefix {
  std::size_t have = 0, need = 0;
};
Prefix prefix_at(std::string_view text, std::size_t position) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[position + i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return {1, 1};
  if (lead < 0xc2 || lead > 0xf4) return {0, 0};
  const std::size_t need = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  std::size_t have = 1;
  for (; have < need && position + have < text.size(); ++have) {
    // The second byte's range excludes overlong forms, surrogates and what lies above U+10FFFF.
    unsigned low = 0x80, high = 0xbf;
    if (have == 1) {
      if (lead == 0xe0) low = 0xa0;
      if (lead == 0xed) high = 0x9f;
      if (lead == 0xf0) low = 0x90;
      if (lead == 0xf4) high = 0x8f;
    }
    if (byte(have) < low || byte(have) > high) break;
  }
  return {have, need};
}

}  // namespace

Utf8Character utf8_at(std::string_view text, std::size_t position) {
  const auto byte = [&](std::size_t i) {
    return static_cast<char32_t>(static_cast<unsigned char>(text[position + i]));
  };
  if (byte(0) < 0x80) return {byte(0), 1, true};
  const Prefix prefix = prefix_at(text, position);
  if (prefix.need == 0 || prefix.have != prefix.need) return {byte(0), 1, false};
  char32_t point = byte(0) & (0xffu >> (prefix.need + 1));
  for (std::size_t i = 1; i < prefix.need; ++i) point = (point << 6) | (byte(i) & 0x3f);
  return {point, static_cast<std::uint8_t>(prefix.need), true};
}

std::size_t incomplete_utf8_suffix(std::string_view text) {
  for (std::size_t length = 1; length <= 3 && length <= text.size(); ++length) {
    const Prefix prefix = prefix_at(text, text.size() - length);
    if (prefix.need > length && prefix.have == length) return length;
  }
  return 0;
}

std::string replace_invalid_utf8(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const Prefix prefix = prefix_at(text, i);
    if (prefix.need != 0 && prefix.have == prefix.need) {
      result.append(text, i, prefix.need);
      i += prefix.need;
    } else {
      result += "\xEF\xBF\xBD";
      i += prefix.have == 0 ? 1 : prefix.have;
    }
  }
  return result;
}

void append_utf8(std::string& text, char32_t point) {
  const auto put = [&](char32_t byte) { text += static_cast<char>(byte); };
  if (point < 0x80) {
    put(point);
  } else if (point < 0x800) {
    put(0xc0 | (point >> 6)), put(0x80 | (point & 0x3f));
  } else if (point < 0x10000) {
    put(0xe0 | (point >> 12)), put(0x80 | ((point >> 6) & 0x3f)), put(0x80 | (point & 0x3f));
  } else {
    put(0xf0 | (point >> 18)), put(0x80 | ((point >> 12) & 0x3f));
    put(0x80 | ((point >> 6) & 0x3f)), put(0x80 | (point & 0x3f));
  }
}

}  // namespace eadem::text
