#include "eadem/nn/tabulate.h"

#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <memory>

#include "eadem/cli/commands.h"
#include "eadem/io/gguf.h"
#include "eadem/io/output.h"
#include "eadem/io/printable.h"
#include "eadem/io/safetensors.h"

namespace eadem::cli {
namespace {

struct TabulateOptions {
  std::string path;
  bool json = false;
};

// What a module of this name is, going by its weight.
std::string module_named(const std::string& path, int axes) {
  const auto holds = [&](std::string_view word) { return path.find(word) != std::string::npos; };
  if (holds("norm")) return "Norm";
  if (holds("embd") || holds("embed")) return "Embed";
  return axes == 2 ? "Linear" : "";
}

// Collects tensors, in the order of the file, into modules by their names up to the last dot.
class Collected {
 public:
  void add(std::string_view tensor, std::string_view type, const Shape& shape, std::size_t bytes) {
    const std::string name = io::printable(tensor);
    const std::size_t dot = name.rfind('.');
    std::string path = dot == std::string::npos ? "" : name.substr(0, dot);
    for (char& c : path)
      if (c == '.') c = '/';
    const auto [found, fresh] = places_.try_emplace(path, table_.rows.size());
    if (fresh) table_.rows.push_back({path, module_named(path, shape.rank()), {}, {}, {}});
    table_.rows[found->second].parameters.push_back({dot == std::string::npos ? name : name.substr(dot + 1),
                                                     std::string(type), shape, static_cast<std::int64_t>(bytes)});
  }
  const ModuleTable& table() const { return table_; }

 private:
  ModuleTable table_;
  std::map<std::string, std::size_t> places_;
};

void collect(const io::Safetensors& file, Collected& all) {
  for (const io::SafeTensor& t : file.tensors()) all.add(t.name, name_of(t.dtype), t.shape, t.bytes.size());
}

int tabulate_file(const TabulateOptions& options) {
  Collected all;
  if (std::filesystem::is_directory(options.path)) {
    collect(io::Safetensors::open_folder(options.path), all);
  } else {
    const auto file = io::MappedFile::open(options.path);
    const std::span<const std::byte> bytes = file->bytes();
    if (std::string_view(reinterpret_cast<const char*>(bytes.data()), std::min<std::size_t>(bytes.size(), 4)) ==
        "GGUF") {
      const io::GgufFile gguf = io::GgufFile::parse(file);
      for (const io::GgufTensor& t : gguf.tensors())
        all.add(t.name, io::layout_of(t.type).name, t.shape, t.bytes.size());
    } else {
      collect(io::Safetensors::parse(file), all);
    }
  }
  io::write_output(options.json ? all.table().json() : all.table().text());
  return kGood;
}

}  // namespace

void add_tabulate(CLI::App& app, Body& run) {
  const auto options = std::make_shared<TabulateOptions>();
  CLI::App* command = app.add_subcommand("tabulate", "Show a model file's modules and parameters");
  command->footer("Example: eadem tabulate model.gguf");
  command->add_option("MODEL", options->path, "GGUF or safetensors file, or a folder with safetensors")->required();
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([=, &run] { run = [options] { return tabulate_file(*options); }; });
}

}  // namespace eadem::cli
