#include "eadem/base/dtype.h"

#include <algorithm>
#include <array>

namespace eadem {
namespace {

struct Row {
  std::string_view name;
  std::size_t size;
};
constexpr std::array<Row, kDTypeCount> kTable{{{"f64", 8},
                                               {"f32", 4},
                                               {"bf16", 2},
                                               {"f16", 2},
                                               {"i8", 1},
                                               {"i16", 2},
                                               {"i32", 4},
                                               {"i64", 8},
                                               {"u8", 1},
                                               {"u16", 2},
                                               {"u32", 4},
                                               {"u64", 8},
                                               {"bool", 1}}};

}  // namespace

std::size_t size_of(DType t) {
  return kTable[static_cast<std::size_t>(t)].size;
}
std::string_view name_of(DType t) {
  return kTable[static_cast<std::size_t>(t)].name;
}

std::optional<DType> dtype_named(std::string_view name) {
  for (std::size_t i = 0; i < kTable.size(); ++i)
    if (kTable[i].name == name) return static_cast<DType>(i);
  return std::nullopt;
}

// JAX's lattice: bool below the integers, these below the floats; two 16-bit floats meet at f32; a signed and an
// unsigned integer meet at the next wider signed one, and i64 with u64 at the least float of the lattice above both.
DType promote(DType a, DType b) {
  if (a == b) return a;
  if (a == DType::boolean) return b;
  if (b == DType::boolean) return a;
  if (is_floating(a) || is_floating(b)) {
    if (!is_floating(a)) return b;
    if (!is_floating(b)) return a;
    if (is_16_bit_float(a) && is_16_bit_float(b)) return DType::f32;
    return size_of(a) > size_of(b) ? a : b;
  }
  if (is_signed_integer(a) == is_signed_integer(b)) return size_of(a) > size_of(b) ? a : b;
  const DType is_signed = is_signed_integer(a) ? a : b, is_unsigned = is_signed_integer(a) ? b : a;
  if (size_of(is_signed) > size_of(is_unsigned)) return is_signed;
  switch (size_of(is_unsigned)) {
    case 1: return DType::i16;
    case 2: return DType::i32;
    case 4: return DType::i64;
    default: return DType::f32;
  }
}

}  // namespace eadem

fmt::appender fmt::formatter<eadem::DType>::format(eadem::DType t, fmt::format_context& context) const {
  return fmt::format_to(context.out(), "{}", eadem::name_of(t));
}
