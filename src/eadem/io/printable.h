#pragma once

#include <string>
#include <string_view>

namespace eadem::io {

/// A text that may hold names from a file, made fit for a terminal: control characters become \xNN, and the middle of
/// a very long one is left out.
std::string printable(std::string_view text);

}  // namespace eadem::io
