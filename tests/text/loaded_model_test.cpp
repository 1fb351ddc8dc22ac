#include "eadem/text/loaded_model.h"

#include <gtest/gtest.h>

#include <fstream>

#include "eadem/models/load.h"
#include "tests/support/tiny_llama.h"

namespace eadem::text {
namespace {

// A model's digest is of what the loader reads: files that only lie beside it change nothing.
TEST(ModelDigest, IsOfTheFilesThatAreRead) {
  const testing::TemporaryFolder folder;
  const testing::TinyFiles files = testing::write_tiny_llama(folder.path(), {});
  const auto write = [&](const char* name, const char* text) { std::ofstream(files.folder / name) << text; };
  const std::string digest = model_sha256(files.folder.string());
  write("stray.safetensors", "not a model at all");
  write("README.md", "words");
  EXPECT_EQ(model_sha256(files.folder.string()), digest);
  write("tokenizer_config.json", "{}");
  EXPECT_NE(model_sha256(files.folder.string()), digest);
}

}  // namespace
}  // namespace eadem::text
