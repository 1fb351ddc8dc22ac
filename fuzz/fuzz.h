#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string_view>

#include "eadem/base/error.h"

/// libFuzzer's entry, one in each fuzz/NAME_fuzz.cpp.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace eadem::fuzz {

/// Ends the process, as a finding, unless `holds`.
inline void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s\n", what);
  std::abort();
}

/// Runs a reader on bytes: it may return or throw an eadem::Error, anything else is a finding.
template <class F>
int read(F&& reader) {
  try {
    reader();
  } catch (const Error& error) {
    require(error.what()[0] != '\0', "an error says what is wrong");
  }
  return 0;
}

inline std::string_view as_text(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}
inline std::span<const std::byte> as_bytes(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const std::byte*>(data), size};
}

}  // namespace eadem::fuzz
