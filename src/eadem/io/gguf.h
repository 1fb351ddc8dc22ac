#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "eadem/base/shape.h"
#include "eadem/io/mapped_file.h"

namespace eadem::io {

/// Element and block types of GGUF tensors that Eadem reads, with ggml's numbers.
enum class GgmlType : std::uint32_t {
  f32 = 0,
  f16 = 1,
  q4_0 = 2,
  q4_1 = 3,
  q5_0 = 6,
  q5_1 = 7,
  q8_0 = 8,
  q2_k = 10,
  q3_k = 11,
  q4_k = 12,
  q5_k = 13,
  q6_k = 14,
  i8 = 24,
  i16 = 25,
  i32 = 26,
  i64 = 27,
  f64 = 28,
  bf16 = 30
};

/// A block of `elements` consecutive elements of the last axis takes `bytes` bytes.
struct GgmlLayout {
  std::string_view name;  ///< as ggml writes it: "Q4_1"
  std::int64_t elements;
  std::int64_t bytes;
};
const GgmlLayout& layout_of(GgmlType);

struct GgufTensor {
  std::string name;
  GgmlType type = GgmlType::f32;
  Shape shape;               ///< row-major: ggml's ne[0] is the last axis
  std::uint64_t offset = 0;  ///< in the file
  std::span<const std::byte> bytes = {};
};

struct GgufArray;
/// A metadata value, of the type that the file gives.
using GgufValue = std::variant<std::uint8_t, std::int8_t, std::uint16_t, std::int16_t, std::uint32_t, std::int32_t,
                               float, bool, std::string, GgufArray, std::uint64_t, std::int64_t, double>;
/// Elements of one type; at most two levels of arrays.
struct GgufArray {
  std::variant<std::vector<std::uint8_t>, std::vector<std::int8_t>, std::vector<std::uint16_t>,
               std::vector<std::int16_t>, std::vector<std::uint32_t>, std::vector<std::int32_t>, std::vector<float>,
               std::vector<bool>, std::vector<std::string>, std::vector<GgufArray>, std::vector<std::uint64_t>,
               std::vector<std::int64_t>, std::vector<double>>
      elements;
  friend bool operator==(const GgufArray&, const GgufArray&) = default;
};

/// An opened GGUF file (version 2 or 3, little-endian), everything in it checked: sizes, types, alignment, names,
/// offsets. Source: github.com/ggml-org/ggml/blob/master/docs/gguf.md.
class GgufFile {
 public:
  /// FileError naming file, tensor or key, and byte offset for whatever is wrong; UnsupportedError never.
  static GgufFile open(const std::filesystem::path&, Access = Access::map);
  static GgufFile parse(std::shared_ptr<const MappedFile>);

  const std::shared_ptr<const MappedFile>& file() const { return file_; }
  std::uint32_t version() const { return version_; }
  std::uint64_t alignment() const { return alignment_; }

  /// All metadata, in the file's order.
  const std::vector<std::pair<std::string, GgufValue>>& metadata() const { return metadata_; }
  /// The value of a key, or null.
  const GgufValue* find(std::string_view key) const;
  /// The value of a key as bool, std::int64_t or double (any stored number that it holds exactly; a double takes
  /// every number), std::string, or std::vector of std::int64_t, double, std::string or bool.
  /// FileError when it is absent or of another type.
  template <class T>
  T required(std::string_view key) const;
  template <class T>
  std::optional<T> optional(std::string_view key) const {
    return find(key) ? std::optional<T>(required<T>(key)) : std::nullopt;
  }
  template <class T>
  T value_or(std::string_view key, T otherwise) const {
    return find(key) ? required<T>(key) : otherwise;
  }

  /// All tensors, in the file's order.
  const std::vector<GgufTensor>& tensors() const { return tensors_; }
  /// The tensor of that name, or null.
  const GgufTensor* find_tensor(std::string_view name) const;
  /// The tensor of that name; FileError when there is none.
  const GgufTensor& tensor(std::string_view name) const;

 private:
  struct Reader;
  std::shared_ptr<const MappedFile> file_;
  std::uint32_t version_ = 3;
  std::uint64_t alignment_ = 32;
  std::vector<std::pair<std::string, GgufValue>> metadata_;
  std::vector<GgufTensor> tensors_;
  std::map<std::string, std::size_t, std::less<>> key_index_, tensor_index_;
};

/// Makes GGUF version 3 files.
class GgufWriter {
 public:
  void set(std::string key, GgufValue value) { metadata_.emplace_back(std::move(key), std::move(value)); }
  /// Adds a tensor; its bytes are borrowed until write. ValueError unless they are as many as shape and type say.
  void add(std::string name, GgmlType, const Shape&, std::span<const std::byte>);
  /// The whole file, in memory.
  std::vector<std::byte> bytes() const;
  /// Replaces the file at once, or leaves it as it was: FileError.
  void write(const std::filesystem::path&) const;

 private:
  std::vector<std::pair<std::string, GgufValue>> metadata_;
  std::vector<GgufTensor> tensors_;
};

}  // namespace eadem::io
