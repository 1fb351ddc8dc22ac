#pragma once

#include <string>

#include "eadem/array/array.h"

namespace eadem {

/// The type and the elements, as "f32[2,2] [[1, 0.5], [nan, -inf]]": each float in the fewest digits that give it back.
/// Of axes longer than six, the first and last three. A traced array prints its type.
std::string to_string(const Array& array);

}  // namespace eadem
