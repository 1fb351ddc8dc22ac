#include "eadem/io/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "eadem/io/mapped_file.h"

namespace eadem::io {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{1} << 16;
constexpr mode_t kMode = 0666;  // less the umask

std::filesystem::path neighbour(const std::filesystem::path& path) {
  static std::atomic<unsigned> serial{0};
  std::filesystem::path name = path;
  name.replace_filename(fmt::format(".{}.{}.{}.part", path.filename().string(), ::getpid(), serial++));
  return name;
}

}  // namespace

void write_all(int fd, std::string_view name, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(fd, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_errno(name, "write", errno);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}

AtomicFile::AtomicFile(std::filesystem::path path) : path_(std::move(path)) {
  // The target of a symbolic link is replaced, not the link.
  std::error_code ignored;
  if (std::filesystem::is_symlink(path_, ignored)) path_ = std::filesystem::weakly_canonical(path_, ignored);
  struct stat status {};
  if (::stat(path_.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
    direct_ = true;
    descriptor_ = Descriptor(::open(path_.c_str(), O_WRONLY | O_CLOEXEC));
  } else {
    const std::filesystem::path folder = path_.has_parent_path() ? path_.parent_path() : ".";
    descriptor_ = Descriptor(::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, kMode));
    if (!descriptor_ && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)) {
      temporary_ = neighbour(path_);
      descriptor_ = Descriptor(::open(temporary_.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, kMode));
      if (!descriptor_) temporary_.clear();
    }
  }
  if (!descriptor_) fail_errno(path_.string(), "create", errno);
}

AtomicFile::~AtomicFile() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  if (buffer_.size() + bytes.size() > kBufferBytes) flush();
  if (bytes.size() > kBufferBytes) return write_all(descriptor_.get(), path_.string(), bytes);
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
}

void AtomicFile::flush() {
  write_all(descriptor_.get(), path_.string(), buffer_);
  buffer_.clear();
}

void AtomicFile::commit() {
  flush();
  if (direct_) return;
  if (::fsync(descriptor_.get()) != 0) fail_errno(path_.string(), "write", errno);
  if (temporary_.empty()) link_unnamed();
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail_errno(path_.string(), "rename", errno);
  temporary_.clear();
}

// A file without a name can be given a free one only; the rename then replaces whatever has the wanted name.
void AtomicFile::link_unnamed() {
  const std::filesystem::path name = neighbour(path_);
  const std::string self = fmt::format("/proc/self/fd/{}", descriptor_.get());
  if (::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) != 0)
    fail_errno(path_.string(), "create", errno);
  temporary_ = name;
}

}  // namespace eadem::io
