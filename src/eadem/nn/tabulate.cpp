#include "eadem/nn/tabulate.h"

#include <cxxabi.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>

namespace eadem {
namespace {

thread_local detail::Tabulation* current_tabulation = nullptr;

std::vector<std::string> lines_of(const Types& types) {
  std::vector<std::string> lines;
  for (const TensorType& type : types) lines.push_back(fmt::format("{}", type));
  return lines;
}

// A text cut into lines of at most `width` characters, after '/', ',' or ' ' where that is possible.
void wrap(std::string_view text, std::size_t width, std::vector<std::string>& lines) {
  while (text.size() > width) {
    std::size_t cut = text.substr(0, width).find_last_of("/, ");
    cut = cut == std::string_view::npos ? width : cut + 1;
    lines.emplace_back(text.substr(0, cut));
    text.remove_prefix(cut);
  }
  lines.emplace_back(text);
}

using Cell = std::vector<std::string>;  // lines
using Cells = std::vector<Cell>;        // of one row

std::string aligned(const std::vector<Cells>& rows, std::size_t total) {
  const std::size_t columns = rows[0].size();
  std::vector<std::size_t> widths(columns, 0);
  for (const Cells& row : rows)
    for (std::size_t c = 0; c < columns; ++c)
      for (const std::string& line : row[c]) widths[c] = std::max(widths[c], line.size());
  const auto all = [&] {
    std::size_t sum = 2 * (columns - 1);
    for (const std::size_t width : widths) sum += width;
    return sum;
  };
  while (all() > total) {  // the widest gives way
    std::size_t& widest = *std::max_element(widths.begin(), widths.end());
    if (widest <= 10) break;
    --widest;
  }
  std::string text;
  for (const Cells& row : rows) {
    Cells wrapped(columns);
    std::size_t height = 1;
    for (std::size_t c = 0; c < columns; ++c) {
      for (const std::string& line : row[c]) wrap(line, widths[c], wrapped[c]);
      height = std::max(height, wrapped[c].size());
    }
    for (std::size_t i = 0; i < height; ++i) {
      std::string line;
      for (std::size_t c = 0; c < columns; ++c)
        line += fmt::format("{:<{}}  ", i < wrapped[c].size() ? wrapped[c][i] : "", widths[c]);
      line.erase(line.find_last_not_of(' ') + 1);
      text += line + "\n";
    }
  }
  return text;
}

nlohmann::ordered_json as_json(const TensorType& type) {
  return {{"dtype", name_of(type.dtype)}, {"shape", std::vector<std::int64_t>(type.shape.begin(), type.shape.end())}};
}

}  // namespace

std::string with_commas(std::int64_t number) {
  std::string text = std::to_string(number);
  for (std::ptrdiff_t at = static_cast<std::ptrdiff_t>(text.size()) - 3; at > (number < 0 ? 1 : 0); at -= 3)
    text.insert(static_cast<std::size_t>(at), ",");
  return text;
}

std::string megabytes(std::int64_t bytes) {
  const auto value = static_cast<double>(bytes);
  return bytes < 1000      ? fmt::format("{} B", bytes)
         : bytes < 1000000 ? fmt::format("{:.1f} KB", value * 1e-3)
                           : fmt::format("{:.1f} MB", value * 1e-6);
}

std::int64_t ModuleTable::parameters() const {
  std::int64_t count = 0;
  for (const ModuleRow& row : rows)
    for (const auto& each : row.parameters) count += each.shape.elements();
  return count;
}

std::int64_t ModuleTable::bytes() const {
  std::int64_t count = 0;
  for (const ModuleRow& row : rows)
    for (const auto& each : row.parameters) count += each.bytes;
  return count;
}

std::string ModuleTable::text(int width) const {
  const bool called = std::any_of(rows.begin(), rows.end(), [](const ModuleRow& row) { return !row.inputs.empty(); });
  std::vector<Cells> cells;
  const auto add = [&](Cell path, Cell module, Cell inputs, Cell outputs, Cell own) {
    if (called)
      cells.push_back({std::move(path), std::move(module), std::move(inputs), std::move(outputs), std::move(own)});
    else
      cells.push_back({std::move(path), std::move(module), std::move(own)});
  };
  add({"path"}, {"module"}, {"inputs"}, {"outputs"}, {"parameters"});
  for (const ModuleRow& row : rows) {
    Cell own;
    std::int64_t count = 0, size = 0;
    for (const auto& each : row.parameters) {
      own.push_back(fmt::format("{}: {}{}", each.name, each.dtype, each.shape));
      count += each.shape.elements();
      size += each.bytes;
    }
    if (!own.empty()) own.push_back(fmt::format("{} ({})", with_commas(count), megabytes(size)));
    add({row.path.empty() ? "." : row.path}, {row.module}, lines_of(row.inputs), lines_of(row.outputs), std::move(own));
  }
  return aligned(cells, static_cast<std::size_t>(width)) +
         fmt::format("\nTotal: {} parameters, {}\n", with_commas(parameters()), megabytes(bytes()));
}

std::string ModuleTable::json() const {
  nlohmann::ordered_json json{
      {"rows", nlohmann::ordered_json::array()}, {"parameters", parameters()}, {"bytes", bytes()}};
  for (const ModuleRow& row : rows) {
    nlohmann::ordered_json each{{"path", row.path}, {"module", row.module}};
    for (const char* side : {"inputs", "outputs"}) {
      each[side] = nlohmann::ordered_json::array();
      for (const TensorType& type : side[0] == 'i' ? row.inputs : row.outputs) each[side].push_back(as_json(type));
    }
    each["parameters"] = nlohmann::ordered_json::array();
    for (const auto& own : row.parameters) {
      const std::vector<std::int64_t> shape(own.shape.begin(), own.shape.end());
      each["parameters"].push_back({{"name", own.name}, {"dtype", own.dtype}, {"shape", shape}, {"bytes", own.bytes}});
    }
    json["rows"].push_back(std::move(each));
  }
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

namespace detail {

Tabulation::Tabulation(ModuleTable& table) : table_(table), outer_(current_tabulation) {
  current_tabulation = this;
}
Tabulation::~Tabulation() {
  current_tabulation = outer_;
}
Tabulation* Tabulation::current() {
  return current_tabulation;
}

void Tabulation::add(const void* address, const std::type_info& type, std::size_t row) {
  known_.push_back({address, &type, row});
}

void Tabulation::called(const void* address, const std::type_info& type, Types inputs, Types outputs) {
  for (const Known& known : known_) {
    if (known.address != address || *known.type != type) continue;
    ModuleRow& row = table_.rows[known.row];
    if (!row.inputs.empty() || !row.outputs.empty()) return;
    row.inputs = std::move(inputs);
    row.outputs = std::move(outputs);
    return;
  }
}

void Tabulation::alias(const void* original, const void* copy, const std::type_info& type) {
  for (std::size_t i = 0; i < known_.size(); ++i) {
    if (known_[i].address != original || *known_[i].type != type) continue;
    const Known known{copy, &type, known_[i].row};
    return known_.push_back(known);
  }
}

ModuleRow::Parameter parameter_of(const std::string& name, const TensorType& type) {
  return {name, std::string(name_of(type.dtype)), type.shape,
          type.shape.elements() * static_cast<std::int64_t>(size_of(type.dtype))};
}

std::string short_name(const std::type_info& type) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(abi::__cxa_demangle(type.name(), nullptr, nullptr, &status),
                                                         &std::free);
  std::string name = status == 0 && text ? text.get() : type.name();
  name = name.substr(0, name.find('<'));
  const std::size_t colon = name.rfind(':');
  return colon == std::string::npos ? name : name.substr(colon + 1);
}

}  // namespace detail
}  // namespace eadem
