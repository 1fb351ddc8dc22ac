#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "eadem/text/pretokenizer.h"

namespace eadem::text {

/// GGUF's token types, by their numbers in the file.
enum class TokenType : std::uint8_t { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };

/// A token that is found in the text before anything else is done to it.
struct AddedToken {
  std::int32_t id = -1;
  bool control = false;     ///< found only where special tokens are parsed; else found in any text
  bool strip_left = false;  ///< takes the white space before it along
  bool strip_right = false;
  bool normalized = false;  ///< looked for after those that are not (Hugging Face's two passes)
};

/// What a tokenizer file says, whatever its format; Tokenizer checks it.
struct TokenizerData {
  enum class Model : std::uint8_t { byte_level_bpe, sentencepiece };
  Model model = Model::byte_level_bpe;
  std::string source;  ///< the file, for error messages
  std::vector<std::string> tokens;
  std::vector<TokenType> types;  ///< empty: all normal
  /// byte_level_bpe: pairs of tokens (as they are spelled in `tokens`), the preferred ones first.
  std::vector<std::pair<std::string, std::string>> merges;
  std::vector<float> scores;  ///< sentencepiece: one for each token
  /// Empty: every control and user-defined token, without flags.
  std::vector<AddedToken> added;
  Pretokenizer pretokenizer = Pretokenizer::gpt2;
  bool normalize_nfc = false;  ///< bring text into normal form C first, added tokens aside (Qwen2)
  bool ignore_merges = false;  ///< a word that is a token is not merged (Llama 3)
  std::int32_t bos = -1, eos = -1, eot = -1, unknown = -1, padding = -1;  ///< -1: none
  bool add_bos = false, add_eos = false, add_space_prefix = false;
  std::string chat_template;
};

}  // namespace eadem::text
