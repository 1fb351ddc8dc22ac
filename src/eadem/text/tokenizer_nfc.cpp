#include "eadem/text/tokenizer_nfc.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "eadem/text/utf8.h"

namespace eadem::text {
namespace {

// Hangul syllables are arithmetic: chapter 3.12 of the Unicode standard.
constexpr char32_t kLeading = 0x1100, kVowel = 0x1161, kTrailing = 0x11a7, kSyllable = 0xac00;
constexpr char32_t kLeadings = 19, kVowels = 21, kTrailings = 28, kSyllables = kLeadings * kVowels * kTrailings;

std::uint8_t combining_class(char32_t point) {
  const auto ranges = detail::combining_ranges();
  const auto after = std::upper_bound(ranges.begin(), ranges.end(), point,
                                      [](char32_t p, const detail::CombiningRange& range) { return p < range.first; });
  return after != ranges.begin() && point <= std::prev(after)->last ? std::prev(after)->value : 0;
}

void decompose(char32_t point, std::u32string& out) {
  if (point < 0xc0) {
    out += point;
    return;
  }
  if (point >= kSyllable && point < kSyllable + kSyllables) {
    const char32_t index = point - kSyllable;
    out += kLeading + index / (kVowels * kTrailings);
    out += kVowel + index / kTrailings % kVowels;
    if (index % kTrailings) out += kTrailing + index % kTrailings;
    return;
  }
  const auto all = detail::decompositions();
  const auto found = std::lower_bound(all.begin(), all.end(), point,
                                      [](const detail::Decomposition& d, char32_t p) { return d.point < p; });
  if (found == all.end() || found->point != point) {
    out += point;
    return;
  }
  decompose(found->first, out);
  if (found->second) decompose(found->second, out);
}

// What two characters compose to, or 0.
char32_t composed(char32_t a, char32_t b) {
  if (a >= kLeading && a < kLeading + kLeadings && b >= kVowel && b < kVowel + kVowels)
    return kSyllable + ((a - kLeading) * kVowels + (b - kVowel)) * kTrailings;
  if (a >= kSyllable && a < kSyllable + kSyllables && (a - kSyllable) % kTrailings == 0 && b > kTrailing &&
      b < kTrailing + kTrailings)
    return a + (b - kTrailing);
  static const auto table = [] {
    std::unordered_map<std::uint64_t, char32_t> pairs;
    for (const detail::Decomposition& d : detail::decompositions())
      if (d.composes) pairs.emplace(std::uint64_t{d.first} << 32 | d.second, d.point);
    return pairs;
  }();
  const auto found = table.find(std::uint64_t{a} << 32 | b);
  return found == table.end() ? 0 : found->second;
}

void append_nfc(std::u32string_view points, std::string& text) {
  std::u32string all;
  for (const char32_t point : points) decompose(point, all);
  std::vector<std::uint8_t> classes;
  for (const char32_t point : all) classes.push_back(combining_class(point));
  // Canonical order: each run of marks sorted by class, stably.
  std::vector<std::pair<std::uint8_t, char32_t>> run;
  for (std::size_t i = 0; i < all.size();) {
    if (classes[i] == 0) {
      ++i;
      continue;
    }
    const std::size_t begin = i;
    run.clear();
    for (; i < all.size() && classes[i] != 0; ++i) run.emplace_back(classes[i], all[i]);
    std::stable_sort(run.begin(), run.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (std::size_t k = 0; k < run.size(); ++k) classes[begin + k] = run[k].first, all[begin + k] = run[k].second;
  }
  // Composition: a mark joins the last starter unless something of its class or higher stands between.
  std::u32string result;
  std::size_t starter = std::u32string::npos;
  int last_class = -1;  // of the last character after the starter that did not join it; -1: none
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (starter != std::u32string::npos && (last_class < 0 || last_class < classes[i])) {
      if (const char32_t whole = composed(result[starter], all[i])) {
        result[starter] = whole;
        continue;
      }
    }
    if (classes[i] == 0)
      starter = result.size(), last_class = -1;
    else
      last_class = classes[i];
    result += all[i];
  }
  for (const char32_t point : result) append_utf8(text, point);
}

}  // namespace

std::string normalized_nfc(std::string_view text) {
  // Nothing below U+0300 combines or is a composed form that could change.
  if (std::none_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) >= 0xcc; }))
    return std::string(text);
  std::string result;
  std::u32string points;
  for (std::size_t i = 0; i < text.size();) {
    const Utf8Character c = utf8_at(text, i);
    if (c.valid) {
      points += c.point;
    } else {
      append_nfc(points, result);
      points.clear();
      result += text[i];
    }
    i += c.length;
  }
  append_nfc(points, result);
  return result;
}

}  // namespace eadem::text
