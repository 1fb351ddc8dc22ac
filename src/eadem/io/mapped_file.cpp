#include "eadem/io/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <system_error>

#include "eadem/io/descriptor.h"

namespace eadem::io {
namespace {

void read_all(const std::string& name, int fd, std::byte* to, std::size_t size) {
  for (std::size_t done = 0; done < size;) {
    const ssize_t count = ::read(fd, to + done, size - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_errno(name, "read", errno);
    if (count == 0) fail<FileError>("{}: the file ended at byte {} while it was read, {} expected", name, done, size);
    done += static_cast<std::size_t>(count);
  }
}

}  // namespace

void fail_errno(std::string_view name, std::string_view action, int error) {
  fail<FileError>("{}: {}: {}", name, action, std::system_category().message(error));
}

std::shared_ptr<const MappedFile> MappedFile::open(const std::filesystem::path& path, Access access) {
  std::shared_ptr<MappedFile> file(new MappedFile(path.string()));
  // O_NONBLOCK: opening a FIFO must not wait for a writer; it is refused below.
  const Descriptor descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!descriptor) fail_errno(file->name_, "open", errno);
  struct stat status {};
  if (::fstat(descriptor.get(), &status) != 0) fail_errno(file->name_, "stat", errno);
  if (S_ISDIR(status.st_mode)) fail_errno(file->name_, "open", EISDIR);
  if (!S_ISREG(status.st_mode)) fail<FileError>("{}: open: not a regular file", file->name_);
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size == 0) return file;
  if (access == Access::map) {
    void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor.get(), 0);
    if (data == MAP_FAILED) fail_errno(file->name_, "map", errno);
    file->bytes_ = {static_cast<const std::byte*>(data), size};
    file->mapped_ = true;
  } else {
    file->owned_ = Buffer::allocate(size);
    read_all(file->name_, descriptor.get(), file->owned_->data(), size);
    file->bytes_ = {file->owned_->data(), size};
  }
  return file;
}

std::shared_ptr<const MappedFile> MappedFile::copy_of(std::string name, std::span<const std::byte> bytes) {
  std::shared_ptr<MappedFile> file(new MappedFile(std::move(name)));
  if (bytes.empty()) return file;
  file->owned_ = Buffer::allocate(bytes.size());
  std::memcpy(file->owned_->data(), bytes.data(), bytes.size());
  file->bytes_ = {file->owned_->data(), bytes.size()};
  return file;
}

MappedFile::~MappedFile() {
  if (mapped_) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

BufferRef MappedFile::buffer(std::span<const std::byte> part) const {
  return Buffer::borrow(const_cast<std::byte*>(part.data()), part.size(), shared_from_this());
}

void MappedFile::drop_pages(std::span<const std::byte> part) const {
  if (!mapped_ || part.empty()) return;
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(part.data());
  const std::uintptr_t first = (begin + page - 1) / page * page, last = (begin + part.size()) / page * page;
  if (first < last) ::madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
}

}  // namespace eadem::io
