#pragma once

#include <filesystem>
#include <memory>
#include <span>

#include "eadem/io/gguf.h"
#include "eadem/io/safetensors.h"
#include "eadem/models/llama.h"

namespace eadem::models {

/// Builds the model of a GGUF file. Quantized weights stay quantized; dense ones are rounded to the compute dtype; the
/// q and k rows of llama files, which are stored for interleaved rope, are put back into half-split order. Pages of
/// the file that were packed are given back. FileError naming file and tensor for missing or impossible tensors and
/// for weights that are not finite.
Llama load_gguf(const io::GgufFile& file, DType dtype);

/// Builds the model of a Hugging Face folder (config.json, *.safetensors). Errors as above.
Llama load_hugging_face(const std::filesystem::path& folder, DType dtype, io::Access access);

/// The small seeded test model `builtin:tiny`: 3 layers, 64 wide, 4 heads on 2, a vocabulary of 320, random weights
/// drawn from Threefry in bf16. It writes no text worth reading.
Llama builtin_tiny(DType dtype);

/// The GGUF file of `builtin:poet`, which is part of the program: 6 layers, 128 wide, a vocabulary of the 256 bytes, a
/// context of 512, trained by examples/train_poet.cpp on Shakespeare's poems.
std::span<const std::byte> builtin_poet_file();

}  // namespace eadem::models
