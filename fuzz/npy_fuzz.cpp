#include "eadem/io/npy.h"
#include "fuzz/fuzz.h"

using namespace eadem;
using namespace eadem::io;

// An array that is accepted is saved to bytes that are read as the same and saved to the same bytes.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return fuzz::read([&] {
    const NpyArray array = parse_npy(MappedFile::copy_of("fuzz.npy", fuzz::as_bytes(data, size)));
    const std::vector<std::byte> first = npy_bytes(array.dtype, array.shape, array.bytes);
    const NpyArray again = parse_npy(MappedFile::copy_of("again.npy", first));
    fuzz::require(again.dtype == array.dtype && again.shape == array.shape, "the type survives");
    fuzz::require(npy_bytes(again.dtype, again.shape, again.bytes) == first, "a second save gives the same bytes");
  });
}
