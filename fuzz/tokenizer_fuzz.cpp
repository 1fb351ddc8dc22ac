#include "eadem/text/tokenizer.h"
#include "fuzz/fuzz.h"

using namespace eadem;
using namespace eadem::text;

// A tokenizer.json, then, after a zero byte, a text for it.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return fuzz::read([&] {
    const std::string_view all = fuzz::as_text(data, size);
    const std::size_t end = all.find('\0');
    const std::string_view text =
        end == all.npos ? "Hello  w\xC3\xB6rld\n 123 \xF0\x9F\x98\x81 \xFF" : all.substr(end + 1);
    const Tokenizer tokenizer = Tokenizer::from_hugging_face(all.substr(0, end), "", "fuzz.json");
    for (std::int32_t id = -1; id <= tokenizer.vocabulary_size(); ++id)
      fuzz::read([&] { tokenizer.decode(std::span(&id, 1)); });
    const std::vector<std::int32_t> ids = tokenizer.encode(text, {.parse_special = true});
    for (const std::int32_t id : ids) fuzz::require(id >= 0 && id < tokenizer.vocabulary_size(), "ids are in range");
    const std::string whole = tokenizer.decode(ids);
    StreamDecoder stream(tokenizer, false);
    std::string streamed;
    for (const std::int32_t id : ids) streamed += stream.push(id);
    fuzz::require(streamed + stream.finish() == whole, "a stream gives the text that decode gives");
  });
}
