#include "eadem/text/pretokenizer.h"

#include <array>
#include <cstdint>

#include "eadem/text/pretokenizer_unicode.h"
#include "eadem/text/utf8.h"

namespace eadem::text {
namespace {

// A segment being matched. at() classifies the character at a position; past the end it has length 0.
struct Character {
  char32_t point = 0;
  std::size_t length = 0;
  CharacterClass kind = CharacterClass::other;
  bool valid = false;

  bool letter() const { return valid && kind == CharacterClass::letter; }
  bool number() const { return valid && kind == CharacterClass::number; }
  bool space() const { return valid && kind == CharacterClass::space; }
  bool newline() const { return valid && (point == '\r' || point == '\n'); }
  bool symbol() const { return valid && !letter() && !number() && !space(); }  // [^\s\p{L}\p{N}]
};
Character at(std::string_view text, std::size_t position) {
  if (position >= text.size()) return {};
  const Utf8Character c = utf8_at(text, position);
  return {c.point, c.length, c.valid ? class_of(c.point) : CharacterClass::other, c.valid};
}

using Predicate = bool (Character::*)() const;
std::size_t skip(std::string_view text, std::size_t position, Predicate is) {
  for (Character c = at(text, position); c.length != 0 && (c.*is)(); c = at(text, position)) position += c.length;
  return position;
}

// 's|'t|'re|'ve|'m|'ll|'d, in either case if `fold`; U+017F is a lower-case s to the regular expressions of the field.
std::size_t contraction_end(std::string_view text, std::size_t position, bool fold) {
  if (text[position] != '\'') return position;
  const auto lower = [&](std::size_t i) -> char {
    if (i >= text.size()) return 0;
    const char c = text[i];
    return fold && c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  };
  const char first = lower(position + 1), second = lower(position + 2);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return position + 2;
  if ((first == 'r' || first == 'v') && second == 'e') return position + 3;
  if (first == 'l' && second == 'l') return position + 3;
  if (fold && text.substr(position + 1, 2) == "\xC5\xBF") return position + 3;
  return position;
}

// \s+(?!\S)|\s+ : a run of white space, less its last character if something follows and more than one is there.
std::size_t space_end(std::string_view text, std::size_t position) {
  std::size_t end = position, last = position;
  for (Character c = at(text, end); c.space(); c = at(text, end)) last = end, end += c.length;
  return end == text.size() || last == position ? end : last;
}

// Each matcher gives the end of the match that begins at `position`, or `position` when there is none.

// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
std::size_t match_gpt2(std::string_view text, std::size_t position) {
  if (const std::size_t end = contraction_end(text, position, false); end != position) return end;
  const std::size_t start = position + (text[position] == ' ' ? 1 : 0);
  const Character c = at(text, start);
  if (c.letter()) return skip(text, start, &Character::letter);
  if (c.number()) return skip(text, start, &Character::number);
  if (c.symbol() && c.length != 0) return skip(text, start, &Character::symbol);
  return space_end(text, position);
}

// (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,digits}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+
// |\s+(?!\S)|\s+
template <int digits>
std::size_t match_llama3(std::string_view text, std::size_t position) {
  if (const std::size_t end = contraction_end(text, position, true); end != position) return end;
  const Character first = at(text, position);
  if (first.letter()) return skip(text, position, &Character::letter);
  if (first.valid && !first.newline() && !first.number()) {
    const std::size_t next = position + first.length;
    if (at(text, next).letter()) return skip(text, next, &Character::letter);
  }
  if (first.number()) {
    std::size_t end = position;
    for (int i = 0; i < digits; ++i) {
      const Character c = at(text, end);
      if (!c.number()) break;
      end += c.length;
    }
    return end;
  }
  const std::size_t start = position + (text[position] == ' ' ? 1 : 0);
  if (at(text, start).symbol()) return skip(text, skip(text, start, &Character::symbol), &Character::newline);
  std::size_t end = position, after_newline = position;
  for (Character c = at(text, end); c.space(); c = at(text, end)) {
    end += c.length;
    if (c.newline()) after_newline = end;
  }
  if (after_newline != position) return after_newline;
  return space_end(text, position);
}

// [\p{P}\$\+<=>\^~\|]+
std::size_t match_punctuation(std::string_view text, std::size_t position) {
  const auto is = [&](const Character& c) {
    return c.valid && (c.kind == CharacterClass::punctuation ||
                       (c.point < 0x80 &&
                        std::string_view("$+<=>^~|").find(static_cast<char>(c.point)) != std::string_view::npos));
  };
  for (Character c = at(text, position); c.length != 0 && is(c); c = at(text, position)) position += c.length;
  return position;
}
// \p{N}
std::size_t match_number(std::string_view text, std::size_t position) {
  const Character c = at(text, position);
  return c.number() ? position + c.length : position;
}
// \p{N}+
std::size_t match_numbers(std::string_view text, std::size_t position) {
  return skip(text, position, &Character::number);
}
// [0-9][0-9][0-9]
std::size_t match_three_digits(std::string_view text, std::size_t position) {
  if (text.size() - position < 3) return position;
  for (std::size_t i = 0; i < 3; ++i)
    if (text[position + i] < '0' || text[position + i] > '9') return position;
  return position + 3;
}

using Matcher = std::size_t (*)(std::string_view, std::size_t);

// Cuts one segment into matches and the gaps between them, and hands each to the stages that follow.
void split_stage(const Matcher* stage, const Matcher* end, std::string_view text,
                 std::vector<std::string_view>& words) {
  if (text.empty()) return;
  if (stage == end) {
    words.push_back(text);
    return;
  }
  std::size_t gap = 0;
  for (std::size_t position = 0; position < text.size();) {
    const Utf8Character c = utf8_at(text, position);
    std::size_t match_end = c.valid ? (*stage)(text, position) : position + 1;
    if (match_end == position) {
      position += c.length;
      continue;
    }
    split_stage(stage + 1, end, text.substr(gap, position - gap), words);
    split_stage(stage + 1, end, text.substr(position, match_end - position), words);
    gap = position = match_end;
  }
  split_stage(stage + 1, end, text.substr(gap), words);
}

template <std::size_t n>
void split_by(const std::array<Matcher, n>& stages, std::string_view text, std::vector<std::string_view>& words) {
  split_stage(stages.data(), stages.data() + n, text, words);
}

}  // namespace

std::optional<Pretokenizer> pretokenizer_named(std::string_view name) {
  if (name == "default" || name.empty()) return Pretokenizer::llama_default;
  if (name == "gpt-2") return Pretokenizer::gpt2;
  if (name == "llama-bpe" || name == "llama3" || name == "llama-v3") return Pretokenizer::llama3;
  if (name == "qwen2") return Pretokenizer::qwen2;
  if (name == "smollm") return Pretokenizer::smollm;
  return std::nullopt;
}

std::string_view name_of(Pretokenizer pretokenizer) {
  switch (pretokenizer) {
    case Pretokenizer::llama_default: return "default";
    case Pretokenizer::gpt2: return "gpt-2";
    case Pretokenizer::llama3: return "llama-bpe";
    case Pretokenizer::qwen2: return "qwen2";
    case Pretokenizer::smollm: return "smollm";
  }
  return "";
}

void split_words(Pretokenizer pretokenizer, std::string_view text, std::vector<std::string_view>& words) {
  switch (pretokenizer) {
    case Pretokenizer::llama_default:
      return split_by(std::array<Matcher, 4>{match_punctuation, match_gpt2, match_numbers, match_three_digits}, text,
                      words);
    case Pretokenizer::gpt2: return split_by(std::array<Matcher, 1>{match_gpt2}, text, words);
    case Pretokenizer::llama3: return split_by(std::array<Matcher, 1>{match_llama3<3>}, text, words);
    case Pretokenizer::qwen2: return split_by(std::array<Matcher, 1>{match_llama3<1>}, text, words);
    case Pretokenizer::smollm: return split_by(std::array<Matcher, 2>{match_number, match_gpt2}, text, words);
  }
}

}  // namespace eadem::text
