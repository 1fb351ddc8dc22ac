#include "eadem/text/chat_template.h"

#include <algorithm>

#include "eadem/base/error.h"
#include "eadem/text/pretokenizer_unicode.h"
#include "eadem/text/utf8.h"

namespace eadem::text {
namespace {

constexpr std::string_view kLlama3Dates = "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n";

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

std::string replace_all(std::string text, std::string_view what, std::string_view by) {
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size()))
    text.replace(at, what.size(), by);
  return text;
}

// One spelling for what Jinja may spell in several ways, without spaces: only good for looking expressions up.
std::string canonical(std::string_view jinja) {
  std::string text = replace_all(std::string(jinja), "\n", "\\n");
  text.erase(std::remove(text.begin(), text.end(), ' '), text.end());
  text = replace_all(std::move(text), "\"", "'");
  for (const std::string_view member : {"role", "content"})
    text = replace_all(std::move(text), fmt::format("['{}']", member), fmt::format(".{}", member));
  return replace_all(std::move(text), "'+'", "");
}

std::string unescaped(std::string_view literal) {
  std::string text;
  for (std::size_t i = 0; i < literal.size(); ++i) {
    if (literal[i] != '\\' || i + 1 == literal.size()) {
      text += literal[i];
      continue;
    }
    const char next = literal[++i];
    text += next == 'n' ? '\n' : next == 't' ? '\t' : next;
  }
  return text;
}

// The text of a literal system message in a ChatML template; empty when there is none.
std::string literal_system_message(std::string_view jinja) {
  constexpr std::string_view begin = "<|im_start|>system", end = "<|im_end|>";
  for (std::size_t at = jinja.find(begin); at != std::string_view::npos; at = jinja.find(begin, at + 1)) {
    std::string_view rest = jinja.substr(at + begin.size());
    if (rest.starts_with("\n"))
      rest.remove_prefix(1);
    else if (rest.starts_with("\\n"))
      rest.remove_prefix(2);
    else
      continue;
    const std::string_view message = rest.substr(0, rest.find(end));
    // A quote or brace would end the literal: then the message is not written out here.
    if (message.size() == rest.size() || message.empty() || message.find_first_of("'\"{}") != std::string_view::npos)
      continue;
    return unescaped(message);
  }
  return {};
}

// Python's str.strip(): white space, and the four separators that Python counts as such.
std::string_view stripped(std::string_view text) {
  const auto space = [](const Utf8Character& c) {
    return c.valid && (class_of(c.point) == CharacterClass::space || (c.point >= 0x1c && c.point <= 0x1f));
  };
  std::size_t begin = text.size(), end = 0;
  for (std::size_t i = 0; i < text.size();) {
    const Utf8Character c = utf8_at(text, i);
    if (!space(c)) begin = std::min(begin, i), end = i + c.length;
    i += c.length;
  }
  return begin < end ? text.substr(begin, end - begin) : std::string_view();
}

}  // namespace

std::string_view name_of(ChatTemplate::Shape shape) {
  switch (shape) {
    case ChatTemplate::Shape::chatml: return "ChatML";
    case ChatTemplate::Shape::llama2: return "Llama 2";
    case ChatTemplate::Shape::llama3: return "Llama 3";
  }
  return "";
}

ChatTemplate ChatTemplate::recognise(std::string_view jinja, std::string_view source) {
  const auto refuse = [&](std::string_view why) {
    constexpr std::size_t shown = 160;
    fail<UnsupportedError>("[chat template] {}: {}; ChatML, Llama 2 and Llama 3 are read, this one begins with: {}{}",
                           source, why, replace_invalid_utf8(jinja.substr(0, shown)),
                           jinja.size() > shown ? "..." : "");
  };
  if (jinja.empty()) refuse("the model has no chat template");
  const std::string text = canonical(jinja);
  ChatTemplate result;
  if (contains(text, "</think>") || contains(text, "reasoning_content"))
    refuse("the chat template treats a model's reasoning apart");
  if (contains(text, "'<|im_start|>'+message.role+'\\n'+message.content+'<|im_end|>\\n'")) {
    result.shape_ = Shape::chatml;
    result.default_system_ = literal_system_message(jinja);
    if (contains(text, "bos_token")) refuse("the chat template puts a begin token before ChatML");
    if (result.default_system_.empty() && (contains(text, "system_message") || contains(text, "default_system")))
      refuse("the chat template makes up a system message");
  } else if (contains(
                 text,
                 "'<|start_header_id|>'+message.role+'<|end_header_id|>\\n\\n'+message.content|trim+'<|eot_id|>'")) {
    result.shape_ = Shape::llama3;
    result.dated_ = contains(text, "CuttingKnowledgeDate:December2023") && contains(text, "'26Jul2024'");
    if (contains(text, "KnowledgeDate") && !result.dated_) refuse("the chat template has an unknown date");
  } else if (contains(text, "bos_token+'[INST]'+content.strip()+'[/INST]'") &&
             contains(text, "'<<SYS>>\\n'+system_message+'\\n<</SYS>>\\n\\n'") &&
             contains(text, "content.strip()+''+eos_token")) {
    result.shape_ = Shape::llama2;
    if (contains(text, "DEFAULT_SYSTEM")) refuse("the chat template makes up a system message");
  } else {
    refuse("the chat template is not known");
  }
  return result;
}

std::vector<TextPiece> ChatTemplate::render(const std::vector<Message>& messages, bool add_generation_prompt) const {
  if (messages.empty()) fail<ValueError>("[chat template] there are no messages");
  for (const Message& message : messages)
    if (message.role != "system" && message.role != "user" && message.role != "assistant")
      fail<ValueError>("[chat template] {} takes the roles system, user and assistant, got '{}'", name_of(shape_),
                       message.role);
  std::vector<TextPiece> pieces;
  const auto own = [&](std::string_view text) {
    if (!pieces.empty() && pieces.back().parse_special)
      pieces.back().text += text;
    else
      pieces.push_back({std::string(text), true});
  };
  const auto content = [&](std::string_view text) {
    if (!text.empty()) pieces.push_back({std::string(text), false});
  };

  if (shape_ == Shape::chatml) {
    const auto put = [&](std::string_view role, std::string_view text) {
      own("<|im_start|>"), own(role), own("\n"), content(text), own("<|im_end|>\n");
    };
    if (!default_system_.empty() && messages[0].role != "system") put("system", default_system_);
    for (const Message& message : messages) put(message.role, message.content);
    if (add_generation_prompt) own("<|im_start|>assistant\n");
  } else if (shape_ == Shape::llama3) {
    const auto header = [&](std::string_view role) {
      own("<|start_header_id|>"), own(role), own("<|end_header_id|>\n\n");
    };
    own("<|begin_of_text|>");
    std::size_t first = 0;
    if (dated_) {
      header("system"), own(kLlama3Dates);
      if (messages[0].role == "system") content(stripped(messages[first++].content));
      own("<|eot_id|>");
    }
    for (std::size_t i = first; i < messages.size(); ++i)
      header(messages[i].role), content(stripped(messages[i].content)), own("<|eot_id|>");
    if (add_generation_prompt) header("assistant");
  } else {
    const std::size_t first = messages[0].role == "system" ? 1 : 0;
    for (std::size_t i = first; i < messages.size(); ++i) {
      const bool user = (i - first) % 2 == 0;
      if (messages[i].role != (user ? "user" : "assistant"))
        fail<ValueError>("[chat template] Llama 2 takes user and assistant by turns, got '{}' as message {}",
                         messages[i].role, i);
      if (!user) {
        own(" "), content(stripped(messages[i].content)), own(" </s>");
        continue;
      }
      own("<s>[INST] ");
      if (i == first && first == 1) {
        own("<<SYS>>\n"), content(messages[0].content), own("\n<</SYS>>\n\n");
        // What is stripped is the whole of both: the user's text keeps the white space before it.
        const std::string_view text = messages[i].content;
        const std::string_view inner = stripped(text);
        if (inner.empty()) {
          fail<ValueError>("[chat template] Llama 2 needs a first message that is not blank after a system message");
        }
        content(text.substr(0, static_cast<std::size_t>(inner.data() + inner.size() - text.data())));
      } else {
        content(stripped(messages[i].content));
      }
      own(" [/INST]");
    }
    if (first == messages.size()) fail<ValueError>("[chat template] Llama 2 needs a user's message");
  }
  return pieces;
}

}  // namespace eadem::text
