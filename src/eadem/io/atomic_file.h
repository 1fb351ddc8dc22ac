#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "eadem/io/descriptor.h"

namespace eadem::io {

/// A file that appears under its name complete, at commit(), or not at all: until then it has no name (or, on file
/// systems without O_TMPFILE, that of a hidden neighbour), so that a killed process leaves nothing half-written.
/// A name that is a device or a pipe is written to directly.
class AtomicFile {
 public:
  /// FileError with path and reason; as do write and commit.
  explicit AtomicFile(std::filesystem::path);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();

  void write(std::span<const std::byte>);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  /// Writes what is still buffered, to the disk, and gives the file its name.
  void commit();

 private:
  void flush();
  void link_unnamed();

  std::filesystem::path path_, temporary_;
  Descriptor descriptor_;
  std::vector<std::byte> buffer_;
  bool direct_ = false;
};

/// Writes all bytes to a descriptor, however often the system interrupts. FileError naming `name`.
void write_all(int fd, std::string_view name, std::span<const std::byte>);

}  // namespace eadem::io
