#include "eadem/io/gguf.h"
#include "fuzz/fuzz.h"

using namespace eadem;
using namespace eadem::io;

// What is accepted can be read to its last byte, written, and read again as the same.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return fuzz::read([&] {
    const GgufFile file = GgufFile::parse(MappedFile::copy_of("fuzz.gguf", fuzz::as_bytes(data, size)));
    GgufWriter writer;
    for (const auto& [key, value] : file.metadata())
      if (key != "general.alignment") writer.set(key, value);
    for (const GgufTensor& tensor : file.tensors()) writer.add(tensor.name, tensor.type, tensor.shape, tensor.bytes);
    const GgufFile again = GgufFile::parse(MappedFile::copy_of("again.gguf", writer.bytes()));
    fuzz::require(again.tensors().size() == file.tensors().size(), "tensors survive");
    for (std::size_t i = 0; i < file.tensors().size(); ++i) {
      const GgufTensor &a = file.tensors()[i], &b = again.tensors()[i];
      fuzz::require(a.name == b.name && a.type == b.type && a.shape == b.shape, "types survive");
      fuzz::require(std::equal(a.bytes.begin(), a.bytes.end(), b.bytes.begin(), b.bytes.end()), "bytes survive");
    }
    for (const auto& pair : file.metadata()) {
      const std::string& key = pair.first;
      fuzz::read([&] { file.required<std::int64_t>(key); });
      fuzz::read([&] { file.required<double>(key); });
      fuzz::read([&] { file.required<std::vector<std::string>>(key); });
      fuzz::read([&] { file.required<std::vector<std::int64_t>>(key); });
    }
  });
}
