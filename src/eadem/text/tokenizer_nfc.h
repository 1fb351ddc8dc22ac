#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace eadem::text {

/// Unicode normalization form C, from stored tables that agree with Hugging Face tokenizers. Bytes that are not UTF-8
/// are kept as they are; nothing combines across them.
std::string normalized_nfc(std::string_view text);

namespace detail {
/// The canonical decomposition of `point` into one or two (second is 0 for one), and whether the two compose to it.
struct Decomposition {
  char32_t point, first, second;
  bool composes;
};
struct CombiningRange {
  char32_t first, last;
  std::uint8_t value;
};
/// Ascending by code point.
std::span<const Decomposition> decompositions();
std::span<const CombiningRange> combining_ranges();
}  // namespace detail

}  // namespace eadem::text
