#pragma once

#include <span>
#include <string_view>

#include "eadem/ir/primitive.h"

namespace eadem {

namespace prim {
#define EADEM_PRIMITIVE(name) extern const Primitive name;
#include "eadem/ops/catalog.inc"
#undef EADEM_PRIMITIVE
}  // namespace prim

/// Every primitive, in the order of their names: what tests, benchmarks, documentation and the auditor iterate over.
std::span<const Primitive* const> catalog();

/// The primitive of that name, or null.
const Primitive* find_primitive(std::string_view name);

}  // namespace eadem
