#include "eadem/text/tokenizer_bytes.h"

#include <array>

#include "eadem/text/utf8.h"

namespace eadem::text {
namespace {

// Printable Latin-1 characters spell themselves; the other 68 bytes, ascending, are U+0100 and on.
struct ByteMap {
  std::array<char32_t, 256> character{};
  std::array<int, 0x144> byte{};

  constexpr ByteMap() {
    byte.fill(-1);
    char32_t next = 0x100;
    for (int b = 0; b < 256; ++b) {
      const bool printable = (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || (b >= 0xae && b <= 0xff);
      const char32_t c = printable ? static_cast<char32_t>(b) : next++;
      character[static_cast<std::size_t>(b)] = c;
      byte[c] = b;
    }
  }
};
constexpr ByteMap kByteMap;

}  // namespace

char32_t byte_level_character(unsigned char byte) {
  return kByteMap.character[byte];
}

std::string bytes_of_byte_level(std::string_view spelling) {
  std::string bytes;
  for (std::size_t i = 0; i < spelling.size();) {
    const Utf8Character c = utf8_at(spelling, i);
    const int byte = c.valid && c.point < kByteMap.byte.size() ? kByteMap.byte[c.point] : -1;
    if (byte < 0) return std::string(spelling);
    bytes += static_cast<char>(byte);
    i += c.length;
  }
  return bytes;
}

}  // namespace eadem::text
