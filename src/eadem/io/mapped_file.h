#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "eadem/base/buffer.h"
#include "eadem/base/error.h"

namespace eadem::io {

/// How a file's bytes come into memory. Mapped files cost no copy, but one truncated by someone else while it is in
/// use raises SIGBUS; `read` copies it once and is safe from that.
enum class Access { map, read };

/// The bytes of a file, read-only, 64-byte aligned at least; shared by all that borrow from it.
class MappedFile : public std::enable_shared_from_this<MappedFile> {
 public:
  /// Opens a regular file. FileError with path and reason when that fails.
  static std::shared_ptr<const MappedFile> open(const std::filesystem::path&, Access = Access::map);
  /// A copy of bytes that lie in memory, under a name for error messages.
  static std::shared_ptr<const MappedFile> copy_of(std::string name, std::span<const std::byte>);

  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  const std::string& name() const { return name_; }
  std::span<const std::byte> bytes() const { return bytes_; }
  bool mapped() const { return mapped_; }

  /// A Buffer over a part of this file, which it keeps open. The memory must not be written to.
  BufferRef buffer(std::span<const std::byte> part) const;
  /// Tells the system that the pages wholly inside `part` can be dropped (they are read again from the file when
  /// needed); nothing for a file that was read.
  void drop_pages(std::span<const std::byte> part) const;

 private:
  explicit MappedFile(std::string name) : name_(std::move(name)) {}

  std::string name_;
  std::span<const std::byte> bytes_;
  BufferRef owned_;
  bool mapped_ = false;
};

/// "PATH: ACTION: what errno says", as a FileError.
[[noreturn]] void fail_errno(std::string_view name, std::string_view action, int error);

}  // namespace eadem::io
