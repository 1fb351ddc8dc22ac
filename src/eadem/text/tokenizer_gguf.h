#pragma once

#include "eadem/io/gguf.h"
#include "eadem/text/tokenizer.h"

namespace eadem::text {

/// The tokenizer in a GGUF file's metadata: tokenizer.ggml.model "gpt2" (byte-level BPE, .pre one of those that
/// pretokenizer_named knows) or "llama" (SentencePiece). UnsupportedError names what is not known; FileError what is
/// wrong.
Tokenizer tokenizer_from_gguf(const io::GgufFile& file, std::string source);

}  // namespace eadem::text
