#include "eadem/text/bpe.h"

#include <algorithm>
#include <bit>

#include "eadem/base/error.h"

namespace eadem::text {
namespace {

constexpr std::size_t kShortWord = 24;  // up to here looking at every pair is faster than a heap

std::uint64_t pair_key(std::int32_t left, std::int32_t right) {
  return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
}

}  // namespace

MergeTable::MergeTable(std::size_t count) : slots_(std::bit_ceil(2 * count + 2)) {}

std::size_t MergeTable::slot_of(std::uint64_t pair) const {
  std::uint64_t hash = pair * 0x9e3779b97f4a7c15u;
  hash ^= hash >> 32;
  std::size_t slot = static_cast<std::size_t>(hash) & (slots_.size() - 1);
  while (slots_[slot].merge.rank >= 0 && slots_[slot].pair != pair) slot = (slot + 1) & (slots_.size() - 1);
  return slot;
}

void MergeTable::add(std::int32_t left, std::int32_t right, std::int32_t result) {
  Slot& slot = slots_[slot_of(pair_key(left, right))];
  if (slot.merge.rank < 0) slot = {pair_key(left, right), {next_rank_, result}};
  ++next_rank_;
}

MergeTable::Merge MergeTable::find(std::int32_t left, std::int32_t right) const {
  return slots_[slot_of(pair_key(left, right))].merge;
}

void BpeMerger::merge_short(std::vector<std::int32_t>& word) {
  pairs_.clear();
  for (std::size_t i = 0; i + 1 < word.size(); ++i) pairs_.push_back(merges_.find(word[i], word[i + 1]));
  for (;;) {
    std::size_t best = pairs_.size();
    for (std::size_t i = 0; i < pairs_.size(); ++i)
      if (pairs_[i].rank >= 0 && (best == pairs_.size() || pairs_[i].rank < pairs_[best].rank)) best = i;
    if (best == pairs_.size()) return;
    word[best] = pairs_[best].result;
    word.erase(word.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    pairs_.erase(pairs_.begin() + static_cast<std::ptrdiff_t>(best));
    if (best > 0) pairs_[best - 1] = merges_.find(word[best - 1], word[best]);
    if (best < pairs_.size()) pairs_[best] = merges_.find(word[best], word[best + 1]);
  }
}

namespace {
constexpr auto later = [](const auto& a, const auto& b) {
  return a.rank != b.rank ? a.rank > b.rank : a.position > b.position;
};
}  // namespace

void BpeMerger::offer(std::int32_t left, std::int32_t right) {
  if (left < 0 || right < 0) return;
  const std::int32_t a = symbols_[static_cast<std::size_t>(left)].token;
  const std::int32_t b = symbols_[static_cast<std::size_t>(right)].token;
  const MergeTable::Merge found = merges_.find(a, b);
  if (found.rank < 0) return;
  heap_.push_back({found.rank, left, a, b, found.result});
  std::push_heap(heap_.begin(), heap_.end(), later);
}

void BpeMerger::merge(std::vector<std::int32_t>& word) {
  if (word.size() <= kShortWord) return merge_short(word);
  if (word.size() > 0x7fffffff) fail<ValueError>("[tokenizer] a word of {} bytes is too long", word.size());
  const auto count = static_cast<std::int32_t>(word.size());
  symbols_.clear(), heap_.clear();
  for (std::int32_t i = 0; i < count; ++i)
    symbols_.push_back({word[static_cast<std::size_t>(i)], i - 1, i + 1 < count ? i + 1 : -1});
  for (std::int32_t i = 0; i + 1 < count; ++i) offer(i, i + 1);
  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end(), later);
    const Candidate best = heap_.back();
    heap_.pop_back();
    Symbol& left = symbols_[static_cast<std::size_t>(best.position)];
    if (left.token != best.left || left.next < 0) continue;  // outdated: one of the two has changed since
    Symbol& right = symbols_[static_cast<std::size_t>(left.next)];
    if (right.token != best.right) continue;
    left.token = best.result;
    right.token = -1;
    left.next = right.next;
    if (right.next >= 0) symbols_[static_cast<std::size_t>(right.next)].previous = best.position;
    offer(left.previous, best.position);
    offer(best.position, left.next);
  }
  word.clear();
  for (std::int32_t i = 0; i >= 0; i = symbols_[static_cast<std::size_t>(i)].next)
    word.push_back(symbols_[static_cast<std::size_t>(i)].token);
}

}  // namespace eadem::text
