#pragma once

#include <cstdint>
#include <span>

namespace eadem::text {

/// The Unicode classes that pre-tokenizers tell apart; `space` is White_Space, `other` all the rest.
enum class CharacterClass : std::uint8_t { other, letter, number, punctuation, space };

/// The class of a code point, from a stored table: ids must not depend on the Unicode version of an installed library.
CharacterClass class_of(char32_t);

namespace detail {
struct ClassRange {
  char32_t first, last;
  CharacterClass value;
};
/// All code points that are not `other`, ascending.
std::span<const ClassRange> class_ranges();
}  // namespace detail

}  // namespace eadem::text
