#include "eadem/io/safetensors.h"
#include "fuzz/fuzz.h"

using namespace eadem;
using namespace eadem::io;

namespace {

std::vector<std::byte> saved(const Safetensors& file) {
  SafetensorsWriter writer;
  for (const SafeTensor& tensor : file.tensors()) writer.add(tensor.name, tensor.dtype, tensor.shape, tensor.bytes);
  for (const auto& [key, value] : file.metadata()) writer.set(key, value);
  return writer.bytes();
}

}  // namespace

// What is accepted is saved to bytes that are read as the same and saved to the same bytes.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return fuzz::read([&] {
    const Safetensors file = Safetensors::parse(MappedFile::copy_of("fuzz.safetensors", fuzz::as_bytes(data, size)));
    const std::vector<std::byte> first = saved(file);
    const Safetensors again = Safetensors::parse(MappedFile::copy_of("again.safetensors", first));
    fuzz::require(again.tensors().size() == file.tensors().size(), "tensors survive");
    fuzz::require(saved(again) == first, "a second save gives the same bytes");
  });
}
