#include "eadem/io/trace.h"
#include "fuzz/fuzz.h"

using namespace eadem;
using namespace eadem::io;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return fuzz::read([&] {
    const Trace trace = parse_trace(fuzz::as_text(data, size), "fuzz.trace");
    fuzz::require(!diff(trace, trace), "a trace does not differ from itself");
    if (trace.steps.empty()) return;
    Trace shorter = trace;
    shorter.steps.pop_back();
    fuzz::require(diff(trace, shorter)->field == "count", "a missing step is found");
  });
}
