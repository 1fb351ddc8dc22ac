#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <csignal>

#include "eadem/io/atomic_file.h"
#include "eadem/io/output.h"
#include "eadem/io/printable.h"
#include "eadem/io/sha256.h"
#include "tests/io/files.h"

namespace eadem::io {
namespace {

using testing::expect_refusal;
using testing::TemporaryFolder;

std::string text_of(const std::filesystem::path& path) {
  const auto file = MappedFile::open(path);
  return {reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size()};
}

TEST(MappedFile, ErrorsNamePathAndReason) {
  const TemporaryFolder folder;
  const std::string absent = folder.path() / "absent";
  expect_refusal<FileError>([&] { MappedFile::open(absent); }, {absent, "No such file"}, "absent");
  expect_refusal<FileError>([&] { MappedFile::open(folder.path()); }, {folder.path(), "Is a directory"}, "folder");
  const std::string fifo = folder.path() / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  expect_refusal<FileError>([&] { MappedFile::open(fifo); }, {fifo, "not a regular file"}, "fifo");
  for (const Access access : {Access::map, Access::read})
    EXPECT_TRUE(MappedFile::open(folder.write("empty", ""), access)->bytes().empty());
}

TEST(MappedFile, ABufferKeepsTheFileOpen) {
  const TemporaryFolder folder;
  const std::string content(20000, 'x');
  const auto path = folder.write("data", content);
  for (const Access access : {Access::map, Access::read}) {
    auto file = MappedFile::open(path, access);
    const BufferRef buffer = file->buffer(file->bytes().subspan(100, 15000));
    file->drop_pages(file->bytes());
    file.reset();
    EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(buffer->data()), buffer->size()),
              content.substr(0, 15000));
  }
}

TEST(Sha256, KnownDigests) {
  const TemporaryFolder folder;
  constexpr auto kEmpty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
  constexpr auto kAbc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
  Sha256 hash;
  EXPECT_EQ(hash.hex(), kEmpty);
  hash.update("a");
  hash.update("bc");
  EXPECT_EQ(hash.hex(), kAbc);
  EXPECT_EQ(sha256(std::as_bytes(std::span("abc", 3))), kAbc);
  EXPECT_EQ(sha256_of_file(folder.write("abc", "abc")), kAbc);
  EXPECT_EQ(sha256_of_file(folder.write("none", "")), kEmpty);
  EXPECT_TRUE(is_sha256(kAbc));
  EXPECT_FALSE(is_sha256(std::string(63, 'a')));
  EXPECT_FALSE(is_sha256(std::string(64, 'A')));
}

TEST(Printable, ControlCharactersAndLengthAreTamed) {
  EXPECT_EQ(printable("caf\xc3\xa9 \x1b[31m\n\x7f \xc2\x9b"), "caf\xc3\xa9 \\x1b[31m\\x0a\\x7f \\xc2\\x9b");
  const std::string text = printable("begin" + std::string(100000, 'x') + "end");
  EXPECT_LT(text.size(), 1300u);
  EXPECT_TRUE(text.starts_with("begin") && text.ends_with("end"));
}

TEST(AtomicFile, AppearsWholeOrNotAtAll) {
  const TemporaryFolder folder;
  const auto path = folder.write("out", "before");
  {
    AtomicFile file(path);
    file.write("half");
  }
  EXPECT_EQ(text_of(path), "before");
  EXPECT_EQ(folder.files(), 1);
  std::string longer;
  {
    AtomicFile file(path);
    for (int i = 0; i < 3000; ++i) {
      const std::string line(static_cast<std::size_t>(i % 97), static_cast<char>('a' + i % 26));
      file.write(line);
      longer += line;
    }
    const std::string large(200000, 'z');
    file.write(large);
    longer += large;
    EXPECT_EQ(text_of(path), "before");
    file.commit();
  }
  EXPECT_EQ(text_of(path), longer);
  EXPECT_EQ(folder.files(), 1);
}

TEST(AtomicFile, ALinkStaysALinkAndNewFilesFollowTheUmask) {
  const TemporaryFolder folder;
  const auto target = folder.write("target", "before");
  std::filesystem::create_symlink(target, folder.path() / "link");
  AtomicFile file(folder.path() / "link");
  file.write("after");
  file.commit();
  EXPECT_TRUE(std::filesystem::is_symlink(folder.path() / "link"));
  EXPECT_EQ(text_of(target), "after");
  const mode_t mask = ::umask(0);
  ::umask(mask);
  struct stat status {};
  ASSERT_EQ(::stat(target.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0666 & ~mask);
}

TEST(AtomicFile, AKilledProcessLeavesNothing) {
  const TemporaryFolder folder;
  const pid_t child = ::fork();
  if (child == 0) {
    AtomicFile file(folder.path() / "out");
    file.write(std::string(200000, 'x'));
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  // File systems without O_TMPFILE keep the hidden neighbour, never a file of the wanted name.
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "out"));
}

TEST(AtomicFile, AFullDiskAndAMissingFolderAreErrors) {
  const TemporaryFolder folder;
  expect_refusal<FileError>(
      [] {
        AtomicFile file("/dev/full");
        file.write(std::string(1000, 'x'));
        file.commit();
      },
      {"/dev/full", "No space left"}, "full");
  struct stat status {};
  ASSERT_EQ(::stat("/dev/full", &status), 0);
  EXPECT_TRUE(S_ISCHR(status.st_mode));
  const std::string absent = folder.path() / "no" / "out";
  expect_refusal<FileError>([&] { AtomicFile{absent}; }, {absent, "No such file"}, "missing folder");
}

TEST(Output, AClosedPipeIsAnErrorOfItsOwn) {
  const pid_t child = ::fork();
  if (child == 0) {
    int ends[2];
    if (::pipe(ends) != 0) ::_exit(9);
    ::close(ends[0]);
    ::dup2(ends[1], STDOUT_FILENO);
    ignore_closed_pipes();
    try {
      write_output("text");
    } catch (const ClosedPipeError&) {
      ::_exit(3);
    }
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 3);
}

}  // namespace
}  // namespace eadem::io
