#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "eadem/models/config.h"

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

/// A fresh folder that is removed when the object goes.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace eadem::testing
