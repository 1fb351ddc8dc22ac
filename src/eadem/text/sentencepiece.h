#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace eadem::text {

/// SentencePiece's BPE: adjacent pieces are joined while the joined text is a token, the one of highest score first,
/// the leftmost among equals. n log n in the text's length.
class SentencePieceMerger {
 public:
  using Vocabulary = std::unordered_map<std::string_view, std::int32_t>;
  /// `vocabulary` and `scores` must outlive this; `longest` is the length in bytes of the longest token.
  SentencePieceMerger(const Vocabulary& vocabulary, const std::vector<float>& scores, std::size_t longest)
      : vocabulary_(vocabulary), scores_(scores), longest_(longest) {}
  /// The pieces of the text, in order; each is a token, or one character that is not (or one byte that is not UTF-8).
  std::vector<std::string_view> merge(std::string_view text);

 private:
  struct Symbol {
    std::size_t begin, length;  // length 0 once joined to its left neighbour
    std::int64_t previous, next;
  };
  struct Candidate {
    float score;
    std::int64_t left, right;
    std::size_t length;
  };
  void offer(std::string_view text, std::int64_t left, std::int64_t right);

  const Vocabulary& vocabulary_;
  const std::vector<float>& scores_;
  std::size_t longest_;
  std::vector<Symbol> symbols_;
  std::vector<Candidate> heap_;
};

}  // namespace eadem::text
