#include "eadem/text/tokenizer.h"

#include <algorithm>
#include <array>
#include <unordered_map>

#include "eadem/base/error.h"
#include "eadem/text/bpe.h"
#include "eadem/text/sentencepiece.h"
#include "eadem/text/tokenizer_bytes.h"
#include "eadem/text/tokenizer_nfc.h"
#include "eadem/text/tokenizer_special.h"
#include "eadem/text/utf8.h"

namespace eadem::text {
namespace {

constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // U+2581, SentencePiece's space
constexpr std::size_t kLongestAdded = 1024;              // bytes; keeps the search for added tokens linear
constexpr std::string_view kEndTokens[] = {"<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|end_of_text|>",
                                           "<|eom_id|>", "</s>",          "<|end|>",    "<end_of_turn>"};

std::string with_spaces_for_marks(std::string_view spelling) {
  std::string bytes;
  for (std::size_t i = 0; i < spelling.size();) {
    if (spelling.substr(i, kSpaceMark.size()) == kSpaceMark) {
      bytes += ' ';
      i += kSpaceMark.size();
    } else {
      bytes += spelling[i++];
    }
  }
  return bytes;
}

// "<0x41>" is byte 0x41; -1 for anything else.
int byte_of_spelling(std::string_view spelling) {
  if (spelling.size() != 6 || spelling.substr(0, 3) != "<0x" || spelling[5] != '>') return -1;
  const auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return -1;
  };
  const int high = digit(spelling[3]), low = digit(spelling[4]);
  return high < 0 || low < 0 ? -1 : 16 * high + low;
}

}  // namespace

struct Tokenizer::Impl {
  explicit Impl(TokenizerData given) : data(std::move(given)), merges(data.merges.size()) {
    check();
    name_tokens();
    if (data.model == TokenizerData::Model::byte_level_bpe) prepare_bpe();
    prepare_added();
    for (const std::string_view spelling : kEndTokens) {
      const auto found = spelled.find(spelling);
      if (found == spelled.end() || type(found->second) != TokenType::control) continue;
      end_tokens.push_back(found->second);
      if (data.eot < 0 && (spelling == "<|im_end|>" || spelling == "<|eot_id|>")) data.eot = end_tokens.back();
    }
    for (const std::int32_t id : {data.eos, data.eot})
      if (id >= 0) end_tokens.push_back(id);
  }

  TokenType type(std::int32_t id) const {
    return data.types.empty() ? TokenType::normal : data.types[static_cast<std::size_t>(id)];
  }
  std::int32_t count() const { return static_cast<std::int32_t>(data.tokens.size()); }
  const std::string& spelling(std::int32_t id) const { return data.tokens[static_cast<std::size_t>(id)]; }

  void check() const {
    if (data.tokens.empty() || data.tokens.size() > 0x7fffffff)
      fail<FileError>("[tokenizer] {}: the vocabulary holds {} tokens", data.source, data.tokens.size());
    if (!data.types.empty() && data.types.size() != data.tokens.size())
      fail<FileError>("[tokenizer] {}: {} token types for {} tokens", data.source, data.types.size(),
                      data.tokens.size());
    for (const TokenType each : data.types)
      if (each < TokenType::normal || each > TokenType::byte)
        fail<FileError>("[tokenizer] {}: unknown token type {}", data.source, static_cast<int>(each));
    const std::pair<std::string_view, std::int32_t> named[] = {
        {"bos", data.bos}, {"eos", data.eos}, {"eot", data.eot}, {"unknown", data.unknown}, {"padding", data.padding}};
    for (const auto& [name, id] : named)
      if (id < -1 || id >= count())
        fail<FileError>("[tokenizer] {}: the {} token's id {} lies outside the vocabulary of {}", data.source, name, id,
                        count());
    if (data.add_bos && data.bos < 0)
      fail<FileError>("[tokenizer] {}: a begin token is asked for, but none is defined", data.source);
    if (data.add_eos && data.eos < 0)
      fail<FileError>("[tokenizer] {}: an end token is asked for, but none is defined", data.source);
    if (data.model == TokenizerData::Model::sentencepiece) {
      if (data.scores.size() != data.tokens.size())
        fail<FileError>("[tokenizer] {}: {} scores for {} tokens", data.source, data.scores.size(), data.tokens.size());
      for (const float score : data.scores)
        if (score != score) fail<FileError>("[tokenizer] {}: a token's score is NaN", data.source);
    }
  }

  // Of tokens spelled alike the first counts.
  void name_tokens() {
    byte_tokens.fill(-1);
    bytes.reserve(data.tokens.size());
    for (std::int32_t id = 0; id < count(); ++id) {
      spelled.try_emplace(spelling(id), id);
      const TokenType kind = type(id);
      const bool plain = kind == TokenType::normal || kind == TokenType::unused;
      if (data.model == TokenizerData::Model::byte_level_bpe) {
        bytes.push_back(plain ? bytes_of_byte_level(spelling(id)) : spelling(id));
      } else if (const int byte = kind == TokenType::byte ? byte_of_spelling(spelling(id)) : -1; byte >= 0) {
        bytes.push_back(std::string(1, static_cast<char>(byte)));
        byte_tokens[static_cast<std::size_t>(byte)] = id;
      } else {
        bytes.push_back(plain || kind == TokenType::user_defined ? with_spaces_for_marks(spelling(id)) : spelling(id));
      }
    }
    // Control tokens are never made by merging, or text could smuggle them in.
    for (std::int32_t id = 0; id < count(); ++id) {
      const TokenType kind = type(id);
      if (kind != TokenType::normal && kind != TokenType::unused && kind != TokenType::user_defined) continue;
      mergeable.try_emplace(spelling(id), id);
      longest = std::max(longest, spelling(id).size());
    }
  }

  void prepare_bpe() {
    for (int byte = 0; byte < 256; ++byte) {
      std::string character;
      append_utf8(character, byte_level_character(static_cast<unsigned char>(byte)));
      const auto found = mergeable.find(character);
      if (found != mergeable.end()) byte_tokens[static_cast<std::size_t>(byte)] = found->second;
    }
    std::string joined;
    for (std::size_t i = 0; i < data.merges.size(); ++i) {
      const std::string &left = data.merges[i].first, &right = data.merges[i].second;
      joined = left + right;
      const auto find = [&](const std::string& part) {
        const auto found = mergeable.find(part);
        if (found == mergeable.end())
          fail<FileError>("[tokenizer] {}: merge {} ('{}' '{}'): '{}' is not a token", data.source, i, left, right,
                          part);
        return found->second;
      };
      const std::int32_t a = find(left), b = find(right);
      merges.add(a, b, find(joined));
    }
    if (data.ignore_merges)
      for (const auto& [text, id] : mergeable) whole_words.try_emplace(bytes[static_cast<std::size_t>(id)], id);
    data.merges.clear();
    data.merges.shrink_to_fit();
  }

  void prepare_added() {
    if (data.added.empty())
      for (std::int32_t id = 0; id < count(); ++id) {
        const TokenType kind = type(id);
        if (kind == TokenType::control || kind == TokenType::unknown || kind == TokenType::user_defined)
          data.added.push_back({.id = id, .control = kind != TokenType::user_defined});
      }
    for (const AddedToken& token : data.added) {
      if (token.id < 0 || token.id >= count())
        fail<FileError>("[tokenizer] {}: added token {} lies outside the vocabulary of {}", data.source, token.id,
                        count());
      if (spelling(token.id).size() > kLongestAdded)
        fail<FileError>("[tokenizer] {}: added token {} is {} bytes long; the limit is {}", data.source, token.id,
                        spelling(token.id).size(), kLongestAdded);
      added[token.normalized ? 1 : 0].add(token, spelling(token.id));
    }
  }

  std::int32_t byte_token(unsigned char byte, std::size_t offset) const {
    const std::int32_t id = byte_tokens[byte];
    if (id < 0)
      fail<ValueError>("[tokenizer] byte 0x{:02x} at offset {} has no token in the vocabulary of {}", int{byte}, offset,
                       data.source);
    return id;
  }

  void encode_bpe(std::string_view text, std::size_t offset, std::vector<std::int32_t>& ids) const {
    std::vector<std::string_view> words;
    split_words(data.pretokenizer, text, words);
    BpeMerger merger(merges);
    std::vector<std::int32_t> word;
    for (const std::string_view each : words) {
      if (data.ignore_merges) {
        const auto found = whole_words.find(each);
        if (found != whole_words.end()) {
          ids.push_back(found->second);
          continue;
        }
      }
      word.clear();
      for (const char& byte : each)
        word.push_back(
            byte_token(static_cast<unsigned char>(byte), offset + static_cast<std::size_t>(&byte - text.data())));
      merger.merge(word);
      ids.insert(ids.end(), word.begin(), word.end());
    }
  }

  void encode_sentencepiece(std::string_view text, std::size_t offset, bool prefix,
                            std::vector<std::int32_t>& ids) const {
    std::string marked;
    if (prefix) marked += kSpaceMark;
    for (const char c : text) {
      if (c == ' ')
        marked += kSpaceMark;
      else
        marked += c;
    }
    SentencePieceMerger merger(mergeable, data.scores, longest);
    for (const std::string_view piece : merger.merge(marked)) {
      const auto found = mergeable.find(piece);
      if (found != mergeable.end()) {
        ids.push_back(found->second);
      } else {
        for (const char byte : piece) ids.push_back(byte_token(static_cast<unsigned char>(byte), offset));
      }
    }
  }

  TokenizerData data;
  std::vector<std::string> bytes;                                  // by id
  std::unordered_map<std::string_view, std::int32_t> spelled;      // every token
  std::unordered_map<std::string_view, std::int32_t> mergeable;    // what text may become
  std::unordered_map<std::string_view, std::int32_t> whole_words;  // by bytes; for ignore_merges
  std::array<std::int32_t, 256> byte_tokens{};
  std::size_t longest = 0;
  MergeTable merges;
  AddedTokens added[2];
  std::vector<std::int32_t> end_tokens;
};

Tokenizer::Tokenizer(TokenizerData data) : impl_(std::make_unique<Impl>(std::move(data))) {}
Tokenizer::~Tokenizer() = default;
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;

std::vector<std::int32_t> Tokenizer::encode(std::string_view text, EncodeOptions options) const {
  const TextPiece piece{std::string(text), options.parse_special};
  return encode(std::span(&piece, 1), options.add_special);
}

std::vector<std::int32_t> Tokenizer::encode(std::span<const TextPiece> pieces, bool add_special) const {
  const Impl& self = *impl_;
  std::string text;
  std::vector<std::pair<std::size_t, std::size_t>> open;  // where control tokens count; adjacent stretches joined
  for (const TextPiece& piece : pieces) {
    const std::size_t begin = text.size();
    text += piece.text;
    if (!piece.parse_special) continue;
    if (!open.empty() && open.back().second == begin)
      open.back().second = text.size();
    else
      open.emplace_back(begin, text.size());
  }
  const auto allowed = [&](std::size_t begin, std::size_t end) {
    const auto after = std::upper_bound(open.begin(), open.end(), std::pair(begin, ~std::size_t{0}));
    return after != open.begin() && end <= std::prev(after)->second;
  };

  std::vector<AddedTokens::Part> first, parts;
  self.added[0].split(text, 0, text.size(), allowed, first);
  for (const AddedTokens::Part& part : first) {
    if (part.id >= 0)
      parts.push_back(part);
    else
      self.added[1].split(text, part.begin, part.end, allowed, parts);
  }

  std::vector<std::int32_t> ids;
  if (add_special && self.data.add_bos) ids.push_back(self.data.bos);
  bool fresh = true;  // at the beginning or after an added token: where SentencePiece puts a space before text
  for (const AddedTokens::Part& part : parts) {
    if (part.id >= 0) {
      ids.push_back(part.id);
      fresh = true;
      continue;
    }
    std::string_view stretch = std::string_view(text).substr(part.begin, part.end - part.begin);
    std::string normal;
    if (self.data.normalize_nfc) stretch = normal = normalized_nfc(stretch);
    if (self.data.model == TokenizerData::Model::byte_level_bpe)
      self.encode_bpe(stretch, part.begin, ids);
    else
      self.encode_sentencepiece(stretch, part.begin, self.data.add_space_prefix && fresh, ids);
    fresh = false;
  }
  if (add_special && self.data.add_eos) ids.push_back(self.data.eos);
  return ids;
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids, bool skip_special) const {
  const bool prefixed = impl_->data.model == TokenizerData::Model::sentencepiece && impl_->data.add_space_prefix;
  std::string text;
  bool fresh = true;
  for (const std::int32_t id : ids) {
    std::string_view bytes = token_bytes(id);
    const TokenType kind = impl_->type(id);
    if (prefixed && fresh && kind == TokenType::normal && bytes.starts_with(' ')) bytes.remove_prefix(1);
    if (!(kind == TokenType::control && skip_special)) text += bytes;
    fresh = kind == TokenType::control || kind == TokenType::unknown || kind == TokenType::user_defined;
  }
  return text;
}

std::string_view Tokenizer::token_bytes(std::int32_t id) const {
  if (id < 0 || id >= impl_->count())
    fail<ValueError>("[tokenizer] token id {} lies outside the vocabulary of {}", id, impl_->count());
  return impl_->bytes[static_cast<std::size_t>(id)];
}
TokenType Tokenizer::type(std::int32_t id) const {
  token_bytes(id);
  return impl_->type(id);
}
std::int32_t Tokenizer::find(std::string_view spelling) const {
  const auto found = impl_->spelled.find(spelling);
  return found == impl_->spelled.end() ? -1 : found->second;
}
std::int32_t Tokenizer::vocabulary_size() const {
  return impl_->count();
}
std::int32_t Tokenizer::bos() const {
  return impl_->data.bos;
}
std::int32_t Tokenizer::eos() const {
  return impl_->data.eos;
}
std::int32_t Tokenizer::eot() const {
  return impl_->data.eot;
}
std::int32_t Tokenizer::unknown() const {
  return impl_->data.unknown;
}
std::int32_t Tokenizer::padding() const {
  return impl_->data.padding;
}
bool Tokenizer::add_bos() const {
  return impl_->data.add_bos;
}
bool Tokenizer::ends_generation(std::int32_t id) const {
  return std::find(impl_->end_tokens.begin(), impl_->end_tokens.end(), id) != impl_->end_tokens.end();
}
const std::string& Tokenizer::chat_template() const {
  return impl_->data.chat_template;
}
const std::string& Tokenizer::source() const {
  return impl_->data.source;
}

std::string StreamDecoder::push(std::int32_t id) {
  if (skip_special_ && tokenizer_.type(id) == TokenType::control) return finish();
  held_ += tokenizer_.token_bytes(id);
  const std::size_t keep = incomplete_utf8_suffix(held_);
  std::string ready = held_.substr(0, held_.size() - keep);
  held_.erase(0, held_.size() - keep);
  return ready;
}

std::string StreamDecoder::finish() {
  return std::exchange(held_, {});
}

}  // namespace eadem::text
