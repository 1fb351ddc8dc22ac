#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "eadem/base/error.h"
#include "eadem/io/mapped_file.h"
#include "tests/support/temporary_folder.h"

namespace eadem::io::testing {

using eadem::testing::TemporaryFolder;

/// The bytes of values one after the other, as a file has them; strings without their end.
class Bytes {
 public:
  template <class T>
  requires std::is_arithmetic_v<T> Bytes& put(T value) {
    const auto* data = reinterpret_cast<const std::byte*>(&value);
    bytes.insert(bytes.end(), data, data + sizeof(T));
    return *this;
  }
  Bytes& put(std::string_view text) {
    const auto* data = reinterpret_cast<const std::byte*>(text.data());
    bytes.insert(bytes.end(), data, data + text.size());
    return *this;
  }
  std::vector<std::byte> bytes;
};

/// Runs f, which must throw an E whose text holds every one of `parts`.
template <class E>
void expect_refusal(const std::function<void()>& f, const std::vector<std::string>& parts, const std::string& label) {
  try {
    f();
    ADD_FAILURE() << label << ": not refused";
  } catch (const E& error) {
    for (const std::string& part : parts)
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
          << label << ": '" << part << "' is not in: " << error.what();
  }
}

/// Gives every prefix of `bytes` but the whole to f, and every single-bit flip; f must return or throw Error.
inline void damage(std::span<const std::byte> bytes, const std::function<void(std::span<const std::byte>)>& f) {
  const auto survive = [&](std::span<const std::byte> damaged) {
    try {
      f(damaged);
    } catch (const Error&) {
    }
  };
  for (std::size_t length = 0; length < bytes.size(); ++length) survive(bytes.first(length));
  std::vector<std::byte> copy(bytes.begin(), bytes.end());
  for (std::byte& byte : copy)
    for (int bit = 0; bit < 8; ++bit) {
      byte ^= std::byte{1} << bit;
      survive(copy);
      byte ^= std::byte{1} << bit;
    }
}

}  // namespace eadem::io::testing
