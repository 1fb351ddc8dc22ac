#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "eadem/cli/commands.h"
#include "eadem/cli/terminal.h"
#include "eadem/io/output.h"
#include "eadem/text/loaded_model.h"

namespace eadem::cli {
namespace {

struct TokenizeOptions {
  std::string model;
  std::optional<std::string> text;
  std::vector<std::int32_t> ids;
  bool from_stdin = false, special = false, json = false;
};

int decode(const text::Tokenizer& tokenizer, const TokenizeOptions& options) {
  const std::string text = tokenizer.decode(options.ids);
  using Json = nlohmann::ordered_json;
  io::write_output(options.json ? Json{{"text", text}}.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"
                                : text + "\n");
  return kGood;
}

int tokenize(const TokenizeOptions& options) {
  if (!options.ids.empty()) return decode(text::load_tokenizer(options.model), options);
  const std::string text = given_or_piped(options.text, options.from_stdin, "TEXT");
  const text::Tokenizer tokenizer = text::load_tokenizer(options.model);
  const std::vector<std::int32_t> ids = tokenizer.encode(text, {.add_special = true, .parse_special = options.special});
  if (options.json) {
    using Json = nlohmann::ordered_json;
    Json json{{"ids", ids}, {"pieces", Json::array()}};
    for (const std::int32_t id : ids) json["pieces"].push_back(std::string(tokenizer.token_bytes(id)));
    io::write_output(json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
    return kGood;
  }
  std::vector<std::vector<std::string>> rows{{">id", "piece"}};
  for (const std::int32_t id : ids) {
    std::string piece;
    for (const char c : tokenizer.token_bytes(id)) {
      const auto byte = static_cast<unsigned char>(c);
      piece += byte < 0x20 || byte == 0x7f ? fmt::format("\\x{:02x}", byte) : std::string(1, c);
    }
    rows.push_back({std::to_string(id), "'" + piece + "'"});
  }
  io::write_output(table(rows) + fmt::format("{} tokens\n", ids.size()));
  return kGood;
}

}  // namespace

void add_tokenize(CLI::App& app, Body& run) {
  const auto options = std::make_shared<TokenizeOptions>();
  CLI::App* command = app.add_subcommand("tokenize", "Show the tokens of a text, or the text of token ids");
  command->footer(
      "Example: eadem tokenize model.gguf \"Hello, world\"\n         eadem tokenize model.gguf --ids 1 2 3");
  command->add_option("MODEL", options->model, "GGUF file, Hugging Face folder, builtin:poet or builtin:tiny")
      ->required();
  CLI::Option* text = command->add_option("TEXT", options->text, "The text (default: standard input, if piped)");
  CLI::Option* stdin_flag = command->add_flag("--stdin", options->from_stdin, "Read the text from standard input");
  CLI::Option* ids = command->add_option("--ids", options->ids, "Decode these ids instead");
  text->excludes(stdin_flag)->excludes(ids);
  command->add_flag("--special", options->special, "Control tokens spelled out in the text become those tokens");
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([=, &run] { run = [options] { return tokenize(*options); }; });
}

}  // namespace eadem::cli
