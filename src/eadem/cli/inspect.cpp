#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "eadem/cli/commands.h"
#include "eadem/cli/terminal.h"
#include "eadem/io/gguf.h"
#include "eadem/io/output.h"
#include "eadem/io/printable.h"
#include "eadem/io/safetensors.h"
#include "eadem/io/trace.h"

namespace eadem::cli {
namespace {

using Json = nlohmann::ordered_json;

struct InspectOptions {
  std::string path;
  bool json = false;
};

// A metadata value as JSON; arrays of more than eight elements are given by length and their first ones.
Json value_as_json(const io::GgufValue& value) {
  return std::visit(
      []<class T>(const T& v) -> Json {
        if constexpr (std::same_as<T, io::GgufArray>) {
          return std::visit(
              [](const auto& elements) {
                Json first = Json::array();
                for (std::size_t i = 0; i < std::min<std::size_t>(elements.size(), 8); ++i) {
                  if constexpr (std::same_as<std::decay_t<decltype(elements)>, std::vector<io::GgufArray>>)
                    first.push_back("[...]");
                  else
                    first.push_back(
                        Json(static_cast<typename std::decay_t<decltype(elements)>::value_type>(elements[i])));
                }
                return Json{{"length", elements.size()}, {"first", std::move(first)}};
              },
              v.elements);
        } else {
          return v;
        }
      },
      value);
}

struct TensorRow {
  std::string name, type;
  Shape shape;
  std::uint64_t offset;
  std::size_t bytes;
};

struct Report {
  std::string format, holds = {};  // "trace", "12 emitted tokens, 9 prompt tokens"; empty: tensors
  std::vector<std::pair<std::string, Json>> metadata = {};
  std::vector<TensorRow> tensors = {};
  std::vector<std::pair<std::int64_t, std::string>> steps = {};  // of a trace: token and digest of its logits
};

Report inspect_gguf(const io::GgufFile& file) {
  Report report{fmt::format("GGUF version {}", file.version())};
  for (const auto& [key, value] : file.metadata()) report.metadata.emplace_back(key, value_as_json(value));
  for (const io::GgufTensor& t : file.tensors())
    report.tensors.push_back({t.name, std::string(io::layout_of(t.type).name), t.shape, t.offset, t.bytes.size()});
  return report;
}

Report inspect_safetensors(const io::Safetensors& file) {
  Report report{"safetensors"};
  for (const auto& [key, value] : file.metadata()) report.metadata.emplace_back(key, value);
  for (const io::SafeTensor& t : file.tensors())
    report.tensors.push_back({t.name, std::string(name_of(t.dtype)), t.shape, t.offset, t.bytes.size()});
  return report;
}

Report inspect_trace(const io::Trace& trace) {
  const io::TraceHeader& h = trace.header;
  Report report{"trace", fmt::format("{} prompt tokens, {} emitted", h.settings.prompt.size(), trace.steps.size())};
  report.metadata = {{"numerics", h.numerics},
                     {"model", h.model},
                     {"model_sha256", h.model_sha256},
                     {"dtype", h.settings.dtype},
                     {"prompt tokens", h.settings.prompt.size()},
                     {"temperature", h.settings.temperature},
                     {"top_k", h.settings.top_k},
                     {"top_p", h.settings.top_p},
                     {"min_p", h.settings.min_p},
                     {"repetition_penalty", h.settings.repetition_penalty},
                     {"seed", h.settings.seed},
                     {"max_tokens", h.settings.max_tokens},
                     {"cpu", h.machine.cpu},
                     {"target", h.machine.target},
                     {"threads", h.machine.threads},
                     {"emitted tokens", trace.steps.size()}};
  for (const io::TraceStep& step : trace.steps) report.steps.emplace_back(step.token, step.logits);
  return report;
}

Report inspect_path(const std::filesystem::path& path) {
  if (std::filesystem::is_directory(path)) return inspect_safetensors(io::Safetensors::open_folder(path));
  const auto file = io::MappedFile::open(path);
  const std::span<const std::byte> bytes = file->bytes();
  const std::string_view start(reinterpret_cast<const char*>(bytes.data()), std::min<std::size_t>(bytes.size(), 16));
  if (start.starts_with("GGUF")) return inspect_gguf(io::GgufFile::parse(file));
  if (start.starts_with("{\"eadem_trace")) return inspect_trace(io::read_trace(path));
  return inspect_safetensors(io::Safetensors::parse(file));
}

int inspect(const InspectOptions& options) {
  const Report report = inspect_path(options.path);
  std::size_t total = 0;
  for (const TensorRow& t : report.tensors) total += t.bytes;
  if (options.json) {
    Json json{{"file", options.path},
              {"format", report.format},
              {"metadata", Json::object()},
              {"tensors", Json::array()},
              {"bytes", total}};
    for (const auto& [key, value] : report.metadata) json["metadata"][key] = value;
    for (const auto& [token, digest] : report.steps) json["steps"].push_back({{"token", token}, {"logits", digest}});
    for (const TensorRow& t : report.tensors)
      json["tensors"].push_back({{"name", t.name},
                                 {"type", t.type},
                                 {"shape", std::vector<std::int64_t>(t.shape.begin(), t.shape.end())},
                                 {"offset", t.offset},
                                 {"bytes", t.bytes}});
    io::write_output(json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
    return kGood;
  }
  const std::string holds = report.holds.empty() ? fmt::format("{} tensors, {:.1f} MB", report.tensors.size(),
                                                               static_cast<double>(total) * 1e-6)
                                                 : report.holds;
  std::string text = fmt::format("{}: {}, {}\n\n", options.path, report.format, holds);
  std::vector<std::vector<std::string>> rows;
  for (const auto& [key, value] : report.metadata) {
    std::string shown = value.dump(-1, ' ', false, Json::error_handler_t::replace);
    if (shown.size() > 50) shown = shown.substr(0, 47) + "...";
    rows.push_back({io::printable(key), io::printable(shown)});
  }
  if (!rows.empty()) {
    rows.insert(rows.begin(), {"key", "value"});
    text += table(rows) + "\n";
  }
  if (!report.tensors.empty()) {
    rows = {{"tensor", "type", "shape", ">offset", ">bytes"}};
    for (const TensorRow& t : report.tensors)
      rows.push_back({io::printable(t.name), t.type, fmt::format("{}", t.shape), std::to_string(t.offset),
                      std::to_string(t.bytes)});
    text += table(rows);
  }
  if (!report.steps.empty()) {
    rows = {{">step", ">token", "SHA-256 of the logits"}};
    for (std::size_t i = 0; i < report.steps.size(); ++i)
      rows.push_back({std::to_string(i), std::to_string(report.steps[i].first), report.steps[i].second});
    text += table(rows);
  }
  io::write_output(text);
  return kGood;
}

}  // namespace

void add_inspect(CLI::App& app, Body& run) {
  const auto options = std::make_shared<InspectOptions>();
  CLI::App* command = app.add_subcommand("inspect", "Show what a GGUF, safetensors or trace file holds");
  command->footer("Example: eadem inspect model.gguf");
  command->add_option("FILE", options->path, "A file, or a folder with safetensors")->required();
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([=, &run] { run = [options] { return inspect(*options); }; });
}

}  // namespace eadem::cli
