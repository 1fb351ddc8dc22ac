#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace eadem::io {

/// A running SHA-256.
class Sha256 {
 public:
  Sha256();
  void update(std::span<const std::byte>);
  void update(std::string_view text) { update(std::as_bytes(std::span(text))); }
  /// The digest of all that was given, as 64 hex digits; then starts anew.
  std::string hex();

 private:
  struct Free {
    void operator()(void*) const;
  };
  std::unique_ptr<void, Free> state_;
};

/// 64 hex digits.
std::string sha256(std::span<const std::byte>);
/// Of a whole file, read piece by piece; FileError.
std::string sha256_of_file(const std::filesystem::path&);
/// Whether this is 64 digits of lower-case hex.
bool is_sha256(std::string_view);

}  // namespace eadem::io
