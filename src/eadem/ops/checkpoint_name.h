#pragma once

#include <string>
#include <tuple>

#include "eadem/ir/attributes.h"

namespace eadem {

/// The attribute of prim::checkpoint_name.
struct CheckpointNameAttribute {
  std::string name;
  static constexpr auto fields() { return std::tuple(field("name", &CheckpointNameAttribute::name)); }
};

/// Throws ValueError, naming `who`, unless the name is one that a program can be printed with.
void require_checkpoint_name(std::string_view who, std::string_view name);

}  // namespace eadem
