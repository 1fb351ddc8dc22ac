#pragma once

#include <string_view>

#include "eadem/base/error.h"

namespace eadem::io {

/// The reader of a pipe went away: not a fault, but nothing more can be written.
struct ClosedPipeError : FileError {
  using FileError::FileError;
};

/// Makes writing to a closed pipe an error (ClosedPipeError, below) rather than the process's death. Once, in main.
void ignore_closed_pipes();

/// Writes text to standard output at once, unbuffered. ClosedPipeError, or FileError (no space left, ...).
void write_output(std::string_view text);

}  // namespace eadem::io
