#pragma once

#include <functional>
#include <string>

#include "eadem/array/trace.h"

namespace eadem {

/// Writes the program as text into the folder that EADEM_DUMP names, as 0003-grad-of-loss.txt, numbered in the order of
/// the calls; nothing when it is not set. Throws FileError when it cannot.
void dump_program(const std::string& who, const Program& program);

/// f(inputs); while EADEM_DUMP is set f is first recorded, dumped as what the transform made, and then run from that.
Arrays staged(const std::string& who, const Arrays& inputs, const std::function<Arrays(const Arrays&)>& f);

}  // namespace eadem
