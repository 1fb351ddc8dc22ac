#include "eadem/ops/catalog.h"

namespace eadem {
namespace {

constexpr const Primitive* kCatalog[] = {
#define EADEM_PRIMITIVE(name) &prim::name,
#include "eadem/ops/catalog.inc"
#undef EADEM_PRIMITIVE
};

}  // namespace

std::span<const Primitive* const> catalog() {
  return kCatalog;
}

const Primitive* find_primitive(std::string_view name) {
  for (const Primitive* primitive : kCatalog)
    if (primitive->name == name) return primitive;
  return nullptr;
}

}  // namespace eadem
