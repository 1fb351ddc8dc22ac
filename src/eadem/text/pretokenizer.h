#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace eadem::text {

/// How text is cut into the words inside which BPE merges. Each is a published regular expression, matched here by hand
/// over a stored Unicode table: linear in time, without limits, and with the same ids whatever PCRE2 is installed.
enum class Pretokenizer {
  llama_default,  ///< what llama.cpp calls "default"
  gpt2,
  llama3,
  qwen2,
  smollm,  ///< GPT-2 after each digit was cut out
};

/// The pre-tokenizer that GGUF's tokenizer.ggml.pre names, or nothing when the name is not known here.
std::optional<Pretokenizer> pretokenizer_named(std::string_view gguf_name);
std::string_view name_of(Pretokenizer);

/// Cuts `text` into words whose concatenation is `text`. A byte that is not UTF-8 is a word of its own.
void split_words(Pretokenizer, std::string_view text, std::vector<std::string_view>& words);

}  // namespace eadem::text
