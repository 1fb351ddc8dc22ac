#include "eadem/ir/program.h"
#include "eadem/ops/catalog.h"
#include "fuzz/fuzz.h"

using namespace eadem;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return fuzz::read([&] {
    const Program program = parse_program(fuzz::as_text(data, size), catalog());
    fuzz::require(parse_program(print(program), catalog()) == program, "a program prints and parses to itself");
  });
}
