#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "eadem/text/tokenizer.h"

namespace eadem::text {

struct Message {
  std::string role, content;
};

/// Writes a conversation the way a model was trained on it. The shape is recognised from the text of the model's Jinja
/// template; no Jinja runs. Only the template's own text may become control tokens, never a message's content.
class ChatTemplate {
 public:
  enum class Shape { chatml, llama2, llama3 };

  /// Recognises ChatML (SmolLM2, Qwen2), Llama 2 and Llama 3 with their default system messages; anything else is an
  /// UnsupportedError that shows the template's beginning and `source`, the file it is from. A template that asks for
  /// today's date gets the one that it falls back to, so that prompts repeat.
  static ChatTemplate recognise(std::string_view jinja, std::string_view source);

  /// Pieces for Tokenizer::encode(pieces, false): begin tokens are part of the text where the template writes them.
  /// `add_generation_prompt` opens the assistant's answer. Throws ValueError for roles that the shape does not take.
  std::vector<TextPiece> render(const std::vector<Message>& messages, bool add_generation_prompt = true) const;

  Shape shape() const { return shape_; }
  /// The system message used where a conversation has none; empty: none is written.
  const std::string& default_system() const { return default_system_; }

 private:
  Shape shape_ = Shape::chatml;
  std::string default_system_;
  bool dated_ = false;  // Llama 3.1 and later: the system message, always there, begins with two dates
};

std::string_view name_of(ChatTemplate::Shape);

}  // namespace eadem::text
