#include "eadem/io/npy.h"
#include "fuzz/fuzz.h"

using namespace eadem;
using namespace eadem::io;

namespace {

std::vector<std::byte> saved(const Npz& file) {
  NpzWriter writer;
  std::vector<NpyArray> arrays;
  for (const std::string& name : file.names()) {
    arrays.push_back(file.array(name));
    writer.add(name, arrays.back().dtype, arrays.back().shape, arrays.back().bytes);
  }
  return writer.bytes();
}

}  // namespace

// An archive whose arrays are accepted is saved to bytes that are read as the same and saved to the same bytes.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return fuzz::read([&] {
    const Npz file = Npz::parse(MappedFile::copy_of("fuzz.npz", fuzz::as_bytes(data, size)));
    const std::vector<std::byte> first = saved(file);
    const Npz again = Npz::parse(MappedFile::copy_of("again.npz", first));
    fuzz::require(again.names().size() == file.names().size(), "arrays survive");
    fuzz::require(saved(again) == first, "a second save gives the same bytes");
  });
}
