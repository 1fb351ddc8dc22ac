#include <nlohmann/json.hpp>

#include "eadem/base/error.h"
#include "eadem/io/json.h"
#include "eadem/text/tokenizer.h"

namespace eadem::text {
namespace {

using nlohmann::json;

// The regular expressions that Llama 3 and Qwen2 give to Split, letter by letter.
constexpr std::string_view kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::int64_t kLargestVocabulary = 1 << 24;

class Reader {
 public:
  explicit Reader(std::string source) : source_(std::move(source)) {}

  TokenizerData read(std::string_view tokenizer, std::string_view config) {
    const json root = io::parse_json(tokenizer, source_);
    data_.source = source_;
    expect(root.is_object(), "the file is not an object");
    read_model(root);
    read_added_tokens(root);
    read_normalizer(get(root, "normalizer"));
    data_.pretokenizer = pretokenizer_of(get(root, "pre_tokenizer"));
    read_post_processor(get(root, "post_processor"));
    read_decoder(get(root, "decoder"));
    if (!config.empty()) read_config(io::parse_json(config, source_ + " (tokenizer_config.json)"));
    return std::move(data_);
  }

 private:
  template <class... Args>
  [[noreturn]] void malformed(fmt::format_string<Args...> format, Args&&... args) const {
    fail<FileError>("[tokenizer] {}: {}", source_, fmt::format(format, std::forward<Args>(args)...));
  }
  template <class... Args>
  [[noreturn]] void unsupported(fmt::format_string<Args...> format, Args&&... args) const {
    fail<UnsupportedError>("[tokenizer] {}: {}", source_, fmt::format(format, std::forward<Args>(args)...));
  }
  void expect(bool holds, std::string_view otherwise) const {
    if (!holds) malformed("{}", otherwise);
  }

  // The member, or null.
  static const json& get(const json& object, const char* name) {
    static const json null;
    if (!object.is_object()) return null;
    const auto found = object.find(name);
    return found == object.end() ? null : *found;
  }
  std::string text(const json& value, std::string_view what) const {
    if (!value.is_string()) malformed("{} is not a string", what);
    return value.get<std::string>();
  }
  bool flag(const json& object, const char* name, bool otherwise) const {
    const json& value = get(object, name);
    if (value.is_null()) return otherwise;
    if (!value.is_boolean()) malformed("{} is neither true nor false", name);
    return value.get<bool>();
  }
  std::int32_t id(const json& value, std::string_view what) const {
    if (!value.is_number_integer()) malformed("the id of {} is not an integer", what);
    const auto number = value.get<std::int64_t>();
    if (number < 0 || number >= kLargestVocabulary) malformed("the id {} of {} is out of range", number, what);
    return static_cast<std::int32_t>(number);
  }
  void put(std::int32_t at, std::string spelling, TokenType type) {
    const auto index = static_cast<std::size_t>(at);
    if (index >= data_.tokens.size()) {
      data_.tokens.resize(index + 1);
      data_.types.resize(index + 1, TokenType::unused);
      used_.resize(index + 1);
    }
    if (used_[index] && data_.tokens[index] != spelling)
      malformed("id {} is both '{}' and '{}'", at, data_.tokens[index], spelling);
    used_[index] = true;
    data_.tokens[index] = std::move(spelling);
    data_.types[index] = type;
  }

  void read_model(const json& root) {
    const json& model = get(root, "model");
    expect(model.is_object(), "there is no model");
    const json& type = get(model, "type");
    if (!type.is_null() && type != "BPE") unsupported("model type {}; only BPE is read", type.dump());
    if (flag(model, "byte_fallback", false)) unsupported("a BPE with byte_fallback; take the model's GGUF file");
    for (const char* name : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      const json& value = get(model, name);
      if (!value.is_null() && value != "") unsupported("the model's {} {}", name, value.dump());
    }
    if (const json& dropout = get(model, "dropout"); !dropout.is_null() && dropout != 0.0)
      unsupported("the model's dropout {}", dropout.dump());
    data_.ignore_merges = flag(model, "ignore_merges", false);

    const json& vocabulary = get(model, "vocab");
    expect(vocabulary.is_object(), "the model's vocab is not an object");
    // Ids are dense but for a few; a lying id must not make the table huge.
    for (const auto& [spelling, value] : vocabulary.items()) {
      const std::int32_t token = id(value, spelling);
      if (static_cast<std::size_t>(token) > 4 * vocabulary.size() + 4096)
        malformed("the id {} of '{}' is far outside a vocabulary of {}", token, spelling, vocabulary.size());
      const auto index = static_cast<std::size_t>(token);
      if (index < used_.size() && used_[index]) malformed("two tokens have the id {}", token);
      put(token, spelling, TokenType::normal);
    }
    const json& merges = get(model, "merges");
    expect(merges.is_array(), "the model's merges are not an array");
    for (const json& merge : merges) {
      if (merge.is_array() && merge.size() == 2) {
        data_.merges.emplace_back(text(merge[0], "half a merge"), text(merge[1], "half a merge"));
        continue;
      }
      const std::string pair = text(merge, "a merge");
      const std::size_t space = pair.find(' ', 1);
      if (space == std::string::npos || space + 1 == pair.size() || pair.find(' ', space + 1) != std::string::npos)
        malformed("the merge '{}' is not two tokens", pair);
      data_.merges.emplace_back(pair.substr(0, space), pair.substr(space + 1));
    }
    if (const json& unknown = get(model, "unk_token"); unknown.is_string()) unknown_ = unknown.get<std::string>();
  }

  void read_added_tokens(const json& root) {
    const json& added = get(root, "added_tokens");
    if (added.is_null()) return;
    expect(added.is_array(), "added_tokens is not an array");
    const std::size_t most = data_.tokens.size() + added.size() + 4096;  // of the vocabulary: tokens must not raise it
    for (const json& token : added) {
      const std::string content = text(get(token, "content"), "an added token's content");
      const std::int32_t number = id(get(token, "id"), content);
      if (static_cast<std::size_t>(number) > most)
        malformed("the id {} of the added token '{}' is far outside the vocabulary", number, content);
      if (flag(token, "single_word", false)) unsupported("the added token '{}' with single_word", content);
      const bool special = flag(token, "special", false);
      put(number, content, special ? TokenType::control : TokenType::user_defined);
      data_.added.push_back({.id = number,
                             .control = special,
                             .strip_left = flag(token, "lstrip", false),
                             .strip_right = flag(token, "rstrip", false),
                             .normalized = flag(token, "normalized", !special)});
    }
    for (std::size_t i = 0; i < data_.tokens.size(); ++i)
      if (data_.tokens[i] == unknown_ && !unknown_.empty()) data_.unknown = static_cast<std::int32_t>(i);
  }

  void read_normalizer(const json& normalizer) {
    if (normalizer.is_null()) return;
    const json& type = get(normalizer, "type");
    if (type == "Sequence" && get(normalizer, "normalizers").empty()) return;
    if (type == "NFC") {
      data_.normalize_nfc = true;
      return;
    }
    unsupported("the normalizer {}", type.dump());
  }

  void expect_byte_level(const json& step, bool use_regex) const {
    if (get(step, "type") != "ByteLevel") unsupported("the pre-tokenizer {}", get(step, "type").dump());
    if (flag(step, "add_prefix_space", true)) unsupported("a ByteLevel pre-tokenizer with add_prefix_space");
    if (flag(step, "use_regex", true) != use_regex)
      unsupported("a ByteLevel pre-tokenizer with use_regex {} here", !use_regex);
  }

  Pretokenizer pretokenizer_of(const json& step) const {
    const json& type = get(step, "type");
    if (type == "ByteLevel") {
      expect_byte_level(step, true);
      return Pretokenizer::gpt2;
    }
    const json& steps = get(step, "pretokenizers");
    if (type != "Sequence" || !steps.is_array() || steps.size() != 2)
      unsupported("the pre-tokenizer {}", step.dump(-1, ' ', false, json::error_handler_t::replace).substr(0, 200));
    const json& first = steps[0];
    if (get(first, "type") == "Digits") {
      if (!flag(first, "individual_digits", false)) unsupported("a Digits pre-tokenizer without individual_digits");
      expect_byte_level(steps[1], true);
      return Pretokenizer::smollm;
    }
    if (get(first, "type") != "Split") unsupported("the pre-tokenizer {}", get(first, "type").dump());
    expect_byte_level(steps[1], false);
    if (get(first, "behavior") != "Isolated" || flag(first, "invert", false))
      unsupported("a Split pre-tokenizer with behavior {}, invert {}", get(first, "behavior").dump(),
                  flag(first, "invert", false));
    const std::string pattern = text(get(get(first, "pattern"), "Regex"), "the Split pre-tokenizer's Regex");
    if (pattern == kLlama3Pattern) return Pretokenizer::llama3;
    if (pattern == kQwen2Pattern) return Pretokenizer::qwen2;
    if (pattern == kGpt2Pattern) return Pretokenizer::gpt2;
    unsupported("the Split pre-tokenizer's pattern {}", pattern);
  }

  // Only what a begin token before and an end token after one text need.
  void read_post_processor(const json& processor) {
    if (processor.is_null()) return;
    const json& type = get(processor, "type");
    if (type == "ByteLevel") return;  // moves offsets, not ids
    if (type == "Sequence") {
      for (const json& each : get(processor, "processors")) read_post_processor(each);
      return;
    }
    if (type != "TemplateProcessing") unsupported("the post-processor {}", type.dump());
    bool after_text = false;
    for (const json& item : get(processor, "single")) {
      if (item.is_object() && item.contains("Sequence")) {
        after_text = true;
        continue;
      }
      const std::string name = text(get(get(item, "SpecialToken"), "id"), "a special token's name in the template");
      const json& ids = get(get(get(processor, "special_tokens"), name.c_str()), "ids");
      if (!ids.is_array() || ids.size() != 1) malformed("the template's special token '{}' has not one id", name);
      bool& add = after_text ? data_.add_eos : data_.add_bos;
      if (add) unsupported("a template that adds more than one token on a side");
      add = true;
      (after_text ? data_.eos : data_.bos) = id(ids[0], name);
    }
  }

  void read_decoder(const json& decoder) const {
    if (decoder.is_null() || get(decoder, "type") == "ByteLevel") return;
    unsupported("the decoder {}", get(decoder, "type").dump());
  }

  void read_config(const json& config) {
    expect(config.is_object(), "tokenizer_config.json is not an object");
    const auto named = [&](const char* name, std::int32_t& token) {
      const json& value = get(config, name);
      const json& spelling = value.is_object() ? get(value, "content") : value;
      if (spelling.is_null()) return;
      const std::string wanted = text(spelling, name);
      for (std::size_t i = data_.tokens.size(); i-- > 0;)
        if (data_.tokens[i] == wanted) {
          token = static_cast<std::int32_t>(i);
          return;
        }
      malformed("{} '{}' is not a token", name, wanted);
    };
    if (!data_.add_bos) named("bos_token", data_.bos);
    if (!data_.add_eos) named("eos_token", data_.eos);
    named("pad_token", data_.padding);
    named("unk_token", data_.unknown);
    const json& chat = get(config, "chat_template");
    if (chat.is_string())
      data_.chat_template = chat.get<std::string>();
    else if (chat.is_array())
      for (const json& each : chat)
        if (get(each, "name") == "default") data_.chat_template = text(get(each, "template"), "the chat template");
  }

  std::string source_, unknown_;
  TokenizerData data_;
  std::vector<bool> used_;
};

}  // namespace

Tokenizer Tokenizer::from_hugging_face(std::string_view json_text, std::string_view config, std::string source) {
  return Tokenizer(Reader(std::move(source)).read(json_text, config));
}

}  // namespace eadem::text
