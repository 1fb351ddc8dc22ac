#include "eadem/transforms/dump.h"

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "eadem/array/tree.h"
#include "eadem/base/error.h"

namespace eadem {
namespace {

const char* folder() {
  const char* named = std::getenv("EADEM_DUMP");
  return named && *named ? named : nullptr;
}

}  // namespace

void dump_program(const std::string& who, const Program& program) {
  static std::atomic<int> count = 0;
  if (!folder()) return;
  std::string name;
  for (const char c : who.substr(0, 60)) name += std::isalnum(static_cast<unsigned char>(c)) ? c : '-';
  const std::filesystem::path path = std::filesystem::path(folder()) / fmt::format("{:04}-{}.txt", count++, name);
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  std::ofstream file(path);
  file << print(program) << '\n';
  file.close();
  if (!file) fail<FileError>("[dump] cannot write {}", path.string());
}

Arrays staged(const std::string& who, const Arrays& inputs, const std::function<Arrays(const Arrays&)>& f) {
  if (!folder()) return f(inputs);
  const Traced made = trace(who, types_of(inputs), f);
  dump_program(who + " made", *made.program);
  Arrays all = inputs;
  all.insert(all.end(), made.captures.begin(), made.captures.end());
  return replay(*made.program, all);
}

}  // namespace eadem
