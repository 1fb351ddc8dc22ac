#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "eadem/base/buffer.h"
#include "eadem/base/dtype.h"
#include "eadem/base/shape.h"
#include "eadem/io/mapped_file.h"

// NumPy's files. Source: numpy.org/doc/stable/reference/generated/numpy.lib.format.html, versions 1.0, 2.0 and 3.0.
// bf16, which NumPy lacks, is '<V2' as ml_dtypes writes it (two raw bytes an element), or 'bfloat16' by name.

namespace eadem::io {

/// One array: its elements row-major and little-endian, whatever the file's order was, aligned to their size.
struct NpyArray {
  DType dtype = DType::f32;
  Shape shape;
  BufferRef buffer;
  std::span<const std::byte> bytes = {};
};

/// Reads a whole .npy file; C and Fortran order, both byte orders. FileError naming file and field for whatever is
/// wrong: complex, structured and other dtypes, a header that is no dict of descr, fortran_order and shape, bytes that
/// are more or fewer than the shape takes, a bool that is neither 0 nor 1.
NpyArray read_npy(const std::filesystem::path&, Access = Access::map);
NpyArray parse_npy(std::shared_ptr<const MappedFile>);

/// The bytes of a .npy file as NumPy writes it: version 1.0, C order. ValueError unless there are as many bytes as
/// shape and dtype say.
std::vector<std::byte> npy_bytes(DType, const Shape&, std::span<const std::byte>);
/// Replaces the file at once, or leaves it as it was: FileError.
void write_npy(const std::filesystem::path&, DType, const Shape&, std::span<const std::byte>);

/// A .npz file, a zip archive of .npy files, stored or deflated, opened and checked but for its arrays, which are read
/// one by one. Source: pkware.com, APPNOTE.TXT 6.3.10.
class Npz {
 public:
  /// FileError naming the file and what is wrong: also encrypted, split and overlapping entries, other compressions.
  static Npz open(const std::filesystem::path&, Access = Access::map);
  static Npz parse(std::shared_ptr<const MappedFile>);

  /// The arrays' names, as in the archive, without ".npy".
  std::vector<std::string> names() const;
  /// The array of that name; FileError when there is none, or when its entry does not hold what it says.
  NpyArray array(std::string_view name) const;

 private:
  struct Entry {
    std::uint64_t header = 0, data = 0;  ///< where they begin in the file
    std::uint64_t packed = 0, size = 0;
    std::uint32_t crc = 0;
    bool deflated = false;
  };
  std::shared_ptr<const MappedFile> file_;
  std::vector<std::pair<std::string, Entry>> entries_;
};

/// Makes .npz files; the arrays stand in the order of their names.
class NpzWriter {
 public:
  /// Adds an array; its bytes are borrowed until write. ValueError unless they are as many as shape and dtype say, or
  /// when the name is taken.
  void add(std::string name, DType, const Shape&, std::span<const std::byte>);
  /// `deflate`: compressed, as numpy.savez_compressed. ValueError from 4 GiB on.
  std::vector<std::byte> bytes(bool deflate = false) const;
  void write(const std::filesystem::path&, bool deflate = false) const;

 private:
  struct Item {
    DType dtype;
    Shape shape;
    std::span<const std::byte> bytes;
  };
  std::map<std::string, Item> items_;
};

}  // namespace eadem::io
