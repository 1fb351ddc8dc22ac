#include "eadem/text/tokenizer_gguf.h"
#include "fuzz/fuzz.h"

using namespace eadem;
using namespace eadem::text;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return fuzz::read([&] {
    const auto file = io::GgufFile::parse(io::MappedFile::copy_of("fuzz.gguf", fuzz::as_bytes(data, size)));
    const Tokenizer tokenizer = tokenizer_from_gguf(file, "fuzz.gguf");
    for (std::int32_t id = -1; id <= tokenizer.vocabulary_size(); ++id)
      fuzz::read([&] { tokenizer.decode(std::span(&id, 1)); });
    const auto ids = tokenizer.encode("Hello  w\xC3\xB6rld\n 123 \xF0\x9F\x98\x81 \xFF <s>", {.parse_special = true});
    for (const std::int32_t id : ids) fuzz::require(id >= 0 && id < tokenizer.vocabulary_size(), "ids are in range");
    tokenizer.decode(ids, true);
  });
}
