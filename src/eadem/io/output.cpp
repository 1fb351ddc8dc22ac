#include "eadem/io/output.h"

#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "eadem/io/mapped_file.h"

namespace eadem::io {

void ignore_closed_pipes() {
  std::signal(SIGPIPE, SIG_IGN);
}

void write_output(std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(STDOUT_FILENO, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EPIPE) throw ClosedPipeError("standard output: the pipe was closed");
    if (count < 0) fail_errno("standard output", "write", errno);
    text.remove_prefix(static_cast<std::size_t>(count));
  }
}

}  // namespace eadem::io
