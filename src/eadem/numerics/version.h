#pragma once

#include <string_view>

namespace eadem::numerics {

/// The version of the numerics: results of equal programs and inputs have equal bits within one version.
inline constexpr std::string_view kVersion = "v1";

}  // namespace eadem::numerics
