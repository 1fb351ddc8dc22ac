#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "eadem/text/tokenizer_data.h"

namespace eadem::text {

struct EncodeOptions {
  bool add_special = true;     ///< add the begin (end) token, if the model's file asks for it
  bool parse_special = false;  ///< control tokens written out in the text ("<|im_start|>") become those tokens
};

/// A stretch of a text that is encoded as a whole. A control token counts only if it lies in stretches that allow it.
struct TextPiece {
  std::string text;
  bool parse_special = false;
  friend bool operator==(const TextPiece&, const TextPiece&) = default;
};

/// Text to token ids and back: byte-level BPE or SentencePiece BPE. Immutable; may be used from several threads.
///
/// Bytes that are not UTF-8 are kept: decode(encode(s)) == s for every byte string, unless the vocabulary has no token
/// for a byte (SmolLM2 lacks 21 of the 256), which is refused with a ValueError naming byte and offset, or an added
/// token takes neighbouring white space along, or the model normalizes its text (Qwen2: s comes back in form C).
class Tokenizer {
 public:
  /// Throws FileError, naming data.source, when the data contradicts itself.
  explicit Tokenizer(TokenizerData data);
  /// Reads a Hugging Face tokenizer.json with a byte-level BPE. What is not understood is refused by name
  /// (UnsupportedError); what is malformed is a FileError. `config` may hold tokenizer_config.json (bos, eos,
  /// template).
  static Tokenizer from_hugging_face(std::string_view json, std::string_view config, std::string source);
  ~Tokenizer();
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;

  std::vector<std::int32_t> encode(std::string_view text, EncodeOptions options = {}) const;
  /// Encodes the concatenation of the pieces: only what counts as a control token depends on the piece.
  std::vector<std::int32_t> encode(std::span<const TextPiece> pieces, bool add_special = true) const;
  /// The bytes of the tokens, control tokens spelled out unless skipped. SentencePiece: without the space that encode()
  /// puts before text at the beginning and after each added token. Throws ValueError for an id out of range.
  std::string decode(std::span<const std::int32_t> ids, bool skip_special = false) const;

  /// The bytes that a token stands for; a control token's own spelling.
  std::string_view token_bytes(std::int32_t id) const;
  TokenType type(std::int32_t id) const;
  /// The token of that spelling as the file has it, or -1.
  std::int32_t find(std::string_view spelling) const;

  std::int32_t vocabulary_size() const;
  std::int32_t bos() const, eos() const, eot() const, unknown() const, padding() const;  ///< -1: none
  bool add_bos() const;
  /// Whether generation ends with this token: eos, eot, and the known end tokens of chat formats.
  bool ends_generation(std::int32_t id) const;
  const std::string& chat_template() const;
  const std::string& source() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Turns a stream of tokens into a stream of whole characters.
class StreamDecoder {
 public:
  /// `skip_special`: control tokens give nothing.
  explicit StreamDecoder(const Tokenizer& tokenizer, bool skip_special = true)
      : tokenizer_(tokenizer), skip_special_(skip_special) {}
  /// The characters that this token completes. Bytes that can be part of no character are handed on at once as they
  /// are; an incomplete character is held.
  std::string push(std::int32_t id);
  /// What is still held: an incomplete character's bytes.
  std::string finish();

 private:
  const Tokenizer& tokenizer_;
  bool skip_special_;
  std::string held_;
};

}  // namespace eadem::text
