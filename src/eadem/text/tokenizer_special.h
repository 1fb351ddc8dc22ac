#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "eadem/text/tokenizer_data.h"

namespace eadem::text {

/// Finds added tokens in text: leftmost, then longest.
class AddedTokens {
 public:
  /// A part of the text: an added token (id >= 0) or what lies between two.
  struct Part {
    std::size_t begin = 0, end = 0;
    std::int32_t id = -1;
  };
  void add(const AddedToken& token, std::string_view spelling);
  bool empty() const { return tokens_.empty(); }
  /// Appends the parts of [begin, end) of the text. `allowed(b, e)` says whether a control token may lie there.
  void split(std::string_view text, std::size_t begin, std::size_t end,
             const std::function<bool(std::size_t, std::size_t)>& allowed, std::vector<Part>& parts) const;

 private:
  std::unordered_map<std::uint64_t, std::int32_t> edges_;  // (node, byte) -> node; node 0 is the root
  std::vector<std::int32_t> token_at_{-1};                 // by node: an index into tokens_
  std::vector<AddedToken> tokens_;
  std::array<bool, 256> begins_{};
};

}  // namespace eadem::text
