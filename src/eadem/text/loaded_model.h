#pragma once

#include <cstdint>
#include <string>

#include "eadem/io/mapped_file.h"
#include "eadem/models/llama.h"
#include "eadem/text/tokenizer.h"

namespace eadem::text {

/// A model and its tokenizer.
struct LoadedModel {
  std::string name;  ///< as it was asked for
  std::int64_t file_bytes = 0;
  models::Llama model;
  Tokenizer tokenizer;
  double temperature = 0;  ///< what suits the model where nobody asks for one
};

/// Loads MODEL: a GGUF file, a Hugging Face folder, `builtin:poet` or `builtin:tiny`. Throws FileError or
/// UnsupportedError.
LoadedModel load_model(const std::string& name, DType dtype, io::Access access = io::Access::map);

/// Only the tokenizer of MODEL. Throws as load_model.
Tokenizer load_tokenizer(const std::string& name);

/// SHA-256 of what a model is made of: the file; of a folder the digests of its configuration, tokenizer and
/// safetensors files, in the order of their names; of builtin:poet its GGUF file; of builtin:tiny its name and version.
std::string model_sha256(const std::string& name);

}  // namespace eadem::text
