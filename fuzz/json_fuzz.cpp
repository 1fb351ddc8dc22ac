#include "eadem/io/json.h"
#include "fuzz/fuzz.h"

using namespace eadem;
using namespace eadem::io;

namespace {

void read_all(const JsonView& view) {
  fuzz::read([&] { view.as<std::int64_t>(); });
  fuzz::read([&] { view.as<double>(); });
  fuzz::read([&] { view.as<std::string>(); });
  fuzz::read([&] { view.as<std::vector<std::int64_t>>(); });
  fuzz::read([&] { view.required<bool>("hidden_size"); });
  if (view.value().is_object())
    for (const auto& [key, value] : view.value().items())
      if (view.has(key)) read_all(view.at(key));
  if (view.value().is_array())
    for (const JsonView& element : view.elements()) read_all(element);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return fuzz::read([&] {
    const Json value = parse_json(fuzz::as_text(data, size), "fuzz.json");
    fuzz::require(parse_json(value.dump(), "again.json") == value, "a value survives printing");
    read_all(JsonView(value, "fuzz.json"));
  });
}
