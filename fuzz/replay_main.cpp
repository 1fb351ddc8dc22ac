// The main program of a fuzzer that is built without libFuzzer: every file of a corpus, and every prefix of it, once.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "fuzz/fuzz.h"

int main(int argc, char** argv) {
  constexpr std::size_t kMostPrefixes = 400;
  std::size_t files = 0;
  for (int i = 1; i < argc; ++i)
    for (const auto& entry : std::filesystem::directory_iterator(argv[i])) {
      std::ifstream file(entry.path(), std::ios::binary);
      const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
      const std::size_t step = bytes.size() / kMostPrefixes + 1;
      for (std::size_t length = bytes.size();; length -= step) {
        // A copy of exactly that length, so that AddressSanitizer sees a read past its end.
        const std::vector<std::uint8_t> prefix(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(length));
        LLVMFuzzerTestOneInput(prefix.data(), prefix.size());
        if (length < step) break;
      }
      ++files;
    }
  std::printf("%zu files replayed\n", files);
  return files > 0 ? 0 : 1;
}
