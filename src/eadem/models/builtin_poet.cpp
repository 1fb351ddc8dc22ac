#include "eadem/models/load.h"

// The file's bytes, put into the program by the assembler: EADEM_POET is poet.gguf's path, in quotes. Its digest, in a
// comment, makes the text of this file change with it: ccache does not see what the assembler includes.
asm("/* " EADEM_POET_DIGEST
    " */"
    R"(
    .section .rodata
    .global eadem_poet_begin
    .global eadem_poet_end
    .balign 64
eadem_poet_begin:
    .incbin )" EADEM_POET R"(
eadem_poet_end:
    .byte 0
    .previous
)");
extern "C" {
extern const std::byte eadem_poet_begin[], eadem_poet_end[];
}

namespace eadem::models {

std::span<const std::byte> builtin_poet_file() {
  return {eadem_poet_begin, eadem_poet_end};
}

}  // namespace eadem::models
