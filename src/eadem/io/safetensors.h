#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "eadem/base/dtype.h"
#include "eadem/base/shape.h"
#include "eadem/io/mapped_file.h"

namespace eadem::io {

struct SafeTensor {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  std::uint64_t offset = 0;  ///< in the file
  std::span<const std::byte> bytes = {};
  std::shared_ptr<const MappedFile> file = nullptr;  ///< whose bytes they are
};

/// One safetensors file, or the sharded files of a folder, everything checked: the header's JSON, dtypes, shapes
/// against bytes, and that the tensors fill the data without gap or overlap.
/// Source: github.com/huggingface/safetensors, README "Format".
class Safetensors {
 public:
  /// FileError naming file, tensor and field for whatever is wrong. 8-bit floats are refused by name.
  static Safetensors open(const std::filesystem::path&, Access = Access::map);
  static Safetensors parse(std::shared_ptr<const MappedFile>);
  /// The shards that FOLDER/model.safetensors.index.json lists, or FOLDER/model.safetensors when there is no index.
  static Safetensors open_folder(const std::filesystem::path&, Access = Access::map);
  /// The names of the files that open_folder reads, sorted: the index and its shards, or the one file.
  static std::vector<std::string> files_of_folder(const std::filesystem::path&);

  /// All tensors, by name.
  const std::vector<SafeTensor>& tensors() const { return tensors_; }
  /// The header's __metadata__.
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  /// The tensor of that name, or null.
  const SafeTensor* find(std::string_view name) const;
  /// The tensor of that name; FileError when there is none.
  const SafeTensor& tensor(std::string_view name) const;

 private:
  std::string name_;
  std::vector<SafeTensor> tensors_;
  std::map<std::string, std::string> metadata_;
};

/// Makes safetensors files; the bytes depend on the tensors and metadata only, not on the order in which they came.
class SafetensorsWriter {
 public:
  void set(const std::string& key, std::string value) { metadata_[key] = std::move(value); }
  /// Adds a tensor; its bytes are borrowed until write. ValueError unless they are as many as shape and dtype say, or
  /// when the name is taken.
  void add(std::string name, DType, const Shape&, std::span<const std::byte>);
  std::vector<std::byte> bytes() const;
  /// Replaces the file at once, or leaves it as it was: FileError.
  void write(const std::filesystem::path&) const;

 private:
  std::string header(const std::vector<const SafeTensor*>& order) const;
  std::vector<const SafeTensor*> order() const;
  std::map<std::string, SafeTensor> tensors_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace eadem::io
