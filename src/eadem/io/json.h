#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "eadem/base/error.h"

namespace eadem::io {

using Json = nlohmann::json;

/// What a JSON text may cost; beyond it, FileError.
struct JsonLimits {
  std::size_t bytes = std::size_t{128} << 20;
  int depth = 64;
};

/// Parses a JSON text (UTF-8, one value, no duplicate keys). `source` names it in errors; FileError with the byte
/// offset when it is not JSON or breaks a limit.
Json parse_json(std::string_view text, std::string_view source, const JsonLimits& = {});

/// parse_json of a whole file.
Json read_json(const std::filesystem::path&, const JsonLimits& = {});

/// A place in a JSON value that knows its file and path, so that every error names both. It borrows the value.
class JsonView {
 public:
  JsonView(const Json& value, std::string_view source)
      : value_(&value), source_(std::make_shared<const std::string>(source)) {}

  const Json& value() const { return *value_; }
  /// The keys from the root, joined by dots: "rope_scaling.factor"; empty at the root.
  const std::string& path() const { return path_; }

  /// Whether the key is there and not null. FileError unless this is an object.
  bool has(std::string_view key) const;
  /// What is under the key. FileError when it is absent or null.
  JsonView at(std::string_view key) const;
  /// The elements; FileError unless this is an array.
  std::vector<JsonView> elements() const;
  /// This value as bool, int64_t, uint64_t, double, std::string, or a std::vector of one of them. FileError when it is
  /// of another kind; integers must be written as integers and fit, doubles may be written as integers.
  template <class T>
  T as() const;

  template <class T>
  T required(std::string_view key) const {
    return at(key).as<T>();
  }
  template <class T>
  std::optional<T> optional(std::string_view key) const {
    return has(key) ? std::optional<T>(at(key).as<T>()) : std::nullopt;
  }
  template <class T>
  T value_or(std::string_view key, T otherwise) const {
    return has(key) ? at(key).as<T>() : otherwise;
  }
  /// "FILE: key 'PATH' MESSAGE", as a FileError.
  [[noreturn]] void refuse(std::string_view message) const;

 private:
  const Json* value_;
  std::shared_ptr<const std::string> source_;
  std::string path_;
};

}  // namespace eadem::io
