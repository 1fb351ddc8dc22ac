#include "eadem/cli/terminal.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <thread>

#include "eadem/base/error.h"
#include "eadem/io/output.h"

namespace eadem::cli {
namespace {

volatile std::sig_atomic_t interrupt_seen = 0;
// The first asks, where the program looks for it; the second ends the process, which leaves nothing half-written.
void on_interrupt(int) {
  interrupt_seen = 1;
  std::signal(SIGINT, SIG_DFL);
}

// Characters, not bytes: continuation bytes of UTF-8 take no room.
std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

}  // namespace

int default_threads() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.rfind("model name", 0) == 0 && line.find(": ") != std::string::npos)
      return line.substr(line.find(": ") + 2);
#if defined(__aarch64__)
  return "AArch64";
#else
  return "unknown";
#endif
}

DType compute_dtype(const std::string& name) {
  if (name == "bf16") return DType::bf16;
  if (name == "f32") return DType::f32;
  if (name == "f64") return DType::f64;
  fail<ValueError>("--dtype must be bf16, f32 or f64, got '{}'", name);
}

std::string given_or_piped(const std::optional<std::string>& given, bool from_stdin, std::string_view option) {
  if (given && !from_stdin) return *given;
  if (!from_stdin && isatty(STDIN_FILENO))
    fail<ValueError>("{} is required where standard input is a terminal", option);
  return std::string(std::istreambuf_iterator<char>(std::cin), {});
}

void write_verdict(std::string_view text) {
  try {
    io::write_output(text);
  } catch (const io::ClosedPipeError&) {
  }
}

ProgressLine::ProgressLine() : terminal_(isatty(STDERR_FILENO)), start_(std::chrono::steady_clock::now()) {}
ProgressLine::~ProgressLine() {
  clear();
}
void ProgressLine::show(std::string_view text) {
  if (!terminal_ || std::chrono::steady_clock::now() - start_ < std::chrono::seconds(2)) return;
  fmt::print(stderr, "\r\x1b[K{}", text.substr(0, 99));
  std::fflush(stderr);
  shown_ = true;
}
void ProgressLine::clear() {
  if (!shown_) return;
  fmt::print(stderr, "\r\x1b[K");
  std::fflush(stderr);
  shown_ = false;
}

std::string table(const std::vector<std::vector<std::string>>& rows) {
  if (rows.empty()) return "";
  std::vector<std::size_t> widths(rows[0].size());
  const auto cell = [&](std::size_t row, std::size_t column) -> std::string_view {
    const std::string_view text = column < rows[row].size() ? std::string_view(rows[row][column]) : "";
    return row == 0 && text.starts_with('>') ? text.substr(1) : text;
  };
  for (std::size_t row = 0; row < rows.size(); ++row)
    for (std::size_t column = 0; column < widths.size(); ++column)
      widths[column] = std::max(widths[column], width_of(cell(row, column)));
  std::string text;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    std::string line;
    for (std::size_t column = 0; column < widths.size(); ++column) {
      const std::string_view value = cell(row, column);
      const std::string padding(widths[column] - width_of(value), ' ');
      if (column > 0) line += "  ";
      line += rows[0][column].starts_with('>') ? padding + std::string(value) : std::string(value) + padding;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    while (width_of(line) > 100) {  // drop whole characters from the end
      do line.pop_back();
      while (!line.empty() && (static_cast<unsigned char>(line.back()) & 0xc0) == 0x80);
    }
    text += line + '\n';
  }
  return text;
}

InterruptScope::InterruptScope() {
  interrupt_seen = 0;
  std::signal(SIGINT, on_interrupt);
}
InterruptScope::~InterruptScope() {
  std::signal(SIGINT, SIG_DFL);
}
bool InterruptScope::interrupted() const {
  return interrupt_seen != 0;
}
void InterruptScope::observe(const Primitive&, std::span<const Array>) {
  if (interrupted()) throw Interrupted();
}

}  // namespace eadem::cli
