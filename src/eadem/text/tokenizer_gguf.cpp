#include "eadem/text/tokenizer_gguf.h"

#include "eadem/base/error.h"

namespace eadem::text {

Tokenizer tokenizer_from_gguf(const io::GgufFile& file, std::string source) {
  TokenizerData data;
  data.source = std::move(source);
  const auto model = file.required<std::string>("tokenizer.ggml.model");
  if (model == "llama")
    data.model = TokenizerData::Model::sentencepiece;
  else if (model != "gpt2")
    fail<UnsupportedError>("[tokenizer] {}: tokenizer.ggml.model '{}'; gpt2 and llama are read", data.source, model);
  const bool bpe = data.model == TokenizerData::Model::byte_level_bpe;

  data.tokens = file.required<std::vector<std::string>>("tokenizer.ggml.tokens");
  const auto types = file.value_or<std::vector<std::int64_t>>("tokenizer.ggml.token_type", {});
  for (const std::int64_t type : types) {
    if (type < 1 || type > 6) fail<FileError>("[tokenizer] {}: unknown token type {}", data.source, type);
    data.types.push_back(static_cast<TokenType>(type));
  }
  if (bpe) {
    const auto pre = file.value_or<std::string>("tokenizer.ggml.pre", "default");
    const auto known = pretokenizer_named(pre);
    if (!known)
      fail<UnsupportedError>(
          "[tokenizer] {}: tokenizer.ggml.pre '{}'; default, gpt-2, llama-bpe, qwen2 and smollm are read", data.source,
          pre);
    data.pretokenizer = *known;
    data.ignore_merges = *known == Pretokenizer::llama3;
    // Not in the file, but in the model's tokenizer.json: both must give the same ids.
    data.normalize_nfc = *known == Pretokenizer::qwen2;
    for (const std::string& merge : file.required<std::vector<std::string>>("tokenizer.ggml.merges")) {
      const std::size_t space = merge.find(' ', 1);
      if (space == std::string::npos || space + 1 == merge.size())
        fail<FileError>("[tokenizer] {}: the merge '{}' is not two tokens", data.source, merge);
      data.merges.emplace_back(merge.substr(0, space), merge.substr(space + 1));
    }
  } else {
    for (const double score : file.required<std::vector<double>>("tokenizer.ggml.scores"))
      data.scores.push_back(static_cast<float>(score));
    data.add_space_prefix = file.value_or("tokenizer.ggml.add_space_prefix", true);
  }

  const auto id = [&](const char* key, std::int32_t& where) {
    const auto value = file.optional<std::int64_t>(key);
    if (!value) return;
    // Some writers store -1, also as an unsigned number, for "none".
    if (*value == -1 || *value == 0xffffffff) return;
    if (*value < 0 || *value > 0x7fffffff)
      fail<FileError>("[tokenizer] {}: {} {} is no token", data.source, key, *value);
    where = static_cast<std::int32_t>(*value);
  };
  id("tokenizer.ggml.bos_token_id", data.bos);
  id("tokenizer.ggml.eos_token_id", data.eos);
  id("tokenizer.ggml.eot_token_id", data.eot);
  id("tokenizer.ggml.unknown_token_id", data.unknown);
  id("tokenizer.ggml.padding_token_id", data.padding);
  // Where the file is silent: SentencePiece models and Llama 3 begin with the begin token.
  const bool begins = !bpe || data.pretokenizer == Pretokenizer::llama3;
  data.add_bos = file.value_or("tokenizer.ggml.add_bos_token", begins && data.bos >= 0);
  data.add_eos = file.value_or("tokenizer.ggml.add_eos_token", false);
  data.chat_template = file.value_or<std::string>("tokenizer.chat_template", "");
  return Tokenizer(std::move(data));
}

}  // namespace eadem::text
