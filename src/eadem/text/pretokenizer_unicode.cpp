#include "eadem/text/pretokenizer_unicode.h"

#include <algorithm>
#include <array>
#include <vector>

namespace eadem::text {
namespace {

// Pages of 256 code points; equal pages (almost all) are shared.
struct ClassTable {
  std::array<std::uint16_t, 0x1100> page_of{};
  std::vector<std::array<CharacterClass, 256>> pages;

  ClassTable() {
    const auto ranges = detail::class_ranges();
    auto range = ranges.begin();
    for (char32_t page = 0; page < page_of.size(); ++page) {
      std::array<CharacterClass, 256> classes{};
      for (char32_t i = 0; i < 256; ++i) {
        const char32_t point = (page << 8) | i;
        while (range != ranges.end() && range->last < point) ++range;
        if (range != ranges.end() && range->first <= point) classes[i] = range->value;
      }
      const auto same = std::find(pages.begin(), pages.end(), classes);
      page_of[page] = static_cast<std::uint16_t>(same - pages.begin());
      if (same == pages.end()) pages.push_back(classes);
    }
  }
};

}  // namespace

CharacterClass class_of(char32_t point) {
  static const ClassTable table;
  if (point >= 0x110000) return CharacterClass::other;
  return table.pages[table.page_of[point >> 8]][point & 255];
}

}  // namespace eadem::text
