#include "eadem/text/loaded_model.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <vector>

#include "eadem/io/safetensors.h"
#include "eadem/io/sha256.h"
#include "eadem/models/load.h"
#include "eadem/text/tokenizer_bytes.h"
#include "eadem/text/tokenizer_gguf.h"
#include "eadem/text/utf8.h"

namespace eadem::text {
namespace {

constexpr std::string_view kTiny = "builtin:tiny", kPoet = "builtin:poet";
constexpr double kPoetTemperature = 0.5;

// What the digest of a built-in model is taken of; to be changed when the model changes.
constexpr std::string_view kTinyVersion = "eadem builtin:tiny 1";

void require_known(const std::string& name) {
  if (name.starts_with("builtin:") && name != kTiny && name != kPoet)
    fail<FileError>("{}: there is no such built-in model; there are {} and {}", name, kPoet, kTiny);
}

// Three control tokens, the 256 bytes, and merges of the commonest pairs of English.
Tokenizer tiny_tokenizer() {
  TokenizerData data;
  data.source = kTiny;
  for (const char* control : {"<|endoftext|>", "<|im_start|>", "<|im_end|>"}) {
    data.tokens.emplace_back(control);
    data.types.push_back(TokenType::control);
  }
  const auto add = [&](std::string token) {
    data.tokens.push_back(std::move(token));
    data.types.push_back(TokenType::normal);
  };
  const auto spelled = [](std::string_view bytes) {
    std::string text;
    for (const char c : bytes) append_utf8(text, byte_level_character(static_cast<unsigned char>(c)));
    return text;
  };
  for (int byte = 0; byte < 256; ++byte) add(spelled(std::string(1, static_cast<char>(byte))));
  constexpr std::pair<std::string_view, std::string_view> kMerges[] = {
      {"t", "h"},   {"i", "n"},  {"e", "r"},  {"a", "n"},  {"o", "n"},    {"r", "e"},   {"a", "t"},   {"e", "n"},
      {"o", "r"},   {"e", "s"},  {"i", "s"},  {"i", "t"},  {"o", "u"},    {"e", "d"},   {"a", "r"},   {"s", "t"},
      {"t", "o"},   {"n", "d"},  {"a", "l"},  {"o", "f"},  {"l", "e"},    {"s", "e"},   {"c", "h"},   {"l", "l"},
      {"w", "h"},   {"o", "w"},  {"v", "e"},  {"th", "e"}, {"in", "g"},   {"an", "d"},  {" ", "t"},   {" ", "a"},
      {" ", "s"},   {" ", "w"},  {" ", "o"},  {" ", "b"},  {" ", "c"},    {" ", "the"}, {" ", "and"}, {" ", "of"},
      {" ", "to"},  {" ", "in"}, {" ", "is"}, {"i", "on"}, {"at", "ion"}, {"m", "e"},   {"y", "ou"},  {" ", "you"},
      {"w", "ord"}, {"s", "ame"}};
  for (const auto& [left, right] : kMerges) {
    const std::string a = spelled(left), b = spelled(right);
    if (std::find(data.tokens.begin(), data.tokens.end(), a) == data.tokens.end() ||
        std::find(data.tokens.begin(), data.tokens.end(), b) == data.tokens.end())
      continue;
    data.merges.emplace_back(a, b);
    add(a + b);
  }
  while (data.tokens.size() < 320) {
    data.tokens.push_back("<|reserved_" + std::to_string(data.tokens.size()) + "|>");
    data.types.push_back(TokenType::control);
  }
  data.bos = 1;
  data.eos = 2;
  data.padding = 0;
  data.chat_template =
      "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + "
      "'\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";
  return Tokenizer(std::move(data));
}

io::GgufFile open_gguf(const std::string& name, io::Access access) {
  if (name == kPoet) return io::GgufFile::parse(io::MappedFile::copy_of(name, models::builtin_poet_file()));
  return io::GgufFile::open(name, access);
}

std::string read_text(const std::filesystem::path& path) {
  const auto file = io::MappedFile::open(path, io::Access::read);
  return {reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size()};
}

Tokenizer folder_tokenizer(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "tokenizer.json", config = folder / "tokenizer_config.json";
  return Tokenizer::from_hugging_face(read_text(path), std::filesystem::exists(config) ? read_text(config) : "",
                                      path.string());
}

// The files of a folder that a model is made of, by name: those that the loader reads, and no others.
std::vector<std::filesystem::path> model_files(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const char* name : {"config.json", "tokenizer.json", "tokenizer_config.json"})
    if (std::filesystem::exists(folder / name)) files.push_back(folder / name);
  for (const std::string& name : io::Safetensors::files_of_folder(folder)) files.push_back(folder / name);
  std::sort(files.begin(), files.end());
  return files;
}

void require_match(const std::string& name, const models::Llama& model, const Tokenizer& tokenizer) {
  // Embeddings are often padded beyond the vocabulary, never shorter.
  if (tokenizer.vocabulary_size() > model.config().vocabulary)
    fail<FileError>("{}: the tokenizer has {} tokens, the embedding only {} rows", name, tokenizer.vocabulary_size(),
                    model.config().vocabulary);
}

}  // namespace

LoadedModel load_model(const std::string& name, DType dtype, io::Access access) {
  require_known(name);
  if (name == kTiny) return {name, 0, models::builtin_tiny(dtype), tiny_tokenizer(), 0};
  if (std::filesystem::is_directory(name)) {
    std::int64_t bytes = 0;
    for (const auto& file : model_files(name)) bytes += static_cast<std::int64_t>(std::filesystem::file_size(file));
    LoadedModel loaded{name, bytes, models::load_hugging_face(name, dtype, access), folder_tokenizer(name)};
    require_match(name, loaded.model, loaded.tokenizer);
    return loaded;
  }
  const io::GgufFile file = open_gguf(name, access);
  LoadedModel loaded{name, static_cast<std::int64_t>(file.file()->bytes().size()), models::load_gguf(file, dtype),
                     tokenizer_from_gguf(file, name)};
  // By the likeliest byte alone, so small a model goes round in circles.
  if (name == kPoet) loaded.temperature = kPoetTemperature;
  require_match(name, loaded.model, loaded.tokenizer);
  return loaded;
}

Tokenizer load_tokenizer(const std::string& name) {
  require_known(name);
  if (name == kTiny) return tiny_tokenizer();
  if (std::filesystem::is_directory(name)) return folder_tokenizer(name);
  return tokenizer_from_gguf(open_gguf(name, io::Access::map), name);
}

std::string model_sha256(const std::string& name) {
  require_known(name);
  if (name == kTiny) return io::sha256(std::as_bytes(std::span(kTinyVersion)));
  if (name == kPoet) return io::sha256(models::builtin_poet_file());
  if (!std::filesystem::is_directory(name)) return io::sha256_of_file(name);
  io::Sha256 digest;
  for (const auto& file : model_files(name))
    digest.update(file.filename().string() + " " + io::sha256_of_file(file) + "\n");
  return digest.hex();
}

}  // namespace eadem::text
