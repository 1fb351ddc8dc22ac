#include "eadem/io/trace.h"

#include <algorithm>
#include <cmath>

#include "eadem/io/json.h"
#include "eadem/io/mapped_file.h"
#include "eadem/io/sha256.h"

namespace eadem::io {
namespace {

using OrderedJson = nlohmann::ordered_json;
constexpr std::int64_t kFormat = 1;

// Each setting under its name, once, for writing, reading and comparing.
template <class Settings, class F>
void for_each_setting(Settings& settings, F&& f) {
  f("dtype", settings.dtype);
  f("prompt", settings.prompt);
  f("max_tokens", settings.max_tokens);
  f("temperature", settings.temperature);
  f("top_k", settings.top_k);
  f("top_p", settings.top_p);
  f("min_p", settings.min_p);
  f("repetition_penalty", settings.repetition_penalty);
  f("seed", settings.seed);
}

/// What is wrong with a header, or nothing.
std::optional<std::string> fault_of(const TraceHeader& header) {
  const TraceSettings& s = header.settings;
  if (header.numerics.empty()) return "'numerics' is empty";
  if (!is_sha256(header.model_sha256)) return "'model.sha256' is not 64 digits of lower-case hex";
  if (s.dtype != "bf16" && s.dtype != "f32" && s.dtype != "f64") return "'settings.dtype' is not bf16, f32 or f64";
  if (std::any_of(s.prompt.begin(), s.prompt.end(), [](std::int64_t id) { return id < 0; }))
    return "'settings.prompt' has a negative token id";
  if (s.max_tokens < 0) return "'settings.max_tokens' is negative";
  if (s.top_k < 0) return "'settings.top_k' is negative";
  if (!(s.temperature >= 0 && std::isfinite(s.temperature))) return "'settings.temperature' is not at least 0";
  if (!(s.top_p >= 0 && s.top_p <= 1)) return "'settings.top_p' is not in [0, 1]";
  if (!(s.min_p >= 0 && s.min_p <= 1)) return "'settings.min_p' is not in [0, 1]";
  if (!(s.repetition_penalty > 0 && std::isfinite(s.repetition_penalty)))
    return "'settings.repetition_penalty' is not above 0";
  if (header.machine.threads < 1) return "'machine.threads' is below 1";
  return std::nullopt;
}

std::optional<std::string> fault_of(const TraceStep& step) {
  if (step.token < 0) return "'token' is negative";
  if (!is_sha256(step.logits)) return "'logits' is not 64 digits of lower-case hex";
  return std::nullopt;
}

std::string line_of(const OrderedJson& record) {
  // Names of CPUs and models may hold any bytes; what is not UTF-8 in them is replaced.
  return record.dump(-1, ' ', false, OrderedJson::error_handler_t::replace) + '\n';
}

TraceHeader parse_header(const JsonView& record) {
  if (record.required<std::int64_t>("eadem_trace") != kFormat)
    record.at("eadem_trace").refuse(fmt::format("must be {}, the format that is read", kFormat));
  TraceHeader header;
  header.numerics = record.required<std::string>("numerics");
  const JsonView model = record.at("model");
  header.model = model.required<std::string>("name");
  header.model_sha256 = model.required<std::string>("sha256");
  const JsonView settings = record.at("settings");
  for_each_setting(header.settings,
                   [&]<class T>(std::string_view name, T& field) { field = settings.required<T>(name); });
  const JsonView machine = record.at("machine");
  header.machine.cpu = machine.required<std::string>("cpu");
  header.machine.target = machine.required<std::string>("target");
  header.machine.threads = machine.required<std::int64_t>("threads");
  if (const auto fault = fault_of(header)) record.refuse(fmt::format("is refused: {}", *fault));
  return header;
}

}  // namespace

TraceWriter::TraceWriter(const std::filesystem::path& path, const TraceHeader& header) : file_(path) {
  if (const auto fault = fault_of(header)) fail<ValueError>("[trace] {}", *fault);
  OrderedJson record{{"eadem_trace", kFormat},
                     {"numerics", header.numerics},
                     {"model", {{"name", header.model}, {"sha256", header.model_sha256}}}};
  OrderedJson& settings = record["settings"];
  for_each_setting(header.settings,
                   [&](std::string_view name, const auto& field) { settings[std::string(name)] = field; });
  record["machine"] = {
      {"cpu", header.machine.cpu}, {"target", header.machine.target}, {"threads", header.machine.threads}};
  file_.write(line_of(record));
}

void TraceWriter::add(const TraceStep& step) {
  if (const auto fault = fault_of(step)) fail<ValueError>("[trace] step {}: {}", count_, *fault);
  file_.write(line_of({{"step", count_}, {"token", step.token}, {"logits", step.logits}}));
  ++count_;
}

void TraceWriter::finish() {
  file_.write(line_of({{"end", true}, {"count", count_}}));
  file_.commit();
}

Trace parse_trace(std::string_view text, std::string_view source) {
  Trace trace;
  std::int64_t line = 0;
  bool ended = false;
  while (!text.empty()) {
    const std::string where = fmt::format("{}: line {}", source, ++line);
    const std::size_t length = text.find('\n');
    if (length == text.npos) fail<FileError>("{}: the file is cut off inside the line", where);
    if (ended) fail<FileError>("{}: something follows the end record", where);
    const Json record = parse_json(text.substr(0, length), where, {.bytes = std::size_t{64} << 20, .depth = 8});
    text.remove_prefix(length + 1);
    const JsonView view(record, where);
    if (line == 1) {
      trace.header = parse_header(view);
    } else if (view.has("end")) {
      if (!view.required<bool>("end")) view.at("end").refuse("must be true");
      if (view.required<std::int64_t>("count") != line - 2)
        view.at("count").refuse(fmt::format("must be {}, the number of steps before it", line - 2));
      ended = true;
    } else {
      if (view.required<std::int64_t>("step") != line - 2)
        view.at("step").refuse(fmt::format("must be {}, one more than the step before it", line - 2));
      TraceStep step{view.required<std::int64_t>("token"), view.required<std::string>("logits")};
      if (const auto fault = fault_of(step)) view.refuse(fmt::format("is refused: {}", *fault));
      trace.steps.push_back(std::move(step));
    }
  }
  if (!ended) fail<FileError>("{}: the end record is missing after line {}", source, line);
  return trace;
}

Trace read_trace(const std::filesystem::path& path) {
  const auto file = MappedFile::open(path, Access::read);
  return parse_trace({reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size()}, file->name());
}

std::optional<TraceDifference> diff(const Trace& left, const Trace& right) {
  if (left.header.numerics != right.header.numerics)
    return TraceDifference{"numerics", {}, left.header.numerics, right.header.numerics};
  if (left.header.model_sha256 != right.header.model_sha256)
    return TraceDifference{"model.sha256", {}, left.header.model_sha256, right.header.model_sha256};
  // Through JSON, so that each setting is compared and shown as the file has it.
  OrderedJson a, b;
  for_each_setting(left.header.settings, [&](const char* name, const auto& field) { a[name] = field; });
  for_each_setting(right.header.settings, [&](const char* name, const auto& field) { b[name] = field; });
  for (const auto& [name, value] : a.items())
    if (value != b[name]) return TraceDifference{"settings." + name, {}, value.dump(), b[name].dump()};
  const std::size_t both = std::min(left.steps.size(), right.steps.size());
  for (std::size_t i = 0; i < both; ++i) {
    const TraceStep &x = left.steps[i], &y = right.steps[i];
    const auto step = static_cast<std::int64_t>(i);
    if (x.logits != y.logits) return TraceDifference{"logits", step, x.logits, y.logits};
    if (x.token != y.token) return TraceDifference{"token", step, std::to_string(x.token), std::to_string(y.token)};
  }
  if (left.steps.size() != right.steps.size())
    return TraceDifference{"count", {}, std::to_string(left.steps.size()), std::to_string(right.steps.size())};
  return std::nullopt;
}

}  // namespace eadem::io
