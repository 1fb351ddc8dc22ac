#include "eadem/text/tokenizer_special.h"

#include <algorithm>

#include "eadem/text/pretokenizer_unicode.h"
#include "eadem/text/utf8.h"

namespace eadem::text {
namespace {

std::uint64_t edge(std::int32_t node, char byte) {
  return std::uint64_t{static_cast<std::uint32_t>(node)} << 8 | static_cast<unsigned char>(byte);
}

bool space_at(std::string_view text, std::size_t position, std::size_t& length) {
  const Utf8Character c = utf8_at(text, position);
  length = c.length;
  return c.valid && class_of(c.point) == CharacterClass::space;
}

// The first position from which only white space follows up to `end`, not below `begin`.
std::size_t before_space(std::string_view text, std::size_t begin, std::size_t end) {
  std::size_t result = begin;
  for (std::size_t i = begin, length = 0; i < end; i += length)
    if (!space_at(text, i, length)) result = i + length;
  return result;
}

}  // namespace

void AddedTokens::add(const AddedToken& token, std::string_view spelling) {
  if (spelling.empty()) return;  // nothing that a text could hold
  std::int32_t node = 0;
  for (const char byte : spelling) {
    const auto [it, fresh] = edges_.try_emplace(edge(node, byte), static_cast<std::int32_t>(token_at_.size()));
    if (fresh) token_at_.push_back(-1);
    node = it->second;
  }
  token_at_[static_cast<std::size_t>(node)] = static_cast<std::int32_t>(tokens_.size());
  tokens_.push_back(token);
  begins_[static_cast<unsigned char>(spelling[0])] = true;
}

void AddedTokens::split(std::string_view text, std::size_t begin, std::size_t end,
                        const std::function<bool(std::size_t, std::size_t)>& allowed, std::vector<Part>& parts) const {
  std::size_t gap = begin;
  for (std::size_t position = begin; position < end;) {
    if (!begins_[static_cast<unsigned char>(text[position])]) {
      ++position;
      continue;
    }
    const AddedToken* found = nullptr;
    std::size_t found_end = position;
    std::int32_t node = 0;
    for (std::size_t i = position; i < end; ++i) {
      const auto next = edges_.find(edge(node, text[i]));
      if (next == edges_.end()) break;
      node = next->second;
      const std::int32_t index = token_at_[static_cast<std::size_t>(node)];
      if (index < 0) continue;
      const AddedToken& candidate = tokens_[static_cast<std::size_t>(index)];
      if (candidate.control && !allowed(position, i + 1)) continue;
      found = &candidate;
      found_end = i + 1;
    }
    if (!found) {
      ++position;
      continue;
    }
    const std::size_t start = found->strip_left ? before_space(text, gap, position) : position;
    if (found->strip_right)
      for (std::size_t length = 0; found_end < end && space_at(text, found_end, length);) found_end += length;
    if (gap < start) parts.push_back({gap, start, -1});
    parts.push_back({start, found_end, found->id});
    gap = position = found_end;
  }
  if (gap < end) parts.push_back({gap, end, -1});
}

}  // namespace eadem::text
