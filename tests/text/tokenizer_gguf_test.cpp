#include "eadem/text/tokenizer_gguf.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "eadem/base/error.h"

namespace eadem::text {
namespace {

using nlohmann::json;
using Ids = std::vector<std::int32_t>;

std::string read(const std::string& name) {
  std::ifstream file(EADEM_SOURCE_DIR "/tests/text/data/" + name, std::ios::binary);
  EXPECT_TRUE(file) << name;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

using Metadata = std::map<std::string, io::GgufValue>;

// The small vocabulary as a GGUF file's metadata.
Metadata small() {
  const json file = json::parse(read("small_tokenizer.json"));
  std::vector<std::string> tokens, merges;
  std::vector<std::int32_t> types;
  const auto put = [&](std::size_t id, const std::string& spelling, int type) {
    if (id >= tokens.size()) tokens.resize(id + 1), types.resize(id + 1, 5);
    tokens[id] = spelling;
    types[id] = type;
  };
  for (const auto& [spelling, id] : file["model"]["vocab"].items()) put(id, spelling, 1);
  for (const json& token : file["added_tokens"]) put(token["id"], token["content"], token["special"] ? 3 : 4);
  for (const json& merge : file["model"]["merges"])
    merges.push_back(merge[0].get<std::string>() + " " + merge[1].get<std::string>());
  return {{"tokenizer.ggml.model", std::string("gpt2")},      {"tokenizer.ggml.pre", std::string("smollm")},
          {"tokenizer.ggml.tokens", io::GgufArray{tokens}},   {"tokenizer.ggml.token_type", io::GgufArray{types}},
          {"tokenizer.ggml.merges", io::GgufArray{merges}},   {"tokenizer.ggml.bos_token_id", std::uint32_t{1}},
          {"tokenizer.ggml.eos_token_id", std::uint32_t{2}},  {"tokenizer.ggml.add_bos_token", false},
          {"tokenizer.chat_template", std::string("{{ x }}")}};
}
io::GgufFile file_of(const Metadata& metadata) {
  io::GgufWriter writer;
  for (const auto& [key, value] : metadata) writer.set(key, value);
  const auto path = std::filesystem::path(testing::TempDir()) /
                    (std::string("eadem_tokenizer_") + std::to_string(getpid()) + ".gguf");
  writer.write(path);
  io::GgufFile file = io::GgufFile::open(path, io::Access::read);
  std::filesystem::remove(path);
  return file;
}

TEST(TokenizerGguf, IdsAreThoseOfHuggingFace) {
  const json vectors = json::parse(read("small_vectors.json"));
  for (const std::string pre : {"smollm", "gpt-2", "llama-bpe", "qwen2-nfc"}) {
    Metadata metadata = small();
    metadata["tokenizer.ggml.pre"] = pre == "qwen2-nfc" ? "qwen2" : pre;
    const Tokenizer tokenizer = tokenizer_from_gguf(file_of(metadata), "small.gguf");
    int compared = 0;
    for (const json& vector : vectors) {
      const auto text = vector[1].get<std::string>();
      // The file has no place for an added token's flags, nor the tokenizer.json of the vectors for Llama 3's ignoring
      // of merges.
      if (vector[0] != pre || text.find("<mask>") + 1 || text.find("<sep>") + 1 || pre == "llama-bpe") continue;
      EXPECT_EQ(tokenizer.encode(text, {.parse_special = true}), vector[2].get<Ids>()) << pre << ": " << vector[1];
      ++compared;
    }
    EXPECT_TRUE(compared > 200 || pre == "llama-bpe");
  }
}

TEST(TokenizerGguf, ReadsIdsAndFlags) {
  Metadata metadata = small();
  metadata["tokenizer.ggml.padding_token_id"] = std::uint32_t{0xffffffff};
  const Tokenizer tokenizer = tokenizer_from_gguf(file_of(metadata), "small.gguf");
  EXPECT_EQ(tokenizer.bos(), 1);
  EXPECT_EQ(tokenizer.eos(), 2);
  EXPECT_EQ(tokenizer.eot(), 2);
  EXPECT_EQ(tokenizer.padding(), -1);
  EXPECT_FALSE(tokenizer.add_bos());
  EXPECT_EQ(tokenizer.chat_template(), "{{ x }}");
  EXPECT_TRUE(tokenizer.ends_generation(tokenizer.find("<|endoftext|>")));
}

TEST(TokenizerGguf, RefusesByName) {
  const auto message = [](const std::string& key, const io::GgufValue& value) -> std::string {
    Metadata metadata = small();
    metadata[key] = value;
    try {
      tokenizer_from_gguf(file_of(metadata), "small.gguf");
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  };
  const auto refuses = [&](const std::string& key, const io::GgufValue& value, const std::string& name) {
    const std::string text = message("tokenizer.ggml." + key, value);
    EXPECT_NE(text.find(name), std::string::npos) << text;
    EXPECT_NE(text.find("small.gguf"), std::string::npos) << text;
  };
  refuses("model", std::string("bert"), "'bert'");
  refuses("pre", std::string("deepseek-llm"), "'deepseek-llm'");
  refuses("bos_token_id", std::uint32_t{1000000}, "1000000");
  refuses("eos_token_id", std::int32_t{-7}, "-7");
  refuses("token_type", io::GgufArray{std::vector<std::int32_t>{1, 2}}, "2 token types");
  refuses("token_type", io::GgufArray{std::vector<std::int32_t>{7}}, "token type 7");
  refuses("merges", io::GgufArray{std::vector<std::string>{"ab"}}, "'ab'");
  refuses("merges", io::GgufArray{std::vector<std::string>{"a "}}, "'a '");
  refuses("merges", io::GgufArray{std::vector<std::string>{"a nope"}}, "'nope'");
}

// The file of `make run`, where it has been fetched.
TEST(TokenizerGguf, SmolLM2IdsAreThoseOfHuggingFace) {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  const std::filesystem::path path =
      (cache && *cache ? std::filesystem::path(cache) : std::filesystem::path(home ? home : "") / ".cache") / "eadem" /
      "SmolLM2-135M-Instruct.Q4_1.gguf";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there";
  const Tokenizer tokenizer = tokenizer_from_gguf(io::GgufFile::open(path), path.string());
  const json vectors = json::parse(read("smollm2_vectors.json"));
  ASSERT_GT(vectors.size(), 300u);
  for (const json& vector : vectors) {
    const auto text = vector[0].get<std::string>();
    const Ids ids = tokenizer.encode(text, {.parse_special = true});
    EXPECT_EQ(ids, vector[1].get<Ids>()) << vector[0];
    EXPECT_EQ(tokenizer.decode(ids), text);
  }
  EXPECT_THROW(tokenizer.encode("\xff"), ValueError);  // one of the 21 bytes that this vocabulary lacks
}

}  // namespace
}  // namespace eadem::text
