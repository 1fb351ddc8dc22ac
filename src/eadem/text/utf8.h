#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace eadem::text {

/// One well-formed UTF-8 character, or one byte that belongs to none (overlong forms and surrogates are such bytes).
struct Utf8Character {
  char32_t point = 0;  ///< the byte itself when not valid
  std::uint8_t length = 1;
  bool valid = false;
};

/// The character at `position`, which must lie inside `text`.
Utf8Character utf8_at(std::string_view text, std::size_t position);

/// How many bytes at the end of `text` begin a well-formed character that is not complete yet: 0 to 3.
std::size_t incomplete_utf8_suffix(std::string_view text);

/// The text with U+FFFD for each maximal part that is not UTF-8 (the Unicode standard's recommended practice).
std::string replace_invalid_utf8(std::string_view text);

/// Appends the UTF-8 form of a code point.
void append_utf8(std::string& text, char32_t point);

}  // namespace eadem::text
