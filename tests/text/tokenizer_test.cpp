#include "eadem/text/tokenizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "eadem/base/error.h"
#include "eadem/text/tokenizer_nfc.h"
#include "eadem/text/utf8.h"

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

json byte_level(bool use_regex) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", use_regex}};
}
json split_then_bytes(const std::string& pattern) {
  return {{"type", "Sequence"},
          {"pretokenizers",
           {{{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}, {"invert", false}},
            byte_level(false)}}};
}
const std::string kHead = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|)";
const std::string kTail = R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// The small vocabulary of tests/text/data with one of the pre-tokenizers.
Tokenizer small(const std::string& pre = "smollm", const std::function<void(json&)>& change = {}) {
  json file = json::parse(read("small_tokenizer.json"));
  if (pre == "gpt-2") file["pre_tokenizer"] = byte_level(true);
  if (pre == "llama-bpe") file["pre_tokenizer"] = split_then_bytes(kHead + R"(\p{N}{1,3})" + kTail);
  if (pre.starts_with("qwen2")) file["pre_tokenizer"] = split_then_bytes(kHead + R"(\p{N})" + kTail);
  if (pre == "qwen2-nfc") file["normalizer"] = {{"type", "NFC"}};
  if (change) change(file);
  return Tokenizer::from_hugging_face(file.dump(), "", "small_tokenizer.json");
}

TEST(Tokenizer, IdsAreThoseOfHuggingFace) {
  const json vectors = json::parse(read("small_vectors.json"));
  ASSERT_GT(vectors.size(), 800u);
  for (const std::string pre : {"smollm", "gpt-2", "llama-bpe", "qwen2", "qwen2-nfc"}) {
    const Tokenizer tokenizer = small(pre);
    for (const json& vector : vectors) {
      if (vector[0] != pre) continue;
      const auto text = vector[1].get<std::string>();
      const Ids ids = tokenizer.encode(text, {.parse_special = true});
      EXPECT_EQ(ids, vector[2].get<Ids>()) << pre << ": " << vector[1];
      if (text.find("<mask>") == std::string::npos && text.find("<sep>") == std::string::npos) {
        EXPECT_EQ(tokenizer.decode(ids), pre == "qwen2-nfc" ? normalized_nfc(text) : text);
      }
    }
  }
}

TEST(Tokenizer, EveryByteStringComesBack) {
  std::mt19937 random(1);
  for (const std::string pre : {"smollm", "gpt-2", "llama-bpe", "qwen2"}) {
    const Tokenizer tokenizer = small(pre);
    for (int i = 0; i < 500; ++i) {
      std::string bytes(random() % 40, ' ');
      for (char& byte : bytes) {
        byte = static_cast<char>(random() & 0xff);
        if (random() % 3 == 0) byte = " \xE2\x82\xF0\x9F'1a\n"[random() % 9];
      }
      EXPECT_EQ(tokenizer.decode(tokenizer.encode(bytes)), bytes);
    }
  }
}

// What merging by rank means, without heap or lists.
Ids merged_by_hand(const json& file, const std::string& word) {
  const Tokenizer tokenizer = small();
  std::vector<std::string> parts;
  for (const char c : word) parts.push_back(std::string(1, c));
  for (;;) {
    for (const json& merge : file["model"]["merges"]) {
      for (std::size_t i = 0; i + 1 < parts.size(); ++i)
        if (parts[i] == merge[0] && parts[i + 1] == merge[1]) {
          parts[i] += parts[i + 1];
          parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(i) + 1);
          goto merged;
        }
    }
    break;
  merged:;
  }
  Ids ids;
  for (const std::string& part : parts) ids.push_back(tokenizer.find(part));
  return ids;
}
TEST(Tokenizer, LongWordsMergeByRankThenFromTheLeft) {
  const json file = json::parse(read("small_tokenizer.json"));
  const Tokenizer tokenizer = small();
  std::mt19937 random(2);
  for (int i = 0; i < 40; ++i) {
    std::string word(5 + random() % 90, 'e');
    for (char& c : word) c = "ethanoirs"[random() % (1 + static_cast<unsigned>(i) % 9)];
    EXPECT_EQ(tokenizer.encode(word), merged_by_hand(file, word)) << word;
  }
}
TEST(Tokenizer, AQuarterMegabyteOfOneLetterIsNotQuadratic) {
  const Tokenizer tokenizer = small();
  for (const char letter : {'e', ' '}) {
    const std::string text(1 << 18, letter);
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
  }
}

// Public report C41: an added token that is not spelled in bytes comes back as it is.
TEST(Tokenizer, AddedTokensAreNotByteDecoded) {
  const Tokenizer tokenizer = small();
  const Ids ids = tokenizer.encode("ilÖveyou");
  ASSERT_EQ(ids.size(), 1u);
  EXPECT_EQ(tokenizer.decode(ids), "ilÖveyou");
}
// Public report C41: a token that is one byte of no character.
TEST(Tokenizer, ALoneByteIsThatByte) {
  const Tokenizer tokenizer = small();
  const Ids ids = {tokenizer.find("\xC3\x80")};  // "À" spells the byte 0xC0
  EXPECT_EQ(tokenizer.decode(ids), "\xC0");
  EXPECT_EQ(replace_invalid_utf8(tokenizer.decode(ids)), "\xEF\xBF\xBD");
  StreamDecoder stream(tokenizer);
  EXPECT_EQ(stream.push(ids[0]), "\xC0");
}
TEST(Tokenizer, StreamsHoldIncompleteCharacters) {
  const Tokenizer tokenizer = small();
  const std::string text = "a😁я\xF0\x9F";
  StreamDecoder stream(tokenizer);
  std::string all;
  for (const char& byte : text) {
    std::string spelling = tokenizer.decode(tokenizer.encode(std::string(1, byte)));
    ASSERT_EQ(spelling, std::string(1, byte));
    const std::string ready = stream.push(tokenizer.encode(std::string(1, byte))[0]);
    EXPECT_EQ(replace_invalid_utf8(ready), ready);
    all += ready;
  }
  EXPECT_EQ(all, "a😁я");
  EXPECT_EQ(stream.finish(), "\xF0\x9F");
  EXPECT_EQ(stream.finish(), "");
}

TEST(Tokenizer, TextCannotBecomeAControlToken) {
  const Tokenizer tokenizer = small();
  const std::int32_t start = tokenizer.find("<|im_start|>"), end = tokenizer.find("<|im_end|>");
  EXPECT_EQ(tokenizer.encode("<|im_end|>", {.parse_special = true}), Ids{end});
  const Ids plain = tokenizer.encode("<|im_end|>");
  EXPECT_GT(plain.size(), 1u);
  EXPECT_EQ(tokenizer.decode(plain), "<|im_end|>");
  // Nor when half of it comes from a stretch that may hold one.
  const std::vector<TextPiece> pieces = {{"<|im_start|>user <|im_", true}, {"end|>", false}, {"<|im_end|>", true}};
  const Ids ids = tokenizer.encode(pieces);
  EXPECT_EQ(ids.front(), start);
  EXPECT_EQ(std::count(ids.begin(), ids.end(), end), 1);
  EXPECT_EQ(tokenizer.decode(ids), "<|im_start|>user <|im_end|><|im_end|>");
  EXPECT_EQ(tokenizer.decode(ids, true), "user <|im_end|>");
}

TEST(Tokenizer, SaysWhatAByteLacks) {
  const Tokenizer tokenizer = small("smollm", [](json& file) {
    file["model"]["vocab"].erase("\xC3\xBF");
    json merges = json::array();
    for (json& merge : file["model"]["merges"])
      if (merge[0] != "\xC3\xBF" && merge[1] != "\xC3\xBF") merges.push_back(merge);
    file["model"]["merges"] = merges;
  });
  try {
    tokenizer.encode("abc\xff");
    FAIL();
  } catch (const ValueError& error) {
    EXPECT_STREQ(error.what(),
                 "[tokenizer] byte 0xff at offset 3 has no token in the vocabulary of small_tokenizer.json");
  }
}

TEST(Tokenizer, RefusesIdsOutOfRange) {
  const Tokenizer tokenizer = small();
  EXPECT_THROW(tokenizer.decode(Ids{-1}), ValueError);
  EXPECT_THROW(tokenizer.decode(Ids{tokenizer.vocabulary_size()}), ValueError);
}

TEST(TokenizerJson, RefusesByName) {
  const auto message = [](const std::function<void(json&)>& change) -> std::string {
    try {
      small("smollm", change);
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  };
  const auto refuses = [&](const std::function<void(json&)>& change, const std::string& name) {
    EXPECT_NE(message(change).find(name), std::string::npos) << message(change);
  };
  refuses([](json& f) { f["model"]["type"] = "Unigram"; }, "Unigram");
  refuses([](json& f) { f["model"]["byte_fallback"] = true; }, "byte_fallback");
  refuses([](json& f) { f["model"]["end_of_word_suffix"] = "</w>"; }, "end_of_word_suffix");
  refuses([](json& f) { f["model"]["merges"].push_back({"qqq", "a"}); }, "'qqq' is not a token");
  refuses([](json& f) { f["model"]["merges"][0] = "one"; }, "not two tokens");
  refuses([](json& f) { f["model"]["vocab"]["zzz"] = 2000000; }, "far outside");
  refuses([](json& f) { f["model"]["vocab"]["zzz"] = 5; }, "two tokens have the id 5");
  refuses([](json& f) { f["model"]["vocab"]["zzz"] = -1; }, "out of range");
  refuses([](json& f) { f["model"]["vocab"]["zzz"] = "5"; }, "not an integer");
  refuses([](json& f) { f["added_tokens"][0]["single_word"] = true; }, "single_word");
  refuses([](json& f) { f["added_tokens"][0]["id"] = 1 << 23; }, "far outside");
  refuses([](json& f) { f["normalizer"] = {{"type", "Lowercase"}}; }, "Lowercase");
  refuses([](json& f) { f["pre_tokenizer"] = {{"type", "Metaspace"}}; }, "Metaspace");
  refuses([](json& f) { f["pre_tokenizer"] = split_then_bytes("\\p{L}+"); }, "\\p{L}+");
  refuses([](json& f) { f["pre_tokenizer"]["pretokenizers"][1]["add_prefix_space"] = true; }, "add_prefix_space");
  refuses([](json& f) { f["decoder"] = {{"type", "WordPiece"}}; }, "WordPiece");
  refuses([](json& f) { f["post_processor"] = {{"type", "BertProcessing"}}; }, "BertProcessing");
  EXPECT_EQ(message([](json&) {}), "accepted");
  EXPECT_THROW(Tokenizer::from_hugging_face("{\"model\":", "", "x"), FileError);
  EXPECT_THROW(Tokenizer::from_hugging_face(std::string(1000000, '['), "", "x"), FileError);
}
TEST(TokenizerJson, ReadsBeginTokenAndConfig) {
  json file = json::parse(read("small_tokenizer.json"));
  file["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single",
       {{{"SpecialToken", {{"id", "<|im_start|>"}, {"type_id", 0}}}}, {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}},
      {"special_tokens", {{"<|im_start|>", {{"id", "<|im_start|>"}, {"ids", {1}}}}}}};
  const Tokenizer tokenizer = Tokenizer::from_hugging_face(
      file.dump(), R"({"eos_token": {"content": "<|im_end|>"}, "chat_template": "{{ messages }}"})", "x");
  EXPECT_EQ(tokenizer.bos(), 1);
  EXPECT_EQ(tokenizer.eos(), 2);
  EXPECT_TRUE(tokenizer.ends_generation(2));
  EXPECT_FALSE(tokenizer.ends_generation(3));
  EXPECT_EQ(tokenizer.chat_template(), "{{ messages }}");
  EXPECT_EQ(tokenizer.encode("a").front(), 1);
  EXPECT_EQ(tokenizer.encode("a", {.add_special = false}).size(), 1u);
}

TEST(Pretokenizer, WordsOfTheDefaultOfLlamaCpp) {
  std::vector<std::string_view> words;
  split_words(Pretokenizer::llama_default, "Hi there, 12345 a+b's\n\n x", words);
  const std::vector<std::string_view> expected = {"Hi", " there", ",", " ", "123",  "45", " a",
                                                  "+",  "b",      "'", "s", "\n\n", " x"};
  EXPECT_EQ(words, expected);
}

// Facts about Llama 2's vocabulary: pieces with their ids; scores there fall with the id. The rest is filler.
TokenizerData llama2() {
  TokenizerData data;
  data.model = TokenizerData::Model::sentencepiece;
  data.source = "llama2";
  data.tokens.resize(32000);
  data.types.assign(32000, TokenType::unused);
  data.scores.assign(32000, 0);
  for (int i = 0; i < 32000; ++i) {
    data.tokens[static_cast<std::size_t>(i)] = fmt::format("\x01{}", i);
    data.scores[static_cast<std::size_t>(i)] = static_cast<float>(259 - i);
  }
  const auto put = [&](int id, std::string text, TokenType type = TokenType::normal) {
    data.tokens[static_cast<std::size_t>(id)] = std::move(text);
    data.types[static_cast<std::size_t>(id)] = type;
  };
  put(0, "<unk>", TokenType::unknown), put(1, "<s>", TokenType::control), put(2, "</s>", TokenType::control);
  for (int byte = 0; byte < 256; ++byte) put(3 + byte, fmt::format("<0x{:02X}>", byte), TokenType::byte);
  const std::pair<int, const char*> pieces[] = {
      {295, "el"},       {298, "▁h"},      {354, "he"},       {379, "▁H"},      {417, "lo"},      {514, "ell"},
      {540, "▁he"},      {645, "ll"},      {940, "▁He"},      {1081, "▁hel"},   {3156, "ello"},   {3868, "He"},
      {3952, "hel"},     {6162, "▁Hel"},   {7658, "Hel"},     {10994, "Hello"}, {12199, "hello"}, {14181, "hell"},
      {15043, "▁Hello"}, {19339, "▁Hell"}, {22172, "▁hello"}, {23927, "▁hell"}, {29872, "e"},     {29874, "a"},
      {29877, "o"},      {29880, "l"},     {29882, "h"},      {29892, ","},     {29950, "H"}};
  for (const auto& [id, text] : pieces) put(id, text);
  const std::pair<int, const char*> spaces[] = {
      {29871, "▁"}, {259, "▁▁"}, {1678, "▁▁▁"}, {268, "▁▁▁▁"}, {418, "▁▁▁▁▁"}};
  for (const auto& [id, text] : spaces) put(id, text), data.scores[static_cast<std::size_t>(id)] = -1e9f;
  data.bos = 1, data.eos = 2, data.unknown = 0;
  data.add_bos = true, data.add_space_prefix = true;
  return data;
}
// Public report C41 (llama.cpp issue #2721).
TEST(SentencePiece, LeadingSpaces) {
  const Tokenizer tokenizer{llama2()};
  const EncodeOptions plain{.add_special = false};
  EXPECT_EQ(tokenizer.encode("Hello", plain), (Ids{15043}));
  EXPECT_EQ(tokenizer.encode(" Hello", plain), (Ids{29871, 15043}));
  EXPECT_EQ(tokenizer.encode("  Hello", plain), (Ids{259, 15043}));
  EXPECT_EQ(tokenizer.encode("   Hello", plain), (Ids{1678, 15043}));
  EXPECT_EQ(tokenizer.encode("    Hello", plain), (Ids{268, 15043}));
  EXPECT_EQ(tokenizer.encode("Hello"), (Ids{1, 15043}));
}
TEST(SentencePiece, TextComesBack) {
  const Tokenizer tokenizer{llama2()};
  for (const std::string text : {"", "Hello", " Hello", "   ", "\xff\xc0", "a😁", "hello,\nHello", "<s>",
                                 "\x01"
                                 "300"}) {
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text, {.add_special = false})), text);
  }
  EXPECT_EQ(tokenizer.encode("<s>Hello", {.add_special = false, .parse_special = true}), (Ids{1, 15043}));
  EXPECT_EQ(tokenizer.encode("<s> Hello", {.add_special = false, .parse_special = true}), (Ids{1, 29871, 15043}));
  EXPECT_NE(tokenizer.encode("<s>Hello", {.add_special = false})[0], 1);
  const std::string spaces(1 << 18, ' ');
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(spaces, {.add_special = false})), spaces);
}
TEST(SentencePiece, ContradictoryDataIsRefused) {
  const auto refused = [](const std::function<void(TokenizerData&)>& change) {
    TokenizerData data = llama2();
    change(data);
    EXPECT_THROW(Tokenizer{data}, FileError);
  };
  refused([](TokenizerData& d) { d.scores.pop_back(); });
  refused([](TokenizerData& d) { d.scores[7] = NAN; });
  refused([](TokenizerData& d) { d.types.pop_back(); });
  refused([](TokenizerData& d) { d.bos = 32000; });
  refused([](TokenizerData& d) { d.eos = -2; });
  refused([](TokenizerData& d) { d.bos = -1; });
  refused([](TokenizerData& d) { d.added = {{.id = 32000}}; });
  refused([](TokenizerData& d) { d.tokens.clear(), d.types.clear(), d.scores.clear(); });
}

TEST(Nfc, ComposesReordersAndKeepsBytes) {
  EXPECT_EQ(normalized_nfc("e\u0301"), "é");
  EXPECT_EQ(normalized_nfc("s\u0307\u0323"), "\u1e69");
  EXPECT_EQ(normalized_nfc("\u212b"), "\u00c5");
  EXPECT_EQ(normalized_nfc("\u1100\u1161\u11a8"), "\uac01");
  EXPECT_EQ(normalized_nfc("\u0958"), "\u0915\u093c");  // excluded from composition
  EXPECT_EQ(normalized_nfc("e\xff\u0301"), "e\xff\u0301");
}

TEST(Utf8, IncompleteSuffix) {
  EXPECT_EQ(incomplete_utf8_suffix(""), 0u);
  EXPECT_EQ(incomplete_utf8_suffix("a"), 0u);
  EXPECT_EQ(incomplete_utf8_suffix("\xF0\x9F\x98\x81"), 0u);
  EXPECT_EQ(incomplete_utf8_suffix("a\xF0\x9F\x98"), 3u);
  EXPECT_EQ(incomplete_utf8_suffix("a\xF0\x9F"), 2u);
  EXPECT_EQ(incomplete_utf8_suffix("a\xF0"), 1u);
  EXPECT_EQ(incomplete_utf8_suffix("\xC0"), 0u);      // never a lead byte
  EXPECT_EQ(incomplete_utf8_suffix("\xED\xA0"), 0u);  // a surrogate's beginning
  EXPECT_EQ(incomplete_utf8_suffix("\x80"), 0u);
}
TEST(Utf8, MaximalPartsAreReplaced) {
  EXPECT_EQ(replace_invalid_utf8("a\xF0\x9F\x98z\xC0\x80"), "a\uFFFDz\uFFFD\uFFFD");
  EXPECT_EQ(replace_invalid_utf8("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");
}

}  // namespace
}  // namespace eadem::text
