#pragma once

#include <string>
#include <string_view>

namespace eadem::text {

/// The printable character by which byte-level BPE (GPT-2) spells a byte.
char32_t byte_level_character(unsigned char byte);

/// The bytes that a byte-level spelling stands for; a text with a character that spells no byte stands for itself.
std::string bytes_of_byte_level(std::string_view spelling);

}  // namespace eadem::text
