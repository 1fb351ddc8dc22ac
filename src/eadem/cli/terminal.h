#pragma once

#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "eadem/array/array.h"
#include "eadem/base/dtype.h"

namespace eadem::cli {

/// Cores that this process may run on.
int default_threads();

/// "AMD EPYC", as the system names the CPU.
std::string cpu_name();

/// "bf16", "f32" or "f64" as a DType; ValueError otherwise.
DType compute_dtype(const std::string& name);

/// What an option gave; without it, or when asked to, all of standard input. ValueError naming the option when nothing
/// was given and standard input is a terminal.
std::string given_or_piped(const std::optional<std::string>& given, bool from_stdin, std::string_view option);

/// Writes a verdict to standard output; a reader that has gone changes nothing of it, or of the exit code.
void write_verdict(std::string_view text);

/// A line on stderr that is rewritten in place: only on a terminal, and only after two seconds.
class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  void show(std::string_view text);
  void clear();

 private:
  bool terminal_, shown_ = false;
  std::chrono::steady_clock::time_point start_;
};

/// Lines of cells in aligned columns, the first row being the header; columns whose header begins with '>' are flush
/// right. No line is longer than 100 characters: the last column is cut.
std::string table(const std::vector<std::vector<std::string>>& rows);

/// What comes out of a model's run after SIGINT.
struct Interrupted {};

/// While it lives, a first SIGINT is noted, and ends what this thread computes at its next primitive by Interrupted; a
/// second one ends the process.
class InterruptScope : private Observer {
 public:
  InterruptScope();
  ~InterruptScope() override;
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;
  bool interrupted() const;

 private:
  void observe(const Primitive&, std::span<const Array> results) override;
  ObserverScope observing_{this};
};

}  // namespace eadem::cli
