#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace eadem::text {

/// The merges of a byte-pair encoding: which pair of tokens becomes which token, and in what order of preference.
class MergeTable {
 public:
  struct Merge {
    std::int32_t rank = -1, result = -1;  ///< rank -1: no such merge
  };
  explicit MergeTable(std::size_t count);
  /// Adds the merge of next lower preference; a pair that is there already keeps its first rank.
  void add(std::int32_t left, std::int32_t right, std::int32_t result);
  Merge find(std::int32_t left, std::int32_t right) const;

 private:
  struct Slot {
    std::uint64_t pair = ~std::uint64_t{0};
    Merge merge;
  };
  std::size_t slot_of(std::uint64_t pair) const;

  std::vector<Slot> slots_;  // open addressing, at most half full
  std::int32_t next_rank_ = 0;
};

/// Merges a word, given as one token for each byte, in place: always the merge of lowest rank, the leftmost one among
/// equals. n log n in the word's length.
class BpeMerger {
 public:
  explicit BpeMerger(const MergeTable& merges) : merges_(merges) {}
  void merge(std::vector<std::int32_t>& word);

 private:
  struct Symbol {
    std::int32_t token;  // -1 once merged into its left neighbour
    std::int32_t previous, next;
  };
  struct Candidate {
    std::int32_t rank, position, left, right, result;
  };
  void offer(std::int32_t left, std::int32_t right);
  void merge_short(std::vector<std::int32_t>& word);

  const MergeTable& merges_;
  std::vector<Symbol> symbols_;
  std::vector<Candidate> heap_;
  std::vector<MergeTable::Merge> pairs_;
};

}  // namespace eadem::text
