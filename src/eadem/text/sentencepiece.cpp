#include "eadem/text/sentencepiece.h"

#include <algorithm>

#include "eadem/text/utf8.h"

namespace eadem::text {
namespace {
constexpr auto later = [](const auto& a, const auto& b) {
  return a.score != b.score ? a.score < b.score : a.left > b.left;
};
}  // namespace

void SentencePieceMerger::offer(std::string_view text, std::int64_t left, std::int64_t right) {
  if (left < 0 || right < 0) return;
  const Symbol& a = symbols_[static_cast<std::size_t>(left)];
  const std::size_t length = a.length + symbols_[static_cast<std::size_t>(right)].length;
  if (length > longest_) return;
  const auto token = vocabulary_.find(text.substr(a.begin, length));
  if (token == vocabulary_.end()) return;
  heap_.push_back({scores_[static_cast<std::size_t>(token->second)], left, right, length});
  std::push_heap(heap_.begin(), heap_.end(), later);
}

std::vector<std::string_view> SentencePieceMerger::merge(std::string_view text) {
  symbols_.clear(), heap_.clear();
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = utf8_at(text, i).length;
    const auto index = static_cast<std::int64_t>(symbols_.size());
    symbols_.push_back({i, length, index - 1, i + length < text.size() ? index + 1 : -1});
    i += length;
  }
  for (std::size_t i = 1; i < symbols_.size(); ++i)
    offer(text, static_cast<std::int64_t>(i) - 1, static_cast<std::int64_t>(i));
  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end(), later);
    const Candidate best = heap_.back();
    heap_.pop_back();
    Symbol& left = symbols_[static_cast<std::size_t>(best.left)];
    Symbol& right = symbols_[static_cast<std::size_t>(best.right)];
    if (left.length == 0 || right.length == 0 || left.length + right.length != best.length) continue;  // outdated
    left.length = best.length;
    right.length = 0;
    left.next = right.next;
    if (right.next >= 0) symbols_[static_cast<std::size_t>(right.next)].previous = best.left;
    offer(text, left.previous, best.left);
    offer(text, best.left, left.next);
  }
  std::vector<std::string_view> pieces;
  if (!symbols_.empty())
    for (std::int64_t i = 0; i >= 0; i = symbols_[static_cast<std::size_t>(i)].next)
      pieces.push_back(
          text.substr(symbols_[static_cast<std::size_t>(i)].begin, symbols_[static_cast<std::size_t>(i)].length));
  return pieces;
}

}  // namespace eadem::text
