#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "eadem/models/config.h"
#include "tests/support/temporary_folder.h"

namespace eadem::testing {

/// A random model written to disk in both file formats: same weights, same bits expected.
struct TinyFiles {
  std::filesystem::path gguf, folder;
};

struct TinyOptions {
  std::string architecture = "llama";  ///< qwen2 has biases on q, k and v
  bool tied = false;
  bool llama3_rope = false;
};

/// Writes the files into `where`. 2 layers, 32 wide, 4 heads on 2, a vocabulary of 48.
TinyFiles write_tiny_llama(const std::filesystem::path& where, const TinyOptions& options);

}  // namespace eadem::testing
